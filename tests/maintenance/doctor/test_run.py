"""Doctor: each problem is created once, and its finding names what helps; doctor itself changes nothing."""

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
from omnigraph.base.hints import Hint
from omnigraph.cli.hints import render_command
from omnigraph.graph.branches import create_branch, delete_branch
from omnigraph.graph.coordination.lease import acquire_lease
from omnigraph.graph.manifest.layout import EDGES, INIT_MARKERS, LOCKS, MANIFEST, NODES, RECOVERY, SCRATCH
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.manifest.stamp import STAMP_KEY
from omnigraph.graph.scratch import Scratch
from omnigraph.maintenance.doctor.files import CLEANUP_LATER, DELETE_EXTERNALLY
from omnigraph.maintenance.doctor.findings import (
    CLEANUP,
    DEEP_CHECK,
    REPAIR,
    REPLACE_LINK,
    RESTORE_FILE,
    Check,
    Finding,
    Health,
    is_healthy,
    optimize_branch,
)
from omnigraph.maintenance.doctor.run import FIX_EDGES, check_graph
from omnigraph.maintenance.optimize.run import ensure_indices
from omnigraph.storage.lance.commit import commit_schema_metadata
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.cli.process import run_in_process
from tests.graph.crash.killer import Killer
from tests.graph.crash.observe import read_tree
from tests.graph.writers import COMPANY, PERSON, Change, run
from tests.maintenance.cleaning import DAY
from tests.maintenance.graphs import DOC, in_place
from tests.maintenance.graphs import append as append_documents
from tests.maintenance.graphs import create as create_documents
from tests.maintenance.repairing import DEV, ExternalTool, find_table, repair, seed


@pytest.fixture
def graph(local_location: Location) -> Graph:
    """Return a graph without problems or notices."""
    seed(local_location, DEV)
    for branch in ("main", DEV):
        ensure_indices(local_location, branch, in_place)
    return Graph(local_location)


def _unhealthy(graph: Graph) -> list[Finding]:
    """Return problems and notices, and check that doctor changed nothing."""
    files = read_tree(graph.location)
    findings = graph.doctor()
    assert read_tree(graph.location) == files
    assert list(dict.fromkeys(finding.check for finding in findings)) == list(Check)
    return [finding for finding in findings if finding.health is not Health.OK]


def _single(graph: Graph, check: Check, health: Health, fix: Hint) -> Finding:
    (finding,) = _unhealthy(graph)
    assert (finding.check, finding.health, finding.fix) == (check, health, fix)
    return finding


def test_healthy_graph_has_no_findings(graph: Graph) -> None:
    assert _unhealthy(graph) == []
    assert is_healthy(graph.doctor())


def test_without_a_graph_only_the_machine_is_checked() -> None:
    (machine,) = check_graph(None)
    assert (machine.check, machine.health) == (Check.MACHINE, Health.OK)
    assert all(word in machine.message for word in ("Lance 14.", "Spark 4.", "Java "))


def test_missing_graph_is_a_problem(local_location: Location) -> None:
    findings = Graph(local_location).doctor()
    assert not is_healthy(findings)
    assert findings[-1].message == f"no graph at {local_location}"


@pytest.mark.parametrize("branch", ["main", DEV])
def test_drift(graph: Graph, branch: str, tool: ExternalTool) -> None:
    tool.act("append", graph.location, branch=branch)
    finding = _single(graph, Check.DRIFT, Health.PROBLEM, REPAIR)
    assert (finding.where, finding.branch) == (PERSON, branch)
    assert finding.message.startswith("suspicious: published version ")
    assert "(Append)" in finding.message


def test_unreadable_table_does_not_stop_other_checks(graph: Graph, tool: ExternalTool) -> None:
    tool.act("compaction", graph.location)
    table = find_table(graph.location, COMPANY)
    Path(graph.location.uri, table.path, "_versions").rename(Path(graph.location.uri, "aside"))
    findings = _unhealthy(graph)
    version = f"{table.path}/_versions/{2**64 - 1 - table.pin.version:020d}.manifest"
    assert {(finding.check, finding.where, finding.branch) for finding in findings} == {
        (Check.FILES, f"{graph.uri}/{version}", "main"),
        (Check.DRIFT, PERSON, "main"),
    }
    assert findings[0].message == f"version file of {COMPANY} is missing"


@pytest.mark.parametrize("branch", ["main", DEV])
def test_index_coverage(graph: Graph, branch: str) -> None:
    run(graph.location, [Change(COMPANY, insert=("new",))], branch=branch)
    finding = _single(graph, Check.INDEXES, Health.NOTICE, optimize_branch(branch))
    assert (finding.where, finding.branch) == (COMPANY, branch)
    assert finding.message == "indexes behind by 1 row: id, name"


def test_edges_without_nodes(graph: Graph, tool: ExternalTool, monkeypatch: pytest.MonkeyPatch) -> None:
    tool.act("delete", graph.location)
    repair(graph.location, "confirm", "force")
    (finding,) = (finding for finding in _unhealthy(graph) if finding.health is Health.PROBLEM)
    assert (finding.check, finding.where, finding.branch, finding.fix) == (Check.EDGES, "edge:Knows", "main", FIX_EDGES)
    assert re.fullmatch(r"1 edge lacks a node at an endpoint, for example \S+ → \S+ \(\S+\)", finding.message)
    monkeypatch.setattr("omnigraph.base.limits.DOCTOR_EDGE_ROWS_MAX", 1)
    assert is_healthy(graph.doctor())
    shallow = [finding for finding in graph.doctor() if finding.check is Check.EDGES]
    assert {(finding.branch, finding.fix) for finding in shallow} == {("main", DEEP_CHECK), (DEV, DEEP_CHECK)}
    assert finding in graph.doctor(deep=True)


def test_fragments_and_settings(graph: Graph, tool: ExternalTool) -> None:
    tool.act("many_fragments", graph.location)
    repair(graph.location, "confirm", "force")
    run(graph.location, [Change(COMPANY, delete=("a",))])
    manifest = open_dataset(graph.location.child(MANIFEST))
    manifest.native_copy().update_config({"lance.auto_cleanup.interval": "20"})
    findings = [finding for finding in _unhealthy(graph) if finding.check is Check.FRAGMENTS]
    assert [(finding.where, finding.health, finding.fix) for finding in findings] == [
        (MANIFEST, Health.PROBLEM, optimize_branch()),
        (COMPANY, Health.NOTICE, optimize_branch()),
        (PERSON, Health.NOTICE, optimize_branch()),
    ]
    assert findings[1].message == "1 deleted row still in the files, 2 live"
    assert "small fragments" in findings[2].message


def test_recovery_and_locks(graph: Graph) -> None:
    root = Path(graph.location.uri)
    (root / RECOVERY / "strange.json").parent.mkdir(exist_ok=True)
    (root / RECOVERY / "strange.json").write_text("{")
    (root / LOCKS / "graph").mkdir(exist_ok=True)
    (root / LOCKS / "graph" / "odd").write_text("")
    lease = acquire_lease(ObjectStore(graph.location), find_table(graph.location).owner, "testing")
    findings = _unhealthy(graph)
    lease.release()
    assert [(finding.check, finding.health) for finding in findings] == [
        (Check.RECOVERY, Health.PROBLEM),
        (Check.LOCKS, Health.NOTICE),
        (Check.LOCKS, Health.PROBLEM),
    ]
    assert "testing by process" in findings[1].message
    assert findings[0].where == str(root / RECOVERY / "strange.json"), "as in `recovery list`"
    assert all(finding.fix for finding in findings if finding.health is Health.PROBLEM)


def test_interrupted_write(killer: Killer) -> None:
    location = killer.prepare_graph("load")
    killer.kill("load", location, Failpoint.COMMIT_AFTER, 1)
    # The prepared graph is a copy, which is a finding of the format.
    expected_checks = (Check.INDEXES, Check.FORMAT)
    findings = [finding for finding in _unhealthy(Graph(location)) if finding.check not in expected_checks]
    assert [(finding.check, finding.health, finding.branch, finding.fix) for finding in findings] == [
        (Check.RECOVERY, Health.PROBLEM, "main", optimize_branch())
    ]


def test_lance_branches_that_cleanup_never_deletes(graph: Graph, tool: ExternalTool) -> None:
    tool.act("fork", graph.location)
    finding = _single(graph, Check.ORPHANS, Health.NOTICE, DELETE_EXTERNALLY)
    assert (finding.where, finding.message) == (
        PERSON,
        "2 Lance branches created by an external tool: g-dead-1, g-dead-2",
    )


def test_lance_branches_of_a_deleted_branch(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cleanup is recommended as soon as it would delete them."""
    delete_branch(graph.location, DEV)
    young = [finding for finding in _unhealthy(graph) if finding.check is Check.ORPHANS]
    assert {(finding.fix, finding.message) for finding in young} == {
        (CLEANUP_LATER, "1 Lance branch of no live branch, too young to be deleted")
    }
    monkeypatch.setattr("omnigraph.base.limits.CLEANUP_AGE_SECONDS_MIN", 0.0)
    old = [finding for finding in _unhealthy(graph) if finding.check is Check.ORPHANS]
    assert [finding.where for finding in old] == [finding.where for finding in young]
    assert {(finding.fix, finding.message) for finding in old} == {(CLEANUP, "1 Lance branch of no live branch")}


def test_files_of_interrupted_operations(graph: Graph) -> None:
    for name in ("old", "young"):
        Scratch(graph.location.child(f"{SCRATCH}/{name}")).write("keys", b"abc")
    (left,) = Path(graph.uri, SCRATCH, "old").iterdir()
    os.utime(left, (time.time() - 4 * DAY,) * 2)
    for name in ("old", "young"):
        ObjectStore(graph.location).create(f"{INIT_MARKERS}/{name}.json", b"{}")
    os.utime(Path(graph.uri, INIT_MARKERS, "old.json"), (time.time() - 4 * DAY,) * 2)
    findings = [(finding.where, finding.health, finding.message, finding.fix) for finding in _unhealthy(graph)]
    assert findings == [
        (SCRATCH, Health.NOTICE, "1 file left by a bulk operation, 3 B", CLEANUP),
        (SCRATCH, Health.NOTICE, "1 file that a bulk operation uses, or left a short time ago, 3 B", CLEANUP_LATER),
        (INIT_MARKERS, Health.NOTICE, "1 file left by an `init`, 2 B", CLEANUP),
        (INIT_MARKERS, Health.NOTICE, "1 file that an `init` uses, or left a short time ago, 2 B", CLEANUP_LATER),
    ]


def test_unreferenced_files(graph: Graph) -> None:
    table = Path(graph.uri, read_snapshot(graph.location).tables[PERSON].path)
    for name, days in (("old", 4), ("young", 1)):
        path = table / "data" / f"{name}.lance"
        path.write_bytes(b"1234")
        os.utime(path, (time.time() - days * DAY,) * 2)
    (finding,) = _unhealthy(graph)
    assert (finding.check, finding.where, finding.fix) == (Check.ORPHANS, PERSON, CLEANUP)
    assert finding.message == "1 unreferenced file, 4 B"


def test_forks_that_a_child_branch_reads_are_not_reported(graph: Graph) -> None:
    create_branch(graph.location, "below", "tester", read_snapshot(graph.location, DEV))
    run(graph.location, [Change(PERSON, upsert=(("x", 1),))], branch="below")
    assert [finding for finding in _unhealthy(graph) if finding.check is Check.ORPHANS] == []


FILES = {"data": ("data", "*.lance"), "deletions": ("_deletions", "*"), "index": ("_indices", "*/page_data.lance")}


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("kind", FILES)
def test_truncated_file(graph: Graph, kind: str, deep: bool) -> None:
    run(graph.location, [Change(PERSON, delete=("a",))])
    table = Path(graph.uri, find_table(graph.location, PERSON).path)
    folder, pattern = FILES[kind]
    path = max((table / folder).glob(pattern), key=lambda file: file.stat().st_mtime_ns)
    size = path.stat().st_size
    os.truncate(path, size - 1)
    (finding,) = (finding for finding in graph.doctor(deep=deep) if finding.health is Health.PROBLEM)
    assert (finding.check, finding.fix) == (Check.FILES, RESTORE_FILE)
    assert str(path).startswith(finding.where)
    assert PERSON in finding.message
    if kind == "data":
        assert (
            finding.message
            == f"data file of {PERSON} has the wrong size: expected {size:,} bytes, got {size - 1:,} bytes"
        )
        assert (finding.expected_bytes, finding.actual_bytes) == (size, size - 1)


def test_missing_file(graph: Graph) -> None:
    """A branch that has not written the table needs the file too; it is reported once."""
    table = Path(graph.uri, find_table(graph.location, COMPANY).path)
    path = next((table / "data").iterdir())
    size = path.stat().st_size
    path.unlink()
    (finding,) = (finding for finding in _unhealthy(graph) if finding.health is Health.PROBLEM)
    assert (finding.check, finding.where) == (Check.FILES, str(path))
    assert finding.message == f"data file of {COMPANY} is missing: expected {size:,} bytes"


def test_damaged_files_in_s3(s3_location: Location) -> None:
    seed(s3_location, DEV)
    table = find_table(s3_location, PERSON)
    store = ObjectStore(s3_location)
    path = next(finding.path for finding in store.list(f"{table.path}/data"))
    data = store.read(path) or b""
    store.delete(path)
    store.create(path, data[:-1])
    (finding,) = (finding for finding in Graph(s3_location).doctor() if finding.health is Health.PROBLEM)
    assert (finding.where, finding.expected_bytes) == (f"{s3_location}/{path}", len(data))


@pytest.mark.parametrize("folder", ["data", "_deletions", "_versions"])
@pytest.mark.parametrize("branch", ["main", DEV])
def test_damaged_file_of_the_manifest(graph: Graph, branch: str, folder: str) -> None:
    """Doctor names the file and does not fail."""
    lance_branch = read_snapshot(graph.location, branch).branch.lance_branch
    place = Path(graph.uri, MANIFEST, *([] if lance_branch is None else ["tree", lance_branch]), folder)
    files = (path for path in place.iterdir() if path.suffix != ".json")
    path = max(files, key=lambda file: file.stat().st_mtime_ns)
    os.truncate(path, path.stat().st_size - 1)
    problems = [finding for finding in graph.doctor(deep=True) if finding.health is Health.PROBLEM]
    assert [finding.check for finding in problems] == [Check.FORMAT, Check.FILES]
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
    findings = _unhealthy(graph)
    assert {(finding.check, finding.health, finding.fix) for finding in findings} == {
        (Check.FILES, Health.PROBLEM, REPLACE_LINK)
    }
    assert {finding.where for finding in findings} == {f"{graph.uri}/{planted}", f"{graph.uri}/{table}", str(data)}


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
def test_linked_directory_of_the_graph(graph: Graph, tmp_path: Path, name: str, unchecked: set[Check]) -> None:
    """The link is one finding, and each check that does not follow it reports that."""
    path = Path(graph.uri, name)
    (tmp_path / "moved").mkdir()
    if path.exists():
        path.rename(tmp_path / "moved" / name)
    path.symlink_to(tmp_path / "moved" / name if name != SCRATCH else tmp_path / "moved")
    findings = _unhealthy(graph)
    assert {(finding.where, finding.health, finding.fix) for finding in findings} == {
        (str(path), Health.PROBLEM, REPLACE_LINK)
    }
    assert [finding.check for finding in findings].count(Check.FILES) == 1
    assert {finding.check for finding in findings} >= {Check.FILES, *unchecked}
    assert all("symbolic link" in finding.message and "delete" not in finding.message for finding in findings[1:])


def test_vector_index_without_vectors(local_location: Location) -> None:
    """The finding names what is missing, and does not recommend optimize."""
    create_documents(local_location)
    append_documents(local_location, "a", faces=False)
    ensure_indices(local_location, "main", in_place)
    fix = Hint("Load vectors into 'face', or remove its @index.")
    finding = _single(Graph(local_location), Check.INDEXES, Health.NOTICE, fix)
    assert finding.message == "the index on face is not built: the column has no vectors"
    append_documents(local_location, "b")
    covered = [finding for finding in _unhealthy(Graph(local_location)) if finding.where == DOC]
    assert [finding.fix for finding in covered] == [optimize_branch()] * 2
    assert [finding.message for finding in covered] == [
        "indexes behind by 20 rows: id, slug, title, size, tag",
        "indexes not built: face",
    ]


def test_every_recommended_command_can_be_run(tool: ExternalTool, tmp_path: Path) -> None:
    """Commands have the address as it was typed, quoted for a shell."""
    address = "my graphs/it's.omni"
    location = parse_location(str(tmp_path / address))
    seed(location, DEV)
    delete_branch(location, DEV)
    # Before the drift, which makes cleanup fail for the table.
    cleanup = render_command(CLEANUP, address)
    assert run_in_process(*shlex.split(cleanup)[1:], "--json", cwd=tmp_path).exit_code == 0
    tool.act("append", location)
    output = run_in_process("doctor", address, "--json", cwd=tmp_path).stdout
    fixes = [finding["fix"] for finding in json.loads(output)["findings"] if finding["fix"]]
    assert render_command(REPAIR, address) in fixes
    commands = {fix for fix in fixes if fix.startswith("omnigraph ")}
    for command in {*commands, render_command(DEEP_CHECK, address)}:
        words = shlex.split(command)
        assert words[:3:2] == ["omnigraph", address]
        assert run_in_process(*words[1:], "--json", cwd=tmp_path).exit_code in (0, 3), command


def test_format_of_a_newer_release(graph: Graph) -> None:
    commit_schema_metadata(open_dataset(graph.location.child(MANIFEST)), {STAMP_KEY: "99"})
    findings = graph.doctor()
    assert [(finding.check, finding.health) for finding in findings if finding.health is not Health.OK] == [
        (Check.FORMAT, Health.PROBLEM)
    ]
    assert str(findings[-1].fix) == "Upgrade omnigraph."


def test_command_output_and_exit_codes(graph: Graph, tool: ExternalTool, tmp_path: Path) -> None:
    healthy = run_in_process("doctor", graph.uri, "-q", cwd=tmp_path)
    assert (healthy.exit_code, healthy.stderr) == (0, "")
    assert [line.split()[:2] for line in healthy.stdout.splitlines()[1:]] == [[check.value, "ok"] for check in Check]
    tool.act("delete", graph.location)
    unhealthy = run_in_process("doctor", graph.uri, "--json", cwd=tmp_path)
    assert unhealthy.exit_code == 3
    document = json.loads(unhealthy.stdout)
    assert (document["uri"], document["healthy"]) == (graph.uri, False)
    assert [finding["fix"] for finding in document["findings"] if finding["health"] == "problem"] == [
        f"omnigraph repair {graph.uri}"
    ]
    assert run_in_process("doctor", "--json", cwd=tmp_path).exit_code == 0
    assert run_in_process("doctor", "http://localhost", cwd=tmp_path).exit_code == 2
    assert run_in_process("doctor", "--server", "prod", cwd=tmp_path).exit_code == 2
