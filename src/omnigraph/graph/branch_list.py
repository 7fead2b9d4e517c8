"""The branches of a graph as people look at them: where each stands, and how far from the branch it was made from.

In: a graph. Out: a `BranchStanding` per branch, main first. The manifest of a branch that was written since it was made
is read once; one that was not is where it was made from. Of a branch that cannot be read, because its files are missing
or the graph was moved, nothing but the row in main's manifest is known. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from omnigraph.base import limits
from omnigraph.base.errors import FormatError, NotFoundError
from omnigraph.base.ids import CommitId
from omnigraph.graph.layout import MANIFEST
from omnigraph.graph.lineage import make_lineage
from omnigraph.graph.manifest import open_manifest
from omnigraph.graph.records import BranchRecord, CommitRecord
from omnigraph.graph.snapshot import MAIN, is_moved, read_snapshot
from omnigraph.storage.dataset import own_files
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore


@dataclass(frozen=True, slots=True)
class BranchStanding:
    """A branch and how far it and main are apart, in commits."""

    record: BranchRecord
    """The branch."""
    head: CommitRecord | None
    """Its newest commit; None when the branch cannot be read."""
    ahead: int | None
    """How many commits it has that main lacks; None when it cannot be read."""
    behind: int | None
    """How many commits main has that it lacks; None when it cannot be read."""
    error: str = ""
    """Why the branch cannot be read, or empty."""

    @property
    def is_readable(self) -> bool:
        """False if files of the branch are missing or damaged, and of every branch but main in a moved graph."""
        return self.head is not None


def list_branches(root: Location) -> tuple[BranchStanding, ...]:
    """Every live branch, main first and then by name. Commits are counted along both parents, against main."""
    main = read_snapshot(root)
    trunk = make_lineage(main.head, main.manifest.read_commits())
    others = [record for name, record in sorted(main.state.branches.items()) if name != MAIN]
    first = BranchStanding(main.branch, trunk.commits[trunk.head], 0, 0)
    if is_moved(main.manifest, root):
        return (first, *(_unreadable(record, "the graph was moved") for record in others))
    known = trunk.ancestors(trunk.head)
    behind: dict[CommitId, int] = {}
    store = ObjectStore(root)

    def standing(record: BranchRecord) -> BranchStanding:
        assert record.parent is not None, "only main has none"
        assert record.lance_branch is not None, "only main has none"
        start = record.parent.commit
        if start in known and _is_unwritten(store, record.lance_branch):
            if start not in behind:
                behind[start] = len(known - trunk.ancestors(start))
            return BranchStanding(record, trunk.commits[start], 0, behind[start])
        try:
            manifest = open_manifest(root, lance_branch=record.lance_branch)
            own = make_lineage(*manifest.read_history(trunk.commits))
        except (FormatError, NotFoundError) as error:
            return _unreadable(record, error.message)
        reached = own.ancestors(own.head)
        return BranchStanding(record, own.commits[own.head], len(reached - known), len(known - reached))

    with ThreadPoolExecutor(limits.BRANCHES_READ_AT_ONCE) as pool:
        found = tuple(pool.map(standing, others))
    return (first, *found)


def _is_unwritten(store: ObjectStore, lance_branch: str) -> bool:
    """Whether a branch is as it was created: one version, and no data of its own.

    No version at all, an empty one, or further versions without data mean that files are missing.
    """
    if store.list(own_files(MANIFEST, lance_branch)):
        return False
    versions = store.list(f"{MANIFEST}/tree/{lance_branch}/_versions")
    sizes = [entry.size for entry in versions if entry.path.endswith(".manifest")]
    return len(sizes) == 1 and sizes[0] > 0


def _unreadable(record: BranchRecord, error: str) -> BranchStanding:
    return BranchStanding(record, None, None, None, error)


def read_all_commits(
    root: Location,
) -> tuple[Mapping[CommitId, CommitRecord], Mapping[str, CommitId | None]]:
    """Every commit that a live branch contains, and the head of each branch, main first; None of an unreadable one."""
    main = read_snapshot(root)
    commits = {commit.id: commit for commit in main.manifest.read_commits()}
    heads: dict[str, CommitId | None] = {MAIN: main.head}
    only_main = is_moved(main.manifest, root)
    for name, record in sorted(main.state.branches.items()):
        if name != MAIN and only_main:
            heads[name] = None
        elif name != MAIN:
            manifest = open_manifest(root, lance_branch=record.lance_branch)
            own = make_lineage(*manifest.read_history(commits))
            heads[name] = own.head
            commits |= own.commits
    return commits, heads
