"""Create a graph: its tables first, then `__manifest`, whose first version is the moment the graph exists.

A marker under `__init/` names every path before it is made. When creation fails, everything it made is removed.
When it is killed, the next attempt finds the marker and no manifest, and removes exactly what the marker names, if the
process of the marker is known to have ended. Before the graph is acknowledged, its tables are checked to exist.
Foreign files are never touched, and an existing graph is never replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import ConflictError, NotFoundError, OmnigraphError, RefusedError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.ids import BranchId, CommitId, OperationId, new_ulid
from omnigraph.base.process import ProcessIdentity, current_process, is_known_gone
from omnigraph.graph.manifest.encoding import (
    MANIFEST_SCHEMA,
    encode_branch,
    encode_commit,
    encode_head,
    encode_schema,
    encode_table,
    rows_to_table,
)
from omnigraph.graph.manifest.layout import (
    EDGES,
    INIT_MARKERS,
    MANIFEST,
    NODES,
    TABLE_PATH,
    init_marker_path,
    table_path,
)
from omnigraph.graph.manifest.records import (
    BranchRecord,
    CommitRecord,
    Pin,
    SchemaRecord,
    TableMove,
    TableRecord,
)
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.graph.manifest.stamp import FORMAT, ROOT_KEY, STAMP_KEY
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_json import catalog_to_json, schema_hash
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.errors import DatasetExistsError
from omnigraph.storage.lance.dataset import create_dataset, open_dataset
from omnigraph.storage.local_tree import LINK_CODE
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

MARKER_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class NewGraph:
    """What to create: the accepted schema, in whose name, and whether other files may already be there."""

    source: str
    catalog: Catalog
    actor: str
    beside_other_files: bool = False


class _Marker(msgspec.Struct, frozen=True):
    """What `__init/<op>.json` says: who creates what."""

    v: int
    op_id: str
    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    started: str
    paths: list[str]
    machine_id: str | None = None
    uid: int | None = None

    def process(self) -> ProcessIdentity:
        return ProcessIdentity(
            self.host, self.boot_id, self.pid_namespace, self.pid, self.started, self.machine_id, self.uid
        )


def create_graph(root: Location, new: NewGraph, process: ProcessIdentity | None = None) -> Snapshot:
    """Create the graph and return its first snapshot, or raise and leave nothing behind. `process` is this one."""
    me = process or current_process()
    store = ObjectStore(root)
    made_folders = _missing_folders(root)
    _remove_abandoned(store, me)
    _refuse_occupied(store, root, new.beside_other_files)
    operation = OperationId(new_ulid())
    tables = _plan_tables(new.catalog)
    with ExitStack() as undo:
        undo.callback(_remove_empty_folders, made_folders)
        marker = _make_marker(operation, tables, me)
        undo.callback(_remove_attempt, store, marker)
        failpoint(Failpoint.INIT_MARK_BEFORE)
        store.create(init_marker_path(operation), msgspec.json.encode(marker))
        _create_tables(root, tables, operation)
        _create_manifest(root, new, tables, operation)
        undo.pop_all()
    # The graph is visible from here on, so an error deletes nothing: another process may have loaded rows already.
    if missing := _missing_tables(root, tables):
        _delete_manifest(store)
        _remove_attempt(store, marker)
        _remove_empty_folders(made_folders)
        raise _tables_deleted(missing)
    _unmark(store, operation)
    failpoint(Failpoint.INIT_DONE)
    return read_snapshot(root)


@dataclass(frozen=True, slots=True)
class _PlannedTable:
    record: TableRecord
    schema: pa.Schema


def _plan_tables(catalog: Catalog) -> tuple[_PlannedTable, ...]:
    planned = []
    for entity in catalog.types:
        pin, path = Pin(None, 1), table_path(entity)
        record = TableRecord(entity.id, entity.incarnation, entity.alias, path, pin, BranchId(""), 0)
        planned.append(_PlannedTable(record, arrow_schema(entity)))
    return tuple(planned)


def _make_marker(operation: OperationId, tables: tuple[_PlannedTable, ...], me: ProcessIdentity) -> _Marker:
    paths = [table.record.path for table in tables]
    return _Marker(
        MARKER_VERSION, operation, me.host, me.boot_id, me.pid_namespace, me.pid, me.started, paths,
        me.machine_id, me.uid,
    )  # fmt: skip


def _create_tables(root: Location, tables: tuple[_PlannedTable, ...], operation: OperationId) -> None:
    properties = {"omnigraph:op": operation, "omnigraph:kind": "init"}

    def create(table: _PlannedTable) -> None:
        failpoint(Failpoint.INIT_TABLE_BEFORE)
        create_dataset(root.child(table.record.path), table.schema.empty_table(), properties)

    with ThreadPoolExecutor(limits.INIT_CONCURRENCY) as pool:
        for _ in pool.map(create, tables):
            pass


def _create_manifest(
    root: Location, new: NewGraph, tables: tuple[_PlannedTable, ...], operation: OperationId
) -> None:
    now = SYSTEM_CLOCK.now_us()
    main = BranchRecord(MAIN, BranchId(new_ulid()), None, None, new.actor, now)
    catalog_json = catalog_to_json(new.catalog)
    schema = SchemaRecord(new.source, catalog_json, schema_hash(new.catalog))
    records = [replace(table.record, owner=main.id) for table in tables]
    commit = CommitRecord(
        id=CommitId(new_ulid()),
        parent=None,
        merged_parent=None,
        branch=MAIN,
        branch_id=main.id,
        actor=new.actor,
        operation="init",
        operation_id=operation,
        created_us=now,
        manifest_hint=Pin(None, 1),
        tables=tuple(TableMove(record.id, None, record.pin) for record in records),
        counts={},
        schema_hash=schema.hash,
    )
    rows = [encode_branch(main), encode_schema(schema), encode_head(commit.id), encode_commit(commit)]
    rows += [encode_table(record) for record in records]
    metadata = {STAMP_KEY: str(FORMAT.current), ROOT_KEY: root.uri}
    failpoint(Failpoint.INIT_MANIFEST_BEFORE)
    try:
        create_dataset(root.child(MANIFEST), rows_to_table(rows, MANIFEST_SCHEMA.with_metadata(metadata)))
    except DatasetExistsError as exists:
        raise _graph_exists(root) from exists


def _unmark(store: ObjectStore, operation: OperationId) -> None:
    failpoint(Failpoint.INIT_UNMARK_BEFORE)
    store.delete(init_marker_path(operation))
    store.remove_empty_directory(INIT_MARKERS)


def _remove_abandoned(store: ObjectStore, me: ProcessIdentity) -> None:
    """Remove what killed attempts left: only with a marker whose process certainly ended, and no manifest.

    What any other attempt made is left to cleanup, because its process may run (decision 0003).
    """
    for marker in _markers(store):
        if not is_known_gone(marker.process(), me):
            continue
        if _has_manifest(store):
            _unmark(store, OperationId(marker.op_id))
        else:
            _remove_attempt(store, marker)


def _has_manifest(store: ObjectStore) -> bool:
    """Whether the graph exists: a folder alone may be what an attempt wrote just before its commit.

    A power cut during it may leave a version without content.
    """
    entries = store.list(f"{MANIFEST}/_versions")
    return any(entry.path.endswith(".manifest") and entry.size for entry in entries)


def _remove_attempt(store: ObjectStore, marker: _Marker) -> None:
    """Remove everything that one attempt made, its share of an uncommitted manifest included.

    A manifest's files do not say whose they are. They are listed before the markers: whoever wrote one of them had
    made a marker by then, so when no other attempt is marked and no version is there, nobody needs them.
    """
    files = [entry.path for entry in store.list(MANIFEST)]
    others = [other for other in _markers(store) if other.op_id != marker.op_id]
    if not others and not _has_manifest(store):
        _delete_manifest_files(store, files)
    _remove_made(store, marker)


def _delete_manifest_files(store: ObjectStore, paths: list[str]) -> None:
    for path in paths:
        failpoint(Failpoint.INIT_REMOVE_BEFORE)
        store.delete(path)
    store.remove_empty_directories(MANIFEST)


def _missing_tables(root: Location, tables: tuple[_PlannedTable, ...]) -> list[str]:
    """The paths of tables that another process deleted while the graph was created."""

    def is_missing(table: _PlannedTable) -> bool:
        try:
            open_dataset(root.child(table.record.path), version=table.record.pin.version)
        except NotFoundError:
            return True
        return False

    with ThreadPoolExecutor(limits.INIT_CONCURRENCY) as pool:
        lost = pool.map(is_missing, tables)
        return [table.record.path for table, is_lost in zip(tables, lost, strict=True) if is_lost]


def _delete_manifest(store: ObjectStore) -> None:
    """Delete the manifest again, its version first and once: another `init` may create its own right after."""
    files = [entry.path for entry in store.list(MANIFEST)]
    _delete_manifest_files(store, sorted(files, key=lambda path: not path.endswith(".manifest")))


def _tables_deleted(missing: list[str]) -> ConflictError:
    return ConflictError(
        f"tables of the new graph were deleted while `init` ran: {', '.join(missing)}",
        code="init_tables_deleted",
        hint="No graph was created. Find the process that deletes files there, then run `init` again.",
        facts={"paths": list(missing)},
    )


def _markers(store: ObjectStore) -> Iterator[_Marker]:
    for entry in store.list(INIT_MARKERS):
        try:
            marker = msgspec.json.decode(store.read(entry.path) or b"", type=_Marker)
        except msgspec.DecodeError:
            continue
        if marker.v == MARKER_VERSION and all(TABLE_PATH.fullmatch(path) for path in marker.paths):
            yield marker


def _remove_made(store: ObjectStore, marker: _Marker) -> None:
    for path in marker.paths:
        failpoint(Failpoint.INIT_REMOVE_BEFORE)
        _delete_table(store, path)
    failpoint(Failpoint.INIT_UNMARK_BEFORE)
    store.delete(init_marker_path(OperationId(marker.op_id)))
    for folder in (NODES, EDGES, INIT_MARKERS):
        store.remove_empty_directory(folder)


def _delete_table(store: ObjectStore, path: str) -> None:
    """Delete a table that may have been created. Where an external file or a symbolic link is, none was."""
    try:
        store.delete_below(path)
    except OmnigraphError as blocked:
        if blocked.code not in ("path_is_file", LINK_CODE):
            raise


def _refuse_occupied(store: ObjectStore, root: Location, beside_other_files: bool) -> None:
    if root.is_local and Path(root.uri).exists() and not Path(root.uri).is_dir():
        raise RefusedError(
            f"{root} is a file",
            code="root_is_file",
            hint="choose a directory for the graph",
            facts={"uri": root.uri},
        )
    names = set(store.list_names())
    if MANIFEST in names and _has_manifest(store):
        raise _graph_exists(root)
    explained = {INIT_MARKERS, NODES, EDGES, MANIFEST} if any(True for _ in _markers(store)) else set()
    foreign = sorted(names - explained)
    if foreign and not beside_other_files:
        shown = ", ".join(foreign[:3]) + (", …" if len(foreign) > 3 else "")
        raise RefusedError(
            f"{root} is not empty: it holds {shown}",
            code="directory_not_empty",
            hint="choose an empty directory, or pass --force to create the graph beside these files",
            facts={"uri": root.uri, "names": list(foreign[:20])},
        )


def _graph_exists(root: Location) -> ConflictError:
    return ConflictError(
        f"there is already a graph at {root}",
        code="graph_exists",
        hint="choose another path; init never replaces a graph",
        facts={"uri": root.uri},
    )


def _missing_folders(root: Location) -> tuple[Path, ...]:
    """The folders that creating the graph will make on disk, deepest first."""
    if not root.is_local:
        return ()
    path = Path(root.uri)
    return tuple(folder for folder in (path, *path.parents) if not folder.exists())


def _remove_empty_folders(folders: tuple[Path, ...]) -> None:
    for folder in folders:
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()
