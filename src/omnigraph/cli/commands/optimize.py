"""`omnigraph optimize`: compact tables, extend and build their indexes. Changes no row and deletes nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from omnigraph.base.display import format_bytes
from omnigraph.base.hints import action, hint
from omnigraph.cli.command import Capability, command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.hints import render_hint
from omnigraph.cli.options import LogFileOption, RunnerArguments
from omnigraph.cli.output import printable
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import StorageArguments

if TYPE_CHECKING:
    from omnigraph.types import TableOptimizeStats

FAILED_HINT: Final = (
    "hint: These tables are unchanged, and no data is lost. Fix the cause and run `omnigraph optimize` again."
)
TITLES: Final = {
    "table_key": "table",
    "fragments": "fragments",
    "bytes": "size",
    "indexes_folded": "indexes extended",
    "indexes_built": "indexes built",
    "result": "result",
}

Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="Optimize this branch.")]
Tables = Annotated[
    list[str] | None,
    typer.Option("--type", "--table", metavar="NAME", help="Optimize only this node or edge type. Repeatable."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")]
Partial = Annotated[
    bool,
    typer.Option(
        "--partial-progress", help="Commit each group of tasks when it finishes, instead of one commit at the end."
    ),
]
MaxRows = Annotated[
    int | None, typer.Option("--max-rows-per-task", metavar="N", help="Rewrite at most N rows in one task.")
]
MaxTasks = Annotated[
    int | None,
    typer.Option("--max-tasks", metavar="N", help="Run at most N tasks; run the command again for the rest."),
]


@command(
    "omnigraph optimize graph.omni",
    "omnigraph optimize graph.omni --dry-run",
    "omnigraph optimize graph.omni --type Person --type Knows --json",
    "omnigraph optimize --store s3://bucket/graph.omni --branch review/1 --partial-progress",
    "omnigraph optimize graph.omni --max-rows-per-task 500000 --max-tasks 64",
    capability=Capability.DIRECT,
)
def optimize(
    target: StorageArguments,
    *,
    branch: Branch = "main",
    tables: Tables = None,
    dry_run: DryRun = False,
    partial_progress: Partial = False,
    max_rows_per_task: MaxRows = None,
    max_tasks: MaxTasks = None,
    execution: RunnerArguments,
    output: RowsOutput,
    log_file: LogFileOption = None,
) -> None:
    """Compact small files, and extend and build indexes.

    Adds new rows to existing indexes and builds missing declared ones. Publishes all tables in one commit. It changes
    no row and deletes nothing: old versions are readable until `cleanup`. Other writers can write at the same time. A
    second run has no work. Interrupted writes on every branch are recovered first. Small jobs run in this process,
    large ones on Spark.
    """
    location = target.locate_and_print()

    from omnigraph.api.graph import Graph
    from omnigraph.wire.maintenance import optimize_output

    with output.progress() as report:
        result = Graph(location, branch=branch, read_only=dry_run, spark=execution.spark_master).optimize(
            types=tables,
            dry_run=dry_run,
            partial_progress=partial_progress,
            max_rows_per_task=max_rows_per_task,
            max_tasks=max_tasks,
            runner=execution.runner,
            progress=report,
        )
    rows = (*result.tables, result.manifest)
    document = optimize_output(location.uri, branch, result, render_hint, dry_run=dry_run)
    field_rows = [_with_text(fields) for fields in document["tables"]]
    repair = render_hint(hint("{}", action("repair")), target.arguments)
    table_rows = [*(_as_row(row, repair, dry_run=dry_run) for row in rows), *_total(rows)]
    output.show(lambda: document, TITLES, table_rows, fields=field_rows[0], field_rows=field_rows)
    _print_errors_and_pending(rows, output)
    if result.commit is not None:
        output.notify(f"optimized at commit {result.commit} (runner: {result.runner})")
    if any(row.error is not None for row in rows):
        raise typer.Exit(ExitCode.ERROR)


def _as_row(row: TableOptimizeStats, repair: str, *, dry_run: bool) -> dict[str, Any]:
    changed = row.fragments_removed or row.fragments_added
    return {
        "table_key": row.table_key,
        "fragments": f"-{row.fragments_removed:,} +{row.fragments_added:,}" if changed else "",
        "bytes": f"{format_bytes(row.bytes_before)} -> {format_bytes(row.bytes_after)}" if changed else "",
        "indexes_folded": ", ".join(row.indexes_folded),
        "indexes_built": ", ".join(row.indexes_built),
        "result": _result(row, repair, dry_run=dry_run),
    }


def _total(rows: Sequence[TableOptimizeStats]) -> Iterator[dict[str, Any]]:
    """Yield the last row, if several tables were compacted."""
    changed = [row for row in rows if row.fragments_removed or row.fragments_added]
    if len(changed) > 1:
        removed, added = sum(row.fragments_removed for row in changed), sum(row.fragments_added for row in changed)
        before, after = sum(row.bytes_before for row in changed), sum(row.bytes_after for row in changed)
        yield {
            **dict.fromkeys(TITLES, ""),
            "table_key": "total",
            "fragments": f"-{removed:,} +{added:,}",
            "bytes": f"{format_bytes(before)} -> {format_bytes(after)}",
        }


def _with_text(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a table's JSON document, with lists as text."""
    return {
        **fields,
        "pending_indexes": "; ".join(f"{index['property']}: {index['reason']}" for index in fields["pending_indexes"]),
        "indexes_folded": ", ".join(fields["indexes_folded"]),
        "indexes_built": ", ".join(fields["indexes_built"]),
    }


def _result(row: TableOptimizeStats, repair: str, *, dry_run: bool) -> str:
    if row.error is not None:
        return "failed"
    if row.skipped is not None:
        if row.skipped.value == "DriftNeedsRepair":
            return f"skipped: an external tool changed it, run {repair}"
        return f"skipped: {row.skipped.value}"
    if dry_run:
        planned = row.fragments_removed or row.indexes_folded or row.indexes_built or row.stripped
        return "planned" if planned else "nothing to do"
    return "committed" if row.committed else "nothing to do"


def _print_errors_and_pending(rows: Sequence[TableOptimizeStats], output: RowsOutput) -> None:
    """Print errors to stderr, and, unless quiet, the indexes that were not built."""
    failed = [f"{row.table_key}: {render_hint(row.reason)}" for row in rows if row.reason is not None]
    if failed:
        head = failed if len(failed) == 1 else [f"{len(failed)} tables could not be optimized", *failed]
        sys.stderr.write("error: " + "\n  ".join(map(printable, head)) + f"\n{FAILED_HINT}\n")
    for row in rows:
        for pending in row.pending_indexes:
            output.notify(f"not built: {row.table_key} {pending.property}, because {pending.reason}")
