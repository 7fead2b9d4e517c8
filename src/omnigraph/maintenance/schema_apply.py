"""Schema apply: brings a branch to another schema as one commit, or changes nothing.

In: a graph, a branch, the text of the desired schema, whoever runs tasks. Out: a `SchemaResult`. The plan is made from
the snapshot that everything is staged on. First every row that a new rule concerns is looked at, and all violations are
raised together; then columns are written and staged (`graph/schema_change`). What is small is done in this process, the
rest by tasks. A table that moved meanwhile, or another schema change, is a `read_set_conflict`. A crash leaves
unreferenced files, or what recovery finishes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, whole_array
from omnigraph.arrow.hashing import bucket_of
from omnigraph.base import limits
from omnigraph.base.display import Displayed
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import WriterKind
from omnigraph.graph.manifest.records import CommitRecord
from omnigraph.graph.manifest.requirements import ReadSetConflictError
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.graph.schema_change import column_plan, stage_schema
from omnigraph.graph.schema_plan import SchemaPlan, plan_schema
from omnigraph.graph.write.check import read_other_catalogs
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.integrity.report import ValidationError, Violation, ViolationReport, merge_reports
from omnigraph.integrity.row_rules import required_breaches, value_breaches
from omnigraph.integrity.rules import Rule, RuleViolations
from omnigraph.integrity.set_rules import edges_of_type, repeated_rows, unique_keys
from omnigraph.pipeline.runner import RunTasks, run_here, task
from omnigraph.schema.catalog import Cardinality, Catalog, CheckRule, Entity, RangeRule, Rules
from omnigraph.schema.evolution.steps import AddConstraint, CardRule, Constraint, RequiredRule, UniqueRule
from omnigraph.storage.lance.columns import ColumnPlan, WrittenColumns, write_columns
from omnigraph.storage.lance.dataset import Dataset, DatasetVersion
from omnigraph.storage.lance.fragments import group_fragments
from omnigraph.storage.location import Location


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
    breach = RuleViolations(
        Rule.UNIQUE, named, f"another row has the same {named}", rows, whole.take(pa.array(rows))
    )
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
        _report(task.table.alias, RuleViolations(rule, "from", message, rows), names)
        for rule, message, rows in breaches
        if len(rows)
    )


def _mine(keys: Column, bucket: int, buckets: int) -> Column:
    """Which keys are of the bucket; a null is of none."""
    there = pa.array(bucket_of(keys, buckets) == bucket) if buckets > 1 else pa.repeat(True, len(keys))
    answer: Column = pc.and_(there, keys.is_valid())
    return answer


def _report(alias: str, breach: RuleViolations, ids: Column) -> ViolationReport:
    """The first rows of a breach, named by their ids, and how many there are."""
    kept = breach.only(np.arange(min(len(breach), limits.VIOLATIONS_KEPT_MAX), dtype=np.int64))
    first = tuple(
        Violation(f"{alias} {ids[row].as_py()}", None, breach.property, value, breach.rule, breach.message)
        for row, value in zip(kept.rows.tolist(), kept.shown_values(), strict=True)
    )
    return ViolationReport(first, ((breach.rule, len(breach)),))


CheckTask = RowsTask | UniqueTask | CardTask


class SchemaRejectedError(ValidationError):
    """Rows of the graph break rules of the new schema; nothing was written."""

    def __init__(self, report: ViolationReport) -> None:
        first = report.first[0]
        more = f" (and {report.total - 1:,} more)" if report.total > 1 else ""
        rows = "a row" if report.total == 1 else f"{report.total:,} rows"
        super().__init__(
            f"{first.file}: {first.message}{more}",
            report,
            head=f"the graph has {rows} that the new schema does not allow",
            code="schema_rejected",
            hint="nothing was written; mend these rows, or leave the rule out",
        )


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """Which schema, by whom. `source_name` is what errors in the text call it.

    `hard`: what is dropped goes for good.
    """

    source: str
    actor: str
    source_name: str = "<schema>"
    hard: bool = False
    driver_rows_max: int = limits.SCHEMA_DRIVER_ROWS_MAX
    rows_per_task: int = limits.SCHEMA_ROWS_PER_TASK


@dataclass(frozen=True, slots=True, repr=False)
class SchemaResult(Displayed):
    """What applying a schema did."""

    plan: SchemaPlan
    """The steps that were taken."""
    commit: CommitRecord | None
    """The one commit, or None when the branch had the schema already."""

    def summary(self) -> Mapping[str, object]:
        return {
            "branch": self.plan.branch,
            "commit": None if self.commit is None else self.commit.id,
            "steps": len(self.plan.steps),
        }


def apply_schema(
    root: Location,
    branch: str,
    request: SchemaRequest,
    run_tasks: RunTasks,
    world: WriteEnvironment | None = None,
) -> SchemaResult:
    """Bring the branch to the schema as one commit, or raise with nothing written."""
    applying = _Applying(request, run_tasks)
    try:
        published = write(
            root, branch, WriteRequest(WriterKind.SCHEMA_APPLY, request.actor, applying.stage), world
        )
    except ReadSetConflictError:
        # What changed may be that an interrupted apply of this very schema was finished on the way.
        applying.plan = applying.plan_for(read_snapshot(root, branch))
        if applying.plan.steps or not applying.plan.can_apply:
            raise
        published = None
    assert applying.plan is not None, "it was staged"
    return SchemaResult(applying.plan, None if published is None else published.publication.commit)


class _Applying:
    """One run."""

    def __init__(self, request: SchemaRequest, run_tasks: RunTasks) -> None:
        self._request = request
        self._run_tasks = run_tasks
        self.plan: SchemaPlan | None = None

    def stage(self, at: StagingArea) -> StagedWrite | None:
        self.plan = self.plan_for(at.snapshot)
        if self.plan.can_apply and self.plan.counted is not None:
            self.plan = self.plan_for(at.snapshot, read_other_catalogs(at.snapshot))
        self.plan.refuse_unsupported()
        if not self.plan.steps:
            return None
        self._check(at, self.plan)
        return stage_schema(at, self.plan, self._write_columns)

    def plan_for(self, snapshot: Snapshot, others: Sequence[Catalog] = ()) -> SchemaPlan:
        """What there is to do at a snapshot."""
        request = self._request
        return plan_schema(
            snapshot, request.source, source_name=request.source_name, hard=request.hard, others=others
        )

    def _check(self, at: StagingArea, plan: SchemaPlan) -> None:
        """Raise `SchemaRejectedError` with everything that the new rules do not allow."""
        tasks: list[CheckTask] = []
        rows = 0
        for old in at.snapshot.schema.catalog.types:
            new = plan.catalog.type_with_id(old.id)
            rules = _unproven(plan, old)
            size = at.table(old.alias).row_count
            if new is not None and rules and size:
                columns = column_plan(old, new, size, nulls=plan.null_counts.get(old.id, {}))
                dataset = at.read(old.alias)
                tasks += _check_tasks(dataset, new, columns, rules, self._request.rows_per_task)
                rows += size
        report = merge_reports(self._runner(rows)(run_check, tasks)) if tasks else ViolationReport()
        if report.total:
            raise SchemaRejectedError(report)

    def _write_columns(self, dataset: Dataset, plan: ColumnPlan) -> Sequence[WrittenColumns]:
        rows = dataset.fragment_rows()
        version = DatasetVersion.of(dataset)
        parts = group_fragments(rows, self._request.rows_per_task)
        tasks = [FillTask(version, plan, part) for part in parts]
        return self._runner(sum(rows.values()))(fill_columns, tasks)

    def _runner(self, rows: int) -> RunTasks:
        return run_here if rows <= self._request.driver_rows_max else self._run_tasks


def _unproven(plan: SchemaPlan, entity: Entity) -> list[Constraint]:
    """The rules of a type that its rows may break: new ones, and a `@unique` in which null gets a value."""
    steps = [planned.step for planned in plan.steps]
    unproven: list[Constraint] = [
        step.constraint
        for step in steps
        if isinstance(step, AddConstraint) and step.type_id == entity.id and not step.implied
    ]
    filled = {name for name, count in plan.null_counts.get(entity.id, {}).items() if count}
    after = plan.catalog.type_with_id(entity.id)
    uniques = [] if after is None else [UniqueRule(columns) for columns in after.rules.uniques]
    unproven += [rule for rule in uniques if filled & {*rule.columns} and rule not in unproven]
    return unproven


def _check_tasks(
    dataset: Dataset,
    new: Entity,
    columns: ColumnPlan,
    rules: Sequence[Constraint],
    rows_per_task: int,
) -> Iterator[CheckTask]:
    rows = dataset.fragment_rows()
    table = CheckedTable(DatasetVersion.of(dataset), new.alias, columns)
    everything = tuple(rows)
    buckets = max(1, -(-sum(rows.values()) // rows_per_task))
    required = tuple(rule.property for rule in rules if isinstance(rule, RequiredRule) and rule.fill is None)
    slim = _only(new, rules)
    if required or slim.rules != Rules():
        yield from (RowsTask(table, slim, required, part) for part in group_fragments(rows, rows_per_task))
    for rule in rules:
        for bucket in range(buckets):
            if isinstance(rule, UniqueRule):
                yield UniqueTask(table, rule.columns, everything, bucket, buckets)
            if isinstance(rule, CardRule):
                yield CardTask(table, rule.cardinality, everything, bucket, buckets)


def _only(entity: Entity, rules: Sequence[Constraint]) -> Entity:
    """The type with nothing but the new rules about values and the columns they name."""
    ranges = tuple(rule for rule in rules if isinstance(rule, RangeRule))
    checks = tuple(rule for rule in rules if isinstance(rule, CheckRule))
    names = {rule.property for rule in ranges} | {rule.property for rule in checks}
    kept = tuple(found for found in entity.properties if found.name in names)
    return replace(entity, properties=kept, rules=Rules(ranges=ranges, checks=checks))
