"""Changes as programs want them: one value per entity, with its images before and after as plain data.

An image is what `load` reads: the object of a line of graph data. Values are made while they are taken.
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
from omnigraph.graph.rows.entity_rows import EntityRows, entity_lines
from omnigraph.schema.catalog import Entity
from omnigraph.storage.location import Location

__all__ = [
    "ChangeFeed",
    "CommitChanges",
    "EntityChange",
    "SchemaStep",
    "commit_changes",
    "entity_changes",
    "feed_changes",
    "read_diff",
]


@dataclass(frozen=True, slots=True)
class EntityChange:
    """One node or edge that changed."""

    table: str
    """Its type, such as `node:Person`."""
    table_id: str
    """The id of that table, which stays when the type gets another name."""
    id: str
    """Its id."""
    kind: ChangeKind
    """What happened to it."""
    before: dict[str, Any] | None
    """What it was, as an object that `load` reads; None when it was not there."""
    after: dict[str, Any] | None
    """What it is now, in the same form; None when it is gone."""


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """One commit and what it changed against its first parent."""

    commit: CommitRecord
    """The commit."""
    schema_steps: tuple[SchemaStep, ...]
    """What it did to the schema, which comes before its changes of rows."""
    table_names: Mapping[TableId, str]
    """The alias of each table by its id, also of one whose type went."""
    changes: Iterator[EntityChange]
    """What it did to nodes and edges, under the new names of types and properties; it can be taken once."""


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """Some commits of a branch after a cursor."""

    commits: Iterator[CommitChanges]
    """The commits, oldest first; they can be taken once."""
    cursor: str
    """What to pass to the next call, once all of these commits were taken."""
    has_more: bool
    """Whether there are more commits by now."""


def read_diff(root: Location, left: str, right: str) -> Iterator[EntityChange]:
    """What has to change to come from one branch or commit to another."""
    return entity_changes(diff_snapshots(read_reference(root, left), read_reference(root, right)))


def feed_changes(root: Location, branch: str, cursor: str | None, limit: int) -> ChangeFeed:
    """The next commits of a branch's change feed."""
    page = read_feed(root, branch, cursor, limit)
    return ChangeFeed(map(_commit_changes, page.blocks), page.cursor, page.has_more)


def _commit_changes(block: FeedBlock) -> CommitChanges:
    changes = entity_changes(block.changes())
    return CommitChanges(block.commit, block.schema_steps(), block.table_names(), changes)


def entity_changes(batches: Iterable[ChangeBatch]) -> Iterator[EntityChange]:
    """Each change of some batches."""
    for batch in batches:
        rows = zip(
            batch.ids.to_pylist(),
            batch.kinds(),
            _objects(batch.entity, batch.before),
            _objects(batch.entity, batch.after),
            strict=True,
        )
        for name, kind, before, after in rows:
            yield EntityChange(batch.entity.alias, batch.table_id, str(name), kind, before, after)


def _objects(entity: Entity, image: EntityRows) -> Iterator[dict[str, Any] | None]:
    for line in entity_lines(entity, image):
        yield None if line is None else json.loads(line)
