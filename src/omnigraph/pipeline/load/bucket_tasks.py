"""The tasks of a check in hash buckets: one task per bucket compares all rows with the same keys.

There are three kinds of tasks, in this order. `read_graph_keys` writes the keys of tables of the graph into buckets.
`check_ids` compares ids and endpoints: duplicate ids of the input, ids that the graph has, endpoints that do not exist;
and it writes the keys of the graph rows that the load does not replace. `check_values` compares unique values and
counts edges, together with those rows. The rules are those of `integrity.set_rules`, and the result is identical to
that of `check_change` over the whole input. All tasks are safe to repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column
from omnigraph.graph.scratch import Scratch
from omnigraph.integrity import set_rules
from omnigraph.integrity.check import NO_IDS, ChangeMode
from omnigraph.integrity.raw import FROM, TO
from omnigraph.integrity.report import Violation, ViolationReport, expand_violations, merge_reports
from omnigraph.integrity.rules import RowOrigins, RuleViolations
from omnigraph.pipeline.load.change import StrandedEndpoint, stranded_violations
from omnigraph.pipeline.load.keys import (
    ENDPOINTS,
    KEY,
    LINE,
    Buckets,
    KeyFile,
    KeySlice,
    KeyWriter,
    compared_columns,
    graph_section,
    has_edge_limit,
    input_section,
    make_key_batch,
    read_slices,
    unique_key,
    whole_column,
)
from omnigraph.pipeline.load.rejects import ErrorWriter
from omnigraph.pipeline.load.upsert import UpsertPart, add_digests, can_digest, count_bucket, upsert_bucket
from omnigraph.pipeline.runner import task
from omnigraph.schema.catalog import Catalog, EdgeType, Entity
from omnigraph.schema.catalog_json import catalog_from_json
from omnigraph.storage.lance.dataset import ADDRESS, IDENTITY, DatasetVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFacts:
    """What every bucket of one load needs.

    `before`: for each piece, how many lines of its file precede it. `first_files`: for each loaded alias, the file to
    name for a violation without a line. `upserts`: the datasets for which a merge writes, or with
    `dry_run` only counts.
    """

    catalog_json: str
    mode: ChangeMode
    before: Mapping[tuple[str, int], int]
    first_files: Mapping[str, str]
    stranded: tuple[StrandedEndpoint, ...]
    upserts: Mapping[str, DatasetVersion]
    dry_run: bool
    buckets: Buckets
    errors: Scratch | None


@dataclass(frozen=True, slots=True)
class BucketTask:
    """One bucket: the rows of each section."""

    facts: BucketFacts
    slices: Mapping[str, tuple[KeySlice, ...]]


@dataclass(frozen=True, slots=True)
class BucketPart:
    """The result of one bucket: violations with the lines of the files, keys for the next tasks, and written rows."""

    report: ViolationReport
    keys: tuple[KeyFile, ...]
    errors: tuple[str, ...]
    upserts: Mapping[str, UpsertPart]


@dataclass(frozen=True, slots=True, eq=False)
class InputRows:
    """Rows of one section of the input, in input order, with their origins."""

    table: pa.Table | None
    origins: RowOrigins

    def column(self, name: str) -> Column:
        return NO_IDS if self.table is None else whole_column(self.table, name)


class Bucket:
    """Reads sections, those of the graph once each, and collects violations."""

    def __init__(self, task: BucketTask) -> None:
        self.facts: Final = task.facts
        self.catalog: Final[Catalog] = catalog_from_json(task.facts.catalog_json)
        self._slices = task.slices
        self._tables: dict[str, pa.Table | None] = {}
        self._reports: list[ViolationReport] = []
        self._violations: list[Violation] = []

    def input_rows(self, alias: str, content: str) -> InputRows:
        """Read the rows of a section of the input."""
        slices = self._slices.get(input_section(alias, content), ())
        files = {self.facts.first_files[alias]: 0}
        tables, numbers, lines = [], [], []
        for origin, table in read_slices(self.facts.buckets.scratch, slices):
            number = files.setdefault(origin.name, len(files))
            tables.append(table)
            numbers.append(np.full(table.num_rows, number, dtype=np.int32))
            lines.append(np.asarray(table.column(LINE)) + self.facts.before[origin.name, origin.part])
        if not tables:
            return InputRows(None, RowOrigins.in_file(next(iter(files)), np.empty(0, dtype=np.int64)))
        origins = RowOrigins(tuple(files), np.concatenate(numbers), np.concatenate(lines))
        return InputRows(pa.concat_tables(tables).drop_columns([LINE]), origins)

    def graph_rows(self, alias: str, content: str) -> pa.Table | None:
        """Read the rows of a section of the graph; None without rows."""
        section = graph_section(alias, content)
        if section not in self._tables:
            slices = read_slices(self.facts.buckets.scratch, self._slices.get(section, ()))
            tables = [table for _, table in slices]
            self._tables[section] = pa.concat_tables(tables).combine_chunks() if tables else None
        return self._tables[section]

    def add_violations(self, groups: Iterable[RuleViolations], origins: RowOrigins) -> None:
        """Record violations of rows."""
        violations = tuple(groups)
        if not violations:
            return
        self._reports.append(ViolationReport.of_batch(violations, origins))
        if self.facts.errors is not None:
            self._violations.extend(expand_violations(violations, origins))

    def part(self, keys: tuple[KeyFile, ...], upserts: Mapping[str, UpsertPart]) -> BucketPart:
        """Return the violations and what was written."""
        errors: tuple[str, ...] = ()
        if self.facts.errors is not None:
            writer = ErrorWriter(self.facts.errors)
            writer.add(self._violations)
            errors = writer.finish()
        return BucketPart(merge_reports(self._reports), keys, errors, upserts)


REPLACED: Final = "replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphKeysTask:
    """Some fragments of a pinned table, to sort by id or by the endpoints in `ends`.

    `compared` adds the columns that the rules compare, `identified` the row identities and digests that a merge needs.
    """

    catalog_json: str
    alias: str
    table: DatasetVersion
    fragments: tuple[int, ...]
    buckets: Buckets
    compared: bool = False
    identified: bool = False
    ends: tuple[str, ...] = ()


@task("check")
def read_graph_keys(task: GraphKeysTask) -> tuple[KeyFile, ...]:
    """Write the keys of some rows of the graph into buckets."""
    writer = KeyWriter(buckets=task.buckets)
    dataset = task.table.open()
    columns = ["id", *task.ends]
    entity = catalog_from_json(task.catalog_json).require_type(task.alias)
    if task.compared:
        columns = compared_columns(entity)
    digests = task.identified and can_digest(entity)
    columns_to_read = dataset.schema.names if digests else columns
    for batch in dataset.read_fragments(task.fragments, columns_to_read, with_identities=task.identified):
        rows = add_digests(batch, [*columns, IDENTITY, ADDRESS]) if digests else batch
        ids = rows.column("id")
        for end in task.ends:
            writer.add(graph_section(task.alias, end), rows.column(end), make_key_batch(rows.column(end), "id", ids))
        if not task.ends:
            writer.add(graph_section(task.alias, "id"), ids, rows)
    return writer.finish()


@task("check")
def check_ids(task: BucketTask) -> BucketPart:
    """Compare ids and endpoints, write the keys that `check_values` needs, and write the rows of a merge."""
    bucket, facts = Bucket(task), task.facts
    writer = KeyWriter(buckets=facts.buckets)
    upserts: dict[str, UpsertPart] = {}
    for alias in facts.first_files:
        entity = bucket.catalog.require_type(alias)
        rows = bucket.input_rows(alias, "id")
        ids, graph = rows.column("id"), bucket.graph_rows(alias, "id")
        violations = list(set_rules.check_duplicate_ids(ids))
        if facts.mode is ChangeMode.INSERT:
            violations += set_rules.check_new_ids(alias, ids, _is_in(ids, graph))
        bucket.add_violations(violations, rows.origins)
        if isinstance(entity, EdgeType):
            _check_ends(bucket, entity)
        if graph is not None:
            _write_remaining_keys(writer, entity, graph, ids, facts.mode)
        if alias in facts.upserts and rows.table is not None and not violations:
            if facts.dry_run:
                upserts[alias] = count_bucket(rows.table, graph)
            else:
                upserts[alias] = upsert_bucket(facts.upserts[alias], alias, rows.table, graph, writer)
    _check_stranded(bucket)
    return bucket.part(writer.finish(), upserts)


@task("check")
def check_values(task: BucketTask) -> BucketPart:
    """Compare unique values with each other and with the remaining rows of the graph, and count edges."""
    bucket = Bucket(task)
    for alias in task.facts.first_files:
        entity = bucket.catalog.require_type(alias)
        for number, names in enumerate(entity.rules.uniques):
            rows = bucket.input_rows(alias, f"unique{number}")
            keys = rows.column(KEY)
            remaining = bucket.graph_rows(alias, f"unique{number}")
            existing_ids = pa.nulls(len(keys), pa.utf8()) if remaining is None else _existing_ids(keys, remaining)
            repeated = set_rules.check_repeated_keys(keys, names)
            existing = set_rules.check_existing_keys(keys, existing_ids, NO_IDS, names)
            bucket.add_violations([*repeated, *existing], rows.origins)
        if isinstance(entity, EdgeType) and has_edge_limit(entity):
            _count_edges(bucket, entity)
    return bucket.part((), {})


def _check_ends(bucket: Bucket, edge: EdgeType) -> None:
    nodes = (bucket.catalog.source_of(edge), bucket.catalog.target_of(edge))
    for column, word, node in zip(ENDPOINTS, (FROM, TO), nodes, strict=True):
        rows = bucket.input_rows(edge.alias, column)
        ends = rows.column(KEY)
        exists = _is_in(ends, bucket.graph_rows(node.alias, "id"))
        if node.alias in bucket.facts.first_files:
            loaded = bucket.input_rows(node.alias, "id").column("id")
            exists = pc.or_(exists, pc.is_in(ends, value_set=loaded, skip_nulls=True))
        bucket.add_violations(set_rules.check_endpoints(ends, exists, word, node.name), rows.origins)


def _check_stranded(bucket: Bucket) -> None:
    """Check edges of types that are not loaded, whose nodes may be overwritten."""
    for stranded in bucket.facts.stranded:
        edges = bucket.graph_rows(stranded.edge, stranded.column)
        if edges is None:
            continue
        input_rows = bucket.input_rows(stranded.node, "id")
        is_missing = pc.invert(pc.is_in(whole_column(edges, KEY), value_set=input_rows.column("id"), skip_nulls=True))
        ids = whole_column(edges, "id").filter(is_missing)
        edge = bucket.catalog.require_type(stranded.edge)
        bucket.add_violations(stranded_violations(edge.name, stranded.column, ids), input_rows.origins)


def _write_remaining_keys(writer: KeyWriter, entity: Entity, graph: pa.Table, ids: Column, mode: ChangeMode) -> None:
    """Write the keys of the graph rows that the rules over values compare: those that the load does not replace."""
    # An existing row with the id of an inserted row is a conflict, so it is not replaced.
    replaced_ids = ids if mode is ChangeMode.UPSERT else NO_IDS
    replaced = pc.is_in(whole_column(graph, "id"), value_set=replaced_ids, skip_nulls=True)
    remaining = graph.filter(pc.invert(replaced))
    for number in range(len(entity.rules.uniques)):
        keys = unique_key(entity, number, remaining)
        ids_of_keys = whole_column(remaining, "id").filter(keys.is_valid())
        keys = keys.drop_null()
        writer.add(graph_section(entity.alias, f"unique{number}"), keys, make_key_batch(keys, "id", ids_of_keys))
    if has_edge_limit(entity):
        sources = whole_column(graph, "src")
        writer.add(graph_section(entity.alias, "src"), sources, make_key_batch(sources, REPLACED, replaced))


def _count_edges(bucket: Bucket, edge: EdgeType) -> None:
    rows = bucket.input_rows(edge.alias, "src")
    added, before = rows.column(KEY), bucket.graph_rows(edge.alias, "src")
    graph_sources = NO_IDS if before is None else whole_column(before, KEY)
    removed = NO_IDS if before is None else graph_sources.filter(whole_column(before, REPLACED))
    sources = set_rules.changed_sources(added, removed)
    positions = pc.index_in(graph_sources, value_set=sources, skip_nulls=True).drop_null()
    counts = np.bincount(np.asarray(positions), minlength=len(sources))
    if len(sources):
        counted = set_rules.SourceCounts(sources, pa.array(counts, pa.int64()))
        bucket.add_violations(set_rules.check_cardinality(edge.cardinality, added, removed, counted), rows.origins)


def _existing_ids(keys: Column, remaining: pa.Table) -> Column:
    """Return for each key the id of the row of the graph that has it, or null."""
    positions = pc.index_in(keys, value_set=whole_column(remaining, KEY), skip_nulls=True)
    return whole_column(remaining, "id").take(positions)


def _is_in(keys: Column, table: pa.Table | None) -> Column:
    values = NO_IDS if table is None else whole_column(table, "id")
    answer: Column = pc.is_in(keys, value_set=values, skip_nulls=True)
    return answer
