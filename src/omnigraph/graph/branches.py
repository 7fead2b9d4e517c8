"""Graph branches: the row in main's manifest is the branch. Creating and deleting are changes of that row.

Create makes a Lance branch of `__manifest` first, so a crash in between leaves only a Lance branch that nothing
names. A branch that is created with its first write gets its row last, so it is never visible without that write.
Delete fences the branch's own manifest before its row goes, so that a paused writer cannot publish there unseen; where
the graph was copied or moved, nobody writes to the branch and it cannot be read, so its row just goes. Ids and Lance
branch names are never used twice; files are reclaimed by cleanup.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.base.errors import Applied, OmnigraphError, RefusedError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import BranchId, CommitId, OperationId, new_ulid
from omnigraph.graph.branch_names import check_branch_name
from omnigraph.graph.commit import World, Write, commit_unseen
from omnigraph.graph.encoding import branch_object_id
from omnigraph.graph.lease import Lease, acquire_lease
from omnigraph.graph.manifest import open_manifest
from omnigraph.graph.publish import Change, Target, publish
from omnigraph.graph.records import BranchParent, BranchRecord
from omnigraph.graph.requirements import BranchIs, HeadIs, Requirement
from omnigraph.graph.snapshot import (
    MAIN,
    Snapshot,
    find_branch,
    is_moved,
    read_snapshot,
    refuse_moved,
)
from omnigraph.graph.stage import Stage, discard_forks, discarding
from omnigraph.graph.staged import Published
from omnigraph.storage.commit import commit_branch
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore


def create_branch(
    root: Location, name: str, actor: str, source: Snapshot, world: World | None = None
) -> BranchRecord:
    """Create `name` from a snapshot: of any branch's head or of any commit."""
    how = world or World()
    record = _new_record(name, actor, source, how)
    lease = acquire_lease(ObjectStore(root), None, f"branch create {name}", how.terms)
    try:
        main = _fork_manifest(record, source, lease, how)
        _publish_row(main, record, lease, how)
    finally:
        lease.release()
    return record


def create_branch_with(
    root: Location, name: str, base: str, request: Write, world: World | None = None
) -> Published | None:
    """Create `name` from the newest commit of `base` together with a first write, or neither.

    The write is staged without any lease. A write that has nothing to do creates the branch, and answers None.
    """
    try:
        return _create_with(root, name, base, request, world or World())
    except OmnigraphError as error:
        if error.applied is None:
            error.applied = Applied.NO  # the row comes last, and its publish says itself what became of it
        raise


def _create_with(root: Location, name: str, base: str, request: Write, how: World) -> Published | None:
    source = read_snapshot(root, base, rules=how.rules)
    _check_name(read_snapshot(root, rules=how.rules), name)
    record = _new_record(name, request.actor, source, how)
    stage = Stage(
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
    target = Target(root, name, record.id, record.lance_branch)
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


def _new_record(name: str, actor: str, source: Snapshot, how: World) -> BranchRecord:
    branch_id = BranchId(new_ulid())
    parent = BranchParent(source.branch.name, source.branch.id, source.head)
    return BranchRecord(name, branch_id, f"b-{branch_id}", parent, actor, how.clock.now_us())


def _check_name(main: Snapshot, name: str) -> None:
    check_branch_name(name, main.manifest.read_state().branches)
    refuse_moved(main.manifest, main.root, name)


def _fork_manifest(record: BranchRecord, source: Snapshot, lease: Lease, how: World) -> Snapshot:
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


def _publish_row(main: Snapshot, record: BranchRecord, lease: Lease, how: World) -> None:
    """Make the branch visible."""
    assert record.parent is not None, "only main has none"
    failpoint(Failpoint.BRANCH_ROW_BEFORE)
    requirements = (BranchIs(record.name, None), BranchIs(record.parent.branch, record.parent.branch_id))
    publish(_main(main), Change(branches=(record,)), requirements, how.publisher(lease))


def delete_branch(
    root: Location, name: str, world: World | None = None, head: CommitId | None = None
) -> BranchRecord:
    """Delete a branch: its row goes. Refuses main, and a branch that a live branch was made from.

    With `head`, only a branch whose newest commit it is: nothing that was committed since is lost.
    """
    how = world or World()
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
    how: World,
    requirements: tuple[Requirement, ...],
) -> None:
    graph_lease, branch_lease = leases
    own = Target(root, record.name, record.id, record.lance_branch)
    main = read_snapshot(root, rules=how.rules)
    if requirements:
        refuse_moved(main.manifest, root, record.name)
    if not is_moved(main.manifest, root):
        failpoint(Failpoint.BRANCH_FENCE_BEFORE)
        publish(own, Change(), requirements, how.publisher(branch_lease))
    change = Change(removed=(branch_object_id(record.name),))
    failpoint(Failpoint.BRANCH_REMOVE_BEFORE)
    publish(_main(main), change, (BranchIs(record.name, record.id),), how.publisher(graph_lease))


def _main(main: Snapshot) -> Target:
    return Target(main.root, main.branch.name, main.branch.id, main.branch.lance_branch)
