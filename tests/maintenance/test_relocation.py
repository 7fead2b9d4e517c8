"""Branches, their history and new branches of a moved or copied graph whose location was fixed, on disk and S3."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.base.errors import FormatError
from omnigraph.base.failpoints import Failpoint
from omnigraph.maintenance.relocation import LocationFix
from omnigraph.storage.files import read_bytes, write_file
from omnigraph.storage.lance.base_paths import read_base_paths, replace_base_paths
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.cli.process import omnigraph, run_in_process

SCHEMA = "node P { slug: String @key  n: I64? @index }"
SHOW = "query q() { match { $p: P } return { $p.slug } order { $p.slug } }"


def slugs(graph: og.Graph, as_of: str | None = None) -> list[str]:
    return [str(row["p.slug"]) for row in graph.query(SHOW, as_of=as_of).to_pylist()]


def insert(graph: og.Graph, slug: str) -> str:
    result = graph.mutate(f'query a() {{ insert P {{ slug: "{slug}", n: 1 }} }}')
    assert result.commit is not None
    return str(result.commit.id)


def copy_graph(source: Location, target: Location) -> None:
    """Copy every file, and delete the originals."""
    if source.is_local:
        shutil.move(source.uri, target.uri)
        return
    store = ObjectStore(source)
    for entry in store.list(""):
        with write_file(target.child(entry.path)) as file:
            file.write(read_bytes(source.child(entry.path), 0, entry.size))
        store.delete(entry.path)


def make_graph(root: Location) -> dict[str, str]:
    """Create a graph with a branch, a branch of that branch, and an index; return a commit of each branch."""
    graph = og.init(root.uri, SCHEMA, storage_options=dict(root.options))
    insert(graph, "a")
    graph.optimize()
    outer = graph.create_branch("outer", from_="main")
    commits = {"outer": insert(outer, "b")}
    insert(outer, "c")
    inner = outer.create_branch("inner", from_="outer")
    commits["inner"] = insert(inner, "d")
    inner.mutate('query r() { delete P where slug = "a" }')
    return commits


def test_branches_of_a_moved_graph_work_after_the_fix(durable_location: Location) -> None:
    root = durable_location
    elsewhere = parse_location(f"{root.uri}-moved", dict(root.options))
    commits = make_graph(root)
    copy_graph(root, elsewhere)
    graph = og.open(elsewhere.uri, storage_options=dict(root.options))
    with pytest.raises(FormatError) as moved:
        graph.checkout("outer")
    assert moved.value.code == "graph_moved"
    assert "graph.fix_location()" in moved.value.hint
    preview = graph.fix_location()
    assert (preview.recorded, preview.uri, preview.applied) == (root.uri, elsewhere.uri, False)
    assert preview.lance_branches == 4  # two of the table, two of the manifest
    assert graph.fix_location() == preview
    # As after a crash: one file was already rewritten.
    path = next(
        entry.path for entry in ObjectStore(elsewhere).list("") if "/tree/" in entry.path and ".manifest" in entry.path
    )
    rewrite(elsewhere, path, root.uri, elsewhere.uri)
    fixed = graph.fix_location(dry_run=False)
    assert (fixed.applied, fixed.files) == (True, preview.files - 1)
    assert graph.fix_location() == LocationFix(recorded=elsewhere.uri, uri=elsewhere.uri)
    graph = og.open(elsewhere.uri, storage_options=dict(root.options))
    assert slugs(graph.checkout("outer")) == ["a", "b", "c"]
    assert slugs(graph.checkout("inner")) == ["b", "c", "d"]
    assert slugs(graph.checkout("outer"), commits["outer"]) == ["a", "b"]
    assert slugs(graph.checkout("inner"), commits["inner"]) == ["a", "b", "c", "d"]
    insert(graph.checkout("inner"), "e")
    insert(graph.checkout("inner").create_branch("new", from_="inner"), "f")
    graph.checkout("new").optimize()
    assert slugs(graph.checkout("new")) == ["b", "c", "d", "e", "f"]
    graph.merge("outer")
    assert slugs(graph) == ["a", "b", "c"]
    assert all(status.is_readable for status in graph.list_branches())
    assert [row.error for row in graph.cleanup(keep=1, dry_run=False).tables] == [None, None]
    assert [finding for finding in graph.doctor(deep=True) if finding.health.value == "problem"] == []


def rewrite(root: Location, path: str, old: str, new: str) -> None:
    location = root.child(path)
    data = read_bytes(location, 0, 10**6)
    assert read_base_paths(data, path)
    with write_file(location) as file:
        file.write(replace_base_paths(data, old, new, path))


def test_doctor_notices_a_copy_without_branches(tmp_path: Path) -> None:
    insert(og.init(str(tmp_path / "old.omni"), SCHEMA), "a")
    shutil.copytree(tmp_path / "old.omni", tmp_path / "copy.omni")
    copy = og.open(str(tmp_path / "copy.omni"))
    with pytest.raises(FormatError, match=r"^cannot create branch 'r': the graph was created at another location"):
        copy.create_branch("r")
    doctor = run_in_process("doctor", "copy.omni", "--json", cwd=tmp_path)
    assert doctor.exit_code == 0
    notices = [finding for finding in json.loads(doctor.stdout)["findings"] if finding["check"] == "format"]
    assert [finding["health"] for finding in notices] == ["notice", "ok"]
    assert notices[0]["message"].startswith("no branch can be created: the graph was created at another location")
    command = notices[0]["fix"].split()
    assert command == ["omnigraph", "doctor", "copy.omni", "--fix-location"]
    assert run_in_process(*command[1:], "--confirm", cwd=tmp_path).exit_code == 0
    assert [finding.health.value for finding in copy.doctor() if finding.check.value == "format"] == ["ok"]
    insert(copy.create_branch("r"), "b")
    assert slugs(copy.checkout("r")) == ["a", "b"]


def test_a_copy_does_not_use_the_original(tmp_path: Path) -> None:
    root = parse_location(str(tmp_path / "old"))
    make_graph(root)
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    before = {path: path.read_bytes() for path in (tmp_path / "old").rglob("*.manifest")}
    copy = og.open(str(tmp_path / "copy"))
    copy.fix_location(dry_run=False)
    insert(copy.checkout("outer"), "x")
    original = og.open(str(tmp_path / "old"))
    assert slugs(original.checkout("outer")) == ["a", "b", "c"]
    assert {path: path.read_bytes() for path in (tmp_path / "old").rglob("*.manifest")} == before
    shutil.rmtree(tmp_path / "old")
    assert slugs(og.open(str(tmp_path / "copy")).checkout("outer")) == ["a", "b", "c", "x"]


def test_files_outside_of_the_graph_are_an_error_and_nothing_is_changed(tmp_path: Path) -> None:
    make_graph(parse_location(str(tmp_path / "old")))
    (tmp_path / "old").rename(tmp_path / "new")
    paths = sorted((tmp_path / "new").rglob("tree/*/_versions/*.manifest"))
    rewrite(parse_location(str(tmp_path / "new")), str(paths[-1].relative_to(tmp_path / "new")), str(tmp_path), "/else")
    before = [path.read_bytes() for path in paths]
    calls: list[Callable[[], object]] = [
        lambda: og.open(str(tmp_path / "new")).fix_location(),
        lambda: og.open(str(tmp_path / "new")).fix_location(dry_run=False),
    ]
    for call in calls:
        with pytest.raises(FormatError) as outside:
            call()
        assert outside.value.code == "base_outside"
    assert [path.read_bytes() for path in paths] == before


def test_command_previews_and_fixes(tmp_path: Path) -> None:
    make_graph(parse_location(str(tmp_path / "old")))
    (tmp_path / "old").rename(tmp_path / "new")
    preview = run_in_process("doctor", "new", "--fix-location", "--json", cwd=tmp_path)
    assert (preview.exit_code, json.loads(preview.stdout)["state"]) == (0, "needed")
    assert "--confirm" in preview.stderr
    fixed = run_in_process("doctor", "new", "--fix-location", "--confirm", "--json", cwd=tmp_path)
    assert json.loads(fixed.stdout)["state"] == "fixed"
    again = run_in_process("doctor", "new", "--fix-location", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["state"] == "not needed"
    wrong = run_in_process("doctor", "new", "--confirm", cwd=tmp_path)
    assert wrong.exit_code == 2


@pytest.mark.parametrize("data", [b"", b"LANC" * 4, b"\x00" * 40 + b"LANC"])
def test_another_format_is_an_error(data: bytes) -> None:
    with pytest.raises(FormatError, match="cannot read the version file 'v'"):
        read_base_paths(data, "v")


def test_a_fix_that_is_killed_can_be_repeated(tmp_path: Path) -> None:
    make_graph(parse_location(str(tmp_path / "old")))
    (tmp_path / "old").rename(tmp_path / "new")
    kill = {"OMNIGRAPH_FAILPOINTS": f"{Failpoint.ROOT_BEFORE}=kill"}
    killed = omnigraph("doctor", "new", "--fix-location", "--confirm", cwd=tmp_path, env=kill)
    assert killed.exit_code == -signal.SIGKILL
    graph = og.open(str(tmp_path / "new"))
    assert slugs(graph) == ["a"]
    with pytest.raises(FormatError, match="the graph was created at"):
        graph.checkout("outer")
    assert graph.fix_location(dry_run=False).applied
    assert slugs(graph.checkout("inner")) == ["b", "c", "d"]
