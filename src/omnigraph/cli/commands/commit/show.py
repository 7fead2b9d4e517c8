"""`omnigraph commit show`: one commit and the tables that it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.cli.command import command
from omnigraph.cli.options import Branch, CommitId
from omnigraph.cli.output import RowsFormat, format_pairs, write_json, write_rows, write_text
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments

if TYPE_CHECKING:
    from omnigraph.wire.commits import CommitOutput, PinOutput

TITLES: Final = {"table": "table", "before": "from version", "after": "to version"}


def show(commit_id: CommitId, target: GraphArguments, *, branch: Branch = "main", output: TextOutput) -> None:
    """Show one commit and the tables that it changed."""
    graph = target.open(branch)

    from omnigraph.graph.manifest.refs import readable_commits
    from omnigraph.wire.commits import commit_output, table_names

    record, newest = graph.get_commit(commit_id), graph.snapshot()
    is_readable = record.id in readable_commits(newest, (record,))
    document = commit_output(record, table_names(newest), readable=is_readable)
    if output.as_json:
        write_json(document)
    else:
        _show(document)


def _show(commit: CommitOutput) -> None:
    merged = commit.merged_parent_commit_id
    pairs = format_pairs(
        {
            "commit": commit.graph_commit_id,
            "parent": commit.parent_commit_id or "none",
            **({"merged": merged} if merged else {}),
            "branch": commit.graph_branch,
            "manifest version": commit.graph_manifest_version,
            "actor": commit.actor_id,
            "created": commit.created,
            "operation": commit.operation,
            **({} if commit.readable else {"data": "collected"}),
            **{f"count of {name}": count for name, count in commit.counts.items()},
        }
    )
    write_text(pairs)
    if commit.tables:
        write_text("")
        rows = [
            {"table": move.table_key or move.table_id, "before": _version(move.before), "after": _version(move.after)}
            for move in commit.tables
        ]
        write_rows(TITLES, rows, RowsFormat.TABLE)


def _version(pin: PinOutput | None) -> str:
    if pin is None:
        return "none"
    return f"{pin.version}" + (f" on {pin.branch}" if pin.branch else "")


COMMAND = command(
    show,
    "omnigraph commit show HEAD graph.omni",
    "omnigraph commit show 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --json",
)
