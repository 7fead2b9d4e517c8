"""What workers do for a schema change: look for rows that a new rule does not allow, and write filled columns.

In: small tasks that name a table's version. Out: reports and fragments that pickle. No head moves, and running a task
twice leaves only files that nothing references.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.integrity import (
    Breach,
    Rule,
    Violation,
    ViolationReport,
    bucket_of,
    merge_reports,
    unique_keys,
)
from omnigraph.integrity.raw import Column, whole_array
from omnigraph.integrity.row_rules import required_breaches, value_breaches
from omnigraph.integrity.set_rules import edges_of_type, repeated_rows
from omnigraph.pipeline.runner import task
from omnigraph.schema import Cardinality, Entity
from omnigraph.storage.columns import ColumnPlan, WrittenColumns, write_columns
from omnigraph.storage.dataset import DatasetVersion


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """A table, and the columns that it will have."""

    version: DatasetVersion
    alias: str
    plan: ColumnPlan

    def read(self, names: Iterable[str], fragment_ids: tuple[int, ...]) -> Iterator[dict[str, Column]]:
        """The rows of some fragments, batch by batch, as columns under their new names."""
        origins = self.plan.origins
        wanted = tuple(dict.fromkeys(("id", *names)))
        present = [origins[name] for name in wanted if name in origins]
        for batch in self.version.open().read_fragments(fragment_ids, present):
            yield {
                name: self.plan.filled(name, batch.column(origins[name]))
                if name in origins
                else self._filled(name, batch.num_rows)
                for name in wanted
            }

    def _filled(self, name: str, rows: int) -> Column:
        make: Any = pa.scalar
        column: Column = pa.repeat(make(self.plan.fills[name], self.plan.schema.field(name).type), rows)
        return column


@dataclass(frozen=True, slots=True)
class RowsTask:
    """The rules about single values. `entity` has only the new ones; `required` are columns that must have values."""

    table: CheckedTable
    entity: Entity
    required: tuple[str, ...]
    fragment_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UniqueTask:
    """One `@unique`, over the keys of one bucket."""

    table: CheckedTable
    names: tuple[str, ...]
    fragment_ids: tuple[int, ...]
    bucket: int = 0
    buckets: int = 1


@dataclass(frozen=True, slots=True)
class CardTask:
    """One `@card`, over the sources of one bucket."""

    table: CheckedTable
    cardinality: Cardinality
    fragment_ids: tuple[int, ...]
    bucket: int = 0
    buckets: int = 1


@dataclass(frozen=True, slots=True)
class FillTask:
    """Values for some fragments of one table."""

    version: DatasetVersion
    plan: ColumnPlan
    fragment_ids: tuple[int, ...]


@task("check rows")
def run_check(task: RowsTask | UniqueTask | CardTask) -> ViolationReport:
    """What a task finds."""
    match task:
        case RowsTask():
            return _check_rows(task)
        case UniqueTask():
            return _check_unique(task)
        case CardTask():
            return _check_card(task)


@task("write columns")
def fill_columns(task: FillTask) -> WrittenColumns:
    """Write the values of one task."""
    return write_columns(task.version.open(), task.plan, task.fragment_ids)


def _check_rows(task: RowsTask) -> ViolationReport:
    names = {found.name for found in task.entity.properties} | set(task.required)
    reports = []
    for columns in task.table.read(sorted(names), task.fragment_ids):
        breaches = [breach for name in task.required for breach in required_breaches(name, columns[name])]
        breaches += value_breaches(task.entity, columns)
        reports += [_report(task.table.alias, breach, columns["id"]) for breach in breaches]
    return merge_reports(reports)


def _check_unique(task: UniqueTask) -> ViolationReport:
    keys: list[Column] = []
    ids: list[Column] = []
    for columns in task.table.read(task.names, task.fragment_ids):
        found = unique_keys([columns[name] for name in task.names])
        mine = _mine(found, task.bucket, task.buckets)
        keys.append(found.filter(mine))
        ids.append(columns["id"].filter(mine))
    whole = whole_array(pa.chunked_array(keys, pa.utf8()))
    rows = repeated_rows(whole)
    if not len(rows):
        return ViolationReport()
    named = ", ".join(task.names)
    breach = Breach(Rule.UNIQUE, named, f"another row has the same {named}", rows, whole.take(pa.array(rows)))
    return _report(task.table.alias, breach, whole_array(pa.chunked_array(ids, pa.utf8())))


def _check_card(task: CardTask) -> ViolationReport:
    sources: list[Column] = []
    for columns in task.table.read(("src",), task.fragment_ids):
        found = columns["src"]
        sources.append(found.filter(_mine(found, task.bucket, task.buckets)))
    counted: Any = pc.value_counts(whole_array(pa.chunked_array(sources, pa.utf8())))
    names, counts = counted.field("values"), counted.field("counts").to_numpy(zero_copy_only=False)
    low, high = task.cardinality.low, task.cardinality.high
    breaches = []
    if high is not None:
        message = f"has more than {edges_of_type(high)}"
        breaches.append((Rule.CARDINALITY_MAX, message, np.flatnonzero(counts > high)))
    breaches.append(
        (Rule.CARDINALITY_MIN, f"has fewer than {edges_of_type(low)}", np.flatnonzero(counts < low))
    )
    return merge_reports(
        _report(task.table.alias, Breach(rule, "from", message, rows), names)
        for rule, message, rows in breaches
        if len(rows)
    )


def _mine(keys: Column, bucket: int, buckets: int) -> Column:
    """Which keys are of the bucket; a null is of none."""
    there = pa.array(bucket_of(keys, buckets) == bucket) if buckets > 1 else pa.repeat(True, len(keys))
    answer: Column = pc.and_(there, keys.is_valid())
    return answer


def _report(alias: str, breach: Breach, ids: Column) -> ViolationReport:
    """The first rows of a breach, named by their ids, and how many there are."""
    kept = breach.only(np.arange(min(len(breach), limits.VIOLATIONS_KEPT_MAX), dtype=np.int64))
    first = tuple(
        Violation(f"{alias} {ids[row].as_py()}", None, breach.property, value, breach.rule, breach.message)
        for row, value in zip(kept.rows.tolist(), kept.shown_values(), strict=True)
    )
    return ViolationReport(first, ((breach.rule, len(breach)),))
