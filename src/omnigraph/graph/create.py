"""Create a graph: its tables first, then `__manifest`. The graph exists when the manifest has its first version.

A marker under `__init/` lists every path before it is created. If creation fails, everything that it created is
deleted. If the process is killed, the next attempt finds the marker and no manifest, and deletes exactly the paths of
the marker, if the process of the marker is known to have ended. Before `init` returns, it checks that the tables
exist. Files of others are never changed, and an existing graph is never replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Final

import msgspec

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.decoding import decode_json
from omnigraph.base.errors import ConflictError, NotFoundError, OmnigraphError, RefusedError
from omnigraph.base.failpoints import Failpoint, failpoint
from omnigraph.base.hints import Argument, action, hint
from omnigraph.base.ids import BranchId, CommitId, OperationId, new_ulid
from omnigraph.base.process import ProcessIdentity, current_process, has_certainly_ended
from omnigraph.base.threads import thread_pool
from omnigraph.graph.manifest import encoding, layout, records
from omnigraph.graph.manifest.layout import EDGES, INIT_MARKERS, MANIFEST, NODES, TABLE_PATH
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.graph.manifest.stamp import FORMAT, ROOT_KEY, STAMP_KEY
from omnigraph.schema.catalog import Catalog, Entity
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
    """What to create: the accepted schema, its actor, and whether the directory may contain other files."""

    source: str
    catalog: Catalog
    actor: str
    allow_other_files: bool = False


class _Marker(ProcessIdentity, frozen=True, kw_only=True):
    """The content of `__init/<op>.json`: which process creates which paths."""

    v: int
    op_id: str
    paths: list[str]


def create_graph(root: Location, new: NewGraph, process: ProcessIdentity | None = None) -> Snapshot:
    """Create the graph and return its first snapshot, or raise and leave nothing. `process` is this process."""
    own_process = process or current_process()
    store = ObjectStore(root)
    new_directories = _plan_directories(root)
    _remove_abandoned(store, own_process)
    _require_empty_location(store, root, new.allow_other_files)
    operation = OperationId(new_ulid())
    paths = [layout.table_path(entity) for entity in new.catalog.types]
    marker = _Marker(v=MARKER_VERSION, op_id=operation, paths=paths, **msgspec.structs.asdict(own_process))
    with ExitStack() as undo:
        undo.callback(_remove_empty_directories, new_directories)
        undo.callback(_remove_attempt, store, marker)
        failpoint(Failpoint.INIT_MARK_BEFORE)
        store.create(layout.init_marker_path(operation), msgspec.json.encode(marker))
        _create_tables(root, new.catalog, operation)
        _create_manifest(root, new, operation)
        undo.pop_all()
    # The graph is visible from here on, so an error deletes nothing: another process may have loaded rows.
    if missing := _find_missing_tables(root, paths):
        _delete_manifest(store)
        _remove_attempt(store, marker)
        _remove_empty_directories(new_directories)
        raise ConflictError(
            f"tables of the new graph were deleted while `init` ran: {', '.join(missing)}",
            code="init_tables_deleted",
            hint=hint(
                "No graph was created. Find the process that deletes files there, then run {} again.", action("init")
            ),
            facts={"paths": list(missing)},
        )
    _delete_marker(store, operation)
    failpoint(Failpoint.INIT_DONE)
    return read_snapshot(root)


def _create_tables(root: Location, catalog: Catalog, operation: OperationId) -> None:
    properties = {"omnigraph:op": operation, "omnigraph:kind": "init"}

    def create(entity: Entity) -> None:
        location = root.child(layout.table_path(entity))
        failpoint(Failpoint.INIT_TABLE_BEFORE)
        create_dataset(location, arrow_schema(entity).empty_table(), properties)

    with thread_pool(limits.INIT_CONCURRENCY) as threads:
        for _ in threads.map(create, catalog.types):
            pass


def _create_manifest(root: Location, new: NewGraph, operation: OperationId) -> None:
    now = SYSTEM_CLOCK.now_us()
    main = records.BranchRecord(
        name=MAIN, id=BranchId(new_ulid()), lance_branch=None, parent=None, creator=new.actor, created_us=now
    )
    schema = records.SchemaRecord(new.source, catalog_to_json(new.catalog), schema_hash(new.catalog))
    first = records.Pin(None, 1)
    tables = [
        records.TableRecord(
            type_id=entity.id,
            incarnation=entity.incarnation,
            alias=entity.alias,
            path=layout.table_path(entity),
            pin=first,
            owner=main.id,
            row_count=0,
        )
        for entity in new.catalog.types
    ]
    commit = records.CommitRecord(
        id=CommitId(new_ulid()),
        parent=None,
        merged_parent=None,
        branch=MAIN,
        branch_id=main.id,
        actor=new.actor,
        operation=records.WriteOperation.INIT,
        operation_id=operation,
        created_us=now,
        manifest_hint=first,
        tables=tuple(records.TableMove(table.id, None, table.pin) for table in tables),
        counts={},
        schema_hash=schema.hash,
    )
    rows = [
        encoding.encode_branch(main),
        encoding.encode_schema(schema),
        encoding.encode_head(commit.id),
        encoding.encode_commit(commit),
        *map(encoding.encode_table, tables),
    ]
    manifest_schema = encoding.MANIFEST_SCHEMA.with_metadata({STAMP_KEY: str(FORMAT.current), ROOT_KEY: root.uri})
    failpoint(Failpoint.INIT_MANIFEST_BEFORE)
    try:
        create_dataset(root.child(MANIFEST), encoding.rows_to_table(rows, manifest_schema))
    except DatasetExistsError as exists:
        raise _graph_exists(root) from exists


def _delete_marker(store: ObjectStore, operation: OperationId) -> None:
    failpoint(Failpoint.INIT_UNMARK_BEFORE)
    store.delete(layout.init_marker_path(operation))
    store.remove_empty_directory(INIT_MARKERS)


def _remove_abandoned(store: ObjectStore, own_process: ProcessIdentity) -> None:
    """Delete the files of killed attempts: those with a marker whose process ended, and without a manifest.

    Files of other attempts are left to cleanup, because their process may run (decision 0003).
    """
    for marker in _read_markers(store):
        if not has_certainly_ended(marker, own_process):
            continue
        if _has_manifest(store):
            _delete_marker(store, OperationId(marker.op_id))
        else:
            _remove_attempt(store, marker)


def _has_manifest(store: ObjectStore) -> bool:
    """Return whether the graph exists. A directory alone may be what an attempt wrote just before its commit.

    A power cut during the commit may leave a version without content.
    """
    entries = store.list(f"{MANIFEST}/_versions")
    return any(entry.path.endswith(".manifest") and entry.size for entry in entries)


def _remove_attempt(store: ObjectStore, marker: _Marker) -> None:
    """Delete everything that one attempt created, and the files of an uncommitted manifest.

    The files of a manifest do not name their attempt. They are listed before the markers: an attempt writes its marker
    before a file of the manifest. So without another marker and without a version, no attempt needs the files.
    """
    files = [entry.path for entry in store.list(MANIFEST)]
    others = [other for other in _read_markers(store) if other.op_id != marker.op_id]
    if not others and not _has_manifest(store):
        _delete_manifest_files(store, files)
    for path in marker.paths:
        failpoint(Failpoint.INIT_REMOVE_BEFORE)
        _delete_table(store, path)
    failpoint(Failpoint.INIT_UNMARK_BEFORE)
    store.delete(layout.init_marker_path(OperationId(marker.op_id)))
    for directory in (NODES, EDGES, INIT_MARKERS):
        store.remove_empty_directory(directory)


def _delete_manifest_files(store: ObjectStore, paths: list[str]) -> None:
    for path in paths:
        failpoint(Failpoint.INIT_REMOVE_BEFORE)
        store.delete(path)
    store.remove_empty_directories(MANIFEST)


def _find_missing_tables(root: Location, paths: list[str]) -> list[str]:
    """Return the paths of tables that another process deleted while the graph was created."""

    def is_missing(path: str) -> bool:
        try:
            open_dataset(root.child(path), version=1)
        except NotFoundError:
            return True
        return False

    with ThreadPoolExecutor(limits.INIT_CONCURRENCY) as pool:
        return list(compress(paths, pool.map(is_missing, paths)))


def _delete_manifest(store: ObjectStore) -> None:
    """Delete the manifest, its version first and only once: another `init` may create its own right after."""
    files = [entry.path for entry in store.list(MANIFEST)]
    _delete_manifest_files(store, sorted(files, key=lambda path: not path.endswith(".manifest")))


def _read_markers(store: ObjectStore) -> Iterator[_Marker]:
    for entry in store.list(INIT_MARKERS):
        try:
            marker = decode_json(store.read(entry.path) or b"", _Marker)
        except msgspec.DecodeError:
            continue
        if marker.v == MARKER_VERSION and all(TABLE_PATH.fullmatch(path) for path in marker.paths):
            yield marker


def _delete_table(store: ObjectStore, path: str) -> None:
    """Delete a table that may have been created. If the path is an external file or a symbolic link, it was not."""
    try:
        store.delete_below(path)
    except OmnigraphError as blocked:
        if blocked.code not in ("path_is_file", LINK_CODE):
            raise


def _require_empty_location(store: ObjectStore, root: Location, allow_other_files: bool) -> None:
    if root.is_local and Path(root.uri).exists() and not Path(root.uri).is_dir():
        raise RefusedError(
            f"cannot create a graph: {root} is a file",
            code="root_is_file",
            hint="Choose a directory for the graph.",
            facts={"uri": root.uri},
        )
    names = set(store.list_names())
    if MANIFEST in names and _has_manifest(store):
        raise _graph_exists(root)
    own_names = {INIT_MARKERS, NODES, EDGES, MANIFEST} if any(True for _ in _read_markers(store)) else set()
    other_names = sorted(names - own_names)
    if other_names and not allow_other_files:
        shown = ", ".join(other_names[:3]) + (", …" if len(other_names) > 3 else "")
        raise RefusedError(
            f"{root} is not empty: it contains {shown}",
            code="directory_not_empty",
            hint=hint(
                "Choose an empty directory, or pass {} to create the graph next to these files.", Argument("force")
            ),
            facts={"uri": root.uri, "names": list(other_names[:20])},
        )


def _graph_exists(root: Location) -> ConflictError:
    return ConflictError(
        f"a graph already exists at {root}",
        code="graph_exists",
        hint="Choose another path. `init` never replaces a graph.",
        facts={"uri": root.uri},
    )


def _plan_directories(root: Location) -> tuple[Path, ...]:
    """Return the directories that creating the graph will create on disk, deepest first."""
    if not root.is_local:
        return ()
    path = Path(root.uri)
    return tuple(directory for directory in (path, *path.parents) if not directory.exists())


def _remove_empty_directories(directories: tuple[Path, ...]) -> None:
    for directory in directories:
        if directory.is_dir() and not directory.is_symlink() and not any(directory.iterdir()):
            directory.rmdir()
