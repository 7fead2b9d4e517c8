"""Graph branches: the row in main's manifest is the branch. Creating and deleting are changes of that row.

Create makes a Lance branch of `__manifest` first, so a crash in between leaves only a Lance branch that nothing
names. A branch that is created with its first write gets its row last, so it is never visible without that write.
Delete fences the branch's own manifest before its row goes, so that a paused writer cannot publish there unseen; where
the graph was copied or moved, nobody writes to the branch and it cannot be read, so its row just goes. Ids and Lance
branch names are never used twice; files are reclaimed by cleanup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import (
    Applied,
    ConflictError,
    FormatError,
    NotFoundError,
    OmnigraphError,
    RefusedError,
    UsageError,
)
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import BranchId, CommitId, OperationId, new_ulid
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import Lease, acquire_lease
from omnigraph.graph.manifest.encoding import branch_object_id
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.publish import ManifestChange, PublishTarget, publish
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.records import BranchParent, BranchRecord, CommitRecord
from omnigraph.graph.manifest.requirements import BranchIs, HeadIs, Requirement
from omnigraph.graph.manifest.snapshot import (
    MAIN,
    Snapshot,
    find_branch,
    is_moved,
    read_snapshot,
    refuse_moved,
)
from omnigraph.graph.write.commit import WriteRequest, commit_unseen
from omnigraph.graph.write.stage import StagingArea, discard_forks, discarding
from omnigraph.graph.write.states import Published
from omnigraph.storage.lance.commit import commit_branch
from omnigraph.storage.lance.dataset import branch_data_path
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore


@dataclass(frozen=True, slots=True)
class BranchStatus:
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


def list_branches(root: Location) -> tuple[BranchStatus, ...]:
    """Every live branch, main first and then by name. Commits are counted along both parents, against main."""
    main = read_snapshot(root)
    trunk = make_lineage(main.head, main.manifest.read_commits())
    others = [record for name, record in sorted(main.state.branches.items()) if name != MAIN]
    first = BranchStatus(main.branch, trunk.commits[trunk.head], 0, 0)
    if is_moved(main.manifest, root):
        return (first, *(_unreadable(record, "the graph was moved") for record in others))
    known = trunk.ancestors(trunk.head)
    behind: dict[CommitId, int] = {}
    store = ObjectStore(root)

    def standing(record: BranchRecord) -> BranchStatus:
        assert record.parent is not None, "only main has none"
        assert record.lance_branch is not None, "only main has none"
        start = record.parent.commit
        if start in known and _is_unwritten(store, record.lance_branch):
            if start not in behind:
                behind[start] = len(known - trunk.ancestors(start))
            return BranchStatus(record, trunk.commits[start], 0, behind[start])
        try:
            manifest = open_manifest(root, lance_branch=record.lance_branch)
            own = make_lineage(*manifest.read_history(trunk.commits))
        except (FormatError, NotFoundError) as error:
            return _unreadable(record, error.message)
        reached = own.ancestors(own.head)
        return BranchStatus(record, own.commits[own.head], len(reached - known), len(known - reached))

    with ThreadPoolExecutor(limits.BRANCHES_READ_AT_ONCE) as pool:
        found = tuple(pool.map(standing, others))
    return (first, *found)


def _is_unwritten(store: ObjectStore, lance_branch: str) -> bool:
    """Whether a branch is as it was created: one version, and no data of its own.

    No version at all, an empty one, or further versions without data mean that files are missing.
    """
    if store.list(branch_data_path(MANIFEST, lance_branch)):
        return False
    versions = store.list(f"{MANIFEST}/tree/{lance_branch}/_versions")
    sizes = [entry.size for entry in versions if entry.path.endswith(".manifest")]
    return len(sizes) == 1 and sizes[0] > 0


def _unreadable(record: BranchRecord, error: str) -> BranchStatus:
    return BranchStatus(record, None, None, None, error)


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


_SEGMENT: Final = re.compile(r"[a-z0-9_][a-z0-9._-]*")
_HINT: Final = (
    "use lower-case letters, digits, '.', '_' and '-', with '/' between segments, such as review/42"
)


def check_branch_name(name: str, live: Iterable[str]) -> None:
    """Raise unless `name` is well-formed, free, and neither above nor below a live branch in the path of names."""
    why = _why_malformed(name)
    if why is not None:
        raise UsageError(
            f"'{name}' is no branch name: {why}", code="branch_name", hint=_HINT, facts={"branch": name}
        )
    for other in live:
        if name == other:
            raise ConflictError(
                f"there is already a branch '{name}'",
                code="branch_exists",
                hint="choose another name, or delete that branch first",
                facts={"branch": name},
            )
        if name.startswith(f"{other}/") or other.startswith(f"{name}/"):
            raise ConflictError(
                f"'{name}' and the branch '{other}' would lie inside each other",
                code="branch_nested",
                hint="choose a name that is not an ancestor path of a live branch",
                facts={"branch": name, "other": other},
            )


def _why_malformed(name: str) -> str | None:
    if not name or len(name.encode()) > limits.BRANCH_NAME_BYTES_MAX:
        return f"it has {len(name.encode())} bytes, 1 to {limits.BRANCH_NAME_BYTES_MAX} are allowed"
    if name.lower() == MAIN:
        return "main is always there" if name == MAIN else "it reads like main, which is always there"
    for segment in name.split("/"):
        if not _SEGMENT.fullmatch(segment):
            return f"the segment '{segment}' {_why_not_a_segment(segment)}"
        if segment.startswith("__") or ".." in segment or segment.endswith(".lock"):
            return f"the segment '{segment}' is reserved"
    return None


def _why_not_a_segment(segment: str) -> str:
    if not segment:
        return "is empty"
    if segment[0] in ".-":
        return f"starts with '{segment[0]}'"
    if _SEGMENT.fullmatch(segment.lower()):
        return "has upper-case letters"
    strange = next(one for one in segment if not _SEGMENT.fullmatch(f"a{one}"))
    return f"has {strange!r}, which is not allowed"


def create_branch(
    root: Location, name: str, actor: str, source: Snapshot, world: WriteEnvironment | None = None
) -> BranchRecord:
    """Create `name` from a snapshot: of any branch's head or of any commit."""
    how = world or WriteEnvironment()
    record = _new_record(name, actor, source, how)
    lease = acquire_lease(ObjectStore(root), None, f"branch create {name}", how.terms)
    try:
        main = _fork_manifest(record, source, lease, how)
        _publish_row(main, record, lease, how)
    finally:
        lease.release()
    return record


def create_branch_with(
    root: Location, name: str, base: str, request: WriteRequest, world: WriteEnvironment | None = None
) -> Published | None:
    """Create `name` from the newest commit of `base` together with a first write, or neither.

    The write is staged without any lease. A write that has nothing to do creates the branch, and answers None.
    """
    try:
        return _create_with(root, name, base, request, world or WriteEnvironment())
    except OmnigraphError as error:
        if error.applied is None:
            error.applied = Applied.NO  # the row comes last, and its publish says itself what became of it
        raise


def _create_with(
    root: Location, name: str, base: str, request: WriteRequest, how: WriteEnvironment
) -> Published | None:
    source = read_snapshot(root, base, rules=how.rules)
    _check_name(read_snapshot(root, rules=how.rules), name)
    record = _new_record(name, request.actor, source, how)
    stage = StagingArea(
        replace(source, branch=record),
        request.kind,
        request.actor,
        OperationId(new_ulid()),
        CommitId(new_ulid()),
        how.clock,
        began=how.clock.monotonic(),
        fork_owner=source.branch.id,
    )
    with discarding(stage.forks):
        staged = request.stage(stage)
    if staged is None:
        create_branch(root, name, request.actor, source, how)
        return None
    target = PublishTarget(root, name, record.id, record.lance_branch)
    with discarding(stage.forks):
        lease = acquire_lease(ObjectStore(root), None, f"{request.kind} {stage.operation}", how.terms)
    try:
        with lease.kept():
            with discarding(stage.forks):
                main = _fork_manifest(record, source, lease, how)
                published = commit_unseen(staged, target, lease, how)
            try:
                _publish_row(main, record, lease, how)
            except OmnigraphError as error:
                if error.applied is Applied.NO:
                    discard_forks(stage.forks)
                raise
    finally:
        lease.release()
    return published


def _new_record(name: str, actor: str, source: Snapshot, how: WriteEnvironment) -> BranchRecord:
    branch_id = BranchId(new_ulid())
    parent = BranchParent(source.branch.name, source.branch.id, source.head)
    return BranchRecord(name, branch_id, f"b-{branch_id}", parent, actor, how.clock.now_us())


def _check_name(main: Snapshot, name: str) -> None:
    check_branch_name(name, main.manifest.read_state().branches)
    refuse_moved(main.manifest, main.root, name)


def _fork_manifest(record: BranchRecord, source: Snapshot, lease: Lease, how: WriteEnvironment) -> Snapshot:
    """Create the Lance branch of the manifest, which nothing names yet. Returns main."""
    main = read_snapshot(source.root, rules=how.rules)
    _check_name(main, record.name)
    # Again, under the lease that cleanup holds as well: it may be gone since it was read.
    lance_branch = source.manifest.dataset.branch
    manifest = open_manifest(source.root, lance_branch=lance_branch, version=source.version, rules=how.rules)
    lease.hold()
    failpoint(Failpoint.BRANCH_FORK_BEFORE)
    commit_branch(manifest.dataset, f"b-{record.id}")
    return main


def _publish_row(main: Snapshot, record: BranchRecord, lease: Lease, how: WriteEnvironment) -> None:
    """Make the branch visible."""
    assert record.parent is not None, "only main has none"
    failpoint(Failpoint.BRANCH_ROW_BEFORE)
    requirements = (BranchIs(record.name, None), BranchIs(record.parent.branch, record.parent.branch_id))
    publish(_main(main), ManifestChange(branches=(record,)), requirements, how.publisher(lease))


def delete_branch(
    root: Location, name: str, world: WriteEnvironment | None = None, head: CommitId | None = None
) -> BranchRecord:
    """Delete a branch: its row goes. Refuses main, and a branch that a live branch was made from.

    With `head`, only a branch whose newest commit it is: nothing that was committed since is lost.
    """
    how = world or WriteEnvironment()
    if name == MAIN:
        raise RefusedError(
            "main cannot be deleted", code="branch_is_main", hint="delete the whole graph instead"
        )
    store = ObjectStore(root)
    graph_lease = acquire_lease(store, None, f"branch delete {name}", how.terms)
    try:
        record = _deletable(read_snapshot(root, rules=how.rules), name)
        branch_lease = acquire_lease(store, record.id, f"branch delete {name}", how.terms)
        try:
            requirements = () if head is None else (HeadIs(head),)
            _remove(root, record, (graph_lease, branch_lease), how, requirements)
        finally:
            branch_lease.release()
    finally:
        graph_lease.release()
    return record


def _deletable(main: Snapshot, name: str) -> BranchRecord:
    state = main.manifest.read_state()
    record = find_branch(state, name)
    children = sorted(b.name for b in state.branches.values() if b.parent and b.parent.branch_id == record.id)
    if children:
        raise RefusedError(
            f"branch '{name}' cannot be deleted: {', '.join(children)} was made from it",
            code="branch_has_children",
            hint="delete those branches first",
            facts={"branch": name, "children": list(children)},
        )
    return record


def _remove(
    root: Location,
    record: BranchRecord,
    leases: tuple[Lease, Lease],
    how: WriteEnvironment,
    requirements: tuple[Requirement, ...],
) -> None:
    graph_lease, branch_lease = leases
    own = PublishTarget(root, record.name, record.id, record.lance_branch)
    main = read_snapshot(root, rules=how.rules)
    if requirements:
        refuse_moved(main.manifest, root, record.name)
    if not is_moved(main.manifest, root):
        failpoint(Failpoint.BRANCH_FENCE_BEFORE)
        publish(own, ManifestChange(), requirements, how.publisher(branch_lease))
    change = ManifestChange(removed=(branch_object_id(record.name),))
    failpoint(Failpoint.BRANCH_REMOVE_BEFORE)
    publish(_main(main), change, (BranchIs(record.name, record.id),), how.publisher(graph_lease))


def _main(main: Snapshot) -> PublishTarget:
    return PublishTarget(main.root, main.branch.name, main.branch.id, main.branch.lance_branch)
