"""`omnigraph cleanup`: delete old versions and unreferenced files; without `--confirm`, only show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from omnigraph.base.display import format_bytes, format_count
from omnigraph.cli.command import Capability, command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.hints import render_hint
from omnigraph.cli.options import LogFileOption, RunnerArguments, Yes
from omnigraph.cli.output import Count, RowsFormat, Size, write_json, write_rows
from omnigraph.cli.results import RowsOutput
from omnigraph.cli.target import StorageArguments, confirm_destruction
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions

if TYPE_CHECKING:
    from omnigraph.types import CleanupResult

TITLES: Final = {
    "table_key": "table",
    "branch": "branch",
    "old_versions_removed": "versions",
    "files_removed": "files",
    "bytes_removed": "size",
    "orphan_files_removed": "orphan files",
    "orphan_branches_removed": "orphan branches",
    "error": "error",
}
RETENTION_REASONS: Final = {
    "branch": "needed by a branch",
    "tag": "tagged",
    "merge_base": "needed by a merge base",
    "snapshot": "needed by a retained commit",
    "unpublished": "not published",
    "young": "younger than 10 minutes, or current in the last 10 minutes",
}
FILE_COLUMNS: Final = {"table_key": "table_key", "branch": "branch", "file": "file"}

Keep = Annotated[
    int | None,
    typer.Option("--keep", metavar="N", help="Keep the N newest published versions of every table. Recommended: 10."),
]
OlderThan = Annotated[
    str | None,
    typer.Option("--older-than", metavar="AGE", help="Keep versions younger than AGE, such as 90s, 15m, 12h, 7d, 2w."),
]
OrphansOlderThan = Annotated[
    str,
    typer.Option(
        "--orphans-older-than", metavar="AGE", help="Delete unreferenced files that are older than AGE. Minimum: 2d."
    ),
]
Confirm = Annotated[bool, typer.Option("--confirm", help="Delete the files. Without it, nothing is changed.")]
ListFiles = Annotated[bool, typer.Option("--list-files", help="Also print the path of every file.")]


@command(
    "omnigraph cleanup --keep 10 graph.omni",
    "omnigraph cleanup --keep 10 --older-than 7d graph.omni --confirm",
    "omnigraph cleanup --older-than 2w s3://bucket/graph.omni --confirm --yes --json",
    "omnigraph cleanup --keep 10 --list-files --json graph.omni",
    capability=Capability.DIRECT,
)
def cleanup(
    target: StorageArguments,
    *,
    keep: Keep = None,
    older_than: OlderThan = None,
    orphans_older_than: OrphansOlderThan = "3d",
    confirm: Confirm = False,
    yes: Yes = False,
    list_files: ListFiles = False,
    execution: RunnerArguments,
    output: RowsOutput,
    log_file: LogFileOption = None,
) -> None:
    """Delete old versions and the files that only they need.

    Covers every branch, every table and the manifest. Pass --keep, --older-than or both; with both, a version is
    deleted only if neither keeps it. Files that a branch, a tag or a retained version needs are never deleted, nor are
    files younger than 10 minutes. Without --confirm, the command shows what it would delete and changes nothing.
    """
    from omnigraph.api.arguments import read_duration

    grace = read_duration("orphans_older_than", orphans_older_than)
    assert grace is not None, "the flag has a default"
    options = CleanupPolicyOptions(
        keep_versions=keep,
        older_than=read_duration("older_than", older_than),
        orphans_older_than=grace,
        confirm=confirm,
    )
    options.policy(0)  # rejects an invalid policy before the graph is opened
    location = target.locate_and_print()
    output.notify(*(f"warning: {warning}" for warning in options.warnings()))
    if confirm:
        confirm_destruction(target.context, location, "cleanup --confirm", yes=yes)

    from omnigraph.api.graph import Graph
    from omnigraph.wire.maintenance import cleanup_output

    with output.progress() as report:
        result = Graph(location, spark=execution.spark_master).cleanup(
            keep=keep,
            older_than=options.older_than,
            orphans_older_than=options.orphans_older_than,
            dry_run=not confirm,
            runner=execution.runner,
            progress=report,
        )
    document = cleanup_output(location.uri, options, result, render_hint, with_files=list_files)
    if output.format is RowsFormat.JSON:
        write_json(document)
    else:
        _write(output.format, document["tables"], with_files=list_files)
        output.notify(*_summary(result))
    if any(row.error is not None for row in result.tables):
        raise typer.Exit(ExitCode.ERROR)


def _write(output_format: RowsFormat, rows: Sequence[Mapping[str, Any]], *, with_files: bool) -> None:
    """Print the rows. With files, `table` prints both tables; every other format prints one row per file."""
    is_table = output_format is RowsFormat.TABLE
    titles = TITLES
    if is_table and all(row["error"] is None for row in rows):
        titles = {key: title for key, title in TITLES.items() if key != "error"}
    if is_table or not with_files:
        write_rows(titles, [_as_row(row) for row in rows], output_format)
    if with_files:
        file_rows = [
            {"table_key": row["table_key"], "branch": row["branch"], "file": file}
            for row in rows
            for file in row["files"]
        ]
        write_rows({"file": "file"} if is_table else FILE_COLUMNS, file_rows, output_format)


def _as_row(row: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {name: Size if name == "bytes_removed" else Count for name in row if name.endswith("_removed")}
    return {name: kinds[name](value) if name in kinds else value for name, value in row.items()}


def _summary(result: CleanupResult) -> Iterator[str]:
    """Yield what was deleted, retained and failed."""
    rows, files, size = result.tables, result.files_removed, result.bytes_removed
    if not result.dry_run:
        yield f"deleted {format_count(files, 'file')}, {format_bytes(size)} (runner: {result.runner})"
    elif files:
        yield f"nothing was deleted; --confirm deletes {format_count(files, 'file')}, {format_bytes(size)}"
    else:
        yield "nothing to delete"
    retained = [f"{group.versions:,} {RETENTION_REASONS[group.reason.value]}" for group in result.kept]
    if retained:
        yield f"retained versions that the policy would delete: {', '.join(retained)}"
    failed = sum(row.error is not None for row in rows)
    if failed:
        yield f"{failed} failed; see the column 'error'"
