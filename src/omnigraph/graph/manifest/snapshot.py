"""Read snapshots: the tables and the schema that one manifest version publishes together.

In: a location, and a branch, a manifest version or a commit. Out: an immutable `Snapshot`. Reading never recovers and
never writes. Each read of a newest state checks whether the graph was replaced since this process read it before. If
so, the snapshot has new identities, so that cached rows are not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from omnigraph.base.display import Displayed, format_count
from omnigraph.base.errors import Applied, ConflictError, FormatError, NotFoundError
from omnigraph.base.hints import action, hint
from omnigraph.base.ids import BranchId, CommitId
from omnigraph.graph.manifest.identity import BranchIdentity, new_identity
from omnigraph.graph.manifest.lineage import resolve_commit
from omnigraph.graph.manifest.newest import find_table, read_newest
from omnigraph.graph.manifest.reader import Manifest, ManifestState, damaged_manifest, open_manifest
from omnigraph.graph.manifest.records import BranchRecord, CommitRecord, Pin, SchemaRecord, TableRecord
from omnigraph.graph.manifest.stamp import FORMAT, StorageFormat
from omnigraph.storage.lance.dataset import Dataset, DatasetVersion, open_dataset
from omnigraph.storage.location import Location

MAIN = "main"
MOVED = "the graph was created at another location, then copied or moved"
"""Why branches of a moved graph cannot be used."""


class GraphReplacedError(ConflictError):
    """The graph at a location is not the one that a snapshot was read from."""

    applied = Applied.NO


@dataclass(frozen=True, slots=True)
class Identities:
    """The identity of main and of the branch of a snapshot."""

    main: BranchIdentity
    own: BranchIdentity

    def of(self, pin: Pin) -> BranchIdentity:
        """Return the identity of the branch whose manifest decides what is at a pin.

        Versions on the main branch of Lance belong to main, so all branches share what is cached of them.
        """
        return self.main if pin.branch is None else self.own


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Snapshot(Displayed):
    """One published state of a graph: its tables and its schema. It never changes."""

    root: Location
    branch: BranchRecord
    """Its branch."""
    manifest: Manifest
    head: CommitId
    """The id of its newest commit."""
    schema: SchemaRecord
    """The schema of the rows."""
    tables: Mapping[str, TableRecord]
    """The tables by their alias, such as `node:Person`."""
    state: ManifestState = field(compare=False, repr=False)
    identities: Identities = field(compare=False, repr=False)

    @property
    def version(self) -> int:
        """The manifest version of the branch, which only grows; `Graph.query` takes it as `as_of`."""
        return self.manifest.version

    @property
    def stamp(self) -> int:
        """The version of its storage format."""
        return self.manifest.stamp

    def _summary(self) -> Mapping[str, object]:
        return {
            "branch": self.branch.name,
            "head": self.head,
            "version": self.version,
            **{alias: format_count(table.row_count, "row") for alias, table in self.tables.items()},
        }


def read_snapshot(
    root: Location, branch: str = MAIN, *, version: int | None = None, storage_format: StorageFormat = FORMAT
) -> Snapshot:
    """Read the newest snapshot of a branch, or that of an earlier manifest version."""
    main, main_state, main_identity = _read_version(root, None, version if branch == MAIN else None, storage_format)
    record = find_branch(main_state, branch)
    if branch == MAIN:
        return make_snapshot(root, record, main, main_state, Identities(main_identity, main_identity))
    require_unmoved_graph(main, root, branch)
    manifest, state, identity = _read_version(root, record.lance_branch, version, storage_format)
    return make_snapshot(root, record, manifest, state, Identities(main_identity, identity))


def _read_version(
    root: Location, lance_branch: str | None, version: int | None, storage_format: StorageFormat
) -> tuple[Manifest, ManifestState, BranchIdentity]:
    """Read a version of a manifest (None: the newest) and the identity of its branch.

    An older version can be read even if the newest is damaged. The format stamp of the newest is always checked.
    """
    if version is None:
        return read_newest(root, lance_branch, storage_format)
    try:
        identity = read_newest(root, lance_branch, storage_format)[2]
    except FormatError:
        open_manifest(root, lance_branch=lance_branch, storage_format=storage_format)
        identity = new_identity()
    manifest = open_manifest(root, lance_branch=lance_branch, version=version, storage_format=storage_format)
    return manifest, manifest.read_state(), identity


def require_same_graph(snapshot: Snapshot) -> None:
    """Raise `GraphReplacedError` unless the location still has the graph that the snapshot was read from.

    Call it after opening a table of a snapshot: the rows of the table are then those of the snapshot.
    """
    dataset = snapshot.manifest.dataset
    with suppress(NotFoundError):
        if dataset.at_version(dataset.version).data_files() == dataset.data_files():
            return
    newest = open_manifest(snapshot.root, lance_branch=dataset.branch)
    if newest.find_commit(snapshot.head) is None:
        raise graph_replaced(snapshot.root, snapshot.head, newest.read_head())


def graph_replaced(root: Location, expected: CommitId, actual: CommitId) -> GraphReplacedError:
    """Return the error for a graph that was replaced by another one at the same location."""
    return GraphReplacedError(
        f"the graph at {root} was replaced since it was read: expected a state with commit {expected}, "
        f"got head {actual}",
        code="graph_replaced",
        hint="Nothing was written. Read the graph again, then retry.",
        facts={"uri": root.uri, "expected": expected, "actual": actual},
    )


def read_main_id(snapshot: Snapshot) -> BranchId:
    """Return the id of main, which owns the main branch of Lance in every table."""
    if snapshot.branch.name == MAIN:
        return snapshot.branch.id
    return find_branch(open_manifest(snapshot.root).read_state(), MAIN).id


def read_commit_snapshot(
    root: Location, commit: str, branch: str = MAIN, *, storage_format: StorageFormat = FORMAT
) -> tuple[Snapshot, CommitRecord]:
    """Read the snapshot that a commit made, and its record. The commit must be on `branch`."""
    newest = read_snapshot(root, branch, storage_format=storage_format)
    record = find_named_commit(newest, commit)
    if record.id == newest.head and record.manifest_hint.version == newest.version:
        return newest, record
    return read_record_snapshot(newest, record, storage_format), record


def find_named_commit(newest: Snapshot, name: str) -> CommitRecord:
    """Return the commit of the branch that `name` refers to; raise `NotFoundError` if it does not exist."""
    manifest = newest.manifest
    commit = resolve_commit(name, newest.head, manifest.read_commit_ids)
    record = manifest.find_commit(commit)
    if record is None:
        raise missing_commit(commit, newest.branch.name)
    return record


def missing_commit(commit: CommitId, branch: str) -> NotFoundError:
    """Return the error for a commit that a branch does not have."""
    return NotFoundError(
        f"branch '{branch}' has no commit {commit}",
        code="commit_missing",
        hint=hint(
            "Pass HEAD, a commit id, or the beginning or end of one. Run {} to list the commits.", action("commit list")
        ),
        facts={"commit": commit, "branch": branch},
    )


def read_record_snapshot(newest: Snapshot, record: CommitRecord, storage_format: StorageFormat = FORMAT) -> Snapshot:
    """Read the snapshot of a commit, even if its branch was deleted.

    It is the first version, from the manifest version stored in the commit on, whose head is the commit. `newest` is
    any newer snapshot of the graph.
    """
    manifest = _find_commit_manifest(newest.root, record, newest.manifest.dataset, storage_format)
    if manifest is not None:
        return make_snapshot(newest.root, newest.branch, manifest, manifest.read_state(), newest.identities)
    raise NotFoundError(
        f"`cleanup` deleted the snapshot of commit {record.id}",
        code="snapshot_collected",
        hint=hint("Run {} to list readable commits.", action("commit list")),
        facts={"commit": record.id},
    )


def find_commit_version(root: Location, record: CommitRecord, storage_format: StorageFormat = FORMAT) -> Pin | None:
    """Return the manifest version of the snapshot of a commit; None if it was deleted."""
    try:
        manifest = _find_commit_manifest(root, record, None, storage_format)
    except NotFoundError:  # The branch of the commit was deleted.
        return None
    return None if manifest is None else Pin(record.manifest_hint.branch, manifest.version)


def _find_commit_manifest(
    root: Location, record: CommitRecord, dataset: Dataset | None, storage_format: StorageFormat
) -> Manifest | None:
    """Return the first manifest, from the version stored in the commit on, whose head is it; None if it was deleted.

    Versions are listed only if the stored version is another one. `dataset` is an open manifest of any branch.
    """
    pin = record.manifest_hint

    def open_versions() -> Iterator[Manifest]:
        with suppress(NotFoundError):
            yield open_manifest(root, lance_branch=pin.branch, version=pin.version, storage_format=storage_format)
        if dataset is not None and dataset.branch == pin.branch:
            versions = dataset.versions()
        else:
            versions = open_manifest(root, lance_branch=pin.branch, storage_format=storage_format).dataset.versions()
        for version in versions:
            if version > pin.version:
                yield open_manifest(root, lance_branch=pin.branch, version=version, storage_format=storage_format)

    for manifest in open_versions():
        if manifest.read_head() == record.id:
            return manifest
        if manifest.find_commit(record.id) is not None:
            return None
    return None


def make_snapshot(
    root: Location, branch: BranchRecord, manifest: Manifest, state: ManifestState, identities: Identities
) -> Snapshot:
    """Return the snapshot of a manifest whose state was read before."""
    live = state.live_tables().values()
    tables = {table.alias: table for table in live}
    if len(tables) != len(live):
        raise damaged_manifest(manifest.dataset.uri, "two tables have the same name")
    return Snapshot(
        root=root,
        branch=branch,
        manifest=manifest,
        head=state.head,
        schema=state.schema,
        tables=tables,
        state=state,
        identities=identities,
    )


def find_branch(state: ManifestState, name: str) -> BranchRecord:
    """Return the row of the branch in the state of main; raise `NotFoundError` with the existing names."""
    record = state.branches.get(name)
    if record is None:
        names = ", ".join(sorted(state.branches))
        raise NotFoundError(
            f"no branch '{name}'",
            code="branch_missing",
            hint=f"Pass one of the existing branches: {names}.",
            facts={"branch": name, "branches": [*sorted(state.branches)]},
        )
    return record


def is_moved(main: Manifest, root: Location) -> bool:
    """Return whether the graph was created at another location than where it is read, by its main manifest."""
    return main.root_uri not in ("", root.uri)


def require_unmoved_graph(main: Manifest, root: Location, branch: str) -> None:
    """Raise for a branch of a moved graph: Lance branches contain absolute paths, so only main can be used."""
    _require_unmoved(main, root, branch, f"branch '{branch}' cannot be used")


def require_unmoved_for_new_branch(main: Manifest, root: Location, branch: str) -> None:
    """Raise if the graph was moved: a new branch would contain the absolute paths of the other location."""
    _require_unmoved(main, root, branch, f"cannot create branch '{branch}'")


def _require_unmoved(main: Manifest, root: Location, branch: str, problem: str) -> None:
    if is_moved(main, root):
        raise FormatError(
            # Without both locations: a server shows this text, and never where a graph is stored.
            f"{problem}: {MOVED}",
            code="graph_moved",
            hint=hint(
                "Run {} to see what must be rewritten to use branches here, or use `main`.",
                action("doctor", fix_location=True),
            ),
            facts={"branch": branch, "recorded": main.root_uri, "uri": root.uri},
        )


def open_table(root: Location, table: TableRecord) -> Dataset:
    """Open a table at its pin."""
    return open_pin(root.child(table.path), table.pin)


def open_own_table(snapshot: Snapshot, table: TableRecord) -> Dataset:
    """Return a table at its pin in a snapshot: the handle of this process if it committed that version."""
    dataset = find_table(snapshot.identities.of(table.pin), snapshot.root.child(table.path), table.pin)
    return open_table(snapshot.root, table) if dataset is None else dataset


def open_pin(location: Location, pin: Pin) -> Dataset:
    """Open the dataset of a table at any of its pins."""
    return open_dataset(location, branch=pin.branch, version=pin.version)


def pinned_version(root: Location, table: TableRecord) -> DatasetVersion:
    """Return the version of a table at its pin, for a process that opens it elsewhere."""
    return DatasetVersion(root.child(table.path), table.pin.branch, table.pin.version)
