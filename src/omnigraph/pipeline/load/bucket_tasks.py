"""What workers do for a load whose keys are in key files: one task a bucket compares all rows with the same keys.

Three kinds of tasks, in this order. `read_graph_keys` sorts the keys of tables of the graph into buckets. `check_ids`
compares ids and ends: rows twice in the input, ids that the graph has, ends that are nowhere; and it hands on which
rows of the graph stay. `check_values` compares unique values and counts edges, with the rows that stay. The rules are
those of `integrity.set_rules`, and the answer is that of `check_change` over the whole. Safe to repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, whole_array
from omnigraph.graph.scratch import Scratch
from omnigraph.integrity.check import NO_IDS, ChangeMode
from omnigraph.integrity.raw import FROM, TO
from omnigraph.integrity.report import Violation, ViolationReport, merge_reports, violations_of
from omnigraph.integrity.rules import RowOrigins, RuleViolations
from omnigraph.integrity.set_rules import (
    SourceCounts,
    cardinality_breaches,
    changed_sources,
    dangling_ends,
    duplicate_ids,
    repeated_keys,
    taken_ids,
    taken_keys,
)
from omnigraph.pipeline.load.change import stranded_breach
from omnigraph.pipeline.load.keys import (
    ENDS,
    KEY,
    LINE,
    Buckets,
    KeyFile,
    KeySlice,
    KeyWriter,
    Section,
    compared_columns,
    is_counted,
    keyed,
    read_slices,
    unique_key,
)
from omnigraph.pipeline.load.rejects import ErrorWriter
from omnigraph.pipeline.load.upsert import UpsertPart, upsert_bucket
from omnigraph.schema.catalog import Catalog, EdgeType, Entity
from omnigraph.schema.catalog_json import catalog_from_json
from omnigraph.storage.lance.dataset import DatasetVersion


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
    places: RowOrigins

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
            return InputRows(None, RowOrigins.in_file(next(iter(files)), np.empty(0, dtype=np.int64)))
        places = RowOrigins(tuple(files), np.concatenate(numbers), np.concatenate(lines))
        return InputRows(pa.concat_tables(tables).drop_columns([LINE]), places)

    def graph_rows(self, section: str) -> pa.Table | None:
        """The rows of a section of the graph; None when there are none."""
        if section not in self._tables:
            found = read_slices(self.facts.buckets.scratch, self._slices.get(section, ()))
            tables = [table for _, table in found]
            self._tables[section] = pa.concat_tables(tables).combine_chunks() if tables else None
        return self._tables[section]

    def found(self, breaches: Iterable[RuleViolations], places: RowOrigins) -> None:
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


REPLACED: Final = "replaced"


@dataclass(frozen=True, slots=True)
class GraphKeysTask:
    """Some fragments of a pinned table to sort.

    By id, with all that the rules compare (`compared`) or without, and with their identities for a merge; or by the
    `ends` named there, for edges that may lose them.
    """

    catalog_json: str
    alias: str
    table: DatasetVersion
    fragments: tuple[int, ...]
    buckets: Buckets
    compared: bool = False
    identified: bool = False
    ends: tuple[str, ...] = ()


def read_graph_keys(task: GraphKeysTask) -> tuple[KeyFile, ...]:
    """The keys of some rows of the graph, in buckets."""
    section, writer = Section(task.alias, of_graph=True), KeyWriter(task.buckets)
    dataset = task.table.open()
    columns = ["id", *task.ends]
    if task.compared:
        columns = compared_columns(entity_of(catalog_from_json(task.catalog_json), task.alias))
    for rows in dataset.read_fragments(task.fragments, columns, with_identities=task.identified):
        ids = rows.column("id")
        for end in task.ends:
            writer.add(section.end(end), rows.column(end), keyed(rows.column(end), "id", ids))
        if not task.ends:
            writer.add(section.ids, ids, rows)
    return writer.finish()


def check_ids(task: BucketTask) -> BucketPart:
    """Compare ids and ends, hand on what stays, and write the bucket's rows if the load is a merge."""
    bucket, facts = Bucket(task), task.facts
    writer = KeyWriter(facts.buckets)
    upserts: dict[str, UpsertPart] = {}
    for alias in facts.first_files:
        entity = entity_of(bucket.catalog, alias)
        rows = bucket.input_rows(alias, Section(alias).ids)
        ids, graph = rows.column("id"), bucket.graph_rows(Section(alias, of_graph=True).ids)
        breaches = list(duplicate_ids(ids))
        if facts.mode is ChangeMode.INSERT:
            breaches += taken_ids(alias, ids, _is_in(ids, graph))
        bucket.found(breaches, rows.places)
        if isinstance(entity, EdgeType):
            _check_ends(bucket, entity)
        if graph is not None:
            _hand_on(writer, entity, graph, ids, facts.mode)
        if alias in facts.upserts and rows.table is not None and not breaches:
            upserts[alias] = upsert_bucket(facts.upserts[alias], alias, rows.table, graph, writer)
    _check_stranded(bucket)
    return bucket.part(writer.finish(), upserts)


def check_values(task: BucketTask) -> BucketPart:
    """Compare unique values with each other and with the rows of the graph that stay, and count edges."""
    bucket = Bucket(task)
    for alias in task.facts.first_files:
        entity = entity_of(bucket.catalog, alias)
        for number, names in enumerate(entity.rules.uniques):
            rows = bucket.input_rows(alias, Section(alias).unique(number))
            keys = rows.column(KEY)
            staying = bucket.graph_rows(Section(alias, of_graph=True).unique(number))
            holders = pc.if_else(_is_in(keys, staying, KEY), keys, pa.nulls(len(keys), pa.utf8()))
            breaches = [*repeated_keys(keys, names), *taken_keys(keys, holders, NO_IDS, names)]
            bucket.found(breaches, rows.places)
        if isinstance(entity, EdgeType) and is_counted(entity):
            _count_edges(bucket, entity)
    return bucket.part((), {})


def entity_of(catalog: Catalog, alias: str) -> Entity:
    """The type of an alias."""
    found = next((entity for entity in catalog.types if entity.alias == alias), None)
    assert found is not None, f"the alias {alias} came from this catalog"
    return found


def _check_ends(bucket: Bucket, edge: EdgeType) -> None:
    nodes = (bucket.catalog.source_of(edge), bucket.catalog.target_of(edge))
    for column, word, node in zip(ENDS, (FROM, TO), nodes, strict=True):
        rows = bucket.input_rows(edge.alias, Section(edge.alias).end(column))
        ends = rows.column(KEY)
        known = _is_in(ends, bucket.graph_rows(Section(node.alias, of_graph=True).ids))
        if node.alias in bucket.facts.first_files:
            loaded = bucket.input_rows(node.alias, Section(node.alias).ids).column("id")
            known = pc.or_(known, pc.is_in(ends, value_set=loaded, skip_nulls=True))
        bucket.found(dangling_ends(ends, known, word, node.name), rows.places)


def _check_stranded(bucket: Bucket) -> None:
    """Edges of types that stay, whose ends go with the nodes that are overwritten."""
    for stranded in bucket.facts.stranded:
        edges = bucket.graph_rows(Section(stranded.edge, of_graph=True).end(stranded.column))
        if edges is None:
            continue
        kept = bucket.input_rows(stranded.node, Section(stranded.node).ids)
        gone = pc.invert(pc.is_in(whole_column(edges, KEY), value_set=kept.column("id"), skip_nulls=True))
        ids = whole_column(edges, "id").filter(gone)
        edge = entity_of(bucket.catalog, stranded.edge)
        bucket.found(stranded_breach(edge.name, stranded.column, ids), kept.places)


def _hand_on(writer: KeyWriter, entity: Entity, graph: pa.Table, ids: Column, mode: ChangeMode) -> None:
    """The rows of the graph as the rules over values see them: without those that the load replaces."""
    section = Section(entity.alias, of_graph=True)
    # What an insert finds in its way is a conflict, not a row that goes.
    gone = ids if mode is ChangeMode.UPSERT else NO_IDS
    replaced = pc.is_in(whole_column(graph, "id"), value_set=gone, skip_nulls=True)
    staying = graph.filter(pc.invert(replaced))
    for number in range(len(entity.rules.uniques)):
        keys = unique_key(entity, number, staying).drop_null()
        writer.add(section.unique(number), keys, pa.RecordBatch.from_arrays([keys], names=[KEY]))
    if is_counted(entity):
        sources = whole_column(graph, "src")
        writer.add(section.end("src"), sources, keyed(sources, REPLACED, replaced))


def _count_edges(bucket: Bucket, edge: EdgeType) -> None:
    rows = bucket.input_rows(edge.alias, Section(edge.alias).end("src"))
    added, before = rows.column(KEY), bucket.graph_rows(Section(edge.alias, of_graph=True).end("src"))
    there = NO_IDS if before is None else whole_column(before, KEY)
    removed = NO_IDS if before is None else there.filter(whole_column(before, REPLACED))
    sources = changed_sources(added, removed)
    at = pc.index_in(there, value_set=sources, skip_nulls=True).drop_null()
    counts = np.bincount(np.asarray(at), minlength=len(sources))
    if len(sources):
        counted = SourceCounts(sources, pa.array(counts, pa.int64()))
        bucket.found(cardinality_breaches(edge.cardinality, added, removed, counted), rows.places)


def _is_in(keys: Column, table: pa.Table | None, name: str = "id") -> Column:
    there = NO_IDS if table is None else whole_column(table, name)
    answer: Column = pc.is_in(keys, value_set=there, skip_nulls=True)
    return answer
