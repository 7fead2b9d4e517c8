"""Changes as programs want them: one value per entity, with its images before and after as plain data.

An image is what `load` reads: the object of a line of graph data. Values are made while they are taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.graph.diff import ChangeBatch, ChangeKind, diff_snapshots
from omnigraph.graph.feed import FeedBlock, FeedPage, SchemaStep, commit_changes, read_feed
from omnigraph.graph.image_text import image_lines
from omnigraph.graph.images import Image
from omnigraph.graph.records import CommitRecord, TableId
from omnigraph.graph.references import read_reference
from omnigraph.schema import Entity
from omnigraph.storage.location import Location

__all__ = [
    "ChangeKind",
    "EntityChange",
    "FeedPage",
    "SchemaStep",
    "commit_changes",
    "entity_changes",
    "feed_changes",
    "read_diff",
]


@dataclass(frozen=True, slots=True)
class EntityChange:
    """One entity that changed. `before` and `after` are lines of graph data as objects, None where it is not there.

    `table` has the name of its type, `table_id` tells the type from others that had or will have that name.
    """

    table: str
    table_id: str
    id: str
    kind: ChangeKind
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """One commit and what it changed against its first parent: the schema, and then entities under its new names.

    `table_names` has the name of each table by its id, also of one whose type went.
    """

    commit: CommitRecord
    schema_steps: tuple[SchemaStep, ...]
    table_names: Mapping[TableId, str]
    changes: Iterator[EntityChange]


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """Commits after a cursor, oldest first, and the cursor to go on with once all of them were taken."""

    commits: Iterator[CommitChanges]
    cursor: str
    has_more: bool


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


def _objects(entity: Entity, image: Image) -> Iterator[dict[str, Any] | None]:
    for line in image_lines(entity, image):
        yield None if line is None else json.loads(line)
