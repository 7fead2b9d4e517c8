"""What a name means that may be a branch or a commit: the snapshot to branch from, to compare or to read.

In: a name as users type it. Out: the snapshot of the branch's head, or of the commit on whichever branch has it.
`HEAD` is that of main, since no branch is given beside the name.
A commit is read on the branch that made it, so that whoever branches from it keeps the right branch alive. Nothing here
writes.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.base.errors import NotFoundError, RefusedError
from omnigraph.base.ids import CommitId
from omnigraph.graph.commit_names import name_commit
from omnigraph.graph.manifest import Manifest, open_manifest
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
    record = _find_commit(main, name_commit(name, main.head, lambda: _all_ids(main)))
    if record is None:
        raise NotFoundError(
            f"there is no branch and no commit '{name}'",
            code="reference_missing",
            hint="`omnigraph branch list` and `omnigraph commit list` show what there is",
            facts={"name": name},
        )
    return _at_home(main, record)


def _find_commit(main: Snapshot, commit: CommitId) -> CommitRecord | None:
    """The commit's row in the manifest of any live branch, main's first."""
    rows = (manifest.find_commit(commit) for manifest in _manifests(main))
    return next((found for found in rows if found is not None), None)


def _all_ids(main: Snapshot) -> Iterator[CommitId]:
    return (commit for manifest in _manifests(main) for commit in manifest.read_commit_ids())


def _manifests(main: Snapshot) -> Iterator[Manifest]:
    """Those of all live branches, main's first."""
    yield main.manifest
    for name, branch in sorted(main.state.branches.items()):
        if name != MAIN:
            refuse_moved(main.manifest, main.root, name)
            yield open_manifest(main.root, lance_branch=branch.lance_branch)


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
