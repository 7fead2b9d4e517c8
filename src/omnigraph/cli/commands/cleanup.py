"""`omnigraph cleanup`: delete old versions and unreferenced files; without `--confirm`, only show them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from omnigraph.cli.command import CommandSource
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.hints import render_hint
from omnigraph.cli.options import Format, Json, LogFileOption, SparkMaster, Store, Uri, Yes
from omnigraph.cli.output import RowsFormat, choose_format, write_json, write_rows
from omnigraph.cli.target import confirm_destruction, direct_target
from omnigraph.maintenance.cleanup.options import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions, TableCleanupStats
    from omnigraph.storage.location import Location
    from omnigraph.wire.results import CleanupOutput

TITLES: Final = {
    "table_key": "table",
    "branch": "branch",
    "old_versions_removed": "versions",
    "files_removed": "files",
    "bytes_removed": "bytes",
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


def cleanup(
    context: typer.Context,
    uri: Uri = None,
    store: Store = None,
    keep: Keep = None,
    older_than: OlderThan = None,
    orphans_older_than: OrphansOlderThan = "3d",
    confirm: Confirm = False,
    yes: Yes = False,
    list_files: ListFiles = False,
    spark_master: SparkMaster = None,
    rows_format: Format = None,
    as_json: Json = False,
    log_file: LogFileOption = None,
) -> None:
    """Delete old versions and the files that only they need.

    Covers every branch, every table and the manifest. Pass --keep, --older-than or both; with both, a version is
    deleted only if neither keeps it. Files that a branch, a tag or a retained version needs are never deleted, nor are
    files younger than 10 minutes. Without --confirm, the command shows what it would delete and changes nothing.
    """
    from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions

    output_format = choose_format(rows_format, as_json)
    options = CleanupPolicyOptions(
        keep_versions=keep,
        older_than=None if older_than is None else parse_duration(older_than),
        orphans_older_than=parse_duration(orphans_older_than),
        confirm=confirm,
    )
    options.policy(0)  # rejects an invalid policy before the graph is opened
    location = direct_target(context, uri, store)
    if not context.obj.quiet:
        sys.stderr.writelines(f"warning: {warning}\n" for warning in options.warnings())
    if confirm:
        confirm_destruction(context, location, "cleanup --confirm", yes=yes, as_json=output_format is RowsFormat.JSON)
    rows = _run(context, location, options, spark_master)
    if output_format is RowsFormat.JSON:
        write_json(_output(location, options, rows, with_files=list_files))
    else:
        _write(output_format, rows, with_files=list_files)
        if not context.obj.quiet:
            _print_summary(options, rows)
    if any(row.error is not None for row in rows):
        raise typer.Exit(ExitCode.ERROR)


def _run(
    context: typer.Context, location: Location, options: CleanupPolicyOptions, spark_master: str | None
) -> list[TableCleanupStats]:
    from omnigraph.api.graph import Graph
    from omnigraph.cli.progress import show_progress
    from omnigraph.maintenance.cleanup.run import run_cleanup
    from omnigraph.pipeline.spark.session import SparkSettings

    with show_progress(quiet=context.obj.quiet) as report:
        return run_cleanup(Graph(location), options, SparkSettings(master=spark_master), report)


def _output(
    location: Location, options: CleanupPolicyOptions, rows: Sequence[TableCleanupStats], *, with_files: bool
) -> CleanupOutput:
    from omnigraph.maintenance.cleanup.options import sum_kept
    from omnigraph.wire.results import CleanupOutput

    older_than = options.older_than
    return CleanupOutput(
        uri=location.uri,
        confirmed=options.confirm,
        keep_versions=options.keep_versions,
        older_than_seconds=None if older_than is None else int(older_than.total_seconds()),
        orphans_older_than_seconds=int(options.orphans_older_than.total_seconds()),
        warnings=list(options.warnings()),
        retained=[dict(versions.to_json()) for versions in sum_kept(rows)],
        tables=[{**_document(row), **({"files": list(row.files)} if with_files else {})} for row in rows],
    )


def _document(row: TableCleanupStats) -> dict[str, Any]:
    return {**row.to_json(), "error": None if row.reason is None else render_hint(row.reason)}


def _write(output_format: RowsFormat, rows: Sequence[TableCleanupStats], *, with_files: bool) -> None:
    """Print the rows. With files, `table` prints both tables; every other format prints one row per file."""
    is_table = output_format is RowsFormat.TABLE
    has_errors = any(row.error is not None for row in rows)
    titles = TITLES if is_table else {name: name for name in TITLES}
    if is_table and not has_errors:
        titles = {key: title for key, title in TITLES.items() if key != "error"}
    if is_table or not with_files:
        cells: Any = [_document(row) for row in rows]
        write_rows(titles, cells, output_format)
    if with_files:
        files = [(row, file) for row in rows for file in row.files]
        file_rows = [{"table_key": row.table_key, "branch": row.branch, "file": file} for row, file in files]
        write_rows({"file": "file"} if is_table else FILE_COLUMNS, file_rows, output_format)


def _print_summary(options: CleanupPolicyOptions, rows: Sequence[TableCleanupStats]) -> None:
    """Print what was deleted, retained and failed to stderr."""
    from omnigraph.maintenance.cleanup.options import sum_kept

    files, size = sum(row.files_removed for row in rows), sum(row.bytes_removed for row in rows)
    if options.confirm:
        sys.stderr.write(f"deleted {files:,} files, {size:,} bytes\n")
    elif files:
        sys.stderr.write(f"nothing was deleted; --confirm deletes {files:,} files, {size:,} bytes\n")
    else:
        sys.stderr.write("nothing to delete\n")
    retained = [f"{group.versions:,} {RETENTION_REASONS[group.reason.value]}" for group in sum_kept(rows)]
    if retained:
        sys.stderr.write(f"retained versions that the policy would delete: {', '.join(retained)}\n")
    failed = sum(row.error is not None for row in rows)
    if failed:
        sys.stderr.write(f"{failed} failed; see the column 'error'\n")


COMMAND = CommandSource(
    "cleanup",
    cleanup,
    (
        "omnigraph cleanup --keep 10 graph.omni",
        "omnigraph cleanup --keep 10 --older-than 7d graph.omni --confirm",
        "omnigraph cleanup --older-than 2w s3://bucket/graph.omni --confirm --yes --json",
        "omnigraph cleanup --keep 10 --list-files --json graph.omni",
    ),
)
