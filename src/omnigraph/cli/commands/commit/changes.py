"""`omnigraph commit changes`: the changes of one commit, with the entities before and after."""

from __future__ import annotations

from omnigraph.cli.changes import write_changes
from omnigraph.cli.command import command
from omnigraph.cli.options import Branch, CommitId
from omnigraph.cli.results import ChangesOutput
from omnigraph.cli.target import GraphArguments


def changes(commit_id: CommitId, target: GraphArguments, *, branch: Branch = "main", output: ChangesOutput) -> None:
    """Show the changes of a commit relative to its first parent, per entity.

    A commit that only reorganized files, such as a compaction, has no changes.
    """
    graph = target.open(branch)

    from omnigraph.wire.changes import cause_output

    commit = graph.get_commit(commit_id)
    write_changes({"cause": cause_output(commit)}, graph.diff(commit.id), output.format)


COMMAND = command(
    changes,
    "omnigraph commit changes 01KA1F0Z5Q8W9V3N7R2T4Y6B8D graph.omni",
    "omnigraph commit changes 01KA1F0Z5Q8W9V3N7R2T4Y6B8D --store graph.omni --format jsonl",
)
