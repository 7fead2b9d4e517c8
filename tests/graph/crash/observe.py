"""Read the state of a graph for comparison: the contents and history of every branch, and its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omnigraph.base.errors import NotFoundError
from omnigraph.base.ids import BranchId
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import is_epoch_over
from omnigraph.graph.manifest.layout import LOCKS, RECOVERY
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.writers import Contents, snapshot_contents


@dataclass(frozen=True, slots=True)
class BranchState:
    """A branch: its rows, and operation and actor of its commits, oldest first, without recoveries."""

    contents: Contents
    operations: tuple[str, ...]


GraphState = dict[str, BranchState]
"""Every branch by name; empty if the graph does not exist."""
STEP_MARK = "test:step"
Tree = dict[str, tuple[int, int]]


def observe(location: Location, environment: WriteEnvironment) -> GraphState:
    """Return the state of the graph that readers see."""
    return {name: _state(snapshot) for name, snapshot in snapshots(location, environment).items()}


def snapshots(location: Location, environment: WriteEnvironment) -> dict[str, Snapshot]:
    """Return the newest snapshot of every branch."""
    try:
        main = read_snapshot(location, storage_format=environment.storage_format)
    except NotFoundError:
        return {}
    names = main.manifest.read_state().branches
    return {name: read_snapshot(location, name, storage_format=environment.storage_format) for name in names}


def _state(snapshot: Snapshot) -> BranchState:
    history = list(make_lineage(snapshot.head, snapshot.manifest.read_commits()).history())
    operations = tuple(
        f"{commit.operation} by {commit.actor}" for commit in reversed(history) if commit.operation != "recovery"
    )
    return BranchState(snapshot_contents(snapshot), operations)


def read_tree(location: Location) -> Tree:
    """Return every file or object of the graph, with its size and modification time."""
    if not location.is_local:
        return {entry.path: (entry.size, 0) for entry in ObjectStore(location).list("")}
    root = Path(location.uri)
    files = [path for path in root.rglob("*") if path.is_file()] if root.is_dir() else []
    return {str(path.relative_to(root)): (path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(files)}


def find_leftovers(location: Location, environment: WriteEnvironment, *, heads: bool = True) -> list[str]:
    """Return what must not exist after recovery: intents, held locks, unfinished migrations, heads beyond pins."""
    store = ObjectStore(location)
    leftovers = [f"intent {entry.path}" for entry in store.list(RECOVERY)]
    leftovers += [
        f"locked {folder} {epoch}" for folder, epoch in _read_newest_epochs(store) if not _is_over(store, folder, epoch)
    ]
    leftovers += _find_unfinished_migrations(location, environment)
    for snapshot in snapshots(location, environment).values() if heads else ():
        for alias, table in snapshot.tables.items():
            if table.owner == snapshot.branch.id:
                head = open_dataset(location.child(table.path), branch=table.pin.branch).version
                leftovers += [] if head == table.pin.version else [f"{alias} head {head} pin {table.pin.version}"]
    return leftovers


def _find_unfinished_migrations(location: Location, environment: WriteEnvironment) -> list[str]:
    """Return manifests with a new stamp but without the mark of the migration step."""
    if not environment.storage_format.steps:
        return []
    manifests = {name: snapshot.manifest for name, snapshot in snapshots(location, environment).items()}
    return [
        f"the manifest of {name} has stamp {manifest.stamp} without its migration"
        for name, manifest in manifests.items()
        if manifest.stamp == environment.storage_format.current and STEP_MARK not in manifest.dataset.metadata
    ]


def _is_over(store: ObjectStore, folder: str, epoch: int) -> bool:
    return is_epoch_over(store, None if folder == "graph" else BranchId(folder), epoch)


def _read_newest_epochs(store: ObjectStore) -> list[tuple[str, int]]:
    top: dict[str, int] = {}
    for entry in store.list(LOCKS):
        _, folder, name = entry.path.split("/")
        top[folder] = max(top.get(folder, 0), int(name.split(".")[0]))
    return sorted(top.items())
