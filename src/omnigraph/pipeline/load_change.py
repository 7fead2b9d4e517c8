"""What the parts of a load mean together: one change of the graph, checked as a whole on the driver.

In: the parts that workers returned. Out: the rows or fragments of each type, and the report on everything that
is wrong. Line numbers are those of the files. The key columns of the whole input are in memory here, its rows
are not.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.graph.lookup import SnapshotLookup
from omnigraph.integrity.breaches import NO_ROW, Breach, Places
from omnigraph.integrity.check_change import ChangeMode, TypeChange, check_change
from omnigraph.integrity.raw import Column
from omnigraph.integrity.report import ViolationReport, gather_findings, lines_before, merge_reports
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.blocks import Entity
from omnigraph.pipeline.load_task import LINE, LoadPart
from omnigraph.schema import Catalog


class LoadMode(Enum):
    """What a load does with what is there: `append` inserts only, `merge` upserts by id, `overwrite` replaces types."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"

    @property
    def change(self) -> ChangeMode:
        return {
            LoadMode.APPEND: ChangeMode.INSERT,
            LoadMode.MERGE: ChangeMode.UPSERT,
            LoadMode.OVERWRITE: ChangeMode.OVERWRITE,
        }[self]


@dataclass(frozen=True, slots=True, eq=False)
class LoadedType:
    """All that the input holds of one type. `columns` are the rows, or their keys when fragments were written."""

    entity: Entity
    count: int
    columns: pa.Table
    places: Places
    fragments: tuple[Any, ...]

    @property
    def ids(self) -> Column:
        column: Any = self.columns.column("id").combine_chunks()
        return column  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, eq=False)
class LoadedInput:
    """The whole input: its types in the order of the catalog, and what workers found wrong."""

    types: tuple[LoadedType, ...]
    report: ViolationReport

    @property
    def total(self) -> int:
        return sum(loaded.count for loaded in self.types)


def gather_parts(catalog: Catalog, parts: Sequence[LoadPart]) -> LoadedInput:
    """Put the parts together in the order of the files and their lines."""
    ordered = sorted(parts, key=lambda part: (part.findings.file, part.findings.part))
    before = lines_before([part.findings for part in ordered])
    types = [
        _gather_type(entity, [part for part in ordered if entity.alias in part.rows], before)
        for entity in catalog.types
        if any(entity.alias in part.rows for part in ordered)
    ]
    return LoadedInput(tuple(types), gather_findings([part.findings for part in ordered]))


def check_loaded(
    catalog: Catalog, loaded: LoadedInput, mode: LoadMode, lookup: SnapshotLookup
) -> ViolationReport:
    """The report on the input as a change of the graph: what workers found, and what rows mean together."""
    changes = [TypeChange(one.entity, one.columns, mode.change) for one in loaded.types]
    found = check_change(catalog, changes, lookup)
    reports = [
        ViolationReport.of_breaches(breaches, one.places)
        for one, breaches in zip(loaded.types, found, strict=True)
        if breaches
    ]
    if mode is LoadMode.OVERWRITE:
        reports += _stranded_edges(catalog, loaded, lookup)
    return merge_reports([loaded.report, *reports])


def _stranded_edges(catalog: Catalog, loaded: LoadedInput, lookup: SnapshotLookup) -> list[ViolationReport]:
    """Edges of types that stay, whose ends go with the nodes that are overwritten."""
    overwritten = {one.entity.id: one for one in loaded.types}
    reports = []
    for edge in catalog.edges:
        for column, end, node in (("src", "from", edge.source), ("dst", "to", edge.target)):
            if edge.id in overwritten or node not in overwritten:
                continue
            one = overwritten[node]
            ids = lookup.edges_beyond(edge.id, column, one.ids)
            if len(ids):
                message = f"this {edge.name} of the graph would lose its {end}: overwrite {edge.name} too"
                rows = np.full(len(ids), NO_ROW, dtype=np.int64)
                breach = Breach(Rule.DANGLING_END, end, message, rows, ids)
                reports.append(ViolationReport.of_breaches([breach], one.places))
    return reports


def _gather_type(
    entity: Entity, parts: Sequence[LoadPart], before: Mapping[tuple[str, int], int]
) -> LoadedType:
    files = tuple(dict.fromkeys(part.findings.file for part in parts))
    tables, file_numbers, fragments = [], [], []
    for part in parts:
        rows = part.rows[entity.alias]
        table = pa.ipc.open_stream(rows.columns).read_all()
        lines = table.column(LINE).to_numpy() + before[part.findings.file, part.findings.part]
        tables.append(table.set_column(table.num_columns - 1, LINE, pa.array(lines, pa.int64())))
        file_numbers.append(np.full(table.num_rows, files.index(part.findings.file), dtype=np.int32))
        fragments += pickle.loads(rows.fragments)
    whole = pa.concat_tables(tables)
    places = Places(files, np.concatenate(file_numbers), whole.column(LINE).to_numpy())
    columns = whole.drop_columns([LINE])
    return LoadedType(entity, whole.num_rows, columns, places, tuple(fragments))
