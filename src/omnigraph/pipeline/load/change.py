"""The parts of a load combined: the change of each type, and for a small input its check on the driver.

In: the parts that workers returned. Out: the rows or fragments of each type, and the violations with the line numbers
of the files. The parts of a small input have its key columns, which are then in memory here; `buckets` checks an input
whose keys are in key files. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.arrow.columns import Column, whole_array
from omnigraph.graph.rows.lookup import SnapshotLookup
from omnigraph.graph.scratch import Scratch
from omnigraph.integrity.check import ChangeMode, TypeChange, check_change
from omnigraph.integrity.raw import FROM, TO
from omnigraph.integrity.report import ViolationReport, gather_findings, lines_before
from omnigraph.integrity.rules import NO_ROW, RowOrigins, Rule, RuleViolations
from omnigraph.pipeline.load.keys import LINE, KeyFile
from omnigraph.pipeline.load.rejects import ErrorStream
from omnigraph.pipeline.load.tasks import LoadPart
from omnigraph.schema.catalog import Catalog, Entity
from omnigraph.schema.tables import arrow_schema


class LoadMode(Enum):
    """What a load does with existing rows.

    `append` only inserts, `merge` replaces rows by id, `patch` replaces only the properties that a row has, and
    `overwrite` replaces all rows of a type.
    """

    APPEND = "append"
    MERGE = "merge"
    PATCH = "patch"
    OVERWRITE = "overwrite"

    @property
    def replaces_rows(self) -> bool:
        """Whether rows replace those with the same id, so that the load needs all columns of a row."""
        return self in (LoadMode.MERGE, LoadMode.PATCH)

    @property
    def change(self) -> ChangeMode:
        return {
            LoadMode.APPEND: ChangeMode.INSERT,
            LoadMode.MERGE: ChangeMode.UPSERT,
            LoadMode.PATCH: ChangeMode.UPSERT,
            LoadMode.OVERWRITE: ChangeMode.OVERWRITE,
        }[self]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LoadedType:
    """The rows of one type in the input. `first_file` is the first file that has one."""

    entity: Entity
    count: int
    first_file: str
    fragments: tuple[Any, ...]
    rows: LoadedColumns | None


@dataclass(frozen=True, slots=True, eq=False)
class LoadedColumns:
    """The rows of one type, or their keys, that workers returned to the driver, with their origins."""

    columns: pa.Table
    origins: RowOrigins

    @property
    def ids(self) -> Column:
        return whole_array(self.columns.column("id"))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LoadedInput:
    """The whole input: its types in catalog order, the violations that workers reported, and the files they wrote.

    `before` says for each piece how many lines of its file precede it.
    """

    types: tuple[LoadedType, ...]
    report: ViolationReport
    before: Mapping[tuple[str, int], int]
    keys: tuple[KeyFile, ...]
    errors: tuple[ErrorStream, ...]


def gather_parts(
    catalog: Catalog, parts: Sequence[LoadPart], scratch: Scratch, named_types: Collection[str] = ()
) -> LoadedInput:
    """Combine the parts in the order of the files and their lines; `scratch` has the columns of large parts.

    `named_types` are aliases of types that are loaded even if the input has no row of them.
    """
    ordered = sorted(parts, key=lambda part: (part.findings.file, part.findings.part))
    before = lines_before([part.findings for part in ordered])
    types = [
        _gather_type(entity, [part for part in ordered if entity.alias in part.rows], before, scratch)
        for entity in catalog.types
        if entity.alias in named_types or any(entity.alias in part.rows for part in ordered)
    ]
    findings = [part.findings for part in ordered]
    errors = [ErrorStream(part.errors, before[part.findings.file, part.findings.part]) for part in ordered]
    keys = tuple(file for part in ordered for file in part.keys)
    return LoadedInput(
        types=tuple(types), report=gather_findings(findings), before=before, keys=keys, errors=tuple(errors)
    )


def check_loaded(
    catalog: Catalog, loaded: LoadedInput, mode: LoadMode, lookup: SnapshotLookup
) -> list[tuple[tuple[RuleViolations, ...], RowOrigins]]:
    """Return the violations of rules over several rows, without those that workers reported."""
    rows = [_rows(loaded_type) for loaded_type in loaded.types]
    changes = [
        TypeChange(loaded_type.entity, columns.columns, mode.change)
        for loaded_type, columns in zip(loaded.types, rows, strict=True)
    ]
    violations = zip(check_change(catalog, changes, lookup), (columns.origins for columns in rows), strict=True)
    stranded = _stranded_edges(catalog, loaded, lookup) if mode is LoadMode.OVERWRITE else []
    return [*violations, *stranded]


@dataclass(frozen=True, slots=True)
class StrandedEndpoint:
    """An endpoint, `src` or `dst`, of an edge type that is not loaded while its nodes are overwritten; by aliases."""

    edge: str
    column: str
    node: str


def stranded_endpoints(catalog: Catalog, loaded: LoadedInput) -> list[StrandedEndpoint]:
    """Return the endpoints that an overwrite of the loaded types may delete."""
    overwritten = {loaded_type.entity.id: loaded_type.entity.alias for loaded_type in loaded.types}
    return [
        StrandedEndpoint(edge.alias, column, overwritten[node])
        for edge in catalog.edges
        for column, node in (("src", edge.source), ("dst", edge.target))
        if edge.id not in overwritten and node in overwritten
    ]


def stranded_violations(edge: str, column: str, ids: Column) -> tuple[RuleViolations, ...]:
    """Return the violations for edges of the graph, by their ids, that would lose an endpoint."""
    if not len(ids):
        return ()
    end = FROM if column == "src" else TO
    message = f"the overwrite would delete the '{end}' node of an edge {edge} of the graph, which has this id"
    return (
        RuleViolations(
            rule=Rule.DANGLING_END,
            property=end,
            message=message,
            rows=np.full(len(ids), NO_ROW, dtype=np.int64),
            values=ids,
        ),
    )


def _stranded_edges(
    catalog: Catalog, loaded: LoadedInput, lookup: SnapshotLookup
) -> list[tuple[tuple[RuleViolations, ...], RowOrigins]]:
    edges = {edge.alias: edge for edge in catalog.edges}
    nodes = {loaded_type.entity.alias: _rows(loaded_type) for loaded_type in loaded.types}
    violations = []
    for stranded in stranded_endpoints(catalog, loaded):
        edge, rows = edges[stranded.edge], nodes[stranded.node]
        ids = lookup.edges_at_other_nodes(edge.id, stranded.column, rows.ids)
        violations.append((stranded_violations(edge.name, stranded.column, ids), rows.origins))
    return violations


def _rows(loaded_type: LoadedType) -> LoadedColumns:
    assert loaded_type.rows is not None, "the parts have the keys"
    return loaded_type.rows


def _gather_type(
    entity: Entity, parts: Sequence[LoadPart], before: Mapping[tuple[str, int], int], scratch: Scratch
) -> LoadedType:
    of_type = [part.rows[entity.alias] for part in parts]
    fragments = [fragment for rows in of_type for fragment in rows.fragments]
    in_memory = all(rows.columns is not None for rows in of_type)
    return LoadedType(
        entity=entity,
        count=sum(rows.count for rows in of_type),
        first_file=parts[0].findings.file if parts else f"<{entity.name}>",
        fragments=tuple(fragments),
        rows=_gather_columns(entity, parts, before, scratch) if in_memory else None,
    )


def _gather_columns(
    entity: Entity, parts: Sequence[LoadPart], before: Mapping[tuple[str, int], int], scratch: Scratch
) -> LoadedColumns:
    if not parts:
        no_rows = arrow_schema(entity).empty_table()
        return LoadedColumns(no_rows, RowOrigins.in_file(f"<{entity.name}>", np.empty(0, dtype=np.int64)))
    files = tuple(dict.fromkeys(part.findings.file for part in parts))
    tables, file_numbers = [], []
    for part in parts:
        columns = part.rows[entity.alias].columns
        assert columns is not None, "the parts have the keys"
        data = columns if isinstance(columns, bytes) else scratch.read(columns.name, 0, columns.size_bytes)
        table = pa.ipc.open_stream(data).read_all()
        lines = table.column(LINE).to_numpy() + before[part.findings.file, part.findings.part]
        tables.append(table.set_column(table.num_columns - 1, LINE, pa.array(lines, pa.int64())))
        file_numbers.append(np.full(table.num_rows, files.index(part.findings.file), dtype=np.int32))
    whole = pa.concat_tables(tables).combine_chunks()
    origins = RowOrigins(files, np.concatenate(file_numbers), whole.column(LINE).to_numpy())
    return LoadedColumns(whole.drop_columns([LINE]), origins)
