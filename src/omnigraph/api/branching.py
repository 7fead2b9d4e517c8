"""`Graph.branch`, `Graph.branches`, `Graph.delete_branch`: names come in, changes of a branch's row go out.

Creating is one atomic change whatever the number of tables or rows. Deleting removes the row, which is the branch; its
files are reclaimed by cleanup.
"""

from __future__ import annotations

from omnigraph.graph.branch_list import BranchStanding, list_branches, read_all_commits
from omnigraph.graph.branches import create_branch, delete_branch
from omnigraph.graph.records import BranchRecord
from omnigraph.graph.references import read_reference
from omnigraph.storage.location import Location

__all__ = [
    "BranchRecord",
    "BranchStanding",
    "create_branch_from",
    "list_branches",
    "read_all_commits",
    "remove_branch",
]


def create_branch_from(root: Location, name: str, source: str, actor: str) -> BranchRecord:
    """Create a branch from the head of a branch or from a commit."""
    return create_branch(root, name, actor, read_reference(root, source))


def remove_branch(root: Location, name: str) -> BranchRecord:
    """Delete a branch."""
    return delete_branch(root, name)
