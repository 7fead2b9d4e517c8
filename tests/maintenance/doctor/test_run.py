"""Everything that doctor looks for is planted once, found, and named with what helps; looking changes nothing."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from pathlib import Path

import pytest

from omnigraph.api.graph import Graph
from omnigraph.base.failpoints import Failpoint
from omnigraph.graph.branches import create_branch, delete_branch
from omnigraph.graph.coordination.lease import acquire_lease
from omnigraph.graph.manifest.layout import EDGES, INIT_MARKERS, LOCKS, MANIFEST, NODES, RECOVERY, SCRATCH
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.manifest.stamp import STAMP_KEY
from omnigraph.graph.scratch import Scratch
from omnigraph.maintenance.doctor.files import FOREIGN_BRANCH, LATER
from omnigraph.maintenance.doctor.findings import Check, Commands, Finding, Health, is_healthy
from omnigraph.maintenance.doctor.run import LOOSE, RESTORE, UNLINK, examine
from omnigraph.maintenance.optimize.run import ensure_indices
from omnigraph.storage.lance.commit import commit_schema_metadata
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.cli.process import omnigraph_here
from tests.graph.crash.killer import Killer
from tests.graph.crash.observe import read_tree
from tests.graph.writers import COMPANY, PERSON, Change, run
from tests.maintenance.cleaning import DAY
from tests.maintenance.graphs import DOC, in_place
from tests.maintenance.graphs import append as append_documents
from tests.maintenance.graphs import create as create_documents
from tests.maintenance.repairing import DEV, ForeignTool, find_table, repair, seed


@pytest.fixture
def graph(local_location: Location) -> Graph:
    """A graph in perfect order."""
    seed(local_location, DEV)
    for branch in ("main", DEV):
        ensure_indices(local_location, branch, in_place)
    return Graph(local_location)


def _commands(graph: Graph) -> Commands:
    return Commands(graph.uri)


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
    found = _one(graph, Check.DRIFT, Health.PROBLEM, _commands(graph).repair)
    assert (found.where, found.branch) == (PERSON, branch)
    assert found.message.startswith("suspicious: published is ")
    assert "(Append)" in found.message


def test_an_unreadable_table(graph: Graph, tool: ForeignTool) -> None:
    """The others are still looked at."""
    tool.act("compaction", graph.location)
    table = find_table(graph.location, COMPANY)
    Path(graph.location.uri, table.path, "_versions").rename(Path(graph.location.uri, "aside"))
    found = _found(graph)
    version = f"{table.path}/_versions/{2**64 - 1 - table.pin.version:020d}.manifest"
    assert {(one.check, one.where, one.branch) for one in found} == {
        (Check.FILES, f"{graph.uri}/{version}", "main"),
        (Check.DRIFT, PERSON, "main"),
    }
    assert found[0].message == f"version file of {COMPANY} is missing"


@pytest.mark.parametrize("branch", ["main", DEV])
def test_index_coverage(graph: Graph, branch: str) -> None:
    fix = f"omnigraph optimize {graph.uri}{'' if branch == 'main' else ' --branch dev'}"
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
    monkeypatch.setattr("omnigraph.base.limits.DOCTOR_EDGE_ROWS_MAX", 1)
    assert is_healthy(graph.doctor())
    deep = f"omnigraph doctor {graph.uri} --deep"
    shallow = [one for one in graph.doctor() if one.check is Check.EDGES]
    assert {(one.branch, one.fix) for one in shallow} == {("main", deep), (DEV, deep)}
    assert found in graph.doctor(deep=True)


def test_fragments_and_settings(graph: Graph, tool: ForeignTool) -> None:
    tool.act("many_fragments", graph.location)
    repair(graph.location, "confirm", "force")
    run(graph.location, [Change(COMPANY, delete=("a",))])
    manifest = open_dataset(graph.location.child(MANIFEST))
    manifest.native_copy().update_config({"lance.auto_cleanup.interval": "20"})
    found = [one for one in _found(graph) if one.check is Check.FRAGMENTS]
    assert [(one.where, one.health, one.fix) for one in found] == [
        (MANIFEST, Health.PROBLEM, _commands(graph).optimize()),
        (COMPANY, Health.NOTICE, _commands(graph).optimize()),
        (PERSON, Health.NOTICE, _commands(graph).optimize()),
    ]
    assert found[1].message == "1 deleted row still in the files, next to 2"
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
        (Check.RECOVERY, Health.PROBLEM, "main", Commands(location.uri).optimize())
    ]


def test_lance_branches_that_cleanup_never_deletes(graph: Graph, tool: ForeignTool) -> None:
    tool.act("fork", graph.location)
    found = _one(graph, Check.ORPHANS, Health.NOTICE, FOREIGN_BRANCH)
    assert (found.where, found.message) == (
        PERSON,
        "2 Lance branches created by another tool: g-dead-1, g-dead-2",
    )


def test_lance_branches_of_a_deleted_branch(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are recommended for cleanup as soon as it would delete them."""
    delete_branch(graph.location, DEV)
    young = [one for one in _found(graph) if one.check is Check.ORPHANS]
    assert {(one.fix, one.message) for one in young} == {
        (LATER, "1 Lance branch of no live branch, too young to be deleted")
    }
    monkeypatch.setattr("omnigraph.base.limits.CLEANUP_AGE_SECONDS_MIN", 0.0)
    old = [one for one in _found(graph) if one.check is Check.ORPHANS]
    assert [one.where for one in old] == [one.where for one in young]
    assert {(one.fix, one.message) for one in old} == {
        (_commands(graph).cleanup, "1 Lance branch of no live branch")
    }


def test_what_operations_left(graph: Graph) -> None:
    for name in ("old", "young"):
        Scratch(graph.location.child(f"{SCRATCH}/{name}")).write("keys", b"abc")
    (left,) = Path(graph.uri, SCRATCH, "old").iterdir()
    os.utime(left, (time.time() - 4 * DAY,) * 2)
    for name in ("old", "young"):
        ObjectStore(graph.location).create(f"{INIT_MARKERS}/{name}.json", b"{}")
    os.utime(Path(graph.uri, INIT_MARKERS, "old.json"), (time.time() - 4 * DAY,) * 2)
    found = [(one.where, one.health, one.message, one.fix) for one in _found(graph)]
    assert found == [
        (SCRATCH, Health.NOTICE, "1 file left by a bulk operation, 3 bytes", _commands(graph).cleanup),
        (
            SCRATCH,
            Health.NOTICE,
            "1 file that a bulk operation uses, or left a short time ago, 3 bytes",
            LATER,
        ),
        (INIT_MARKERS, Health.NOTICE, "1 file left by an `init`, 2 bytes", _commands(graph).cleanup),
        (INIT_MARKERS, Health.NOTICE, "1 file that an `init` uses, or left a short time ago, 2 bytes", LATER),
    ]


def test_files_that_nothing_refers_to(graph: Graph) -> None:
    table = Path(graph.uri, read_snapshot(graph.location).tables[PERSON].path)
    for name, days in (("old", 4), ("young", 1)):
        path = table / "data" / f"{name}.lance"
        path.write_bytes(b"1234")
        os.utime(path, (time.time() - days * DAY,) * 2)
    (found,) = _found(graph)
    assert (found.check, found.where, found.fix) == (Check.ORPHANS, PERSON, _commands(graph).cleanup)
    assert found.message == "1 file that nothing refers to, 4 bytes"


def test_forks_that_a_branch_of_a_branch_reads_are_none(graph: Graph) -> None:
    create_branch(graph.location, "below", "tester", read_snapshot(graph.location, DEV))
    run(graph.location, [Change(PERSON, upsert=(("x", 1),))], branch="below")
    assert [one for one in _found(graph) if one.check is Check.ORPHANS] == []


FILES = {
    "data": ("data", "*.lance"),
    "deletions": ("_deletions", "*"),
    "index": ("_indices", "*/page_data.lance"),
}


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_cut_off(graph: Graph, kind: str, deep: bool) -> None:
    run(graph.location, [Change(PERSON, delete=("a",))])
    table = Path(graph.uri, find_table(graph.location, PERSON).path)
    folder, pattern = FILES[kind]
    path = max((table / folder).glob(pattern), key=lambda file: file.stat().st_mtime_ns)
    size = path.stat().st_size
    os.truncate(path, size - 1)
    (found,) = (one for one in graph.doctor(deep=deep) if one.health is Health.PROBLEM)
    assert (found.check, found.fix) == (Check.FILES, RESTORE)
    assert str(path).startswith(found.where)
    assert PERSON in found.message
    if kind == "data":
        assert (
            found.message
            == f"data file of {PERSON} has the wrong size: expected {size:,} bytes, got {size - 1:,} bytes"
        )
        assert (found.expected_bytes, found.actual_bytes) == (size, size - 1)


def test_a_file_that_is_missing(graph: Graph) -> None:
    """A branch that has not written the table needs it, too: it is reported once."""
    table = Path(graph.uri, find_table(graph.location, COMPANY).path)
    path = next((table / "data").iterdir())
    size = path.stat().st_size
    path.unlink()
    (found,) = (one for one in _found(graph) if one.health is Health.PROBLEM)
    assert (found.check, found.where) == (Check.FILES, str(path))
    assert found.message == f"data file of {COMPANY} is missing: expected {size:,} bytes"


def test_damaged_files_in_s3(s3_location: Location) -> None:
    seed(s3_location, DEV)
    table = find_table(s3_location, PERSON)
    store = ObjectStore(s3_location)
    path = next(one.path for one in store.list(f"{table.path}/data"))
    data = store.read(path) or b""
    store.delete(path)
    store.create(path, data[:-1])
    (found,) = (one for one in Graph(s3_location).doctor() if one.health is Health.PROBLEM)
    assert (found.where, found.expected_bytes) == (f"{s3_location}/{path}", len(data))


@pytest.mark.parametrize("folder", ["data", "_deletions", "_versions"])
@pytest.mark.parametrize("branch", ["main", DEV])
def test_a_damaged_file_of_the_manifest(graph: Graph, branch: str, folder: str) -> None:
    """It is named, and doctor does not fail."""
    lance_branch = read_snapshot(graph.location, branch).branch.lance_branch
    place = Path(graph.uri, MANIFEST, *([] if lance_branch is None else ["tree", lance_branch]), folder)
    files = (path for path in place.iterdir() if path.suffix != ".json")
    path = max(files, key=lambda file: file.stat().st_mtime_ns)
    os.truncate(path, path.stat().st_size - 1)
    problems = [one for one in graph.doctor(deep=True) if one.health is Health.PROBLEM]
    assert [one.check for one in problems] == [Check.FORMAT, Check.FILES]
    assert problems[1].where == str(path)
    assert problems[1].branch == branch


def test_symbolic_links(graph: Graph, tmp_path: Path) -> None:
    planted = f"nodes/{'0' * 16}-{'f' * 16}"
    Path(graph.uri, planted).symlink_to(tmp_path, target_is_directory=True)
    table = find_table(graph.location, COMPANY).path
    Path(graph.uri, table).rename(tmp_path / "moved")
    Path(graph.uri, table).symlink_to(tmp_path / "moved", target_is_directory=True)
    data = Path(graph.uri, find_table(graph.location, PERSON).path, "data")
    data.rename(tmp_path / "data")
    data.symlink_to(tmp_path / "data", target_is_directory=True)
    found = _found(graph)
    assert {(one.check, one.health, one.fix) for one in found} == {(Check.FILES, Health.PROBLEM, UNLINK)}
    assert {one.where for one in found} == {f"{graph.uri}/{planted}", f"{graph.uri}/{table}", str(data)}


@pytest.mark.parametrize(
    ("name", "unchecked"),
    [
        (RECOVERY, {Check.RECOVERY}),
        (LOCKS, {Check.LOCKS}),
        (SCRATCH, {Check.ORPHANS}),
        (NODES, set()),
        (EDGES, set()),
        (MANIFEST, set()),
    ],
)
def test_a_directory_of_the_graph_that_is_a_link(
    graph: Graph, tmp_path: Path, name: str, unchecked: set[Check]
) -> None:
    """The link is one finding, and each check that does not follow it says so."""
    place = Path(graph.uri, name)
    (tmp_path / "moved").mkdir()
    if place.exists():
        place.rename(tmp_path / "moved" / name)
    place.symlink_to(tmp_path / "moved" / name if name != SCRATCH else tmp_path / "moved")
    found = _found(graph)
    assert {(one.where, one.health, one.fix) for one in found} == {(str(place), Health.PROBLEM, UNLINK)}
    assert [one.check for one in found].count(Check.FILES) == 1
    assert {one.check for one in found} >= {Check.FILES, *unchecked}
    assert all("is a symbolic link" in one.message and "delete" not in one.message for one in found[1:])


def test_a_vector_index_without_vectors(local_location: Location) -> None:
    """It is said what is missing, and optimize is not recommended for ever."""
    create_documents(local_location)
    append_documents(local_location, "a", faces=False)
    ensure_indices(local_location, "main", in_place)
    found = _one(
        Graph(local_location), Check.INDEXES, Health.NOTICE, "load vectors into face, or remove its @index"
    )
    assert found.message == "the index on face is not built: the column has no vectors"
    append_documents(local_location, "b")
    covered = [one for one in _found(Graph(local_location)) if one.where == DOC]
    assert [one.fix for one in covered] == [f"omnigraph optimize {local_location}"]
    assert "face" in covered[0].message


def test_every_recommended_command_can_be_typed(tool: ForeignTool, tmp_path: Path) -> None:
    """With the address as it was typed, and quoted as a shell needs it."""
    commands = Commands("my graphs/it's.omni")
    location = parse_location(str(tmp_path / commands.address))
    seed(location, DEV)
    delete_branch(location, DEV)
    # Before the drift, which makes cleanup fail for the table.
    assert omnigraph_here(*shlex.split(commands.cleanup)[1:], "--json", cwd=tmp_path).exit_code == 0
    tool.act("append", location)
    told = omnigraph_here("doctor", commands.address, "--json", cwd=tmp_path)
    fixes = [one["fix"] for one in json.loads(told.stdout)["findings"] if one["fix"]]
    assert commands.repair in fixes
    for command in {*(fix for fix in fixes if fix.startswith("omnigraph ")), commands.deep}:
        words = shlex.split(command)
        assert words[:3:2] == ["omnigraph", commands.address]
        assert omnigraph_here(*words[1:], "--json", cwd=tmp_path).exit_code in (0, 3), command


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
    assert [one["fix"] for one in document["findings"] if one["health"] == "problem"] == [
        f"omnigraph repair {graph.uri}"
    ]
    assert omnigraph_here("doctor", "--json", cwd=tmp_path).exit_code == 0
    assert omnigraph_here("doctor", "http://localhost", cwd=tmp_path).exit_code == 2
    assert omnigraph_here("doctor", "--server", "prod", cwd=tmp_path).exit_code == 2
