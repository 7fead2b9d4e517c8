"""Graph branches: the row in main's manifest is the branch. Creating and deleting are changes of that row.

Create makes a Lance branch of `__manifest` first, so a crash in between leaves only a Lance branch that nothing
names. Delete fences the branch's own manifest before its row goes, so that a paused writer cannot publish there
unseen; where the graph was copied or moved, nobody writes to the branch and it cannot be read, so its row just goes.
Ids and Lance branch names are never used twice; files are reclaimed by cleanup.
"""

from __future__ import annotations

from omnigraph.base.errors import RefusedError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import BranchId, CommitId, new_ulid
from omnigraph.graph.branch_names import check_branch_name
from omnigraph.graph.commit import World
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
from omnigraph.storage.commit import commit_branch
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore


def create_branch(
    root: Location, name: str, actor: str, source: Snapshot, world: World | None = None
) -> BranchRecord:
    """Create `name` from a snapshot: of any branch's head or of any commit."""
    how = world or World()
    lease = acquire_lease(ObjectStore(root), None, f"branch create {name}", how.terms)
    try:
        main = read_snapshot(root, rules=how.rules)
        check_branch_name(name, main.manifest.read_state().branches)
        refuse_moved(main.manifest, root, name)
        branch_id = BranchId(new_ulid())
        parent = BranchParent(source.branch.name, source.branch.id, source.head)
        record = BranchRecord(name, branch_id, f"b-{branch_id}", parent, actor, how.clock.now_us())
        # Again, under the lease that cleanup holds as well: it may be gone since it was read.
        lance_branch = source.manifest.dataset.branch
        manifest = open_manifest(root, lance_branch=lance_branch, version=source.version, rules=how.rules)
        lease.hold()
        failpoint(Failpoint.BRANCH_FORK_BEFORE)
        commit_branch(manifest.dataset, f"b-{branch_id}")
        failpoint(Failpoint.BRANCH_ROW_BEFORE)
        requirements = (BranchIs(name, None), BranchIs(source.branch.name, source.branch.id))
        publish(_main(main), Change(branches=(record,)), requirements, how.publisher(lease))
    finally:
        lease.release()
    return record


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
