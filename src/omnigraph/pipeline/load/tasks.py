"""The task of a load: reads one piece of the input, checks its rows and writes them as Lance fragments.

In: a `LoadTask` of a few hundred bytes. Out: a `LoadPart` with fragments that nothing references yet, exact counts,
violations with line numbers within the piece, and the keys that the rules over several rows compare, in the part itself
or, for a large input, in key files. Safe to repeat: a second attempt writes other files. After the first bad row no
more rows of its type are written. After a crash `cleanup` deletes the fragments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.arrow.columns import integer_array
from omnigraph.arrow.ipc import encode_batches
from omnigraph.base import limits
from omnigraph.base.errors import ContentError, OmnigraphError
from omnigraph.graph.scratch import Scratch, ScratchFile
from omnigraph.integrity.check import CheckedBatch, check_batch
from omnigraph.integrity.report import TaskFindings, Violation, ViolationReport, expand_violations, merge_reports
from omnigraph.integrity.rules import RowOrigins
from omnigraph.integrity.set_rules import key_columns
from omnigraph.pipeline.load.inputs.blocks import Block, Piece
from omnigraph.pipeline.load.inputs.files import require_unchanged
from omnigraph.pipeline.load.keys import LINE, Buckets, KeyFile, KeyWriter, Origin, add_input_keys
from omnigraph.pipeline.load.patch import read_existing
from omnigraph.pipeline.load.rejects import ErrorWriter
from omnigraph.pipeline.load.written import note_written
from omnigraph.pipeline.runner import TaskSize, report_partial, task
from omnigraph.pipeline.spark.task_errors import encode_error
from omnigraph.schema.catalog import Catalog, Entity
from omnigraph.schema.catalog_json import catalog_from_json
from omnigraph.storage.lance.dataset import DatasetVersion
from omnigraph.storage.lance.stage import write_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShape:
    """What every worker of one load needs: the schema, and by alias the datasets for which rows are written.

    The part returns the keys of the rows, or with `returns_rows` the rows; many of them in a file in `scratch`, because
    the results of tasks pass through the JVM. With `buckets` they are in key files instead. With `errors` every
    violation is written there, not only the first ones. With `notes` each written fragment is recorded there, so that
    the driver can delete the fragments of a task that returned no part. `patched` has the tables whose rows complete
    those of a patch.
    """

    catalog_json: str
    targets: Mapping[str, DatasetVersion]
    returns_rows: bool = False
    scratch: Scratch | None = None
    buckets: Buckets | None = None
    errors: Scratch | None = None
    notes: Scratch | None = None
    patched: Mapping[str, DatasetVersion] | None = None


@dataclass(frozen=True, slots=True)
class LoadTask:
    """One piece to load."""

    piece: Piece
    shape: LoadShape


@dataclass(frozen=True, slots=True)
class LoadedRows:
    """The rows of one type in one piece.

    `columns` is an Arrow stream of the rows or of their key columns, with the line of each row, or the file that has
    it; None if they are in key files.
    """

    count: int
    fragments: tuple[Any, ...]
    columns: bytes | ScratchFile | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPart:
    """The result of one task. `errors` are the files with all its violations.

    `failure` is the encoded error of a file that was not readable to its end; the part has what was written before.
    """

    findings: TaskFindings
    rows: Mapping[str, LoadedRows]
    bytes_read: int
    keys: tuple[KeyFile, ...] = ()
    errors: tuple[str, ...] = ()
    failure: str | None = None


def part_size(part: LoadPart) -> TaskSize:
    """Return what a finished part adds to the progress."""
    return TaskSize(sum(rows.count for rows in part.rows.values()), part.bytes_read)


@task("load", part_size, input_bytes=lambda task: task.piece.size_bytes)
def load_piece(task: LoadTask) -> LoadPart:
    """Read, check and write one piece."""
    piece = task.piece
    catalog = catalog_from_json(task.shape.catalog_json)
    blocks = _report_blocks(_blocks(piece, catalog), piece)
    return load_blocks(task.shape, (piece.name, piece.part), blocks, piece.size_bytes)


def _report_blocks(blocks: Iterator[Block], piece: Piece) -> Iterator[Block]:
    """Yield the blocks, and report after each how much of the piece was loaded."""
    rows = text_bytes = 0
    for block in blocks:
        yield block
        rows += sum(typed.raw.rows for typed in block.rows)
        text_bytes += block.text_bytes
        share = min(1.0, text_bytes / max(1, piece.text_bytes))
        report_partial(TaskSize(rows, int(share * piece.size_bytes)))


def _blocks(piece: Piece, catalog: Catalog) -> Iterator[Block]:
    """Read the blocks of a piece; raise if its file changed since the load was planned."""
    file = piece.file
    if file is None:
        yield from piece.blocks(catalog)
        return
    require_unchanged(file)
    try:
        yield from piece.blocks(catalog)
    except OmnigraphError:
        require_unchanged(file)  # a changed file is the cause of the error
        raise
    require_unchanged(file)


def load_blocks(shape: LoadShape, piece: tuple[str, int], blocks: Iterable[Block], size_bytes: int) -> LoadPart:
    """Check and write the rows of some blocks. `piece` is the name and the number of their piece."""
    loading = _PieceLoad(shape, *piece)
    failure = None
    try:
        for block in blocks:
            loading.add(block)
    except ContentError as error:
        # Another attempt would fail too. The driver rejects the load and deletes what was written.
        failure = str(encode_error(error))
    return replace(loading.finish(size_bytes), failure=failure)


class _PieceLoad:
    """The state of one task."""

    def __init__(self, shape: LoadShape, name: str, part: int) -> None:
        self._shape = shape
        self._name, self._part = name, part
        self._lines = 0
        self._rows_by_alias: dict[str, _TypeRows] = {}
        self._reports: list[ViolationReport] = []
        self._keys = None if shape.buckets is None else KeyWriter(buckets=shape.buckets, origin=Origin(name, part))
        self._errors = None if shape.errors is None else ErrorWriter(shape.errors)

    def add(self, block: Block) -> None:
        first = self._lines + 1
        bad = [
            Violation(
                file=self._name,
                line=first + line.line,
                property=None,
                value=line.value,
                rule=line.rule,
                message=line.message,
            )
            for line in block.bad
        ]
        reports = [ViolationReport.of_violations(bad)] if bad else []
        violations = list(bad)
        for typed in block.rows:
            existing = None if self._shape.patched is None else read_existing(self._shape.patched, typed)
            checked = check_batch(typed.entity, typed.raw, existing)
            lines = typed.lines + first
            if checked.violations:
                origins = RowOrigins.in_file(self._name, lines)
                reports.append(ViolationReport.of_batch(checked.violations, origins))
                if self._errors is not None:
                    violations.extend(expand_violations(checked.violations, origins))
            self._rows_of(typed.entity).add(checked, lines, is_good=not (checked.violations or bad))
        self._reports = [merge_reports([*self._reports, *reports])]
        if self._errors is not None:
            self._errors.add(violations)
        self._lines += block.lines

    def finish(self, size_bytes: int) -> LoadPart:
        findings = TaskFindings(self._name, self._part, self._lines, merge_reports(self._reports))
        rows = {alias: gathered.finish() for alias, gathered in self._rows_by_alias.items()}
        keys = () if self._keys is None else self._keys.finish()
        errors = () if self._errors is None else self._errors.finish()
        return LoadPart(findings=findings, rows=rows, bytes_read=size_bytes, keys=keys, errors=errors)

    def _rows_of(self, entity: Entity) -> _TypeRows:
        if entity.alias not in self._rows_by_alias:
            self._rows_by_alias[entity.alias] = _TypeRows(entity=entity, shape=self._shape, keys=self._keys)
        return self._rows_by_alias[entity.alias]


@dataclass(slots=True, kw_only=True)
class _TypeRows:
    """The rows of one type in this piece; they are written when they are large enough for a fragment."""

    entity: Entity
    shape: LoadShape
    keys: KeyWriter | None
    batches: list[pa.RecordBatch] = field(default_factory=list)
    pending_bytes: int = 0
    fragments: list[Any] = field(default_factory=list)
    columns: list[pa.RecordBatch] = field(default_factory=list)
    count: int = 0
    is_good: bool = True

    def add(self, checked: CheckedBatch, lines: np.ndarray[Any, Any], *, is_good: bool) -> None:
        rows = checked.rows
        self.count += rows.num_rows
        self.is_good = self.is_good and is_good
        keyed = rows
        if not self.shape.returns_rows:
            keyed = rows.select(key_columns(self.entity)).set_column(0, "id", checked.comparable_ids)
        if self.keys is not None:
            add_input_keys(self.keys, self.entity, keyed, lines, whole=self.shape.returns_rows)
        else:
            self.columns.append(keyed.append_column(LINE, integer_array(lines)))
        if self.is_good and self.entity.alias in self.shape.targets:
            self.batches.append(rows)
            self.pending_bytes += rows.nbytes
            if self.pending_bytes >= limits.LOAD_FRAGMENT_BYTES:
                self._write()

    def finish(self) -> LoadedRows:
        if self.batches and self.is_good:
            self._write()
        # Fragments that were written before a bad row are returned too, so that the driver deletes them.
        return LoadedRows(self.count, tuple(self.fragments), self._store_columns())

    def _store_columns(self) -> bytes | ScratchFile | None:
        if self.keys is not None:
            return None
        schema, scratch = self.columns[0].schema, self.shape.scratch
        if scratch is None or sum(batch.nbytes for batch in self.columns) <= limits.LOAD_PART_BYTES_MAX:
            return encode_batches(schema, self.columns)
        return scratch.write_batches("columns", schema, self.columns)

    def _write(self) -> None:
        dataset = self.shape.targets[self.entity.alias].open()
        written = write_rows(dataset, pa.Table.from_batches(self.batches))
        note_written(self.shape.notes, self.entity.alias, dataset, written)
        self.fragments += written
        self.batches, self.pending_bytes = [], 0
