"""One bucket of a load as a task reads it: rows of the input and their places, rows of the graph, and findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.graph.scratch import Scratch
from omnigraph.integrity.breaches import Breach, Places
from omnigraph.integrity.check_change import NO_IDS, ChangeMode
from omnigraph.integrity.raw import Column, whole_array
from omnigraph.integrity.report import Violation, ViolationReport, merge_reports, violations_of
from omnigraph.pipeline.error_files import ErrorWriter
from omnigraph.pipeline.key_files import Buckets, KeyFile, KeySlice, read_slices
from omnigraph.pipeline.load_keys import LINE
from omnigraph.pipeline.load_upsert import UpsertPart
from omnigraph.schema import Catalog, catalog_from_json
from omnigraph.storage.dataset import DatasetVersion


@dataclass(frozen=True, slots=True)
class StrandedEnd:
    """An end of an edge type that stays, while the nodes that it refers to are overwritten."""

    edge: str
    column: str
    node: str


@dataclass(frozen=True, slots=True)
class BucketFacts:
    """What every bucket of one load needs to know.

    `before`: for each piece of the input how many lines of its file come before it. `first_files`: for each loaded
    alias the file that is named for what the input changes without naming it. `upserts`: where a merge writes.
    """

    catalog_json: str
    mode: ChangeMode
    before: Mapping[tuple[str, int], int]
    first_files: Mapping[str, str]
    stranded: tuple[StrandedEnd, ...]
    upserts: Mapping[str, DatasetVersion]
    buckets: Buckets
    errors: Scratch | None


@dataclass(frozen=True, slots=True)
class BucketTask:
    """One bucket: where each section has its rows."""

    facts: BucketFacts
    slices: Mapping[str, tuple[KeySlice, ...]]


@dataclass(frozen=True, slots=True)
class BucketPart:
    """What one bucket showed: violations with the lines of the files, keys for the next tasks, and rows written."""

    report: ViolationReport
    keys: tuple[KeyFile, ...]
    errors: tuple[str, ...]
    upserts: Mapping[str, UpsertPart]


@dataclass(frozen=True, slots=True, eq=False)
class InputRows:
    """Rows of one section of the input, in the order of the input, and where each comes from."""

    table: pa.Table | None
    places: Places

    def column(self, name: str) -> Column:
        return NO_IDS if self.table is None else whole_column(self.table, name)


class Bucket:
    """Reads sections, those of the graph once each, and gathers what is found wrong."""

    def __init__(self, task: BucketTask) -> None:
        self.facts: Final = task.facts
        self.catalog: Final[Catalog] = catalog_from_json(task.facts.catalog_json)
        self._slices = task.slices
        self._tables: dict[str, pa.Table | None] = {}
        self._reports: list[ViolationReport] = []
        self._every: list[Violation] = []

    def input_rows(self, alias: str, section: str) -> InputRows:
        """The rows of a section of the input."""
        files = {self.facts.first_files[alias]: 0}
        tables, numbers, lines = [], [], []
        for origin, table in read_slices(self.facts.buckets.scratch, self._slices.get(section, ())):
            number = files.setdefault(origin.name, len(files))
            tables.append(table)
            numbers.append(np.full(table.num_rows, number, dtype=np.int32))
            lines.append(np.asarray(table.column(LINE)) + self.facts.before[origin.name, origin.part])
        if not tables:
            return InputRows(None, Places.in_file(next(iter(files)), np.empty(0, dtype=np.int64)))
        places = Places(tuple(files), np.concatenate(numbers), np.concatenate(lines))
        return InputRows(pa.concat_tables(tables).drop_columns([LINE]), places)

    def graph_rows(self, section: str) -> pa.Table | None:
        """The rows of a section of the graph; None when there are none."""
        if section not in self._tables:
            found = read_slices(self.facts.buckets.scratch, self._slices.get(section, ()))
            tables = [table for _, table in found]
            self._tables[section] = pa.concat_tables(tables).combine_chunks() if tables else None
        return self._tables[section]

    def found(self, breaches: Iterable[Breach], places: Places) -> None:
        """Note what is wrong with rows."""
        noted = tuple(breaches)
        if not noted:
            return
        self._reports.append(ViolationReport.of_breaches(noted, places))
        if self.facts.errors is not None:
            self._every.extend(violations_of(noted, places))

    def part(self, keys: tuple[KeyFile, ...], upserts: Mapping[str, UpsertPart]) -> BucketPart:
        """Everything that was found, and what was written."""
        errors: tuple[str, ...] = ()
        if self.facts.errors is not None:
            writer = ErrorWriter(self.facts.errors)
            writer.add(self._every)
            errors = writer.finish()
        return BucketPart(merge_reports(self._reports), keys, errors, upserts)


def whole_column(table: pa.Table, name: str) -> Column:
    """A column of a table as one array."""
    return whole_array(table.column(name))
