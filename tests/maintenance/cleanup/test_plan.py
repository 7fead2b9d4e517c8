"""Hard drops: no file of the new commit has the values, and after the next cleanup no file at all has them.

Also which files of a dropped or unpublished type cleanup deletes, and when: never files of a readable commit.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraph
from omnigraph.base.errors import NotFoundError, OmnigraphError, RefusedError
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.snapshot import MAIN, read_commit_snapshot, read_snapshot
from omnigraph.graph.schema_plan import UnsupportedSchemaChangeError
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.maintenance.optimize.run import ensure_indices
from omnigraph.storage.lance.indexes import read_indexes
from omnigraph.storage.location import Location, parse_location
from tests.graph.crash.death import PatientClock, Victim, short_lease_environment
from tests.maintenance.cleaning import DAY, Aging, Place, TomorrowClock
from tests.maintenance.evolving import contents, create, evolve, opened, snapshot_contents
from tests.pipeline.in_place import in_place

BASE = """\
node Person { slug: String @key  age: I64? @index  note: String?  tags: [String]? }
node Secret { name: String @key }
edge Knows: Person -> Person { why: String? }
"""
ADD = """query m() {
  insert Person { slug: "ada", age: 36, note: "s3cret-note", tags: ["t"] }
  insert Person { slug: "bob", age: 7 }
  insert Secret { name: "s3cret-name" }
  insert Knows { from: "ada", to: "bob", why: "s3cret-why" }
}"""
POLICY = CleanupPolicyOptions(keep_versions=50, older_than=timedelta(days=30), confirm=True)


@pytest.fixture
def root(tmp_path: Path) -> Location:
    location = parse_location(str(tmp_path / "graph.omni"))
    create(location, BASE)
    omnigraph.open(location.uri).mutate(ADD)
    ensure_indices(location, MAIN, in_place)
    return location


def with_text(root: Location, marker: str) -> list[str]:
    """Return the data files that contain a text."""
    files = (path for path in Path(root.uri).rglob("*") if path.suffix == ".lance" and path.is_file())
    return [str(path) for path in files if marker.encode() in path.read_bytes()]


def clean_tomorrow(root: Location) -> None:
    cleanup_all_tables(Place(root), POLICY, environment=WriteEnvironment(clock=TomorrowClock()))


NO_NOTE = BASE.replace("note: String?", "")
NO_SECRET = BASE.replace("node Secret { name: String @key }\n", "")
DROPS = {
    "a property": (NO_NOTE, "s3cret-note"),
    "a property of an edge": (BASE.replace("why: String?", ""), "s3cret-why"),
    "a type": (NO_SECRET, "s3cret-name"),
    "a property with a rename and a default": (
        NO_NOTE.replace("age: I64?", "years: I64? @rename_from(age)  rank: I64 @default(1)"),
        "s3cret-note",
    ),
}


@pytest.mark.parametrize("tasks", [False, True], ids=["driver", "tasks"])
@pytest.mark.parametrize(("text", "marker"), DROPS.values(), ids=DROPS.keys())
def test_hard_dropped_values_are_deleted_by_cleanup(root: Location, text: str, marker: str, tasks: bool) -> None:
    head = read_snapshot(root).head
    assert with_text(root, marker)
    done = evolve(root, text, tasks=tasks, hard=True)
    assert done.commit is not None
    assert done.commit.counts["hard_drops"] == 1
    after = contents(root)
    assert snapshot_contents(read_commit_snapshot(root, head)[0])["node:Person"]["ada"]["note"]  # until cleanup
    clean_tomorrow(root)
    assert with_text(root, marker) == []
    assert contents(root) == after
    with pytest.raises(NotFoundError) as missing:
        read_commit_snapshot(root, head)
    assert missing.value.code == "snapshot_collected"
    assert {index.column for index in read_indexes(opened(read_snapshot(root), "node:Person"))} >= {"id"}


def test_index_is_kept_when_its_column_is_rewritten(root: Location) -> None:
    evolve(root, NO_NOTE, hard=True)
    graph = omnigraph.open(root.uri)
    assert "age" in {index.column for index in read_indexes(opened(graph.snapshot(), "node:Person"))}
    query = "query q() { match { $p: Person { age: 36 } } return { $p.slug } }"
    assert graph.query(query).to_arrow().to_pylist() == [{"p.slug": "ada"}]


@pytest.mark.parametrize(("text", "marker"), list(DROPS.values())[::2], ids=list(DROPS)[::2])
def test_soft_drop_is_kept_as_long_as_its_commit(root: Location, text: str, marker: str) -> None:
    before, head = contents(root), read_snapshot(root).head
    evolve(root, text)
    clean_tomorrow(root)
    assert snapshot_contents(read_commit_snapshot(root, head)[0]) == before
    keep_one = CleanupPolicyOptions(keep_versions=1, confirm=True)
    cleanup_all_tables(Place(root), keep_one, environment=WriteEnvironment(clock=TomorrowClock()))
    with pytest.raises(NotFoundError):
        read_commit_snapshot(root, head)
    if text == NO_SECRET:
        assert with_text(root, marker) == []
        assert len(list(Path(root.uri, "nodes").iterdir())) == 1


def test_other_branch_keeps_dropped_values(root: Location) -> None:
    create_branch(root, "dev", "tester", read_snapshot(root))
    before = contents(root)
    evolve(root, NO_SECRET.replace("note: String?", ""), hard=True)
    clean_tomorrow(root)
    assert contents(root, "dev") == before
    evolve(root, NO_SECRET.replace("note: String?", ""), "dev", hard=True)
    clean_tomorrow(root)
    assert "note" not in contents(root, "dev")["node:Person"]["ada"]
    assert "note" not in contents(root)["node:Person"]["ada"]


def test_type_that_is_added_again_has_no_old_values(root: Location) -> None:
    evolve(root, NO_SECRET.replace("note: String?", ""), hard=True)
    evolve(root, BASE)
    clean_tomorrow(root)
    now = contents(root)
    assert (now["node:Secret"], now["node:Person"]["ada"]["note"]) == ({}, None)


def test_blob_column_cannot_be_rewritten(tmp_path: Path) -> None:
    location = parse_location(str(tmp_path / "graph.omni"))
    text = "node Photo { name: String @key  data: Blob?  note: String? }"
    create(location, text)
    without = text.replace("note: String?", "")
    plan = omnigraph.open(location.uri).plan_schema(without, allow_data_loss=True)
    assert (plan.can_apply, plan.steps[0].cost.value) == (True, "metadata_only")
    omnigraph.open(location.uri).mutate('query m() { insert Photo { name: "a" } }')
    with pytest.raises(UnsupportedSchemaChangeError) as refused:
        evolve(location, without, hard=True)
    assert refused.value.code == "OG-MF-107"
    evolve(location, without)


@pytest.mark.parametrize("days", [1, 5])
def test_table_that_was_never_published(root: Location, days: int) -> None:
    """A running write may publish it, so cleanup deletes it only after the maximum time of a write."""
    aging = Aging(root)
    victim = Victim(2)  # the table of the new type was created, but the lease was not taken
    assert not victim.run(
        lambda: evolve(root, BASE + "node City { name: String @key }\n", environment=aging.environment)
    )
    tables = set(Path(root.uri, "nodes").iterdir())
    assert len(tables) == 3
    aging.later(days * DAY)
    cleanup_all_tables(Place(root), POLICY, environment=aging.environment)
    assert len(set(Path(root.uri, "nodes").iterdir())) == (3 if days == 1 else 2)
    evolve(root, BASE + "node City { name: String @key }\n")
    assert contents(root)["node:City"] == {}


def test_table_of_an_intent_is_not_deleted(root: Location) -> None:
    """The write is finished or undone first, however old the table is."""
    text = NO_NOTE + "node City { name: String @key }\n"
    aging = Aging(root)
    victim = Victim(8)
    assert not victim.run(lambda: evolve(root, text, environment=short_lease_environment(PatientClock())))
    assert victim.tables_committed == 1
    aging.later(9 * DAY)
    with pytest.raises(RefusedError) as refused:
        cleanup_all_tables(Place(root), POLICY, environment=aging.environment)
    assert "recover" in (refused.value.hint or "") + refused.value.message
    recover_and_retry(lambda: evolve(root, text, environment=short_lease_environment(PatientClock())))
    assert contents(root)["node:City"] == {}


def recover_and_retry(act: Callable[[], object]) -> None:
    try:
        act()
    except OmnigraphError:
        act()
