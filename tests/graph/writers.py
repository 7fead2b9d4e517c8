"""Writers for the tests of the write path: small writes of every kind, and a model to compare with.

Every *triple* write adds the same ids to `Person`, `Company` and `Knows` in one commit, so a reader that sees unequal
counts has seen a partial commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import lance
import pyarrow as pa

from omnigraph.api.graph import init
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.records import CommitRecord, WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea, WritableTable
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.lance.commit import commit_compaction
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.indexes import IndexSpec, Unbuildable
from omnigraph.storage.lance.stage import StagedTransaction, stage_upsert
from omnigraph.storage.location import Location
from tests.storage.raw_writes import commit_index, stage_append, stage_delete

SCHEMA: Final = """\
node Person { slug: String @key  age: I64? }
node Company { name: String @key @index }
edge Knows: Person -> Person { since: I64? }
"""
PERSON: Final = "node:Person"
COMPANY: Final = "node:Company"
KNOWS: Final = "edge:Knows"
TABLES: Final = (PERSON, COMPANY, KNOWS)

AUTO_CLEANUP: Final = {"lance.auto_cleanup.older_than": "0ms", "lance.auto_cleanup.retain_versions": "1"}

Rows = dict[str, Any]
"""The contents of a table in a model: id to the value of its one changing column, a number or None."""
Contents = dict[str, Rows]


@dataclass(frozen=True, slots=True)
class Change:
    """What one write does to one table."""

    alias: str
    insert: tuple[str, ...] = ()
    upsert: tuple[tuple[str, int], ...] = ()
    delete: tuple[str, ...] = ()


def create(location: Location) -> None:
    """Create a graph with the test schema."""
    init(location.uri, SCHEMA, storage_options=dict(location.options), actor="tester", durability=location.durability)


def triple(ids: Iterable[str]) -> tuple[Change, ...]:
    """Return one commit over three tables that keeps their counts equal."""
    names = tuple(ids)
    return tuple(Change(alias, insert=names) for alias in TABLES)


def run(
    location: Location,
    changes: Sequence[Change],
    *,
    kind: WriteOperation = WriteOperation.LOAD,
    branch: str = MAIN,
    environment: WriteEnvironment | None = None,
    actor: str = "tester",
) -> CommitRecord | None:
    """Write `changes` as one commit. If the read set changed, stage again."""
    stage = stage_changes(changes)
    return write(
        location,
        branch,
        WriteRequest(kind=kind, actor=actor, stage=stage, restage=lambda again, _: stage(again)),
        environment,
    )


def run_compaction(
    location: Location, aliases: Sequence[str], environment: WriteEnvironment | None = None
) -> CommitRecord | None:
    """Compact tables through the write path, as a multi-commit write."""

    def stage(area: StagingArea) -> StagedWrite:
        targets = [area.open_for_write(alias) for alias in aliases]
        effects = tuple(area.multi_commit_effect(target, _compact) for target in targets)
        return area.finish(effects, frozenset(), {})

    request = WriteRequest(
        kind=WriteOperation.OPTIMIZE, actor="omnigraph:optimize", stage=stage, restage=lambda again, _: stage(again)
    )
    return write(location, MAIN, request, environment)


def run_index(location: Location, alias: str, specs: Sequence[IndexSpec], branch: str = MAIN) -> CommitRecord | None:
    """Build indexes of a table through the write path, as a multi-commit write."""

    def build(handle: Dataset, hold: Callable[[], None]) -> Dataset:
        for spec in specs:
            hold()
            built = commit_index(handle, spec)
            handle = handle if isinstance(built, Unbuildable) else built
        return handle

    def stage(area: StagingArea) -> StagedWrite:
        return area.finish((area.multi_commit_effect(area.open_for_write(alias), build),), frozenset(), {})

    request = WriteRequest(
        kind=WriteOperation.ENSURE_INDICES, actor="tester", stage=stage, restage=lambda again, _: stage(again)
    )
    return write(location, branch, request)


def plant_auto_cleanup(location: Location, alias: str, interval: int | None = None) -> None:
    """Publish a table with settings that let the next commit delete all old versions.

    Lance deletes them if a version is a multiple of the interval; with a large interval it never does.
    """

    def stage(area: StagingArea) -> StagedWrite:
        target = area.open_for_write(alias)
        every = str(interval or target.dataset.version + 2)
        settings = lance.LanceOperation.UpdateMap(updates={**AUTO_CLEANUP, "lance.auto_cleanup.interval": every})
        native = lance.Transaction(target.dataset.version, lance.LanceOperation.UpdateConfig(config_updates=settings))
        planted = StagedTransaction(native.uuid, target.dataset.version, "UpdateConfig", native)
        return area.finish((area.transaction_effect(target, planted, target.table.row_count),), frozenset(), {})

    assert write(location, MAIN, WriteRequest(kind=WriteOperation.OPTIMIZE, actor="tester", stage=stage)) is not None


def _compact(handle: Dataset, hold: Callable[[], None]) -> Dataset:
    hold()
    return commit_compaction(handle, 1_000_000).dataset


def stage_changes(changes: Sequence[Change]) -> Callable[[StagingArea], StagedWrite]:
    """Return a function that stages a write of `changes`."""

    def stage(area: StagingArea) -> StagedWrite:
        effects = []
        for change in changes:
            target = area.open_for_write(change.alias)
            transaction, rows = _stage_change(target, change)
            effects.append(area.transaction_effect(target, transaction, rows))
        return area.finish(tuple(effects), frozenset(), {"changes": len(changes)})

    return stage


def read_contents(location: Location, branch: str = MAIN) -> Contents:
    """Return what a reader sees now."""
    return snapshot_contents(read_snapshot(location, branch))


def snapshot_contents(snapshot: Snapshot) -> Contents:
    """Return the contents of one snapshot, read at its pins."""
    contents: Contents = {}
    for alias, table in snapshot.tables.items():
        location = snapshot.root.child(table.path)
        dataset = open_dataset(location, branch=table.pin.branch, version=table.pin.version)
        value = _value_column(alias)
        rows = dataset.read(["id"] if value is None else ["id", value])
        ids = [str(name) for name in rows.column("id").to_pylist()]
        values = rows.column(1).to_pylist() if rows.num_columns > 1 else [None] * len(ids)
        assert len(set(ids)) == len(ids), f"duplicate ids in {alias}"
        assert table.row_count == len(ids), f"{alias}: {table.row_count} published, {len(ids)} found"
        contents[alias] = dict(zip(ids, values, strict=True))
    return contents


def apply(contents: Contents, changes: Sequence[Change]) -> Contents:
    """Return the contents after `changes`, by the model."""
    after = {alias: dict(rows) for alias, rows in contents.items()}
    for change in changes:
        rows = after[change.alias]
        rows.update(dict.fromkeys(change.insert))
        rows.update(dict(change.upsert))
        for name in change.delete:
            rows.pop(name, None)
    return after


def _stage_change(target: WritableTable, change: Change) -> tuple[StagedTransaction, int]:
    dataset = target.dataset
    if change.insert:
        return stage_append(dataset, rows_table(target, [(name, None) for name in change.insert])), (
            target.table.row_count + len(change.insert)
        )
    if change.upsert:
        existing = set(dataset.read(["id"]).column("id").to_pylist())
        added = sum(1 for name, _ in change.upsert if name not in existing)
        return stage_upsert(dataset, rows_table(target, list(change.upsert))), target.table.row_count + added
    where = "id IN (" + ", ".join(f"'{name}'" for name in change.delete) + ")"
    deleted = dataset.count_rows(where)
    staged = stage_delete(dataset, where)
    assert staged is not None, "a test deletes only existing rows"
    return staged, target.table.row_count - deleted


def rows_table(target: WritableTable, rows: Sequence[tuple[str, int | None]]) -> pa.Table:
    """Return rows of a table: every text column is the id, so an edge joins the node of its own name to itself.

    Every numeric column has the one value.
    """
    schema = target.dataset.schema
    columns = [
        pa.array([number for _, number in rows], pa.int64())
        if field.type == pa.int64()
        else pa.array([name for name, _ in rows], pa.utf8())
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _value_column(alias: str) -> str | None:
    return {PERSON: "age", KNOWS: "since"}.get(alias)
