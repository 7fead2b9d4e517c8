"""Everything that doctor looks for is planted once, found, and named with what helps; looking changes nothing."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from omnigraph.api.graph import Graph
from omnigraph.base.failpoints import Failpoint
from omnigraph.graph.branches import create_branch
from omnigraph.graph.layout import LOCKS, MANIFEST, RECOVERY, SCRATCH
from omnigraph.graph.lease import acquire_lease
from omnigraph.graph.scratch import Scratch
from omnigraph.graph.snapshot import read_snapshot
from omnigraph.graph.stamp import STAMP_KEY
from omnigraph.maintenance.doctor import CLEANUP, DEEP, LOOSE, OPTIMIZE, RECOVER, REPAIR, examine
from omnigraph.maintenance.ensure_indices import ensure_indices
from omnigraph.maintenance.health import Check, Finding, Health, is_healthy
from omnigraph.storage.commit import commit_schema_metadata
from omnigraph.storage.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.cli.process import omnigraph_here
from tests.graph.crash.killer import Killer
from tests.graph.crash.observe import read_tree
from tests.graph.writers import COMPANY, PERSON, Change, run
from tests.maintenance.cleaning import DAY
from tests.maintenance.graphs import in_place
from tests.maintenance.repairing import DEV, ForeignTool, find_table, repair, seed


@pytest.fixture
def graph(local_location: Location) -> Graph:
    """A graph in perfect order."""
    seed(local_location, DEV)
    for branch in ("main", DEV):
        ensure_indices(local_location, branch, in_place)
    return Graph(local_location)


def _found(graph: Graph) -> list[Finding]:
    """What is not in order; looking has changed nothing."""
    files = read_tree(graph.location)
    findings = graph.doctor()
    assert read_tree(graph.location) == files
    assert list(dict.fromkeys(finding.check for finding in findings)) == list(Check)
    return [finding for finding in findings if finding.health is not Health.OK]


def _one(graph: Graph, check: Check, health: Health, fix: str) -> Finding:
    (finding,) = _found(graph)
    assert (finding.check, finding.health, finding.fix) == (check, health, fix)
    return finding


def test_a_healthy_graph(graph: Graph) -> None:
    assert _found(graph) == []
    assert is_healthy(graph.doctor())


def test_without_a_graph_the_machine() -> None:
    (machine,) = examine(None)
    assert (machine.check, machine.health) == (Check.MACHINE, Health.OK)
    assert all(word in machine.message for word in ("Lance 14.", "Spark 4.", "Java "))


def test_no_graph_at_all(local_location: Location) -> None:
    findings = Graph(local_location).doctor()
    assert not is_healthy(findings)
    assert findings[-1].message == f"there is no graph at {local_location}"


@pytest.mark.parametrize("branch", ["main", DEV])
def test_drift(graph: Graph, branch: str, tool: ForeignTool) -> None:
    tool.act("append", graph.location, branch=branch)
    found = _one(graph, Check.DRIFT, Health.PROBLEM, REPAIR)
    assert (found.where, found.branch) == (PERSON, branch)
    assert found.message.startswith("suspicious: published is ")
    assert "(Append)" in found.message


def test_an_unreadable_table(graph: Graph, tool: ForeignTool) -> None:
    """The others are still looked at."""
    tool.act("compaction", graph.location)
    table = find_table(graph.location, COMPANY)
    Path(graph.location.uri, table.path, "_versions").rename(Path(graph.location.uri, "aside"))
    found = _found(graph)
    assert {(one.check, one.where, one.branch) for one in found} == {
        (Check.DRIFT, COMPANY, "main"),
        (Check.DRIFT, PERSON, "main"),
    }


@pytest.mark.parametrize(("branch", "fix"), [("main", OPTIMIZE), (DEV, f"{OPTIMIZE} --branch dev")])
def test_index_coverage(graph: Graph, branch: str, fix: str) -> None:
    run(graph.location, [Change(COMPANY, insert=("new",))], branch=branch)
    found = _one(graph, Check.INDEXES, Health.NOTICE, fix)
    assert (found.where, found.branch) == (COMPANY, branch)
    assert found.message == "rows that no index covers: id, name"


def test_edges_without_nodes(graph: Graph, tool: ForeignTool, monkeypatch: pytest.MonkeyPatch) -> None:
    tool.act("delete", graph.location)
    repair(graph.location, "confirm", "force")
    (found,) = (one for one in _found(graph) if one.health is Health.PROBLEM)
    assert (found.check, found.where, found.branch, found.fix) == (Check.EDGES, "edge:Knows", "main", LOOSE)
    assert re.fullmatch(r"1 edge lacks a node at one end, \S+ → \S+ \(\S+\) among them", found.message)
    monkeypatch.setattr("omnigraph.maintenance.doctor.DOCTOR_EDGE_ROWS_MAX", 1)
    assert is_healthy(graph.doctor())
    shallow = [one for one in graph.doctor() if one.check is Check.EDGES]
    assert {(one.branch, one.fix) for one in shallow} == {("main", DEEP), (DEV, DEEP)}
    assert found in graph.doctor(deep=True)


def test_fragments_and_settings(graph: Graph, tool: ForeignTool) -> None:
    tool.act("many_fragments", graph.location)
    repair(graph.location, "confirm", "force")
    run(graph.location, [Change(COMPANY, delete=("a",))])
    manifest = open_dataset(graph.location.child(MANIFEST))
    manifest.movable().update_config({"lance.auto_cleanup.interval": "20"})
    found = [one for one in _found(graph) if one.check is Check.FRAGMENTS]
    assert [(one.where, one.health, one.fix) for one in found] == [
        (MANIFEST, Health.PROBLEM, OPTIMIZE),
        (COMPANY, Health.NOTICE, OPTIMIZE),
        (PERSON, Health.NOTICE, OPTIMIZE),
    ]
    assert found[1].message == "1 deleted row still in the files, beside 2"
    assert "small fragments" in found[2].message


def test_recovery_and_locks(graph: Graph) -> None:
    root = Path(graph.location.uri)
    (root / RECOVERY / "strange.json").parent.mkdir(exist_ok=True)
    (root / RECOVERY / "strange.json").write_text("{")
    (root / LOCKS / "graph").mkdir(exist_ok=True)
    (root / LOCKS / "graph" / "odd").write_text("")
    lease = acquire_lease(ObjectStore(graph.location), find_table(graph.location).owner, "testing")
    found = _found(graph)
    lease.release()
    assert [(one.check, one.health) for one in found] == [
        (Check.RECOVERY, Health.PROBLEM),
        (Check.LOCKS, Health.NOTICE),
        (Check.LOCKS, Health.PROBLEM),
    ]
    assert "testing by process" in found[1].message
    assert found[0].where == str(root / RECOVERY / "strange.json"), "as in `recovery list`"
    assert all(one.fix for one in found if one.health is Health.PROBLEM)


def test_a_write_that_stopped_half_way(killer: Killer) -> None:
    location = killer.prepared("load")
    killer.kill("load", location, Failpoint.COMMIT_AFTER, 1)
    found = [one for one in _found(Graph(location)) if one.check is not Check.INDEXES]
    assert [(one.check, one.health, one.branch, one.fix) for one in found] == [
        (Check.RECOVERY, Health.PROBLEM, "main", RECOVER)
    ]


def test_orphans(graph: Graph, tool: ForeignTool) -> None:
    tool.act("fork", graph.location)
    Scratch(graph.location.child(f"{SCRATCH}/x")).write("keys", b"abc")
    found = _found(graph)
    assert [(one.check, one.health, one.fix) for one in found] == [
        (Check.ORPHANS, Health.NOTICE, CLEANUP),
        (Check.ORPHANS, Health.NOTICE, CLEANUP),
    ]
    assert found[0].message == "2 Lance branches of no live branch"
    assert found[1].where == SCRATCH


def test_files_that_nothing_refers_to(graph: Graph) -> None:
    table = Path(graph.uri, read_snapshot(graph.location).tables[PERSON].path)
    for name, days in (("old", 4), ("young", 1)):
        path = table / "data" / f"{name}.lance"
        path.write_bytes(b"1234")
        os.utime(path, (time.time() - days * DAY,) * 2)
    (found,) = _found(graph)
    assert (found.check, found.where, found.fix) == (Check.ORPHANS, PERSON, CLEANUP)
    assert found.message == "1 file that nothing refers to, 4 bytes"


def test_forks_that_a_branch_of_a_branch_reads_are_none(graph: Graph) -> None:
    create_branch(graph.location, "below", "tester", read_snapshot(graph.location, DEV))
    run(graph.location, [Change(PERSON, upsert=(("x", 1),))], branch="below")
    assert [one for one in _found(graph) if one.check is Check.ORPHANS] == []


def test_a_format_of_another_release(graph: Graph) -> None:
    commit_schema_metadata(open_dataset(graph.location.child(MANIFEST)), {STAMP_KEY: "99"})
    findings = graph.doctor()
    assert [(one.check, one.health) for one in findings if one.health is not Health.OK] == [
        (Check.FORMAT, Health.PROBLEM)
    ]
    assert findings[-1].fix == "upgrade omnigraph first"


def test_the_command(graph: Graph, tool: ForeignTool, tmp_path: Path) -> None:
    healthy = omnigraph_here("doctor", graph.uri, "-q", cwd=tmp_path)
    assert (healthy.exit_code, healthy.stderr) == (0, "")
    assert [line.split()[:2] for line in healthy.stdout.splitlines()[1:]] == [
        [check.value, "ok"] for check in Check
    ]
    tool.act("delete", graph.location)
    ill = omnigraph_here("doctor", graph.uri, "--json", cwd=tmp_path)
    assert ill.exit_code == 3
    document = json.loads(ill.stdout)
    assert (document["uri"], document["healthy"]) == (graph.uri, False)
    assert [one["fix"] for one in document["findings"] if one["health"] == "problem"] == [REPAIR]
    assert omnigraph_here("doctor", "--json", cwd=tmp_path).exit_code == 0
    assert omnigraph_here("doctor", "http://localhost", cwd=tmp_path).exit_code == 2
    assert omnigraph_here("doctor", "--server", "prod", cwd=tmp_path).exit_code == 2
