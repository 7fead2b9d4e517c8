"""Streams a type to Spark: each batch has the rows that were inserted or updated between two commits of a branch.

In: options, and offsets that Spark keeps in its checkpoint. Out: rows as of the later commit. An offset has the commit
and the pin of the table there, so a query continues after the snapshot of its last commit was collected. Deleted rows
are not delivered. If the table was replaced, or does not descend from what was read before, all its rows are delivered.
A column that was renamed or replaced fails the query. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.records import Pin, TableId
from omnigraph.graph.manifest.snapshot import Snapshot, read_commit_snapshot, read_snapshot
from omnigraph.graph.rows.entity_rows import column_identity
from omnigraph.pipeline.datasource.options import FIRST_COMMIT, ReadOptions, as_spark_error
from omnigraph.pipeline.datasource.read import fragment_groups
from omnigraph.pipeline.datasource.types import spark_batch
from omnigraph.storage.lance.dataset import DatasetVersion
from omnigraph.storage.lance.read import TableScan, scan_fragments
from omnigraph.storage.lance.row_changes import fork_version
from omnigraph.storage.settings import read_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """The progress of a query: a commit, and the table at that commit."""

    commit: str
    table: str
    path: str
    lance_branch: str | None
    version: int

    @classmethod
    def of(cls, snapshot: Snapshot, type_name: str) -> Offset:
        """Return the offset of a type at a snapshot."""
        table = snapshot.tables[snapshot.schema.catalog.require_type(type_name).alias]
        return cls(
            commit=snapshot.head,
            table=table.id,
            path=table.path,
            lance_branch=table.pin.branch,
            version=table.pin.version,
        )

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Offset:
        """Return the offset that Spark stored; an empty Lance branch is Lance's main."""
        return cls(**{**facts, "lance_branch": facts["lance_branch"] or None})

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "lance_branch": self.lance_branch or ""}

    @property
    def table_version(self) -> tuple[TableId, Pin]:
        return TableId(self.table), Pin(self.lance_branch, self.version)


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """What one partition of a batch reads."""

    table: DatasetVersion
    fragments: tuple[int, ...]
    updated_after: int | None


def plan_changes(options: ReadOptions, start: Offset, end: Offset) -> list[ChangedRows]:
    """Return the reads of the rows of `end` that differ from `start`."""
    if start.table_version == end.table_version:
        return []
    table = DatasetVersion(options.root.child(end.path), end.lance_branch, end.version)
    after = _updated_after(table, start, end)
    return [ChangedRows(table, group, after) for group in fragment_groups(table)]


class CommitStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The batches of one query, one at a time."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._settings = read_settings(by_name=True)
        self._options = options
        self._schema = schema
        self._target: Offset | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        with as_spark_error(self._settings):
            return Offset.of(_starting_snapshot(self._options), self._options.type).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with as_spark_error(self._settings):
            self._target = self._head()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        del limit  # a commit is never divided
        with as_spark_error(self._settings):
            newest = self._target or self._head()
            start_offset = Offset.from_json(start)
            return start if newest.table_version == start_offset.table_version else newest.to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        with as_spark_error(self._settings):
            return self._head().to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        with as_spark_error(self._settings):
            start_offset, end_offset = Offset.from_json(start), Offset.from_json(end)
            self._require_same_columns(start_offset, end_offset)
            return [InputPartition(part) for part in plan_changes(self._options, start_offset, end_offset)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part: ChangedRows = partition.value
        scan = TableScan(tuple(self._schema.names), self._options.where, part.updated_after)
        with as_spark_error(self._settings):
            for batch in scan_fragments(part.table.open(), part.fragments, scan):
                if batch.num_rows:
                    yield spark_batch(batch, self._schema)

    def _require_same_columns(self, start: Offset, end: Offset) -> None:
        """Raise if a column of the query was deleted, or is another property than at the start."""
        current = _identities(self._options, end)
        earlier: dict[str, bytes | str] = {}
        if start.table == end.table:
            with suppress(NotFoundError):  # collected by cleanup
                earlier = _identities(self._options, start)
        for name in self._schema.names:
            if name not in current or earlier.get(name, current[name]) != current[name]:
                raise UsageError(
                    f"column '{name}' of {self._options.type} was renamed, dropped or replaced during the stream",
                    code="source_schema",
                    hint="Create the streaming query again to read the current columns. "
                    "Use a new checkpoint if another property has the name now.",
                    facts={"column": name},
                )

    def _head(self) -> Offset:
        return Offset.of(read_snapshot(self._options.root, self._options.branch), self._options.type)


def _starting_snapshot(options: ReadOptions) -> Snapshot:
    """Return where a new query starts: at the head, or after the commit that an option names."""
    starting = options.starting_commit
    if starting is None:
        return read_snapshot(options.root, options.branch)
    if starting == FIRST_COMMIT:
        newest = read_snapshot(options.root, options.branch)
        *_, first = make_lineage(newest.head, newest.manifest.read_commits()).history()
        starting = first.id
    return read_commit_snapshot(options.root, starting, options.branch)[0]


def _identities(options: ReadOptions, offset: Offset) -> dict[str, bytes | str]:
    """Return the identity of each column of the table by name."""
    table = DatasetVersion(options.root.child(offset.path), offset.lance_branch, offset.version).open()
    return {field.name: column_identity(field) for field in table.schema}


def _updated_after(table: DatasetVersion, start: Offset, end: Offset) -> int | None:
    """Return the version after which a row counts as changed; None if all rows do.

    Versions increase along a Lance branch, starting from the version at which it was forked.
    """
    if start.table != end.table:
        return None
    if start.lance_branch == end.lance_branch:
        return start.version if start.version <= end.version else None
    forked_at = fork_version(table.open(), end.lance_branch, start.lance_branch)
    return start.version if forked_at is not None and start.version <= forked_at else None
