"""Publishes for the tests of the manifest: they move pins but no table, so that a commit takes milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from omnigraph.api.graph import init
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.ids import CommitId, OperationId, new_ulid
from omnigraph.graph.manifest.publish import CommitDraft, ManifestChange, Publisher, PublishTarget, publish
from omnigraph.graph.manifest.reader import Manifest, open_manifest
from omnigraph.graph.manifest.records import CommitRecord, Pin, TableRecord, WriteOperation
from omnigraph.graph.manifest.requirements import Requirement
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.writers import PERSON, SCHEMA


@dataclass(slots=True)
class QuickClock:
    """The time of the machine, without waiting."""

    slept: list[float] = field(default_factory=list)

    def now_us(self) -> int:
        return SYSTEM_CLOCK.now_us()

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def make_graph(location: Location, schema: str = SCHEMA) -> Snapshot:
    """Create a graph and return its first snapshot."""
    init(location.uri, schema, storage_options=dict(location.options), actor="tester")
    return read_snapshot(location)


def target_of(snapshot: Snapshot) -> PublishTarget:
    branch = snapshot.branch
    return PublishTarget(snapshot.root, branch.name, branch.id, branch.lance_branch)


def new_draft(operation: str = "load") -> CommitDraft:
    return CommitDraft(
        id=CommitId(new_ulid()),
        operation=WriteOperation(operation),
        operation_id=OperationId(new_ulid()),
        actor="tester",
        created_us=SYSTEM_CLOCK.now_us(),
        counts={"rows": 1},
    )


def moved(table: TableRecord) -> TableRecord:
    """Return the table at its next version."""
    return replace(table, pin=replace(table.pin, version=table.pin.version + 1), row_count=table.row_count + 1)


def publish_next(
    location: Location,
    alias: str = PERSON,
    *requirements: Requirement,
    branch: str = MAIN,
    publisher: Publisher | None = None,
) -> CommitRecord | None:
    """Publish one commit that moves the pin of one table."""
    snapshot = read_snapshot(location, branch)
    change = ManifestChange(commit=new_draft(), tables=(moved(snapshot.tables[alias]),))
    return publish(target_of(snapshot), change, requirements, publisher)


def pins_of(snapshot: Snapshot) -> dict[str, tuple[Pin, int]]:
    """Return what a snapshot publishes, to compare with."""
    return {alias: (table.pin, table.row_count) for alias, table in snapshot.tables.items()}


def newest(location: Location, lance_branch: str | None = None) -> Manifest:
    return open_manifest(location, lance_branch=lance_branch)


def tree(location: Location) -> dict[str, int]:
    """Return every object of a graph and its size."""
    return {entry.path: entry.size for entry in ObjectStore(location).list("")}


def copy_graph(source: Location, target: Location) -> None:
    """Copy every object, as a user does who moves a directory or a prefix."""
    origin, copy = ObjectStore(source), ObjectStore(target)
    for path in tree(source):
        copy.create(path, origin.read(path) or b"")
