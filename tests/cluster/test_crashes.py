"""An apply that is killed at any failpoint is completed by the next one, with the result of an undisturbed apply."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import uuid
from pathlib import Path
from typing import Any, Final

import pytest

import omnigraph
from omnigraph.base import limits
from omnigraph.base.failpoints import ENVIRONMENT_VARIABLE, Failpoint
from tests.cli.process import environment
from tests.cli.process import omnigraph as run_command
from tests.cluster.conftest import ExampleCluster
from tests.conftest import S3Server
from tests.forked import forked_omnigraph
from tests.waiting import SECONDS_MAX, wait_until

FIRST_APPLY: Final = [
    "cluster.ledger.before",
    "cluster.ledger.after",
    "cluster.create.before",
    "init.table.before",
    "init.manifest.before",
    "init.unmark.before",
    "cluster.resource.before",
    "cluster.resource.before@3",
    "cluster.ledger.before@2",
    "cluster.ledger.after@2",
]
LATER_APPLY: Final = [
    "cluster.schema.before",
    "arm.after",
    "publish.before",
    "publish.after",
    "cluster.replace.before",
    "cluster.resource.before@3",
    "cluster.delete.before",
    "cluster.delete.files.before",
    "cluster.delete.files.before@5",
    "cluster.ledger.before",
    "cluster.ledger.after",
]


def _start(cluster: ExampleCluster, failpoints: str = "", env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [forked_omnigraph(), "cluster", "apply", "--as", "ada", "--json"],
        cwd=cluster.path,
        env=environment({ENVIRONMENT_VARIABLE: failpoints, **(env or {})}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def _apply(cluster: ExampleCluster, failpoints: str = "", env: dict[str, str] | None = None) -> tuple[int, Any]:
    with _start(cluster, failpoints, env) as process:
        stdout, _ = process.communicate(timeout=SECONDS_MAX)
    return process.returncode, json.loads(stdout) if stdout else None


def _result(cluster: ExampleCluster) -> Any:
    """Return what is deployed, without what differs between any two runs."""
    status = cluster.cluster.status()
    graphs = sorted(path.name for path in (cluster.path / "graphs").iterdir())
    stored = sorted(path.name for path in (cluster.path / "__cluster" / "resources").rglob("*"))
    schemas = {name: omnigraph.open(cluster.path / "graphs" / name, read_only=True).schema for name in graphs}
    return graphs, dict(status.resource_digests), dict(status.resource_statuses), stored, schemas


def _prepare_later(cluster: ExampleCluster) -> None:
    """Deploy two graphs; then change the schema of one, remove the other with an approval, and damage a resource."""
    (cluster.path / "old.pg").write_text("node Thing { name: String @key }")
    cluster.edit("cluster.yaml", lambda text: text.replace("graphs:\n", "graphs:\n  old: { schema: old.pg }\n"))
    cluster.apply()
    cluster.edit("cluster.yaml", lambda text: text.replace("  old: { schema: old.pg }\n", ""))
    cluster.edit("books.pg", lambda text: text.replace("year: I32?", "year: I32?\n  pages: I32?"))
    cluster.edit("server.policy.yaml", lambda text: text.replace("[ada, bo]", "[ada, bo, eve]"))
    [query, _] = sorted((cluster.path / "__cluster" / "resources" / "query").rglob("*.gq"))
    query.write_text("altered")
    assert cluster.run("cluster", "approve", "graph.old").exit_code == 0


@pytest.fixture(scope="module")
def undisturbed_first(applied_example: Path) -> Any:
    return _result(ExampleCluster(applied_example))


@pytest.fixture(scope="module")
def prepared_later(applied_example: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("later") / "example"
    shutil.copytree(applied_example, path)
    _prepare_later(ExampleCluster(path))
    return path


@pytest.fixture(scope="module")
def undisturbed_later(prepared_later: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("undisturbed") / "example"
    shutil.copytree(prepared_later, path)
    assert ExampleCluster(path).apply()["converged"]
    return _result(ExampleCluster(path))


@pytest.mark.parametrize("point", FIRST_APPLY)
def test_killed_first_apply(point: str, new: ExampleCluster, undisturbed_first: Any) -> None:
    assert _apply(new, f"{point}=kill")[0] == -signal.SIGKILL
    exit_code, document = _apply(new)
    assert (exit_code, document["converged"]) == (0, True)
    assert _result(new) == undisturbed_first


@pytest.mark.parametrize("point", LATER_APPLY)
def test_killed_later_apply(point: str, prepared_later: Path, undisturbed_later: Any, tmp_path: Path) -> None:
    shutil.copytree(prepared_later, tmp_path / "example")
    cluster = ExampleCluster(tmp_path / "example")
    assert _apply(cluster, f"{point}=kill")[0] == -signal.SIGKILL
    exit_code, document = _apply(cluster)
    assert (exit_code, document["converged"]) == (0, True)
    assert _result(cluster) == undisturbed_later


def test_apply_killed_while_it_deletes_old_objects(applied: ExampleCluster) -> None:
    state = applied.path / "__cluster" / "state"
    ledger = json.loads(max(state.iterdir()).read_text())
    for revision in range(ledger["state_revision"] + 1, limits.CLUSTER_REVISIONS_MAX + 2):
        (state / f"{revision:020d}.json").write_text(json.dumps({**ledger, "state_revision": revision}))
    applied.edit("server.policy.yaml", lambda text: text.replace("[ada, bo]", "[ada, bo, eve]"))
    assert _apply(applied, "cluster.collect.before@2=kill")[0] == -signal.SIGKILL
    assert len(list(state.iterdir())) == limits.CLUSTER_REVISIONS_MAX + 1
    exit_code, document = _apply(applied)
    assert (exit_code, document["converged"], document["changes"]) == (0, True, [])
    applied.edit("server.policy.yaml", lambda text: text.replace("[ada, bo, eve]", "[ada, bo]"))
    assert _apply(applied)[0] == 0
    assert len(list(state.iterdir())) == limits.CLUSTER_REVISIONS_MAX


def test_every_failpoint_of_apply_is_killed() -> None:
    killed = {point.partition("@")[0] for point in (*FIRST_APPLY, *LATER_APPLY, "cluster.collect.before")}
    others = {"cluster.approve.before"}  # of another command
    assert {str(point) for point in Failpoint if point.startswith("cluster.")} - others <= killed


@pytest.mark.parametrize("store", ["files", "s3"])
def test_two_applies(new: ExampleCluster, store: str, s3_server: S3Server, tmp_path: Path) -> None:
    env = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_server.endpoint,
    }
    if store == "s3":
        new.edit("cluster.yaml", lambda text: text + f"storage: s3://{s3_server.bucket}/{uuid.uuid4().hex}\n")
    gate = tmp_path / "gate"
    with _start(new, f"cluster.ledger.before@2=hold:{gate}", env) as slow:
        wait_until(lambda: gate.with_name("gate.reached").exists() or slow.poll() is not None, "the first apply")
        assert slow.poll() is None
        exit_code, document = _apply(new, env=env)
        assert (exit_code, document["converged"]) == (0, True)
        gate.touch()
        stdout, _ = slow.communicate(timeout=SECONDS_MAX)
    lost = json.loads(stdout)
    assert (slow.returncode, lost["error_code"]) == (3, "state_cas_mismatch")
    assert "by 'ada' at" in lost["error"]
    exit_code, document = _apply(new, env=env)
    assert (exit_code, document["changes"], document["state_written"]) == (0, [], False)


def test_apply_that_was_overtaken_starts_no_operation(new: ExampleCluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with _start(new, f"cluster.ledger.after=hold:{gate}") as slow:
        wait_until(lambda: gate.with_name("gate.reached").exists() or slow.poll() is not None, "the first apply")
        assert _apply(new)[0] == 0
        first_commit = omnigraph.open(new.graph, read_only=True).log()[-1].id
        gate.touch()
        slow.communicate(timeout=SECONDS_MAX)
    assert slow.returncode == 3
    assert omnigraph.open(new.graph, read_only=True).log()[-1].id == first_commit


def test_import_plan_and_status_on_s3(new: ExampleCluster, s3_server: S3Server) -> None:
    root = f"s3://{s3_server.bucket}/{uuid.uuid4().hex}"
    new.edit("cluster.yaml", lambda text: text + f"storage: {root}\n")
    env = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_server.endpoint,
    }

    def run(*arguments: str) -> Any:
        return json.loads(run_command("cluster", *arguments, "--json", cwd=new.path, env=env).stdout)

    assert run("import")["state_revision"] == 1
    planned = run("plan")
    assert planned["changes"]
    assert _apply(new, env=env)[1]["converged"]
    assert run("plan")["changes"] == []
    status = run("status", "--cluster", root)
    assert status["applied_config_digest"] == planned["desired_revision"]["config_digest"]
    assert status["observations"]["graph.books"]["exists"]
