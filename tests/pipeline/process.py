"""Starts real processes for the tests of Spark, and finds processes that they leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.style.source import ROOT
from tests.waiting import SECONDS_MAX

_SPARK_VARIABLES: Final = ("SPARK_", "PYSPARK_", "OMNIGRAPH_", "MASTER")


@dataclass(frozen=True, slots=True)
class ProcessEnvironment:
    """The cache directory and the working directory of the processes of a test."""

    home: Path
    folder: Path

    def environ(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_SPARK_VARIABLES)}
        return {
            **inherited,
            "OMNIGRAPH_HOME": str(self.home),
            "OMNIGRAPH_CLASS_ARCHIVE": "off",
            "SCENARIO_FOLDER": str(self.folder),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            **(more or {}),
        }

    def borrow_archive(self, home: Path) -> None:
        """Use the class-data archive of another test, if it built one."""
        folder = self.home / "spark"
        folder.mkdir(mode=0o700, parents=True)
        for path in home.glob("spark/classes-*.*"):
            folder.joinpath(path.name).hardlink_to(path)

    def start(self, *command: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environ(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, name: str, env: Mapping[str, str] | None = None, module: str = "tests.pipeline.scenario"
    ) -> dict[str, Any]:
        """Run a scenario to its end; return the JSON of its stdout, and require that it printed nothing else."""
        process = self.start(sys.executable, "-m", module, name, env=env)
        stdout, stderr = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 0, stderr
        assert stderr == ""
        document = json.loads(stdout)
        assert isinstance(document, dict)
        return document

    def omnigraph(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        process = self.start(str(Path(sys.executable).parent / "omnigraph"), *words, env=env)
        stdout, stderr = process.communicate(timeout=SECONDS_MAX)
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)

    def spark_json(self, *words: str) -> dict[str, Any]:
        done = self.omnigraph("spark", *words, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        document = json.loads(done.stdout)
        assert isinstance(document, dict)
        return document


def processes_with(text: str) -> list[int]:
    """Return the running processes that a test started, at any depth: those with the text in their environment."""
    processes = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and text in folder.joinpath("environ").read_text(errors="replace"):
                processes.append(int(folder.name))
        except OSError:
            continue
    return processes


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
