"""What a name means that may be a branch or a commit: the snapshot to branch from, to compare or to read.

In: a name as users type it. Out: the snapshot of the branch's head, or of the commit on whichever branch has it.
A commit is read on the branch that made it, so that whoever branches from it keeps the right branch alive. Nothing here
writes.
"""

from __future__ import annotations

from omnigraph.base.errors import NotFoundError, RefusedError
from omnigraph.base.ids import CommitId, as_commit_id
from omnigraph.graph.manifest import open_manifest
from omnigraph.graph.records import CommitRecord
from omnigraph.graph.snapshot import MAIN, Snapshot, read_commit_snapshot, read_snapshot, refuse_moved
from omnigraph.storage.location import Location


def read_reference(root: Location, name: str) -> Snapshot:
    """The head of the branch of that name, or the commit of that id on any live branch."""
    main = read_snapshot(root)
    if name == MAIN:
        return main
    if name in main.state.branches:
        return read_snapshot(root, name)
    record = find_commit(main, as_commit_id(name))
    if record is None:
        raise NotFoundError(
            f"there is no branch and no commit '{name}'",
            code="reference_missing",
            hint="`omnigraph branch list` and `omnigraph commit list` show what there is",
            facts={"name": name},
        )
    return _at_home(main, record)


def find_commit(main: Snapshot, commit: CommitId) -> CommitRecord | None:
    """The commit's row in the manifest of any live branch, main's first."""
    found = main.manifest.find_commit(commit)
    others = [branch for name, branch in sorted(main.state.branches.items()) if name != MAIN]
    for branch in others if found is None else ():
        refuse_moved(main.manifest, main.root, branch.name)
        found = open_manifest(main.root, lance_branch=branch.lance_branch).find_commit(commit)
        if found is not None:
            break
    return found


def _at_home(main: Snapshot, record: CommitRecord) -> Snapshot:
    home = record.manifest_hint.branch
    owner = next((branch for branch in main.state.branches.values() if branch.lance_branch == home), None)
    if owner is None:
        raise RefusedError(
            f"commit {record.id} was made on branch '{record.branch}', which is gone",
            code="commit_branch_gone",
            hint="use the commit that merged it: `omnigraph commit list` shows it",
            facts={"commit": record.id, "branch": record.branch},
        )
    return read_commit_snapshot(main.root, record.id, owner.name)[0]
