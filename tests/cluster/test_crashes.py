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
from omnigraph.base import failpoints, limits
from omnigraph.base.authorization import AccessDeniedError
from omnigraph.base.failpoints import ENVIRONMENT_VARIABLE, Failpoint
from omnigraph.storage.location import parse_location
from omnigraph.storage.objects import ObjectStore
from tests.cli.process import environment
from tests.cluster.conftest import ExampleCluster, start_apply, wait_for_hold
from tests.conftest import S3Server
from tests.forked import forked_omnigraph
from tests.graph.crash.child import HitRecorder
from tests.waiting import SECONDS_MAX

FIRST_HITS: Final = {
    "cluster.ledger.before": 2,
    "cluster.ledger.after": 2,
    "cluster.create.before": 1,
    "init.mark.before": 1,
    "init.table.before": 3,
    "init.manifest.before": 1,
    "init.unmark.before": 1,
    "init.done": 1,
    "cluster.resource.before": 4,
}
"""How often the first apply reaches each failpoint."""
LATER_HITS: Final = {
    "cluster.schema.before": 1,
    "lease.acquire.before": 4,
    "lease.acquire.after": 4,
    "check.done": 1,
    "arm.before": 1,
    "arm.after": 1,
    "commit.before": 1,
    "commit.after": 1,
    "publish.before": 1,
    "publish.after": 1,
    "disarm.before": 1,
    "disarm.after": 1,
    "lease.release.before": 2,
    "lease.release.after": 2,
    "cluster.resource.before": 3,
    "cluster.replace.before": 1,
    "cluster.delete.before": 1,
    "cluster.delete.files.before": 8,
    "cluster.ledger.before": 1,
    "cluster.ledger.after": 1,
}
"""How often an apply that changes a schema, replaces a resource and deletes a graph reaches each failpoint."""


def _points(hits: dict[str, int]) -> list[str]:
    return [f"{point}@{number}" for point, count in hits.items() for number in range(1, count + 1)]


def _kill_apply(cluster: ExampleCluster, failpoint: str) -> None:
    with start_apply(cluster, f"{failpoint}=kill") as process:
        process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == -signal.SIGKILL


def _complete(cluster: ExampleCluster) -> None:
    """Apply again, in this process."""
    document = cluster.apply()
    assert (document["exit"], document["converged"]) == (0, True)


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


@pytest.mark.parametrize("point", _points(FIRST_HITS))
def test_killed_first_apply(point: str, new: ExampleCluster, undisturbed_first: Any) -> None:
    _kill_apply(new, point)
    _complete(new)
    assert _result(new) == undisturbed_first


@pytest.mark.parametrize("point", _points(LATER_HITS))
def test_killed_later_apply(point: str, prepared_later: Path, undisturbed_later: Any, tmp_path: Path) -> None:
    shutil.copytree(prepared_later, tmp_path / "example")
    cluster = ExampleCluster(tmp_path / "example")
    _kill_apply(cluster, point)
    _complete(cluster)
    assert _result(cluster) == undisturbed_later


def test_apply_killed_while_it_deletes_old_objects(applied: ExampleCluster) -> None:
    state = applied.path / "__cluster" / "state"
    ledger = json.loads(max(state.iterdir()).read_text())
    for revision in range(ledger["state_revision"] + 1, limits.CLUSTER_REVISIONS_MAX + 2):
        (state / f"{revision:020d}.json").write_text(json.dumps({**ledger, "state_revision": revision}))
    applied.edit("server.policy.yaml", lambda text: text.replace("[ada, bo]", "[ada, bo, eve]"))
    _kill_apply(applied, "cluster.collect.before@2")
    assert len(list(state.iterdir())) == limits.CLUSTER_REVISIONS_MAX + 1
    document = applied.apply()
    assert (document["exit"], document["converged"], document["changes"]) == (0, True, [])
    applied.edit("server.policy.yaml", lambda text: text.replace("[ada, bo, eve]", "[ada, bo]"))
    _complete(applied)
    assert len(list(state.iterdir())) == limits.CLUSTER_REVISIONS_MAX


def test_every_failpoint_of_apply_is_killed(
    new: ExampleCluster, prepared_later: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(prepared_later, tmp_path / "later")
    for cluster, hits in ((new, FIRST_HITS), (ExampleCluster(tmp_path / "later"), LATER_HITS)):
        recorder = HitRecorder()
        with monkeypatch.context() as patch:
            patch.setattr(failpoints, "_actions", recorder)
            cluster.apply()
        assert sorted(recorder.hits) == sorted(_points(hits))
    # `approve` reaches the first one, and `test_apply_killed_while_it_deletes_old_objects` kills the second one.
    others = {"cluster.approve.before", "cluster.collect.before"}
    assert {str(point) for point in Failpoint if point.startswith("cluster.")} - others <= {*FIRST_HITS, *LATER_HITS}


@pytest.mark.parametrize("store", ["files", "s3"])
def test_two_applies(
    new: ExampleCluster, store: str, s3_server: S3Server, s3_variables: dict[str, str], tmp_path: Path
) -> None:
    if store == "s3":
        new.edit("cluster.yaml", lambda text: text + f"storage: s3://{s3_server.bucket}/{uuid.uuid4().hex}\n")
    gate = tmp_path / "gate"
    with start_apply(new, f"cluster.ledger.before@2=hold:{gate}", s3_variables) as slow:
        wait_for_hold(slow, gate)
        _complete(new)
        gate.touch()
        stdout, _ = slow.communicate(timeout=SECONDS_MAX)
    lost = json.loads(stdout)
    assert (slow.returncode, lost["error_code"]) == (3, "state_cas_mismatch")
    assert "by 'ada' at" in lost["error"]
    document = new.apply()
    assert (document["exit"], document["changes"], document["state_written"]) == (0, [], False)


def test_apply_that_was_overtaken_starts_no_operation(new: ExampleCluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with start_apply(new, f"cluster.ledger.after=hold:{gate}") as slow:
        wait_for_hold(slow, gate)
        _complete(new)
        first_commit = omnigraph.open(new.graph, read_only=True).log()[-1].id
        gate.touch()
        slow.communicate(timeout=SECONDS_MAX)
    assert slow.returncode == 3
    assert omnigraph.open(new.graph, read_only=True).log()[-1].id == first_commit


@pytest.mark.usefixtures("s3_variables")
def test_life_of_a_cluster_on_s3(new: ExampleCluster, s3_server: S3Server) -> None:
    """Import, plan, apply, status, use, approve and delete, with the root alone where the files are not needed."""
    root = f"s3://{s3_server.bucket}/{uuid.uuid4().hex}"
    new.edit("cluster.yaml", lambda text: text + f"storage: {root}\n")

    def run(*arguments: str) -> Any:
        return json.loads(new.run(*arguments, "--json").stdout)

    assert run("cluster", "import")["state_revision"] == 1
    planned = run("cluster", "plan")
    assert planned["changes"]
    _complete(new)
    assert run("cluster", "plan")["changes"] == []
    status = run("cluster", "status", "--cluster", root)
    assert status["applied_config_digest"] == planned["desired_revision"]["config_digest"]
    assert status["observations"]["graph.books"]["exists"]
    graph_flags = ("--cluster", root, "--graph", "books")
    (new.path / "rows.ndjson").write_text('{"type": "Author", "data": {"name": "le guin"}}\n')
    data = ("--data", "rows.ndjson", "--branch", "review/1", "--from", "main")
    assert run("load", *graph_flags, *data, "--as", "eve")["error_code"] == "policy_denied"
    assert run("load", *graph_flags, *data, "--as", "bo")["total_entities"] == 1
    new.declare_no_graph()
    assert new.apply()["resource_statuses"]["graph.books"]["conditions"] == ["approval_required"]
    assert run("cluster", "approve", "graph.books", "--as", "ada")["approved_by"] == "ada"
    _complete(new)
    assert run("cluster", "status", "--cluster", root)["observations"] == {}
    graph = f"{root}/graphs/books.omni"
    assert ObjectStore(parse_location(graph)).list("") == (), "every object of the graph is deleted"
    assert run("query", "-e", "query q() { match { $a: Author } return { $a.name } }", graph)["error"]


def test_interrupted_write_is_recovered_under_a_policy_that_denies_writes(applied_in_place: ExampleCluster) -> None:
    cluster = applied_in_place
    assert cluster.run("branch", "create", "review/1", "--cluster", ".", "--as", "bo").exit_code == 0
    add = ("mutate", "-e", 'query q() { insert Author { name: "le guin" } }', "--branch", "review/1", "--as", "bo")
    killed = subprocess.run(
        [forked_omnigraph(), *add, "--cluster", "."],
        cwd=cluster.path,
        env=environment({ENVIRONMENT_VARIABLE: "publish.before=kill"}),
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    cluster.edit("base.policy.yaml", lambda text: text.partition("rules:")[0])
    _complete(cluster)
    graph = cluster.cluster.open("books", branch="review/1", actor="bo")
    assert len(graph.pending_writes()) == 1
    with pytest.raises(AccessDeniedError):
        graph.mutate('query q() { insert Author { name: "x" } }')
    assert cluster.run("optimize", "--cluster", ".").exit_code == 0
    assert graph.pending_writes() == ()
    authors = "query q() { match { $a: Author } return { $a.name } }"
    assert graph.query(authors).to_pylist() == [{"a.name": "le guin"}]
