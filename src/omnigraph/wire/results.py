"""The JSON documents of what commands did: query, mutate, load, embed, export, merge, lint and schema changes.

Scripts rely on them: later releases only add members. A member that is omitted when it has no value is `UNSET`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from omnigraph.base.errors import Fact, OmnigraphError
from omnigraph.wire.commits import CommitOutput, new_commit_output
from omnigraph.wire.errors import error_document

if TYPE_CHECKING:
    from omnigraph import types
    from omnigraph.api.history import TableNames
    from omnigraph.query.explain import ExplainedStep
    from omnigraph.query.shapes import QueryShape


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


class ExplainOutput(msgspec.Struct, frozen=True, kw_only=True):
    """How a query would run, or ran."""

    query_name: str
    target: ReadTargetOutput
    graph_commit_id: str
    steps: list[dict[str, Any]]
    text: str


class ChangeOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a mutation did. `nodes` and `edges` count what was inserted, updated and deleted."""

    query_name: str
    branch: str
    affected_nodes: int
    affected_edges: int
    nodes: dict[str, int]
    edges: dict[str, int]
    actor_id: str
    commit: CommitOutput | None


class LoadedTypeOutput(msgspec.Struct, frozen=True):
    """How many entities of a type were loaded, and what was done with them, or would be done."""

    name: str
    entities_loaded: int
    inserted: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted: int = 0
    inserted_without_key: int = 0


class GraphBatchLoadOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a load did."""

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
    runner: str


class IngestOutput(GraphBatchLoadOutput, frozen=True, kw_only=True):
    """What a load did, and to which graph."""

    uri: str

    @classmethod
    def of(cls, uri: str, loaded: GraphBatchLoadOutput) -> IngestOutput:
        """Return the document of a load with the address of its graph."""
        return cls(uri=uri, **msgspec.structs.asdict(loaded))

    def without_uri(self) -> GraphBatchLoadOutput:
        """Return the document without the address of the graph."""
        return GraphBatchLoadOutput(**{name: getattr(self, name) for name in GraphBatchLoadOutput.__struct_fields__})


class EmbedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of embed did. `errors` has the first 100 rows that failed."""

    uri: str
    branch: str
    dry_run: bool
    properties: list[dict[str, Any]]
    requests: int
    retries: int
    commits: list[str]
    errors: list[dict[str, Any]]
    indexes: list[str] | None
    actor_id: str
    seconds: float
    runner: str


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
    runner: str


class BlobOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A stored blob. `etag` is the header of its response over HTTP; `file`, if it was written to one."""

    entity: str
    type: str
    id: str
    property: str
    size_bytes: int
    etag: str
    file: str | msgspec.UnsetType = msgspec.UNSET


class BranchMergeOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge or a revert did, or would do. The last three are present if deletion was requested."""

    source: str
    target: str
    outcome: str
    actor_id: str | None
    commit: CommitOutput | None
    schema_steps: list[dict[str, Any]]
    tables: list[dict[str, Any]]
    merge_conflicts: list[dict[str, Any]]
    branch_deleted: bool | msgspec.UnsetType = msgspec.UNSET
    branch_delete_error: str | msgspec.UnsetType | None = msgspec.UNSET
    branch_delete_error_details: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class BranchDeletion:
    """The requested deletion of a merged branch: why it failed, if it did, and the hint as the surface renders it."""

    failure: OmnigraphError | None
    hint: str = ""

    def details(self) -> dict[str, Fact] | None:
        """Return the document of the error."""
        return None if self.failure is None else error_document(self.failure, self.hint)


class LintOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What checking query texts found, and the interface of each query."""

    errors: list[dict[str, Any]]
    warnings: list[dict[str, Any]]
    queries: list[dict[str, Any]]


class SchemaApplyOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What applying a schema did."""

    graph_branch: str
    steps: list[dict[str, Any]]
    commit: CommitOutput | None
    runner: str


def read_output(result: types.Result, requested_commit: str | None, *, wide_as_text: bool = False) -> ReadOutput:
    """Return the document of a query.

    `requested_commit` is the commit that the caller asked for. With `wide_as_text`, 64-bit integers are text.
    """
    from omnigraph.api.results import integers_as_text, json_rows

    table = integers_as_text(result.to_arrow()) if wide_as_text else result.to_arrow()
    rows = [row for batch in table.to_batches() for row in json_rows(batch)]
    source = result.source
    return ReadOutput(
        query_name=source.query_name,
        target=ReadTargetOutput(source.branch, requested_commit),
        columns=result.columns,
        row_count=len(rows),
        rows=rows,
        graph_commit_id=source.commit,
    )


def explain_output(explained: types.ExplainResult, requested_commit: str | None) -> ExplainOutput:
    """Return the document of an explanation."""
    return ExplainOutput(
        query_name=explained.query_name,
        target=ReadTargetOutput(explained.branch, requested_commit),
        graph_commit_id=explained.commit,
        steps=[_step_output(step) for step in explained.steps],
        text=explained.text,
    )


def change_output(result: types.MutationResult, names: TableNames) -> ChangeOutput:
    """Return the document of a mutation. `names`: the tables of its commit."""
    return ChangeOutput(
        query_name=result.query_name,
        branch=result.branch,
        affected_nodes=result.affected_nodes,
        affected_edges=result.affected_edges,
        nodes=msgspec.to_builtins(result.nodes),
        edges=msgspec.to_builtins(result.edges),
        actor_id=result.actor,
        commit=new_commit_output(result.commit, names),
    )


def ingest_output(uri: str, result: types.LoadResult, names: TableNames) -> IngestOutput:
    """Return the document of a load. `names`: the tables of its commit."""
    from omnigraph.wire.maintenance import index_result_output

    return IngestOutput(
        uri=uri,
        branch=result.branch,
        branch_created=result.branch_created,
        base_branch=result.base_branch,
        mode=result.mode,
        dry_run=result.dry_run,
        nodes=_loaded_types(result, "node:"),
        edges=_loaded_types(result, "edge:"),
        total_entities=result.total,
        actor_id=result.actor,
        commit=new_commit_output(result.commit, names),
        indexes=None if result.indexes is None else index_result_output(result.indexes),
        runner=result.runner,
    )


def embed_output(uri: str, result: types.EmbedResult) -> EmbedOutput:
    """Return the document of a run of embed."""
    return EmbedOutput(
        uri=uri,
        branch=result.branch,
        dry_run=result.dry_run,
        properties=[msgspec.to_builtins(stats) for stats in result.properties],
        requests=result.requests,
        retries=result.retries,
        commits=list(result.commits),
        errors=[msgspec.to_builtins(failure) for failure in result.errors],
        indexes=None if result.indexes is None else list(result.indexes),
        actor_id=result.actor,
        seconds=round(result.seconds, 3),
        runner=result.runner,
    )


def _loaded_types(result: types.LoadResult, prefix: str) -> list[LoadedTypeOutput]:
    return [
        LoadedTypeOutput(name, count, **_change_counts(result, prefix + name))
        for name, count in _counts_of(result.counts, prefix)
    ]


def _change_counts(result: types.LoadResult, alias: str) -> dict[str, int]:
    changes = result.changes.get(alias)
    return {} if changes is None else msgspec.to_builtins(changes)


def export_output(uri: str, branch: str, result: types.ExportResult) -> ExportOutput:
    """Return the document of an export."""
    return ExportOutput(
        uri=uri,
        branch=branch,
        graph_commit_id=result.commit,
        format=result.format.value,
        files=list(result.files),
        size_bytes=result.size_bytes,
        nodes=[ExportedTypeOutput(name, count) for name, count in sorted(_counts_of(result.counts, "node:"))],
        edges=[ExportedTypeOutput(name, count) for name, count in sorted(_counts_of(result.counts, "edge:"))],
        total_entities=result.total,
        runner=result.runner,
    )


def merge_output(
    result: types.MergeResult, names: TableNames, deletion: BranchDeletion | None = None
) -> BranchMergeOutput:
    """Return the document of a merge or a revert. `names`: the tables of its commit."""
    failure = None if deletion is None else deletion.failure
    return BranchMergeOutput(
        source=result.source,
        target=result.target,
        outcome=result.outcome.value,
        actor_id=None if result.commit is None else result.commit.actor,
        commit=new_commit_output(result.commit, names),
        schema_steps=[schema_step_output(step) for step in result.schema_steps],
        tables=[_merged_table_output(table) for table in result.tables],
        merge_conflicts=[dict(conflict.to_json()) for conflict in result.conflicts],
        branch_deleted=msgspec.UNSET if deletion is None else failure is None,
        branch_delete_error=msgspec.UNSET if deletion is None else (None if failure is None else failure.message),
        branch_delete_error_details=msgspec.UNSET if deletion is None else deletion.details(),
    )


def schema_plan_output(plan: types.SchemaPlan) -> dict[str, Any]:
    """Return the document of a schema plan."""
    from omnigraph.graph.schema_plan import refusal_to_json

    return {
        "graph_branch": plan.branch,
        "graph_commit_id": plan.commit,
        "can_apply": plan.can_apply,
        "steps": [schema_step_output(step) for step in plan.steps],
        "unsupported": [refusal_to_json(change) for change in plan.unsupported],
    }


def schema_step_output(planned: types.PlannedStep) -> dict[str, Any]:
    """Return the document of a schema step. `table_key` is null for a step that is not about one type."""
    return {
        "step": planned.step.kind,
        "table_key": getattr(planned.step, "alias", None),
        "text": planned.step.describe(),
        "cost": planned.cost.value,
        "rows": planned.rows,
        "filled_rows": planned.filled_rows,
    }


def feed_step_output(step: types.SchemaStep) -> dict[str, Any]:
    """Return the document of a schema step of a feed; a rename also has the old and the new name."""
    from omnigraph.schema.evolution.steps import RenameProperty, RenameType

    document = {**schema_step_output(step.planned), "table_id": step.table_id}
    match step.planned.step:
        case RenameType(alias=alias, name=name):
            return {**document, "old_name": alias.partition(":")[2], "new_name": name}
        case RenameProperty(old=old, new=new):
            return {**document, "old_name": old, "new_name": new}
        case _:
            return document


def lint_output(report: types.LintReport) -> LintOutput:
    """Return the document of checked query files."""
    return LintOutput(
        errors=[dict(problem.to_json()) for problem in report.errors],
        warnings=[dict(problem.to_json()) for problem in report.warnings],
        queries=[query_output(query) for query in report.queries],
    )


def query_output(query: QueryShape) -> dict[str, Any]:
    """Return the document of the interface of a query."""
    document = msgspec.to_builtins(query)
    kind = "mutation" if document.pop("is_mutation") else "read"
    return {"name": document.pop("name"), "kind": kind, **document}


def schema_apply_output(result: types.SchemaResult, names: TableNames) -> SchemaApplyOutput:
    """Return the document of an applied schema. `names`: the tables of its commit."""
    return SchemaApplyOutput(
        graph_branch=result.plan.branch,
        steps=[schema_step_output(step) for step in result.plan.steps],
        commit=new_commit_output(result.commit, names),
        runner=result.runner,
    )


def _merged_table_output(counts: types.TableCounts) -> dict[str, Any]:
    document = msgspec.to_builtins(counts)
    return {"table_key": document.pop("table"), **document}


def _step_output(step: ExplainedStep) -> dict[str, Any]:
    return {"number": step.number, "depth": step.depth, "step": step.text, **msgspec.to_builtins(step.figures)}


def _counts_of(counts: Mapping[str, int], kind: str) -> list[tuple[str, int]]:
    """Return the counts of nodes or of edges, by the name of the type."""
    return [(alias.removeprefix(kind), count) for alias, count in counts.items() if alias.startswith(kind)]
