"""Changes as programs read them: one value per entity, with its states before and after as plain data.

In: two states, a commit, or a cursor of the change feed. Out: lazily made values. A state is the object of a line of
graph data, as `load` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.graph.diff import ChangeBatch, ChangeKind, diff_snapshots
from omnigraph.graph.feed import FeedBlock, SchemaStep, commit_changes, read_feed
from omnigraph.graph.manifest.records import CommitRecord, TableId
from omnigraph.graph.manifest.refs import read_reference
from omnigraph.graph.manifest.snapshot import find_named_commit, read_snapshot
from omnigraph.graph.rows.entity_rows import EntityRows, entity_lines
from omnigraph.schema.catalog import Entity
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True)
class EntityChange:
    """One node or edge that changed."""

    table: str
    """Its type, such as `node:Person`."""
    table_id: str
    """The id of that table, which does not change when the type is renamed."""
    id: str
    """Its id."""
    kind: ChangeKind
    """What happened to it."""
    before: dict[str, Any] | None
    """Its state before, as an object that `load` reads; None if it did not exist."""
    after: dict[str, Any] | None
    """Its state after, in the same form; None if it was deleted."""
    properties: tuple[str, ...]
    """The properties of its type. A state does not contain those that are null."""


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """One commit and what it changed against its first parent."""

    commit: CommitRecord
    """The commit."""
    schema_steps: tuple[SchemaStep, ...]
    """What it did to the schema, before its changes of rows."""
    table_names: Mapping[TableId, str]
    """The alias of each table by its id, including types that were dropped."""
    changes: Iterator[EntityChange]
    """What it did to nodes and edges, under the new names of types and properties. It can be iterated once."""


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """Some commits of a branch after a cursor."""

    commits: Iterator[CommitChanges]
    """The commits, oldest first. They can be iterated once."""
    cursor: str
    """The cursor to pass to the next call, after all of these commits were read."""
    has_more: bool
    """Whether there are more commits."""


def read_diff(root: Location, left: str, right: str) -> Iterator[EntityChange]:
    """Return the changes that lead from one branch or commit to another."""
    return entity_changes(diff_snapshots(read_reference(root, left), read_reference(root, right)))


def read_commit_diff(root: Location, branch: str, commit: str) -> Iterator[EntityChange]:
    """Return what a commit of a branch changed compared with its first parent."""
    newest = read_snapshot(root, branch)
    return entity_changes(commit_changes(newest, find_named_commit(newest, commit)))


def feed_changes(root: Location, branch: str, cursor: str | None, limit: int) -> ChangeFeed:
    """Return the next commits of the change feed of a branch."""
    page = read_feed(root, branch, cursor, limit)
    return ChangeFeed(map(_commit_changes, page.blocks), page.cursor, page.has_more)


def _commit_changes(block: FeedBlock) -> CommitChanges:
    changes = entity_changes(block.changes())
    return CommitChanges(block.commit, block.schema_steps(), block.table_names(), changes)


def entity_changes(batches: Iterable[ChangeBatch]) -> Iterator[EntityChange]:
    """Return each change of some batches."""
    for batch in batches:
        properties = tuple(property_.name for property_ in batch.entity.properties)
        rows = zip(
            batch.ids.to_pylist(),
            batch.kinds(),
            _objects(batch.entity, batch.before),
            _objects(batch.entity, batch.after),
            strict=True,
        )
        for name, kind, before, after in rows:
            yield EntityChange(batch.entity.alias, batch.table_id, str(name), kind, before, after, properties)


def _objects(entity: Entity, rows: EntityRows) -> Iterator[dict[str, Any] | None]:
    for line in entity_lines(entity, rows):
        yield None if line is None else json.loads(line)
