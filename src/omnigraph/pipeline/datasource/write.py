"""Writes a Spark DataFrame as one graph commit: executors check its rows and write fragments, the driver commits.

In: batches of a DataFrame on executors. Out: one commit through the write path of `load`, under the same rules, or an
error with the first violations and nothing written. Fragments are written for the table as of the start of the write.
If the branch has not forked the table yet, the commit forks it, so its rows are sent to the driver; so are the rows of
a merge. A crash leaves the commit, or files that nothing references.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from omnigraph.arrow.ipc import encode_batches
from omnigraph.base.errors import Applied, ConflictError, UsageError
from omnigraph.graph.manifest.records import StreamBatch
from omnigraph.graph.manifest.snapshot import pinned_version, read_snapshot
from omnigraph.pipeline.datasource.options import WriteOptions, as_spark_error
from omnigraph.pipeline.datasource.types import ENDPOINT_NAMES, column_names
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.inputs.blocks import Block, arrow_block
from omnigraph.pipeline.load.inputs.frames import frame_name
from omnigraph.pipeline.load.keys import LINE
from omnigraph.pipeline.load.run import Loaded, LoadRequest, load
from omnigraph.pipeline.load.tasks import LoadedRows, LoadPart, LoadShape, load_blocks
from omnigraph.pipeline.runner import RunTasks, run_here
from omnigraph.schema.catalog import EdgeType, Entity
from omnigraph.schema.catalog_json import catalog_from_json
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.lance.dataset import DatasetVersion
from omnigraph.storage.lance.delete import delete_fragments
from omnigraph.storage.lance.stage import write_rows
from omnigraph.storage.settings import read_settings

_QUERY_PROPERTY: Final = "sql.streaming.queryId"


class TableMovedError(ConflictError):
    """The schema or the location of the table changed while executors wrote for it."""

    applied = Applied.NO


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """What every task of one write needs. Without a target the rows are sent to the driver."""

    options: WriteOptions
    alias: str
    catalog_json: str
    target: DatasetVersion | None
    patched: DatasetVersion | None = None
    """The version whose rows the mode `patch` changes; None for other modes and if it has no rows."""

    @property
    def entity(self) -> Entity:
        return catalog_from_json(self.catalog_json).require_type(self.alias)

    @property
    def shape(self) -> LoadShape:
        targets = {} if self.target is None else {self.alias: self.target}
        patched = None if self.patched is None else {self.alias: self.patched}
        return LoadShape(
            catalog_json=self.catalog_json, targets=targets, returns_rows=self.target is None, patched=patched
        )


@dataclass(frozen=True)
class WrittenPart(WriterCommitMessage):
    """What one task wrote, for which plan, and the id of its streaming query, if any."""

    plan: WritePlan
    part: LoadPart
    query: str | None


def plan_write(options: WriteOptions, schema: StructType) -> WritePlan:
    """Read the graph once, before any task starts, and raise for columns that the type does not have."""
    snapshot = read_snapshot(options.root, options.branch)
    entity = snapshot.schema.catalog.require_type(options.type)
    _require_columns(entity, schema.names)
    table = snapshot.tables[entity.alias]
    is_owned = table.owner == snapshot.branch.id
    target = pinned_version(snapshot.root, table)
    return WritePlan(
        options=options,
        alias=entity.alias,
        catalog_json=snapshot.schema.catalog_json,
        target=target if is_owned and not options.mode.replaces_rows else None,
        patched=target if options.mode is LoadMode.PATCH and table.row_count else None,
    )


def write_part(
    plan: WritePlan, partition: int, batches: Iterable[pa.RecordBatch], query: str | None = None
) -> WrittenPart:
    """Check and write the rows of one partition, on an executor."""
    entity = plan.entity
    part = load_blocks(plan.shape, (frame_name(entity), partition), _blocks(entity, batches), 0)
    return WrittenPart(plan, part, query)


def commit_parts(plan: WritePlan, parts: Sequence[WrittenPart], stream: StreamBatch | None = None) -> Loaded:
    """Commit what the tasks wrote, on the driver, or raise with nothing written."""
    options = plan.options
    source = PrewrittenParts(plan, [written.part for written in parts])
    request = LoadRequest(source=source, mode=options.mode, actor=options.actor, branch=options.branch, stream=stream)
    try:
        loaded = load(options.root, request, run_here)
    except TableMovedError:
        delete_parts(parts)
        raise
    if loaded.commit is None:
        delete_parts(parts)  # the batch was committed before, so nothing references the files of this attempt
    return loaded


def delete_parts(parts: Iterable[WrittenPart]) -> None:
    """Delete fragments that tasks wrote and that no commit references."""
    for written in parts:
        fragments = [fragment for rows in written.part.rows.values() for fragment in rows.fragments]
        target = written.plan.target
        if fragments and target is not None:
            delete_fragments(target.open(), fragments)


@dataclass(slots=True)
class PrewrittenParts:
    """A `LoadSource` whose tasks have already run: it returns their parts, for the current table."""

    plan: WritePlan
    parts: list[LoadPart]
    was_read: bool = False

    @property
    def text_bytes(self) -> int:
        """0, so that the load uses no buckets: the keys are already in memory, in the parts."""
        return 0

    def read(self, shape: LoadShape, run_tasks: RunTasks) -> Sequence[LoadPart]:
        """Return the parts. Fragments can be used once: a load that reads again has deleted them."""
        del run_tasks
        target = shape.targets.get(self.plan.alias)
        planned = self.plan.target
        if shape.catalog_json != self.plan.catalog_json:
            raise _table_moved("the schema of the graph")
        if planned is not None and (self.was_read or not _is_same_table(planned, target)):
            raise _table_moved("the location of the table")
        if shape.patched is not None and shape.patched.get(self.plan.alias) != self.plan.patched:
            raise _table_moved("the table")
        self.was_read = True
        parts = self.parts
        if planned is None and target is not None:
            parts = [_with_fragments(part, self.plan.alias, target) for part in parts]
        is_empty = not any(self.plan.alias in part.rows for part in parts)
        if is_empty and parts and self.plan.options.mode is LoadMode.OVERWRITE:
            schema = arrow_schema(self.plan.entity).append(pa.field(LINE, pa.int64()))
            no_rows = LoadedRows(0, (), encode_batches(schema, ()))
            return [replace(parts[0], rows={self.plan.alias: no_rows}), *parts[1:]]
        return parts


class _PartWriter:
    """Writes the parts on executors, and deletes them if the write fails."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan
        self._settings = read_settings(by_name=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None, "only a task writes"
        with as_spark_error(self._settings):
            return write_part(self._plan, task.partitionId(), iterator, task.getLocalProperty(_QUERY_PROPERTY))

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete what finished tasks wrote, unless all have finished: then the commit failed.

        A failed commit has deleted what it could prove unpublished. The rest may be visible, and is kept.
        """
        with as_spark_error(self._settings):
            if None in messages:
                delete_parts(_written(messages))


class TableWriter(_PartWriter, DataSourceArrowWriter):  # type: ignore[misc]  # Spark passes batches to `write`
    """Writes one DataFrame as one commit."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with as_spark_error(self._settings):
            commit_parts(self._plan, _written(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._abort(messages)


class BatchWriter(_PartWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes one batch of a streaming query as one commit, also if Spark repeats the batch."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        parts = _written(messages)
        if not parts:
            return
        # Spark creates one writer for the tasks and another here; the rows were written for the plan of the first.
        plan, query = parts[0].plan, parts[0].query
        with as_spark_error(self._settings):
            commit_parts(plan, parts, None if query is None else StreamBatch(query, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        del batchId
        self._abort(messages)


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenPart]:
    return [message for message in messages if isinstance(message, WrittenPart)]


def _require_columns(entity: Entity, names: Sequence[str]) -> None:
    endpoints = tuple(ENDPOINT_NAMES.values()) if isinstance(entity, EdgeType) else ()
    allowed_names = (*column_names(entity), *endpoints)
    unknown = next((name for name in names if name not in allowed_names), None)
    duplicate = next(
        (name for name in ENDPOINT_NAMES if endpoints and name in names and ENDPOINT_NAMES[name] in names), None
    )
    if unknown is not None or duplicate is not None:
        message = (
            f"unknown column '{unknown}' of {entity.name}: expected {', '.join(column_names(entity))}"
            if duplicate is None
            else f"duplicate endpoint of {entity.name}: got columns '{duplicate}' and '{ENDPOINT_NAMES[duplicate]}'"
        )
        raise UsageError(
            message,
            code="source_column",
            hint="Nothing was written. Rename or drop the column of the DataFrame.",
            facts={"type": entity.alias},
        )


def _blocks(entity: Entity, batches: Iterable[pa.RecordBatch]) -> Iterator[Block]:
    for batch in batches:
        if batch.num_rows:
            names = [ENDPOINT_NAMES.get(name, name) for name in batch.schema.names]
            yield arrow_block(entity, batch.rename_columns(names) if isinstance(entity, EdgeType) else batch)


def _with_fragments(part: LoadPart, alias: str, target: DatasetVersion) -> LoadPart:
    """Write the rows of a part that the driver received as fragments of the table."""
    rows = part.rows.get(alias)
    if rows is None or not isinstance(rows.columns, bytes) or part.findings.report.total:
        return part
    dataset = target.open()
    fragments = write_rows(dataset, pa.ipc.open_stream(rows.columns).read_all().drop_columns([LINE]))
    return replace(part, rows={alias: replace(rows, fragments=tuple(fragments))})


def _is_same_table(planned: DatasetVersion, target: DatasetVersion | None) -> bool:
    return target is not None and (planned.location, planned.branch) == (target.location, target.branch)


def _table_moved(subject: str) -> TableMovedError:
    return TableMovedError(
        f"{subject} changed during the write",
        code="source_table_moved",
        hint="Nothing was written. Run the write again.",
    )
