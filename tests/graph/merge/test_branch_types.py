"""A type that a branch created: after the merge it is stored in the files of main, and a crash loses nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph
from omnigraph.base.clock import SystemClock
from omnigraph.base.failpoints import observed
from omnigraph.graph.branches import create_branch, delete_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.requirements import ReadSetConflictError
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location, parse_location
from tests.graph.crash.observe import find_leftovers
from tests.maintenance.cleaning import Place
from tests.maintenance.evolving import contents, create, evolve

BASE = "node Person { slug: String @key }\n"
CITY = BASE + "node City { name: String @key  photo: Blob? }\n"
SIZED = BASE + "node City { name: String @key  photo: Blob?  size: I64 @default(4) }\n"
ROWS = {"Berlin": 4, "Rome": 9}


@pytest.fixture
def root(tmp_path: Path) -> Location:
    """Return a graph whose branch dev has a type that main lacks, with a later column and two rows."""
    location = parse_location(str(tmp_path / "made" / "graph.omni"))
    create(location, BASE)
    create_branch(location, "dev", "tester", read_snapshot(location))
    evolve(location, CITY, "dev")
    dev = omnigraph.open(location.uri, "dev")
    dev.mutate('query m() { insert City { name: "Berlin", photo: "base64:aGk=" } }')
    evolve(location, SIZED, "dev")
    dev.mutate('query m() { insert City { name: "Rome", size: 9 } }')
    return location


def sizes(root: Location, branch: str = MAIN) -> dict[str, int]:
    return {name: row["size"] for name, row in contents(root, branch)["node:City"].items()}


def add(root: Location, branch: str, name: str) -> None:
    omnigraph.open(root.uri, branch).mutate(f'query m() {{ insert City {{ name: "{name}" }} }}')


def test_type_is_stored_in_the_files_of_main(root: Location) -> None:
    omnigraph.open(root.uri).merge("dev")
    now = read_snapshot(root)
    table = now.tables["node:City"]
    assert (table.pin.branch, table.owner, table.row_count) == (None, now.branch.id, 2)
    assert open_dataset(root.child(table.path)).version == table.pin.version
    assert find_leftovers(root, WriteEnvironment()) == []
    # Both branches write to it, and each gets the rows of the other.
    add(root, "dev", "Oslo")
    add(root, MAIN, "Paris")
    omnigraph.open(root.uri).merge("dev")
    omnigraph.open(root.uri, "dev").merge(MAIN)
    assert sizes(root) == sizes(root, "dev") == {**ROWS, "Oslo": 4, "Paris": 4}
    copied = Path(root.uri).parent.with_name("moved") / "graph.omni"
    shutil.move(root.uri, copied)
    text = 'query q() { match { $c: City { name: "Berlin" } } return { $c.size } }'
    assert omnigraph.open(str(copied)).query(text).to_arrow().to_pylist() == [{"c.size": 4}]
    assert find_leftovers(parse_location(str(copied)), WriteEnvironment(), heads=False) == []


def test_type_is_merged_through_other_branches(root: Location) -> None:
    create_branch(root, "child", "tester", read_snapshot(root, "dev"))
    create_branch(root, "other", "tester", read_snapshot(root))
    add(root, "child", "Oslo")
    omnigraph.open(root.uri, "other").merge("dev")
    add(root, "other", "Paris")
    omnigraph.open(root.uri).merge("child")
    omnigraph.open(root.uri).merge("other")
    omnigraph.open(root.uri).merge("dev")
    assert read_snapshot(root).tables["node:City"].pin.branch is None
    assert sizes(root) == {**ROWS, "Oslo": 4, "Paris": 4}
    for branch in ("child", "other", "dev"):
        omnigraph.open(root.uri, branch).merge(MAIN)
        assert sizes(root, branch) == sizes(root)
    assert find_leftovers(root, WriteEnvironment()) == []


def test_empty_type(tmp_path: Path) -> None:
    root = parse_location(str(tmp_path / "graph.omni"))
    create(root, BASE)
    for name in ("dev", "other"):
        create_branch(root, name, "tester", read_snapshot(root))
    evolve(root, SIZED, "dev")
    omnigraph.open(root.uri).merge("dev")
    omnigraph.open(root.uri, "other").merge(MAIN)
    main = read_snapshot(root).branch.id
    for branch in (MAIN, "dev", "other"):
        table = read_snapshot(root, branch).tables["node:City"]
        assert (table.pin.branch, table.owner) == (None, main)
        add(root, branch, branch)
        assert sizes(root, branch) == {branch: 4}
    assert find_leftovers(root, WriteEnvironment()) == []


@pytest.mark.parametrize(
    ("source", "target", "side", "kept_ids"),
    [
        ("dev", MAIN, "ours", {"ada"}),
        ("dev", "other", "ours", {"ada"}),
        (MAIN, "dev", "ours", {"ada"}),
        ("dev", MAIN, "theirs", {"ada", "bob"}),
    ],
)
def test_choice_for_a_row_of_a_new_type(
    source: str, target: str, side: str, kept_ids: set[str], tmp_path: Path
) -> None:
    root = parse_location(str(tmp_path / "graph.omni"))
    create(root, BASE)
    omnigraph.open(root.uri).mutate('query m() { insert Person { slug: "ada" } insert Person { slug: "bob" } }')
    for name in {source, target} - {MAIN}:
        create_branch(root, name, "tester", read_snapshot(root))
    evolve(root, BASE + "edge Likes: Person -> Person\n", source)
    likes = " ".join(f'insert Likes {{ from: "ada", to: "{name}" }}' for name in ("ada", "bob"))
    omnigraph.open(root.uri, source).mutate(f"query m() {{ {likes} }}")
    into = omnigraph.open(root.uri, target)
    into.mutate('query m() { delete Person where slug = "bob" }')
    (conflict,) = into.merge(source, dry_run=True).conflicts
    assert conflict.entity is not None
    outcome = into.merge(source, resolve={(conflict.entity.table, conflict.entity.id): side})
    counts = {counts_of_table.table: counts_of_table.inserted for counts_of_table in outcome.tables}
    assert counts == {"edge:Likes": len(kept_ids)} | ({"node:Person": 1} if side == "theirs" else {})
    assert read_snapshot(root, target).tables["edge:Likes"].row_count == len(kept_ids)
    # The rejected row is not merged when the source continues.
    omnigraph.open(root.uri, source).mutate('query m() { insert Likes { from: "bob", to: "ada" } }')
    into.merge(source, strategy="ours")
    now = contents(root, target)
    assert {row["dst"] for row in now["edge:Likes"].values()} == set(now["node:Person"]) == kept_ids
    assert find_leftovers(root, WriteEnvironment()) == []


class _NextWeek(SystemClock):
    """A clock at which unreferenced files are old."""

    def now_us(self) -> int:
        return super().now_us() + 7 * 24 * 3600 * 1_000_000


class _UnhandledError(BaseException):
    """An error that the code does not handle."""


@pytest.mark.parametrize("commits", [1, 2], ids=["between columns and rows", "before the publish"])
@pytest.mark.parametrize("with_other_table", [False, True], ids=["alone", "with another table"])
def test_crash_during_the_merge_of_a_type(root: Location, commits: int, with_other_table: bool) -> None:
    if with_other_table:  # `City` is committed after `Person`, and has not moved when `Person` has.
        omnigraph.open(root.uri, "dev").mutate('query m() { insert Person { slug: "ada" } }')
        commits += 1
    seen: list[str] = []

    def die(effect: str, _: str) -> None:
        seen.append(effect)
        if effect == "dataset.commit" and seen.count(effect) > commits:
            raise _UnhandledError

    with observed(die), pytest.raises(_UnhandledError):
        omnigraph.open(root.uri).merge("dev")
    assert sorted(contents(root)) == ["node:Person"]
    recovered = [record.action for record in omnigraph.open(root.uri).recoveries()]
    is_complete = commits == (3 if with_other_table else 2)
    assert recovered == ["rolled_forward" if is_complete else "rolled_back" if with_other_table else "nothing_moved"]
    assert ("node:City" in contents(root)) == is_complete
    omnigraph.open(root.uri).merge("dev")
    assert sizes(root) == ROWS
    assert sorted(contents(root)["node:Person"]) == ["ada"] * with_other_table
    assert read_snapshot(root).tables["node:City"].pin.branch is None
    assert find_leftovers(root, WriteEnvironment()) == []


def test_branch_and_files_are_deleted_during_the_merge(root: Location) -> None:
    """The rows are copied before the lease is taken; cleanup may have deleted the table by then."""
    seen: list[str] = []

    def clean_first(effect: str, target: str) -> None:
        if effect == "object.create" and "__locks/graph" in target and not seen:
            seen.append(target)
            delete_branch(root, "dev")
            policy = CleanupPolicyOptions(keep_versions=1, confirm=True)
            cleanup_all_tables(Place(root), policy, environment=WriteEnvironment(clock=_NextWeek()))

    with observed(clean_first), pytest.raises(ReadSetConflictError):
        omnigraph.open(root.uri).merge("dev")
    assert seen
    assert sorted(contents(root)) == ["node:Person"]
    assert find_leftovers(root, WriteEnvironment()) == []


def test_revert_on_the_branch_that_created_the_type(root: Location) -> None:
    """The state before is an older version of the files of the branch, which must not be published again."""
    omnigraph.open(root.uri, "dev").revert(read_snapshot(root, "dev").head)
    assert sizes(root, "dev") == {"Berlin": 4}
    assert find_leftovers(root, WriteEnvironment()) == []
    add(root, "dev", "Oslo")
    assert sizes(root, "dev") == {"Berlin": 4, "Oslo": 4}
    assert [commit.operation for commit in omnigraph.open(root.uri, "dev").log(None)][:2] == ["mutate", "revert"]
