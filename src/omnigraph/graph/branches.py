"""Create and delete graph branches. A branch is a row in the manifest of main.

Creating a branch makes a Lance branch of `__manifest` first, so a crash leaves at most a Lance branch that nothing
references. A branch that is created with its first write gets its row last, so it is never visible without that
write. Deleting a branch fences its own manifest before its row is removed, so that a paused writer cannot publish
there. In a copied or moved graph the branch cannot be read or written, so only its row is removed. Ids and Lance
branch names are never used again; cleanup deletes the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import Applied, ConflictError, OmnigraphError, RefusedError, UsageError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import BranchId, CommitId, new_ulid
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import Lease, hold_lease
from omnigraph.graph.manifest import snapshot
from omnigraph.graph.manifest.encoding import branch_object_id
from omnigraph.graph.manifest.publish import ManifestChange, PublishTarget, publish, target_of
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.records import BranchParent, BranchRecord, CommitRecord
from omnigraph.graph.manifest.requirements import BranchIs, HeadIs
from omnigraph.graph.write.commit import WriteRequest, commit_new_branch, not_applied_by_default
from omnigraph.graph.write.stage import StagingArea, discard_forks, discard_forks_on_error
from omnigraph.storage.lance.commit import commit_branch
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

_SEGMENT: Final = re.compile(r"[a-z0-9_][a-z0-9._-]*")
_HINT: Final = "Use lower-case letters, digits, '.', '_' and '-', with '/' between segments, such as review/42."


def require_valid_branch_name(name: str, existing_names: Iterable[str]) -> None:
    """Raise unless `name` is valid, does not exist, and is not a path prefix of a live branch or the reverse."""
    problem = _check_syntax(name)
    if problem is not None:
        raise UsageError(
            f"invalid branch name '{name}': {problem}", code="branch_name", hint=_HINT, facts={"branch": name}
        )
    for other in existing_names:
        if name == other:
            delete = hint("Nothing was written. Choose another name, or run {}.", action("branch delete", name=name))
            raise ConflictError(
                f"branch '{name}' already exists",
                code="branch_exists",
                hint="Nothing was written. Choose another name." if name == snapshot.MAIN else delete,
                facts={"branch": name},
            )
        if name.startswith(f"{other}/") or other.startswith(f"{name}/"):
            raise ConflictError(
                f"branch name '{name}' conflicts with branch '{other}': one is a path prefix of the other",
                code="branch_nested",
                hint=f"Nothing was written. Choose a name that neither starts with '{other}/' nor is a path prefix "
                "of it.",
                facts={"branch": name, "other": other},
            )


def _check_syntax(name: str) -> str | None:
    if not name or len(name.encode()) > limits.BRANCH_NAME_BYTES_MAX:
        return f"expected 1 to {limits.BRANCH_NAME_BYTES_MAX} bytes, got {len(name.encode())}"
    if name != snapshot.MAIN and name.lower() == snapshot.MAIN:
        return "it differs from 'main' only in case"
    for segment in name.split("/"):
        if not _SEGMENT.fullmatch(segment):
            return f"the segment '{segment}' {_describe_segment(segment)}"
        if segment.startswith("__") or ".." in segment or segment.endswith(".lock"):
            return f"the segment '{segment}' is reserved"
    return None


def _describe_segment(segment: str) -> str:
    if not segment:
        return "is empty"
    if segment[0] in ".-":
        return f"starts with '{segment[0]}'"
    if _SEGMENT.fullmatch(segment.lower()):
        return "has upper-case letters"
    invalid = next(character for character in segment if not _SEGMENT.fullmatch(f"a{character}"))
    return f"has {invalid!r}, which is not allowed"


def create_branch(
    root: Location, name: str, actor: str, source: snapshot.Snapshot, environment: WriteEnvironment | None = None
) -> BranchRecord:
    """Create `name` from a snapshot: of the head of any branch or of any commit."""
    environment = environment or WriteEnvironment()
    record = _new_record(name, actor, source, environment)
    with hold_lease(ObjectStore(root), None, f"branch create {name}", environment.terms) as lease:
        main = _fork_manifest(record, source, lease, environment)
        _publish_row(main, record, lease, environment)
    return record


@not_applied_by_default()  # The row is published last, and that publish sets `applied` itself.
def create_branch_with_write(
    root: Location, name: str, base: str, request: WriteRequest, environment: WriteEnvironment | None = None
) -> CommitRecord | None:
    """Create `name` from the newest commit of `base` together with a first write, or neither.

    The write is staged without a lease. If it has nothing to write, the branch is created and None is returned.
    """
    environment = environment or WriteEnvironment()
    source = snapshot.read_snapshot(root, base, storage_format=environment.storage_format)
    _check_name(snapshot.read_snapshot(root, storage_format=environment.storage_format), name)
    record = _new_record(name, request.actor, source, environment)
    area = StagingArea(
        snapshot=replace(source, branch=record),
        kind=request.kind,
        actor=request.actor,
        clock=environment.clock,
        began=environment.clock.monotonic(),
        fork_owner=source.branch.id,
    )
    with discard_forks_on_error(area.forks):
        staged = request.stage(area)
    if staged is None:
        create_branch(root, name, request.actor, source, environment)
        return None
    target = PublishTarget(root, name, record.id, record.lance_branch)
    purpose = f"{request.kind} {area.operation}"
    with ExitStack() as leases:
        with discard_forks_on_error(area.forks):
            lease = leases.enter_context(hold_lease(ObjectStore(root), None, purpose, environment.terms))
            leases.enter_context(lease.renewing())
            main = _fork_manifest(record, source, lease, environment)
            commit = commit_new_branch(staged, target, lease, environment)
        try:
            _publish_row(main, record, lease, environment)
        except OmnigraphError as error:
            if error.applied is Applied.NO:
                discard_forks(area.forks)
            raise
    return commit


def _new_record(name: str, actor: str, source: snapshot.Snapshot, environment: WriteEnvironment) -> BranchRecord:
    branch_id = BranchId(new_ulid())
    parent = BranchParent(source.branch.name, source.branch.id, source.head)
    return BranchRecord(
        name=name,
        id=branch_id,
        lance_branch=f"b-{branch_id}",
        parent=parent,
        creator=actor,
        created_us=environment.clock.now_us(),
    )


def _check_name(main: snapshot.Snapshot, name: str) -> None:
    require_valid_branch_name(name, main.state.branches)
    snapshot.require_unmoved_for_new_branch(main.manifest, main.root, name)


def _fork_manifest(
    record: BranchRecord, source: snapshot.Snapshot, lease: Lease, environment: WriteEnvironment
) -> snapshot.Snapshot:
    """Create the Lance branch of the manifest, which nothing references yet, and return the snapshot of main."""
    main = snapshot.read_snapshot(source.root, storage_format=environment.storage_format)
    _check_name(main, record.name)
    # Cleanup holds the same lease, and may have deleted the version since it was read.
    lance_branch = source.manifest.dataset.branch
    manifest = open_manifest(
        source.root, lance_branch=lance_branch, version=source.version, storage_format=environment.storage_format
    )
    lease.hold()
    failpoint(Failpoint.BRANCH_FORK_BEFORE)
    commit_branch(manifest.dataset, f"b-{record.id}")
    return main


def _publish_row(main: snapshot.Snapshot, record: BranchRecord, lease: Lease, environment: WriteEnvironment) -> None:
    assert record.parent is not None, "only main has no parent"
    failpoint(Failpoint.BRANCH_ROW_BEFORE)
    requirements = (BranchIs(record.name, None), BranchIs(record.parent.branch, record.parent.branch_id))
    publish(target_of(main), ManifestChange(branches=(record,)), requirements, environment.publisher(lease))


def delete_branch(
    root: Location, name: str, environment: WriteEnvironment | None = None, head: CommitId | None = None
) -> BranchRecord:
    """Delete the row of a branch. Main, and a branch that a live branch was created from, cannot be deleted.

    With `head`, delete it only if that is its newest commit, so that later commits are not lost.
    """
    environment = environment or WriteEnvironment()
    if name == snapshot.MAIN:
        raise RefusedError(
            "branch 'main' cannot be deleted",
            code="branch_is_main",
            hint="Nothing was deleted. `main` always exists; delete another branch.",
            facts={"branch": snapshot.MAIN},
        )
    store, purpose = ObjectStore(root), f"branch delete {name}"
    snapshot.read_snapshot(root, storage_format=environment.storage_format)  # raises before the lease creates its files
    with hold_lease(store, None, purpose, environment.terms) as graph_lease:
        record = _require_deletable(snapshot.read_snapshot(root, storage_format=environment.storage_format), name)
        with hold_lease(store, record.id, purpose, environment.terms) as branch_lease:
            main = snapshot.read_snapshot(root, storage_format=environment.storage_format)
            if head is not None:
                snapshot.require_unmoved_graph(main.manifest, root, name)
            if not snapshot.is_moved(main.manifest, root):
                own = PublishTarget(root, name, record.id, record.lance_branch)
                requirements = () if head is None else (HeadIs(head),)
                failpoint(Failpoint.BRANCH_FENCE_BEFORE)
                publish(own, ManifestChange(), requirements, environment.publisher(branch_lease))
            change = ManifestChange(removed=(branch_object_id(name),))
            failpoint(Failpoint.BRANCH_REMOVE_BEFORE)
            publish(target_of(main), change, (BranchIs(name, record.id),), environment.publisher(graph_lease))
    return record


def _require_deletable(main: snapshot.Snapshot, name: str) -> BranchRecord:
    record = snapshot.find_branch(main.state, name)
    branches = main.state.branches.values()
    children = sorted(branch.name for branch in branches if branch.parent and branch.parent.branch_id == record.id)
    if children:
        raise RefusedError(
            f"branch '{name}' cannot be deleted: it is the parent of {', '.join(children)}",
            code="branch_has_children",
            hint="Delete those branches first.",
            facts={"branch": name, "children": list(children)},
        )
    return record
