"""Schema apply: changes a branch to another schema as one commit, or changes nothing.

In: a graph, a branch, the text of the desired schema, a function that runs tasks. Out: a `SchemaResult`. The plan is
made for the snapshot that everything is staged on. First all rows that a new rule concerns are checked, and all
violations are raised together; then columns are written and staged (`graph/schema_change`). Small work runs in this
process, the rest in tasks. Another schema change, or a table that moved during the run, is a `read_set_conflict`. A
crash leaves unreferenced files, or a commit that recovery finishes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from omnigraph.arrow.columns import Column, whole_array
from omnigraph.arrow.hashing import bucket_of
from omnigraph.base import limits
from omnigraph.base.display import Displayed, format_count
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.records import CommitRecord, WriteOperation
from omnigraph.graph.manifest.requirements import ReadSetConflictError
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.graph.schema_change import column_plan, stage_schema
from omnigraph.graph.schema_plan import SchemaPlan, plan_schema
from omnigraph.graph.write.check import read_other_catalogs
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.integrity.report import ValidationError, Violation, ViolationReport, count_others, merge_reports
from omnigraph.integrity.row_rules import check_property_values, check_required
from omnigraph.integrity.rules import Rule, RuleViolations
from omnigraph.integrity.set_rules import edges_of_type, repeated_rows, unique_keys
from omnigraph.pipeline.runner import RunTasks, task
from omnigraph.schema.catalog import Cardinality, Catalog, CheckRule, Entity, RangeRule, Rules
from omnigraph.schema.evolution.steps import AddConstraint, CardRule, Constraint, RequiredRule, UniqueRule
from omnigraph.storage.lance.columns import ColumnPlan, WrittenColumns, write_columns
from omnigraph.storage.lance.dataset import Dataset, DatasetVersion
from omnigraph.storage.lance.fragments import group_fragments
from omnigraph.storage.location import Location


class SchemaRejectedError(ValidationError):
    """Rows of the graph break rules of the new schema; nothing was written."""

    def __init__(self, report: ViolationReport) -> None:
        first = report.first[0]
        rows = "a row" if report.total == 1 else f"{report.total:,} rows"
        super().__init__(
            f"{first.file}: {first.message}{count_others(report)}",
            report,
            head=f"the graph has {rows} that the new schema does not allow",
            code="schema_rejected",
            hint="Nothing was written. Fix these rows, or remove the rule from the schema.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRequest:
    """The schema to apply and its actor. `source_name` names the text in errors. `hard`: drop data permanently."""

    source: str
    actor: str
    source_name: str = "<schema>"
    hard: bool = False
    rows_per_task: int = limits.SCHEMA_ROWS_PER_TASK


@dataclass(frozen=True, slots=True, repr=False)
class SchemaResult(Displayed):
    """The result of applying a schema."""

    plan: SchemaPlan
    """The steps that were applied."""
    commit: CommitRecord | None
    """The commit; None if the branch had the schema already."""
    runner: str = "local"
    """Where the rows were checked and written: `local`, or `spark` and its master."""

    def _summary(self) -> Mapping[str, object]:
        return {
            "plan": f"{format_count(len(self.plan.steps), 'step')} on {self.plan.branch}",
            "commit": None if self.commit is None else self.commit.id,
        }


def apply_schema(
    root: Location,
    branch: str,
    request: SchemaRequest,
    run_tasks: RunTasks,
    environment: WriteEnvironment | None = None,
) -> SchemaResult:
    """Change the branch to the schema as one commit, or raise with nothing written."""
    run = _SchemaRun(request, run_tasks)
    try:
        write_request = WriteRequest(kind=WriteOperation.SCHEMA_APPLY, actor=request.actor, stage=run.stage)
        commit = write(root, branch, write_request, environment)
    except ReadSetConflictError:
        # The conflict may be that recovery has just finished an interrupted apply of this schema.
        run.plan = run.plan_for(read_snapshot(root, branch))
        if run.plan.steps or not run.plan.can_apply:
            raise
        commit = None
    assert run.plan is not None, "`stage` makes the plan"
    return SchemaResult(run.plan, commit)


@dataclass(slots=True)
class _SchemaRun:
    request: SchemaRequest
    run_tasks: RunTasks
    plan: SchemaPlan | None = None

    def stage(self, area: StagingArea) -> StagedWrite | None:
        self.plan = self.plan_for(area.snapshot)
        if self.plan.can_apply and self.plan.counter_catalog is not None:
            self.plan = self.plan_for(area.snapshot, read_other_catalogs(area.snapshot))
        self.plan.require_supported()
        if not self.plan.steps:
            return None
        self._check(area, self.plan)
        return stage_schema(area, self.plan, self._write_columns)

    def plan_for(self, snapshot: Snapshot, others: Sequence[Catalog] = ()) -> SchemaPlan:
        """Return the steps that change the schema of a snapshot."""
        request = self.request
        return plan_schema(snapshot, request.source, source_name=request.source_name, hard=request.hard, others=others)

    def _check(self, area: StagingArea, plan: SchemaPlan) -> None:
        """Raise `SchemaRejectedError` with all rows that break a new rule."""
        tasks: list[CheckTask] = []
        for old in area.snapshot.schema.catalog.types:
            new = plan.catalog.type_with_id(old.id)
            rules = _rules_to_check(plan, old)
            size = area.table(old.alias).row_count
            if new is not None and rules and size:
                columns = column_plan(old, new, size, nulls=plan.null_counts.get(old.id, {}))
                dataset = area.read(old.alias)
                tasks += _check_tasks(dataset, new, columns, rules, self.request.rows_per_task)
        report = merge_reports(self.run_tasks(run_check, tasks)) if tasks else ViolationReport()
        if report.total:
            raise SchemaRejectedError(report)

    def _write_columns(self, dataset: Dataset, plan: ColumnPlan) -> Sequence[WrittenColumns]:
        rows = dataset.fragment_rows()
        version = DatasetVersion.of(dataset)
        parts = group_fragments(rows, self.request.rows_per_task)
        tasks = [FillTask(version, plan, part, dataset.data_bytes() // len(parts)) for part in parts]
        return self.run_tasks(fill_columns, tasks)


def _rules_to_check(plan: SchemaPlan, entity: Entity) -> list[Constraint]:
    """Return the rules of a type that its rows may break: new ones, and a `@unique` whose nulls get a value."""
    steps = [planned.step for planned in plan.steps]
    rules: list[Constraint] = [
        step.constraint
        for step in steps
        if isinstance(step, AddConstraint) and step.type_id == entity.id and not step.implied
    ]
    filled = {name for name, count in plan.null_counts.get(entity.id, {}).items() if count}
    after = plan.catalog.type_with_id(entity.id)
    uniques = [] if after is None else [UniqueRule(columns) for columns in after.rules.uniques]
    rules += [rule for rule in uniques if filled & {*rule.columns} and rule not in rules]
    return rules


def _check_tasks(
    dataset: Dataset, new: Entity, columns: ColumnPlan, rules: Sequence[Constraint], rows_per_task: int
) -> Iterator[CheckTask]:
    rows, size_bytes = dataset.fragment_rows(), dataset.data_bytes()
    table = CheckedTable(DatasetVersion.of(dataset), new.alias, columns)
    buckets = max(1, -(-sum(rows.values()) // rows_per_task))
    required = tuple(rule.property for rule in rules if isinstance(rule, RequiredRule) and rule.fill is None)
    reduced = _with_value_rules(new, rules)
    if required or reduced.rules != Rules():
        for part in group_fragments(rows, rows_per_task):
            yield RowsTask(
                table=table,
                entity=reduced,
                required=required,
                fragment_ids=part,
                size_bytes=size_bytes * len(part) // len(rows),
            )
    for rule in rules:
        if isinstance(rule, UniqueRule | CardRule):
            for bucket in range(buckets):
                yield RuleBucketTask(
                    table=table,
                    rule=rule,
                    fragment_ids=tuple(rows),
                    size_bytes=size_bytes,
                    bucket=bucket,
                    buckets=buckets,
                )


def _with_value_rules(entity: Entity, rules: Sequence[Constraint]) -> Entity:
    """Return the type with only the rules about values and the columns that they name."""
    ranges = tuple(rule for rule in rules if isinstance(rule, RangeRule))
    checks = tuple(rule for rule in rules if isinstance(rule, CheckRule))
    names = {rule.property for rule in ranges} | {rule.property for rule in checks}
    columns = tuple(column for column in entity.properties if column.name in names)
    return replace(entity, properties=columns, rules=Rules(ranges=ranges, checks=checks))


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """A table, and the columns of the new schema."""

    version: DatasetVersion
    alias: str
    plan: ColumnPlan

    def read(self, names: Iterable[str], fragment_ids: tuple[int, ...]) -> Iterator[dict[str, Column]]:
        """Read the rows of some fragments, batch by batch, as columns with their new names."""
        origins = self.plan.origins
        requested = tuple(dict.fromkeys(("id", *names)))
        present = [origins[name] for name in requested if name in origins]
        for batch in self.version.open().read_fragments(fragment_ids, present):
            yield {
                name: self.plan.replace_nulls(name, batch.column(origins[name]))
                if name in origins
                else self._repeat_fill(name, batch.num_rows)
                for name in requested
            }

    def _repeat_fill(self, name: str, rows: int) -> Column:
        make: Any = pa.scalar
        column: Column = pa.repeat(make(self.plan.fills[name], self.plan.schema.field(name).type), rows)
        return column


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsTask:
    """Check rules about single values. `entity` has only new rules; `required` are columns that must have values."""

    table: CheckedTable
    entity: Entity
    required: tuple[str, ...]
    fragment_ids: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBucketTask:
    """Check one `@unique` for the keys of one bucket, or one `@card` for the sources of one bucket."""

    table: CheckedTable
    rule: UniqueRule | CardRule
    fragment_ids: tuple[int, ...]
    size_bytes: int
    bucket: int
    buckets: int

    def contains(self, keys: Column) -> Column:
        """Return per key whether it belongs to the bucket; a null belongs to none."""
        buckets = self.buckets
        matches = pa.array(bucket_of(keys, buckets) == self.bucket) if buckets > 1 else pa.repeat(True, len(keys))
        in_bucket: Column = pc.and_(matches, keys.is_valid())
        return in_bucket


@dataclass(frozen=True, slots=True)
class FillTask:
    """Write column values for some fragments of one table."""

    version: DatasetVersion
    plan: ColumnPlan
    fragment_ids: tuple[int, ...]
    size_bytes: int


CheckTask = RowsTask | RuleBucketTask


@task("check rows", input_bytes=attrgetter("size_bytes"))
def run_check(task: CheckTask) -> ViolationReport:
    """Run one check and return its violations."""
    if isinstance(task, RowsTask):
        return _check_rows(task)
    if isinstance(task.rule, UniqueRule):
        return _check_unique(task, task.rule.columns)
    return _check_card(task, task.rule.cardinality)


@task("write columns", input_bytes=attrgetter("size_bytes"))
def fill_columns(task: FillTask) -> WrittenColumns:
    """Write the values of one task."""
    return write_columns(task.version.open(), task.plan, task.fragment_ids)


def _check_rows(task: RowsTask) -> ViolationReport:
    names = {column.name for column in task.entity.properties} | set(task.required)
    reports = []
    for columns in task.table.read(sorted(names), task.fragment_ids):
        groups = [group for name in task.required for group in check_required(name, columns[name])]
        groups += check_property_values(task.entity, columns)
        reports += [_report(task.table.alias, group, columns["id"]) for group in groups]
    return merge_reports(reports)


def _check_unique(task: RuleBucketTask, names: tuple[str, ...]) -> ViolationReport:
    keys: list[Column] = []
    ids: list[Column] = []
    for columns in task.table.read(names, task.fragment_ids):
        batch_keys = unique_keys([columns[name] for name in names])
        in_bucket = task.contains(batch_keys)
        keys.append(batch_keys.filter(in_bucket))
        ids.append(columns["id"].filter(in_bucket))
    all_keys = whole_array(pa.chunked_array(keys, pa.utf8()))
    rows, earlier = repeated_rows(all_keys)
    if not len(rows):
        return ViolationReport()
    columns_text = ", ".join(names)
    all_ids = whole_array(pa.chunked_array(ids, pa.utf8()))
    group = RuleViolations(
        rule=Rule.UNIQUE,
        property=columns_text,
        message=f"another row has the same {columns_text}",
        rows=rows,
        values=all_keys.take(pa.array(rows)),
        existing_ids=all_ids.take(pa.array(earlier)),
    )
    return _report(task.table.alias, group, all_ids)


def _check_card(task: RuleBucketTask, cardinality: Cardinality) -> ViolationReport:
    batches = (columns["src"] for columns in task.table.read(("src",), task.fragment_ids))
    sources = [batch.filter(task.contains(batch)) for batch in batches]
    counted: Any = pc.value_counts(whole_array(pa.chunked_array(sources, pa.utf8())))
    names, counts = counted.field("values"), counted.field("counts").to_numpy(zero_copy_only=False)
    low, high = cardinality.low, cardinality.high
    groups = []
    if high is not None:
        message = f"has more than {edges_of_type(high)}"
        groups.append((Rule.CARDINALITY_MAX, message, np.flatnonzero(counts > high)))
    groups.append((Rule.CARDINALITY_MIN, f"has fewer than {edges_of_type(low)}", np.flatnonzero(counts < low)))
    return merge_reports(
        _report(task.table.alias, RuleViolations(rule=rule, property="from", message=message, rows=rows), names)
        for rule, message, rows in groups
        if len(rows)
    )


def _report(alias: str, group: RuleViolations, ids: Column) -> ViolationReport:
    """Return the first rows of a group of violations, named by their ids, and the total number."""
    shown = group.only(np.arange(min(len(group), limits.VIOLATIONS_KEPT_MAX), dtype=np.int64))
    existing_ids = [None] * len(shown) if shown.existing_ids is None else shown.existing_ids.to_pylist()
    first = [
        Violation(
            file=f"{alias} {ids[row].as_py()}",
            line=None,
            property=group.property,
            value=value,
            rule=group.rule,
            message=group.message,
            entity_id=existing_id,
        )
        for row, value, existing_id in zip(shown.rows.tolist(), shown.shown_values(), existing_ids, strict=True)
    ]
    return ViolationReport.of_group(len(group), first)
