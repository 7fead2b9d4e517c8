"""A schema change next to other writers: the first one wins, and no row is lost or partially changed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import omnigraph
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.failpoints import observed
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.requirements import ReadSetConflictError
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.schema_change import stage_schema
from omnigraph.graph.schema_plan import plan_schema
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.location import Location, parse_location
from tests.graph.crash.death import PatientClock, short_lease_environment
from tests.maintenance.evolving import contents, create, evolve
from tests.pipeline.in_place import load_here, written
from tests.storage.raw_writes import stage_append

BASE = """\
node Person { slug: String @key  age: I64? }
node Company { name: String @key }
"""
RENAMED = BASE.replace("age: I64?", "years: I64? @rename_from(age)")
ADD = 'query add() { insert Person { slug: "eve" } }'


@pytest.fixture
def root(tmp_path: Path) -> Location:
    location = parse_location(str(tmp_path / "graph.omni"))
    create(location, BASE)
    omnigraph.open(location.uri).mutate('query a() { insert Person { slug: "ada", age: 36 } }')
    return location


def evolve_after(root: Location, text: str, interrupt: Callable[[], object]) -> None:
    """Stage a schema change, call `interrupt`, and continue."""

    def stage(area: StagingArea) -> StagedWrite:
        plan = plan_schema(area.snapshot, text)
        staged = stage_schema(area, plan, lambda *_: ())
        interrupt()
        return staged

    write(root, MAIN, WriteRequest(kind=WriteOperation.SCHEMA_APPLY, actor="tester", stage=stage))


@pytest.mark.parametrize(
    "text",
    [
        RENAMED,
        BASE.replace("node Person", "node Human @rename_from(Person)"),
        BASE.replace("age: I64?", ""),
        "node Company { name: String @key }",
    ],
    ids=["rename a property", "rename the type", "drop the property", "drop the type"],
)
def test_table_written_during_the_change(root: Location, text: str) -> None:
    with pytest.raises(ReadSetConflictError):
        evolve_after(root, text, lambda: omnigraph.open(root.uri).mutate(ADD))
    assert sorted(contents(root)["node:Person"]) == ["ada", "eve"]
    evolve(root, text)


def test_unrelated_table_written_during_the_change(root: Location) -> None:
    added = 'query add() { insert Company { name: "Acme" } }'
    evolve_after(root, RENAMED, lambda: omnigraph.open(root.uri).mutate(added))
    assert contents(root) == {
        "node:Person": {"ada": {"slug": "ada", "years": 36}},
        "node:Company": {"Acme": {"name": "Acme"}},
    }


@pytest.mark.parametrize("text", [RENAMED, BASE + "node City { name: String @key }\n"])
def test_another_change_was_first(root: Location, text: str) -> None:
    with pytest.raises(ReadSetConflictError) as conflict:
        evolve_after(root, RENAMED, lambda: evolve(root, text))
    assert conflict.value.facts["read_set_conflict"] is not None
    assert "schema" in conflict.value.message
    assert evolve(root, text).commit is None


@pytest.mark.parametrize("with_schema", [False, True])
def test_merge_was_first(root: Location, with_schema: bool) -> None:
    """The merge moved the table or changed the schema, and the staged change fits neither."""
    create_branch(root, "dev", "tester", read_snapshot(root))
    if with_schema:
        evolve(root, BASE + "node City { name: String @key }\n", "dev")
    omnigraph.open(root.uri, "dev").mutate(ADD)
    with pytest.raises(ReadSetConflictError):
        evolve_after(root, RENAMED, lambda: omnigraph.open(root.uri).merge("dev"))
    assert sorted(contents(root)["node:Person"]) == ["ada", "eve"]
    evolve(root, RENAMED + ("node City { name: String @key }\n" if with_schema else ""))


def test_another_branch_assigned_the_same_ids_first(root: Location) -> None:
    create_branch(root, "dev", "tester", read_snapshot(root))
    ours, theirs = (BASE.replace("age: I64?", f"age: I64?  {name}: I64?") for name in ("here", "there"))
    with pytest.raises(ReadSetConflictError):
        evolve_after(root, ours, lambda: evolve(root, theirs, "dev"))
    evolve(root, ours)
    omnigraph.open(root.uri).merge("dev")
    assert sorted(contents(root)["node:Person"]["ada"]) == ["age", "here", "slug", "there"]


def test_ids_of_an_interrupted_change_are_not_reused(root: Location) -> None:
    """Its intent exists, and recovery publishes the change after ours."""
    create_branch(root, "dev", "tester", read_snapshot(root))
    omnigraph.open(root.uri, "dev").mutate(ADD)
    ours, theirs = (BASE.replace("age: I64?", f"age: I64?  {name}: I64?") for name in ("here", "there"))
    with observed(_die_before_publishing), pytest.raises(_UncaughtError):
        evolve(root, theirs, "dev")
    evolve(root, ours)
    assert [recovery.action for recovery in omnigraph.open(root.uri, "dev").recoveries()] == ["rolled_forward"]
    omnigraph.open(root.uri).merge("dev")
    assert sorted(contents(root)["node:Person"]["ada"]) == ["age", "here", "slug", "there"]


def test_next_run_finishes_an_interrupted_change(root: Location) -> None:
    """It reports that the schema is applied, and no conflict with itself."""
    with observed(_die_before_publishing), pytest.raises(_UncaughtError):
        evolve(root, RENAMED)
    assert evolve(root, RENAMED, environment=short_lease_environment(PatientClock())).commit is None
    assert contents(root)["node:Person"] == {"ada": {"slug": "ada", "years": 36}}


class _UncaughtError(BaseException):
    """An exception that no code catches."""


def _die_before_publishing(effect: str, target: str) -> None:
    if effect == "dataset.commit" and "__manifest" in target:
        raise _UncaughtError


def test_concurrent_changes_are_applied_in_sequence(root: Location, tmp_path: Path) -> None:
    """Each writer retries its schema, next to loads, until it is applied; no change is partial."""
    texts = [f"{BASE}node T{number} {{ a: I32 }}\n" for number in range(3)]
    name = written(tmp_path, "c.jsonl", '{"type":"Company","data":{"name":"Acme"}}\n')

    def retry_until_applied(act: Callable[[], object]) -> int:
        for attempt in range(20):
            try:
                act()
            except ReadSetConflictError:
                continue
            return attempt
        raise AssertionError("the change was never applied")

    acts: list[Callable[[], object]] = [partial(evolve, root, text) for text in texts]
    acts.append(partial(load_here, root, name))
    with ThreadPoolExecutor(len(acts)) as threads:
        list(threads.map(retry_until_applied, acts))
    operations = [commit.operation.value for commit in omnigraph.open(root.uri).log(None)]
    assert (operations.count("schema_apply"), operations.count("load")) == (3, 1)
    now = contents(root)
    assert (sorted(now["node:Company"]), now["node:Person"]["ada"]["age"]) == (["Acme"], 36)
    assert len(now) == 3, "each schema drops the type of the one before it"


def test_writer_that_staged_with_the_old_schema(root: Location) -> None:
    """A write that cannot be staged again fails; rows that Lance would accept are never committed."""

    def stage(area: StagingArea) -> StagedWrite:
        target = area.open_for_write("node:Person")
        rows = target.dataset.read().slice(0, 1)
        staged = stage_append(target.dataset, rows)
        evolve(root, RENAMED)
        return area.finish((area.transaction_effect(target, staged, 2),), frozenset(), {})

    with pytest.raises(ReadSetConflictError, match="schema"):
        write(root, MAIN, WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage))
    assert contents(root)["node:Person"] == {"ada": {"slug": "ada", "years": 36}}


def test_diff_follows_a_rename(root: Location) -> None:
    graph = omnigraph.open(root.uri)
    start = graph.snapshot().head
    evolve(root, RENAMED)
    renamed = graph.snapshot().head
    assert list(graph.diff(start, renamed)) == []
    graph.mutate('query m() { update Person set { years: 37 } where slug = "ada" }')
    (change,) = graph.diff(start, graph.snapshot().head)
    assert change.before is not None
    assert change.after is not None
    assert (change.before["data"]["years"], change.after["data"]["years"]) == (36, 37)
    evolve(root, RENAMED.replace("(age)", "(age)  note: String?"))
    with_note = replace(change, properties=(*change.properties, "note"))
    assert list(graph.diff(start, graph.snapshot().head)) == [with_note]
    assert list(graph.diff(graph.snapshot().head, graph.snapshot().head)) == []
    evolve(root, RENAMED.replace("years: I64? @rename_from(age)", ""))
    with pytest.raises(OmnigraphError, match="lost the property age with its values") as refused:
        list(graph.diff(start, graph.snapshot().head))
    assert refused.value.code == "diff_schema_changed"


def test_load_uses_the_new_schema(root: Location, tmp_path: Path) -> None:
    name = written(tmp_path, "p.jsonl", '{"type":"Person","data":{"slug":"eve","years":3}}\n')
    evolve(root, RENAMED)
    load_here(root, name)
    assert contents(root)["node:Person"]["eve"] == {"slug": "eve", "years": 3}
