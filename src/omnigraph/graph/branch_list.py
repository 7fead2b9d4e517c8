"""Read all branches of a graph: their status, and their commits. Never writes, and never imports the write path.

In: the location of a graph. Out: the state of each branch in the manifest of main. A branch whose files are missing or
damaged is reported as not readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from omnigraph.base import limits
from omnigraph.base.display import DisplayedRow
from omnigraph.base.errors import FormatError, NotFoundError
from omnigraph.base.ids import CommitId
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.records import BranchRecord, CommitRecord
from omnigraph.graph.manifest.snapshot import MAIN, is_moved, read_snapshot
from omnigraph.storage.lance.dataset import branch_data_path
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BranchStatus(DisplayedRow):
    """A branch, and by how many commits it and main differ."""

    record: BranchRecord
    """The branch."""
    head: CommitRecord | None
    """Its newest commit; None if the branch cannot be read."""
    ahead: int | None
    """The number of commits that it has and main lacks; None if it cannot be read."""
    behind: int | None
    """The number of commits that main has and it lacks; None if it cannot be read."""
    error: str = ""
    """Why the branch cannot be read, or empty."""

    @property
    def is_readable(self) -> bool:
        """False if files of the branch are missing or damaged, and for every branch but main in a moved graph."""
        return self.head is not None

    def _summary(self) -> Mapping[str, object]:
        state = {"head": self.head.id, "ahead": self.ahead, "behind": self.behind} if self.head else {}
        return {"record": self.record.name, **state, "error": self.error}


def list_branches(root: Location) -> tuple[BranchStatus, ...]:
    """Return every live branch, main first and then by name. Commits are counted along both parents."""
    main = read_snapshot(root)
    main_lineage = make_lineage(main.head, main.manifest.read_commits())
    others = [record for name, record in sorted(main.state.branches.items()) if name != MAIN]
    main_status = BranchStatus(record=main.branch, head=main_lineage.commits[main_lineage.head], ahead=0, behind=0)
    if is_moved(main.manifest, root):
        return (main_status, *(_unreadable(record, "the graph was moved") for record in others))
    main_commits = main_lineage.ancestors(main_lineage.head)
    behind: dict[CommitId, int] = {}
    store = ObjectStore(root)

    def read_status(record: BranchRecord) -> BranchStatus:
        assert record.parent is not None, "only main has no parent"
        assert record.lance_branch is not None, "only main has no Lance branch"
        fork_commit = record.parent.commit
        if fork_commit in main_commits and _is_unwritten(store, record.lance_branch):
            if fork_commit not in behind:
                behind[fork_commit] = len(main_commits - main_lineage.ancestors(fork_commit))
            return BranchStatus(
                record=record, head=main_lineage.commits[fork_commit], ahead=0, behind=behind[fork_commit]
            )
        try:
            manifest = open_manifest(root, lance_branch=record.lance_branch)
            lineage = make_lineage(*manifest.read_history(main_lineage.commits))
        except (FormatError, NotFoundError) as error:
            return _unreadable(record, error.message)
        branch_commits = lineage.ancestors(lineage.head)
        return BranchStatus(
            record=record,
            head=lineage.commits[lineage.head],
            ahead=len(branch_commits - main_commits),
            behind=len(main_commits - branch_commits),
        )

    with ThreadPoolExecutor(limits.BRANCH_READ_THREADS) as pool:
        statuses = tuple(pool.map(read_status, others))
    return (main_status, *statuses)


def _is_unwritten(store: ObjectStore, lance_branch: str) -> bool:
    """Return whether a branch is as it was created: one version, and no data of its own.

    No version, an empty version, or further versions without data mean that files are missing.
    """
    if store.list(branch_data_path(MANIFEST, lance_branch)):
        return False
    versions = store.list(f"{MANIFEST}/tree/{lance_branch}/_versions")
    sizes = [entry.size for entry in versions if entry.path.endswith(".manifest")]
    return len(sizes) == 1 and sizes[0] > 0


def _unreadable(record: BranchRecord, error: str) -> BranchStatus:
    return BranchStatus(record=record, head=None, ahead=None, behind=None, error=error)


def read_all_commits(root: Location) -> tuple[Mapping[CommitId, CommitRecord], Mapping[str, CommitId | None]]:
    """Read every commit of a live branch, and the head of each branch, main first; None if it cannot be read."""
    main = read_snapshot(root)
    commits = {commit.id: commit for commit in main.manifest.read_commits()}
    heads: dict[str, CommitId | None] = {MAIN: main.head}
    names = sorted(main.state.branches.keys() - {MAIN})
    if is_moved(main.manifest, root):
        return commits, heads | dict.fromkeys(names)
    for name in names:
        manifest = open_manifest(root, lance_branch=main.state.branches[name].lance_branch)
        own = make_lineage(*manifest.read_history(commits))
        heads[name] = own.head
        commits |= own.commits
    return commits, heads
