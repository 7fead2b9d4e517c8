"""Runs the real command line in another process or in this one, which is faster, and compares golden files.

Values that differ between runs (ids, times, paths, versions) are replaced by a name before the comparison.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Final

from omnigraph.cli.main import run
from tests.forked import forked_omnigraph
from tests.waiting import SECONDS_MAX

OMNIGRAPH: Final = str(Path(sys.executable).parent / "omnigraph")
GOLDEN: Final = Path(__file__).parent / "golden"

# Root may write anywhere. Without two capabilities the permissions of files hold for root too.
DROP_CAPABILITIES: Final = (
    sys.executable,
    "-c",
    "import ctypes, os, sys\n"
    "for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH\n"
    "    assert ctypes.CDLL(None).prctl(24, capability, 0, 0, 0) == 0  # PR_CAPBSET_DROP\n"
    "os.execv(sys.argv[1], sys.argv[1:])",
)

SCHEMA: Final = """\
node Person {
  slug: String @key
  age: I32?
}

node Company { name: String @key }

edge Knows: Person -> Person { since: Date? }
"""

_VARYING: Final = (
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"), "<ulid>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r"(?<=:)[0-9a-f]{16}\b|(?<=-)[0-9a-f]{16}\b|(?<=\")[0-9a-f]{16}(?=\")"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z"), "<time>"),
    (re.compile(r"(?<=created_at\": )\d{16}\b|(?<=created_at: )\d{16}\b|\b1[789]\d{14}\b"), "<time>"),
    (re.compile(r"\b\d+\.\d+\.\d+\b"), "<version>"),
    (re.compile(r"\b[01]{20,}[0-9a-f]+(?=\.lance)"), "<file>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<endpoint>"),
)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command printed, and its exit code."""

    stdout: str
    stderr: str
    exit_code: int

    def transcript(self, directory: Path) -> str:
        """Return all of it as text that is the same in every run."""
        text = f"{self.stdout}--- stderr\n{self.stderr}--- exit code {self.exit_code}\n"
        return normalise(text, directory)


def omnigraph(
    *arguments: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None, weak: bool = False
) -> CommandResult:
    """Run a command in another process. `weak`: permissions of files hold for root too."""
    program = (*(DROP_CAPABILITIES if os.geteuid() == 0 else ()), OMNIGRAPH) if weak else (forked_omnigraph(),)
    done = subprocess.run(
        [*program, *map(str, arguments)],
        cwd=cwd,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS_MAX,
        check=False,
    )
    return CommandResult(done.stdout, done.stderr, done.returncode)


def run_in_process(*arguments: str | Path, cwd: Path) -> CommandResult:
    """Run a command in this process: the same code without the start-up time."""
    stdout, stderr = TextIOWrapper(BytesIO(), "utf-8", newline="", write_through=True), StringIO()
    with chdir(cwd), redirect_stdout(stdout), redirect_stderr(stderr):
        exit_code = run([str(argument) for argument in arguments])
    stdout.seek(0)
    return CommandResult(stdout.read(), stderr.getvalue(), exit_code)


def assert_success_or_one_error(outcome: CommandResult) -> None:
    """Assert that the command succeeded, or failed with one error and a hint."""
    assert "Traceback" not in outcome.stderr
    assert "unexpectedly" not in outcome.stderr
    if outcome.exit_code != 0:
        assert outcome.exit_code == 1, outcome
        assert outcome.stderr.count("error: ") == 1, outcome.stderr
        assert "hint: " in outcome.stderr


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a process without a terminal, settings of Omnigraph and credentials."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "OMNIGRAPH_"))}
    return {**inherited, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", "LOGNAME": "ada", **(more or {})}


def assert_golden(name: str, text: str, update: bool) -> None:
    """Compare text with a golden file; with `update` write the file first."""
    path = GOLDEN / name
    if update:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"run pytest --update-golden to update {path.name}"


def normalise(text: str, directory: Path) -> str:
    """Return text without the values that differ between runs."""
    for spelling in (str(directory.resolve()), str(directory), str(directory).lstrip("/")):
        text = text.replace(spelling, "<place>")
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return text


def tree(directory: Path) -> dict[str, bytes | None]:
    """Return every file below a directory with its bytes, and every subdirectory."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }
