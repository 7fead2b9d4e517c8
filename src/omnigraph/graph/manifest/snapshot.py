"""A snapshot: the tables and the schema that one manifest version publishes together.

In: a location and what to look at (a branch's head, a manifest version, a commit). Out: an immutable `Snapshot`.
Reading never recovers and never writes. Each read of a newest state checks whether the graph was replaced since this
process read it before; the identities of a snapshot say so to whatever keeps rows in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from omnigraph.base import limits
from omnigraph.base.display import Displayed
from omnigraph.base.errors import Applied, ConflictError, FormatError, NotFoundError
from omnigraph.base.ids import BranchId, CommitId
from omnigraph.graph.manifest.encoding import commit_object_id
from omnigraph.graph.manifest.identity import SEEN_HEADS, BranchIdentity, new_identity
from omnigraph.graph.manifest.lineage import name_commit
from omnigraph.graph.manifest.reader import Manifest, ManifestState, damaged_manifest, open_manifest
from omnigraph.graph.manifest.records import BranchRecord, CommitRecord, Pin, SchemaRecord, TableRecord
from omnigraph.graph.manifest.stamp import FORMAT, Format
from omnigraph.storage.lance.dataset import Dataset, DatasetVersion, open_dataset
from omnigraph.storage.location import Location

MAIN = "main"


class GraphReplacedError(ConflictError):
    """The graph at a location is another one than a snapshot was read from."""

    applied = Applied.NO


@dataclass(frozen=True, slots=True)
class Identities:
    """The identity of main and of a snapshot's own branch."""

    main: BranchIdentity
    own: BranchIdentity

    def of(self, pin: Pin) -> BranchIdentity:
        """Return the identity of the branch whose manifest says what is at a pin.

        Versions of Lance's main are main's, whichever branch reads them, so all branches share what is kept of them.
        """
        return self.main if pin.branch is None else self.own


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot(Displayed):
    """One published state of a graph: its tables and its schema. It never changes."""

    root: Location
    branch: BranchRecord
    """The branch that it is of."""
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
        """The version of the storage format that it is written in."""
        return self.manifest.stamp

    def summary(self) -> Mapping[str, object]:
        return {
            "branch": self.branch.name,
            "commit": self.head,
            "version": self.version,
            **{alias: f"{table.row_count:,} rows" for alias, table in self.tables.items()},
        }


def read_snapshot(
    root: Location, branch: str = MAIN, *, version: int | None = None, rules: Format = FORMAT
) -> Snapshot:
    """The newest snapshot of a branch, or the one of an earlier manifest version."""
    if branch == MAIN and version is not None:
        identity = _identify(root, None, rules)
        manifest = open_manifest(root, version=version, rules=rules)
        state = manifest.read_state()
        return make_snapshot(root, find_branch(state, MAIN), manifest, state, Identities(identity, identity))
    main, main_state, main_identity = _read_newest(root, None, rules)
    record = find_branch(main_state, branch)
    if branch == MAIN:
        return make_snapshot(root, record, main, main_state, Identities(main_identity, main_identity))
    refuse_moved(main, root, branch)
    if version is None:
        manifest, state, identity = _read_newest(root, record.lance_branch, rules)
    else:
        identity = _identify(root, record.lance_branch, rules)
        manifest = open_manifest(root, lance_branch=record.lance_branch, version=version, rules=rules)
        state = manifest.read_state()
    return make_snapshot(root, record, manifest, state, Identities(main_identity, identity))


def _identify(root: Location, lance_branch: str | None, rules: Format) -> BranchIdentity:
    """The identity of a branch of which an older version is read, also if its newest one is damaged.

    The stamp that is checked is the one of the newest version.
    """
    try:
        return _read_newest(root, lance_branch, rules)[2]
    except FormatError:
        open_manifest(root, lance_branch=lance_branch, rules=rules)
        return new_identity()


def _read_newest(
    root: Location, lance_branch: str | None, rules: Format
) -> tuple[Manifest, ManifestState, BranchIdentity]:
    """The newest manifest of a branch and its state, compared with what this process read of it before."""
    for _ in range(limits.IDENTITY_ATTEMPTS_MAX):
        before = SEEN_HEADS.find(root, lance_branch)
        manifest = open_manifest(root, lance_branch=lance_branch, rules=rules)
        wanted = () if before is None else (commit_object_id(before.head),)
        state, found = manifest.read_state_and(wanted)
        identity = SEEN_HEADS.note((root, lance_branch), state.head, before, is_later=bool(found))
        if identity is not None:
            return manifest, state, identity
    # Other threads read newer states each time: what this one reads is kept for itself.
    return manifest, state, new_identity()


def refresh_snapshot(known: Snapshot, rules: Format = FORMAT) -> Snapshot:
    """The branch as it is now; on main nothing is read again when nothing was published since.

    The newest version of a manifest is never collected, and no name of a data file is used twice. So while its number
    and its files are the same, it is the same version.
    """
    seen = SEEN_HEADS.find(known.root, None)
    if known.branch.name != MAIN or seen is None or seen.identity != known.identities.main:
        return read_snapshot(known.root, known.branch.name, rules=rules)
    newest = open_manifest(known.root, rules=rules)
    if newest.version == known.version and newest.dataset.data_files() == known.manifest.dataset.data_files():
        return replace(known, manifest=newest)
    return read_snapshot(known.root, rules=rules)


def refuse_replaced(snapshot: Snapshot) -> None:
    """Raise `GraphReplacedError` unless the graph at the snapshot's location is still the one that it was read from.

    Who opens a table of a snapshot calls this afterwards: the rows of the table are then those of the snapshot.
    """
    then = snapshot.manifest.dataset
    with suppress(NotFoundError):
        if then.at(then.version).data_files() == then.data_files():
            return
    newest = open_manifest(snapshot.root, lance_branch=then.branch)
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
    """The id of main, whose Lance's main of every table is."""
    if snapshot.branch.name == MAIN:
        return snapshot.branch.id
    return find_branch(open_manifest(snapshot.root).read_state(), MAIN).id


def read_commit_snapshot(
    root: Location, commit: str, branch: str = MAIN, *, rules: Format = FORMAT
) -> tuple[Snapshot, CommitRecord]:
    """The snapshot that a commit made, and its record. `branch` is where to look for the commit."""
    newest = read_snapshot(root, branch, rules=rules)
    record = find_named_commit(newest, commit)
    if record.id == newest.head and record.manifest_hint.version == newest.version:
        return newest, record
    return read_record_snapshot(newest, record, rules), record


def find_named_commit(newest: Snapshot, name: str) -> CommitRecord:
    """The commit of the branch that a text means; raise `NotFoundError` when there is none."""
    manifest = newest.manifest
    commit = name_commit(name, newest.head, manifest.read_commit_ids)
    record = manifest.find_commit(commit)
    if record is None:
        raise NotFoundError(
            f"there is no commit {commit} on branch {newest.branch.name}",
            code="commit_missing",
            hint="pass HEAD, an id or a part of one; `omnigraph commit list` shows the commits of a branch",
            facts={"commit": commit, "branch": newest.branch.name},
        )
    return record


def read_record_snapshot(newest: Snapshot, record: CommitRecord, rules: Format = FORMAT) -> Snapshot:
    """The snapshot of a commit, also of a branch that is gone: the first version at or after its hint with it as head.

    `newest` is any newer snapshot of the graph.
    """
    for manifest in _from_hint(newest, record.manifest_hint, rules):
        if manifest.read_head() == record.id:
            return make_snapshot(
                newest.root, newest.branch, manifest, manifest.read_state(), newest.identities
            )
        if manifest.find_commit(record.id) is not None:
            break
    raise NotFoundError(
        f"the snapshot of commit {record.id} is gone",
        code="snapshot_collected",
        hint="its files have been collected; `omnigraph commit list` shows what can be read",
        facts={"commit": record.id},
    )


def find_commit_version(root: Location, record: CommitRecord, rules: Format = FORMAT) -> Pin | None:
    """The manifest version that is the snapshot of a commit, wherever it was made; None when it is gone."""
    hint = record.manifest_hint
    try:
        here = open_manifest(root, lance_branch=hint.branch, rules=rules).dataset
    except NotFoundError:
        return None
    for version in here.versions():
        if version >= hint.version:
            manifest = open_manifest(root, lance_branch=hint.branch, version=version, rules=rules)
            if manifest.read_head() == record.id:
                return Pin(hint.branch, version)
            if manifest.find_commit(record.id) is not None:
                return None
    return None


def make_snapshot(
    root: Location, branch: BranchRecord, manifest: Manifest, state: ManifestState, identities: Identities
) -> Snapshot:
    """The snapshot of a manifest whose state was read already."""
    live = state.live_tables().values()
    tables = {table.alias: table for table in live}
    if len(tables) != len(live):
        raise damaged_manifest(manifest.dataset.uri, "two tables of one name")
    return Snapshot(root, branch, manifest, state.head, state.schema, tables, state, identities)


def find_branch(state: ManifestState, name: str) -> BranchRecord:
    """The branch's row in main's state; raise `NotFoundError` with the names there are."""
    record = state.branches.get(name)
    if record is None:
        names = ", ".join(sorted(state.branches))
        raise NotFoundError(
            f"there is no branch '{name}'",
            code="branch_missing",
            hint=f"the branches are: {names}",
            facts={"branch": name},
        )
    return record


def is_moved(main: Manifest, root: Location) -> bool:
    """Whether the graph was made at another place than where it is read, by its main manifest."""
    return main.root_uri not in ("", root.uri)


def refuse_moved(main: Manifest, root: Location, branch: str) -> None:
    """Lance branches hold absolute paths: in a copied or moved graph only main can be used."""
    if is_moved(main, root):
        raise FormatError(
            f"branch '{branch}' cannot be used: the graph was created at {main.root_uri} and is now at {root}",
            code="graph_moved",
            hint="Lance branches hold absolute paths: export the branch where the graph was made. "
            "Main works here, and so does `omnigraph branch delete`",
            facts={"recorded": main.root_uri, "uri": root.uri},
        )


def _from_hint(newest: Snapshot, hint: Pin, rules: Format) -> Iterator[Manifest]:
    """The manifest at the hint and at every later version; they are listed only if the hint is not the answer."""

    def at(version: int) -> Manifest:
        return open_manifest(newest.root, lance_branch=hint.branch, version=version, rules=rules)

    with suppress(NotFoundError):
        yield at(hint.version)
    here = newest.manifest.dataset
    if hint.branch != here.branch:
        here = open_manifest(newest.root, lance_branch=hint.branch, rules=rules).dataset
    for version in here.versions():
        if version > hint.version:
            yield at(version)


def open_table(root: Location, table: TableRecord) -> Dataset:
    """A table at its pin."""
    return open_pin(root.child(table.path), table.pin)


def open_pin(location: Location, pin: Pin) -> Dataset:
    """The dataset of a table at any of its pins."""
    return open_dataset(location, branch=pin.branch, version=pin.version)


def pinned_version(root: Location, table: TableRecord) -> DatasetVersion:
    """A table at its pin, for whoever opens it elsewhere."""
    return DatasetVersion(root.child(table.path), table.pin.branch, table.pin.version)
