"""The JSON documents of what commands did: query, mutate, load, export, merge and maintenance.

Scripts rely on them: later releases only add members. A member that is omitted when it has no value is `UNSET`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from omnigraph.api.results import OptimizeResult, RepairResult, Result, json_rows
from omnigraph.base.errors import Fact
from omnigraph.engine.mutation.stage import EntityCounts
from omnigraph.engine.mutation.text import MutationResult
from omnigraph.engine.prepare import ExplainResult
from omnigraph.graph.merge.run import MergeResult
from omnigraph.maintenance.indexed_load import LoadResult
from omnigraph.maintenance.schema_apply import SchemaResult
from omnigraph.pipeline.export.run import ExportResult
from omnigraph.query.explain import ExplainedStep
from omnigraph.storage.location import Location
from omnigraph.wire.commits import CommitOutput, new_commit_output


class ReadTargetOutput(msgspec.Struct, frozen=True):
    """The branch that was read, and the commit if the caller asked for one."""

    branch: str
    snapshot: str | None


class ReadOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a query."""

    query_name: str
    target: ReadTargetOutput
    columns: list[str]
    row_count: int
    rows: list[dict[str, Any]]
    graph_commit_id: str


class ExplainStepOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a plan."""

    number: int | None
    depth: int
    step: str
    rows_estimated: int | None
    rows: int | None
    seconds: float | None
    mode: str | None
    reason: str | None


class ExplainOutput(msgspec.Struct, frozen=True, kw_only=True):
    """How a query would run, or ran."""

    query_name: str
    target: ReadTargetOutput
    graph_commit_id: str
    steps: list[ExplainStepOutput]
    text: str


class EntityCountsOutput(msgspec.Struct, frozen=True):
    """How many nodes, or edges, changed."""

    inserted: int
    updated: int
    deleted: int


class ChangeOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a mutation did."""

    query_name: str
    branch: str
    affected_nodes: int
    affected_edges: int
    nodes: EntityCountsOutput
    edges: EntityCountsOutput
    actor_id: str
    commit: CommitOutput | None


class LoadedTypeOutput(msgspec.Struct, frozen=True):
    """How many entities of a type were loaded."""

    name: str
    entities_loaded: int


class IngestOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a load did."""

    uri: str
    branch: str
    branch_created: bool
    base_branch: str | None
    mode: str
    dry_run: bool
    nodes: list[LoadedTypeOutput]
    edges: list[LoadedTypeOutput]
    total_entities: int
    actor_id: str
    commit: CommitOutput | None
    indexes: dict[str, Any] | None


class ExportedTypeOutput(msgspec.Struct, frozen=True):
    """How many entities of a type were exported."""

    name: str
    entities_exported: int


class ExportOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What an export wrote."""

    uri: str
    branch: str
    graph_commit_id: str
    format: str
    files: list[str]
    size_bytes: int
    nodes: list[ExportedTypeOutput]
    edges: list[ExportedTypeOutput]
    total_entities: int


class MergedTableOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge changed in a table."""

    table_key: str
    inserted: int
    updated: int
    deleted: int
    adopted: bool


class BranchMergeOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge or a revert did, or would do. The last two are present if deletion was requested."""

    source: str
    target: str
    outcome: str
    actor_id: str | None
    commit: CommitOutput | None
    schema_steps: list[dict[str, Any]]
    tables: list[MergedTableOutput]
    merge_conflicts: list[dict[str, Any]]
    branch_deleted: bool | msgspec.UnsetType = msgspec.UNSET
    branch_delete_error: str | msgspec.UnsetType | None = msgspec.UNSET


class SchemaApplyOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What applying a schema did."""

    graph_branch: str
    steps: list[dict[str, Any]]
    commit: CommitOutput | None


class OptimizeOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What `optimize` did, or would do; `commit` is the last one that it published."""

    uri: str
    branch: str
    dry_run: bool
    tables: list[dict[str, Any]]
    commit: str | None


class BranchCommitOutput(msgspec.Struct, frozen=True):
    """The commit of a branch."""

    branch: str
    graph_commit_id: str


class RepairOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What `repair` found and did."""

    uri: str
    tables: list[dict[str, Any]]
    commit: str | None
    commits: list[BranchCommitOutput]


class CleanupOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What `cleanup` deleted, or would delete. It creates no commit."""

    uri: str
    confirmed: bool
    keep_versions: int | None
    older_than_seconds: int | None
    orphans_older_than_seconds: int
    warnings: list[str]
    retained: list[dict[str, Any]] = msgspec.field(name="kept")
    tables: list[dict[str, Any]]
    commit: None = None


def read_output(result: Result, requested_commit: str | None) -> ReadOutput:
    """Return the document of a query. `requested_commit` is the commit that the caller asked for."""
    rows = [row for batch in result.to_arrow().to_batches() for row in json_rows(batch)]
    source = result.source
    return ReadOutput(
        query_name=source.query_name,
        target=ReadTargetOutput(source.branch, requested_commit),
        columns=result.columns,
        row_count=len(rows),
        rows=rows,
        graph_commit_id=source.commit,
    )


def explain_output(explained: ExplainResult, requested_commit: str | None) -> ExplainOutput:
    """Return the document of an explanation."""
    snapshot = explained.snapshot
    return ExplainOutput(
        query_name=explained.query_name,
        target=ReadTargetOutput(snapshot.branch.name, requested_commit),
        graph_commit_id=snapshot.head,
        steps=[_step_output(step) for step in explained.steps],
        text=explained.text,
    )


def change_output(location: Location, result: MutationResult) -> ChangeOutput:
    """Return the document of a mutation."""
    return ChangeOutput(
        query_name=result.query_name,
        branch=result.branch,
        affected_nodes=result.affected_nodes,
        affected_edges=result.affected_edges,
        nodes=_counts_output(result.nodes),
        edges=_counts_output(result.edges),
        actor_id=result.actor,
        commit=new_commit_output(location, result.commit),
    )


def ingest_output(location: Location, result: LoadResult) -> IngestOutput:
    """Return the document of a load."""
    return IngestOutput(
        uri=location.uri,
        branch=result.branch,
        branch_created=result.branch_created,
        base_branch=result.base_branch,
        mode=result.mode,
        dry_run=result.dry_run,
        nodes=[LoadedTypeOutput(name, count) for name, count in _counts_of(result.counts, "node:")],
        edges=[LoadedTypeOutput(name, count) for name, count in _counts_of(result.counts, "edge:")],
        total_entities=result.total,
        actor_id=result.actor,
        commit=new_commit_output(location, result.commit),
        indexes=None if result.indexes is None else dict(result.indexes.to_json()),
    )


def export_output(location: Location, branch: str, result: ExportResult) -> ExportOutput:
    """Return the document of an export."""
    return ExportOutput(
        uri=location.uri,
        branch=branch,
        graph_commit_id=result.commit,
        format=result.format.value,
        files=list(result.files),
        size_bytes=result.size_bytes,
        nodes=[ExportedTypeOutput(name, count) for name, count in _counts_of(result.counts, "node:")],
        edges=[ExportedTypeOutput(name, count) for name, count in _counts_of(result.counts, "edge:")],
        total_entities=result.total,
    )


def merge_output(location: Location, result: MergeResult) -> BranchMergeOutput:
    """Return the document of a merge or a revert."""
    return BranchMergeOutput(
        source=result.source,
        target=result.target,
        outcome=result.outcome.value,
        actor_id=None if result.commit is None else result.commit.actor,
        commit=new_commit_output(location, result.commit),
        schema_steps=[dict(step.to_json()) for step in result.schema_steps],
        tables=[
            MergedTableOutput(
                table_key=table.table,
                inserted=table.inserted,
                updated=table.updated,
                deleted=table.deleted,
                adopted=table.adopted,
            )
            for table in result.tables
        ],
        merge_conflicts=[dict(conflict.to_json()) for conflict in result.conflicts],
    )


def schema_apply_output(location: Location, result: SchemaResult) -> SchemaApplyOutput:
    """Return the document of an applied schema."""
    return SchemaApplyOutput(
        graph_branch=result.plan.branch,
        steps=[dict(step.to_json()) for step in result.plan.steps],
        commit=new_commit_output(location, result.commit),
    )


def optimize_output(uri: str, branch: str, result: OptimizeResult, *, dry_run: bool) -> OptimizeOutput:
    """Return the document of an optimize run."""
    tables = [dict(row.to_json()) for row in (*result.tables, result.manifest)]
    return OptimizeOutput(uri=uri, branch=branch, dry_run=dry_run, tables=tables, commit=result.commit)


def repair_output(uri: str, tables: Sequence[Mapping[str, Fact]], result: RepairResult) -> RepairOutput:
    """Return the document of a repair run. `tables` are its rows with the errors as the surface renders them."""
    return RepairOutput(
        uri=uri,
        tables=[dict(row) for row in tables],
        commit=result.commit,
        commits=[BranchCommitOutput(branch, commit) for branch, commit in result.commits.items()],
    )


def _step_output(step: ExplainedStep) -> ExplainStepOutput:
    figures = step.figures
    return ExplainStepOutput(
        number=step.number,
        depth=step.depth,
        step=step.text,
        rows_estimated=figures.rows_estimated,
        rows=figures.rows,
        seconds=figures.seconds,
        mode=figures.mode,
        reason=figures.reason,
    )


def _counts_output(counts: EntityCounts) -> EntityCountsOutput:
    return EntityCountsOutput(counts.inserted, counts.updated, counts.deleted)


def _counts_of(counts: Mapping[str, int], kind: str) -> list[tuple[str, int]]:
    """Return the counts of nodes or of edges, by the name of the type."""
    return [(alias.removeprefix(kind), count) for alias, count in counts.items() if alias.startswith(kind)]
