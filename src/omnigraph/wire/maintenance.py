"""The JSON documents of maintenance: optimize, repair, cleanup, doctor, index status and recovery list.

Scripts rely on them: later releases only add members. A row of a table has the fields of its result type in Python; its
`error` has the hint as the surface renders it, so the functions take `render_hint`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from omnigraph.base.clock import SYSTEM_CLOCK, format_timestamp
from omnigraph.base.decoding import convert
from omnigraph.base.hints import hint_to_json

if TYPE_CHECKING:
    from omnigraph import types
    from omnigraph.base.hints import Hint
    from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
    from omnigraph.maintenance.doctor.tables import TableFigures
    from omnigraph.maintenance.relocation import LocationFix

RenderHint = Callable[["Hint"], str]


class FindingOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of doctor. `fix` is its hint as the surface renders it."""

    check: str
    health: str
    message: str
    where: str | None
    branch: str | None
    fix: str | None
    expected_bytes: int | None
    actual_bytes: int | None
    advice: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """The hint as values, over HTTP: a client renders it in its own syntax."""


class DoctorOutput(msgspec.Struct, frozen=True):
    """The findings of doctor. `uri` is null if only the machine was checked."""

    uri: str | None
    healthy: bool
    findings: list[FindingOutput]


class LocationOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The fix of the location of a moved or copied graph. `state` is `needed`, `fixed` or `not needed`."""

    recorded: str
    uri: str
    lance_branches: int
    files: int
    state: str


class TableFiguresOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a table on the branch that owns them."""

    table_key: str
    branch: str
    rows: int
    fragments: int
    small_fragments: int
    deleted_share: float


class GraphHealthOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of doctor about a graph, and the figures of its tables. `checked_at` is in microseconds."""

    uri: str
    healthy: bool
    findings: list[FindingOutput]
    checked_at: int
    tables: list[TableFiguresOutput]


def optimize_output(
    uri: str, branch: str, result: types.OptimizeResult, render_hint: RenderHint, *, dry_run: bool
) -> dict[str, Any]:
    """Return the document of an optimize run; `commit` is the last one that it published."""
    tables = [optimize_row(row, render_hint) for row in (*result.tables, result.manifest)]
    return {
        "uri": uri,
        "branch": branch,
        "dry_run": dry_run,
        "tables": tables,
        "commit": result.commit,
        "runner": result.runner,
    }


def optimize_row(row: types.TableOptimizeStats, render_hint: RenderHint = str) -> dict[str, Any]:
    """Return the document of a table of an optimize run."""
    return {**_table_row(row, render_hint), "seconds": round(row.seconds, 3)}


def repair_output(uri: str, result: types.RepairResult, render_hint: RenderHint) -> dict[str, Any]:
    """Return the document of a repair run."""
    commits = [{"branch": branch, "graph_commit_id": commit} for branch, commit in result.commits.items()]
    tables = [_table_row(row, render_hint) for row in result.tables]
    return {"uri": uri, "tables": tables, "commit": result.commit, "commits": commits}


def cleanup_output(
    uri: str, options: CleanupPolicyOptions, result: types.CleanupResult, render_hint: RenderHint, *, with_files: bool
) -> dict[str, Any]:
    """Return the document of a cleanup run. It creates no commit."""
    older_than = options.older_than
    return {
        "uri": uri,
        "confirmed": options.confirm,
        "keep_versions": options.keep_versions,
        "older_than_seconds": None if older_than is None else int(older_than.total_seconds()),
        "orphans_older_than_seconds": int(options.orphans_older_than.total_seconds()),
        "warnings": options.warnings(),
        "kept": msgspec.to_builtins(result.kept),
        "tables": [cleanup_row(row, render_hint, with_files=with_files) for row in result.tables],
        "commit": None,
        "runner": result.runner,
    }


def cleanup_row(
    row: types.TableCleanupStats, render_hint: RenderHint = str, *, with_files: bool = False
) -> dict[str, Any]:
    """Return the document of a table of a cleanup run."""
    document = _table_row(row, render_hint)
    document["kept"] = document.pop("retained")
    files = document.pop("files")
    return {**document, "files": files} if with_files else document


def maintain_output(
    uri: str, result: types.MaintainResult, render_hint: RenderHint, *, confirmed: bool
) -> dict[str, Any]:
    """Return the document of a round of maintenance."""
    return {
        "uri": uri,
        "confirmed": confirmed,
        "problems": [finding_output(finding, render_hint) for finding in result.problems],
        "recovered": list(result.recovered),
        "optimized": {
            branch: [optimize_row(row, render_hint) for row in rows] for branch, rows in result.optimized.items()
        },
        "cleaned": None if result.cleaned is None else [cleanup_row(row, render_hint) for row in result.cleaned],
        "errors": list(result.errors),
        "left": [finding_output(finding, render_hint) for finding in result.left],
        "needs_repair": result.needs_repair,
        "runner": result.runner,
    }


def index_result_output(result: types.IndexResult) -> dict[str, Any]:
    """Return the document of built indexes, with the id of the commit."""
    indexes = [{**msgspec.to_builtins(row), "reason": row.reason or None} for row in result.indexes]
    commit = None if result.commit is None else result.commit.id
    return {"branch": result.branch, "commit": commit, "indexes": indexes, "runner": result.runner}


def index_status_output(uri: str, branch: str, coverages: Iterable[types.IndexCoverage]) -> dict[str, Any]:
    """Return the document of the indexes of a branch."""
    return {"uri": uri, "graph_branch": branch, "indexes": [_coverage_row(coverage) for coverage in coverages]}


def doctor_output(uri: str | None, findings: list[types.Finding], render_hint: RenderHint) -> DoctorOutput:
    """Return the document of the findings."""
    from omnigraph.maintenance.doctor.findings import is_healthy

    return DoctorOutput(uri, is_healthy(findings), [finding_output(finding, render_hint) for finding in findings])


def location_output(fix: LocationFix) -> LocationOutput:
    """Return the document of a fix of the location."""
    state = "fixed" if fix.applied else "needed" if fix.is_needed else "not needed"
    return LocationOutput(
        recorded=fix.recorded, uri=fix.uri, lance_branches=fix.lance_branches, files=fix.files, state=state
    )


def graph_health_output(
    uri: str, location: str, findings: list[types.Finding], tables: Iterable[TableFigures], render_hint: RenderHint
) -> GraphHealthOutput:
    """Return the document of the health of a graph. It contains paths relative to the graph, never its location."""
    from omnigraph.maintenance.doctor.findings import is_healthy

    def relative(row: FindingOutput, advice: Hint) -> FindingOutput:
        where = None if row.where is None or row.where == location else row.where.removeprefix(f"{location}/")
        return msgspec.structs.replace(
            row,
            where=where,
            message=row.message.replace(location, uri),
            advice=hint_to_json(advice) if advice.parts else msgspec.UNSET,
        )

    return GraphHealthOutput(
        uri=uri,
        healthy=is_healthy(findings),
        findings=[relative(finding_output(finding, render_hint), finding.fix) for finding in findings],
        checked_at=SYSTEM_CLOCK.now_us(),
        tables=[convert(table, TableFiguresOutput, from_attributes=True) for table in tables],
    )


def finding_output(finding: types.Finding, render_hint: RenderHint) -> FindingOutput:
    """Return the document of a finding."""
    return FindingOutput(
        check=finding.check.value,
        health=finding.health.value,
        message=finding.message,
        where=finding.where or None,
        branch=finding.branch or None,
        fix=render_hint(finding.fix) or None,
        expected_bytes=finding.expected_bytes,
        actual_bytes=finding.actual_bytes,
    )


def recoveries_output(
    uri: str, branch: str, pending: Iterable[types.PendingIntent], recoveries: Iterable[types.RecoveryRecord]
) -> dict[str, Any]:
    """Return the document of pending intents, and of the past recoveries of a branch."""
    return {
        "uri": uri,
        "graph_branch": branch,
        "pending": [_intent_output(intent) for intent in pending],
        "recoveries": [_recovery_output(record, branch) for record in recoveries],
    }


def _table_row(
    row: types.TableOptimizeStats | types.TableRepairStats | types.TableCleanupStats, render_hint: RenderHint
) -> dict[str, Any]:
    """Return the fields of a row, with the rendered `error` in the place of `reason`."""
    error = None if row.reason is None else render_hint(row.reason)
    return {
        "error" if name == "reason" else name: error if name == "reason" else value
        for name, value in msgspec.to_builtins(row).items()
    }


def _coverage_row(row: types.IndexCoverage) -> dict[str, Any]:
    return {
        "table_key": row.table_key,
        "branch": row.branch,
        "property": row.column,
        "kind": None if row.kind is None else row.kind.value,
        "declared": row.declared,
        "state": row.state.value,
        "coverage": "Degraded" if row.is_degraded else "Indexed",
        "uncovered_fragments": row.uncovered_fragments,
        "uncovered_rows": row.uncovered_rows,
        "rows": row.rows,
        "reason": row.reason or None,
        "pending_rows": row.pending_rows,
        "lance_type": row.lance_type,
        "segments": row.segments,
        "used_by_queries": row.used_by_queries,
    }


def _intent_output(pending: types.PendingIntent) -> dict[str, Any]:
    document: dict[str, Any] = {"state": pending.state.value, "path": pending.path}
    if pending.problem:
        document["why"] = pending.problem
    if pending.intent is not None:
        intent = pending.intent
        document |= {
            "operation_id": intent.op_id,
            "kind": intent.kind,
            "branch": intent.branch,
            "actor_id": intent.actor,
            "graph_commit_id": intent.commit_id,
            "created_at": intent.created_us,
            "created": format_timestamp(intent.created_us),
            "tables": [table.id for table in intent.tables],
        }
    return document


def _recovery_output(record: types.RecoveryRecord, branch: str) -> dict[str, Any]:
    return {
        "state": record.action,
        "operation_id": record.operation_id,
        "kind": record.operation.value,
        "branch": branch,
        "actor_id": record.actor,
        "created_at": record.recovered_us,
        "created": format_timestamp(record.recovered_us),
        "tables": dict(record.tables),
    }
