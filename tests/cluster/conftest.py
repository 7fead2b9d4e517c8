"""A copy of the example cluster, and the command line in its directory."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from omnigraph.base.failpoints import ENVIRONMENT_VARIABLE
from omnigraph.cluster.project import Cluster
from tests.cli.process import CommandResult, environment, run_in_process
from tests.conftest import S3Server
from tests.forked import forked_omnigraph
from tests.style.source import ROOT
from tests.waiting import wait_until

EXAMPLE = ROOT / "examples" / "cluster"


@dataclass(frozen=True, slots=True)
class ExampleCluster:
    """A directory with `cluster.yaml`."""

    path: Path

    @property
    def cluster(self) -> Cluster:
        return Cluster(str(self.path))

    @property
    def graph(self) -> Path:
        return self.path / "graphs" / "books.omni"

    def run(self, *arguments: str) -> CommandResult:
        return run_in_process(*arguments, cwd=self.path)

    def apply(self, actor: str = "ada") -> Any:
        """Apply, and return the document."""
        outcome = self.run("cluster", "apply", "--as", actor, "--json")
        return {**json.loads(outcome.stdout), "exit": outcome.exit_code}

    def edit(self, name: str, change: Callable[[str], str]) -> None:
        path = self.path / name
        path.write_text(change(path.read_text()))

    def declare_no_graph(self) -> None:
        """Remove the graph and its policy from the files."""
        self.edit("cluster.yaml", lambda text: "".join(line for line in text.splitlines(True) if "books" not in line))


def start_apply(
    cluster: ExampleCluster, failpoints: str = "", env: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start an apply in a process that can be killed or held."""
    return subprocess.Popen(
        [forked_omnigraph(), "cluster", "apply", "--as", "ada", "--json"],
        cwd=cluster.path,
        env=environment({ENVIRONMENT_VARIABLE: failpoints, **(env or {})}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def wait_for_hold(process: subprocess.Popen[str], gate: Path) -> None:
    """Wait until an apply is at the failpoint that holds it until the file `gate` exists."""
    reached = gate.with_name(f"{gate.name}.reached")
    wait_until(lambda: reached.exists() or process.poll() is not None, "the apply is held")
    assert process.poll() is None


@pytest.fixture
def s3_variables(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables of a process that uses the S3 server; this process has them too."""
    variables = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_server.endpoint,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


@pytest.fixture(scope="session")
def applied_example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("applied") / "example"
    shutil.copytree(EXAMPLE, path)
    Cluster(str(path)).apply(actor="ada")
    return path


@pytest.fixture
def new(tmp_path: Path) -> ExampleCluster:
    """The example before the first apply."""
    shutil.copytree(EXAMPLE, tmp_path / "example")
    return ExampleCluster(tmp_path / "example")


@pytest.fixture
def applied(tmp_path: Path, applied_example: Path) -> ExampleCluster:
    """The example after an apply."""
    shutil.copytree(applied_example, tmp_path / "example")
    return ExampleCluster(tmp_path / "example")


@pytest.fixture
def applied_in_place(new: ExampleCluster) -> ExampleCluster:
    """The example after an apply in its own directory: a copied graph cannot have branches."""
    new.cluster.apply(actor="ada")
    return new
