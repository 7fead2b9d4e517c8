"""`Graph`: one graph on one branch, as Python programs and the command line use it.

In: a URI and names as users type them. Out: values of `graph/`. Opening looks whether there is a graph that this
release can read; a read-only graph never writes. The write path is imported when it is first needed, because a
command that only reads starts twice as fast without it.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.base.errors import NotFoundError
from omnigraph.base.ids import CommitId
from omnigraph.graph.lineage import make_lineage
from omnigraph.graph.manifest import open_manifest
from omnigraph.graph.records import CommitRecord, RecoveryRecord
from omnigraph.graph.snapshot import MAIN, Snapshot, read_commit_snapshot, read_snapshot
from omnigraph.storage.location import Location, parse_location

if TYPE_CHECKING:
    from omnigraph.graph.pending import PendingIntent


@dataclass(frozen=True, slots=True)
class Graph:
    """An open graph. `branch` is where reads and writes go unless a call says otherwise."""

    location: Location
    branch: str = MAIN
    read_only: bool = False

    @property
    def uri(self) -> str:
        return self.location.uri

    def snapshot(self, *, commit: str | None = None, version: int | None = None) -> Snapshot:
        """The newest published state, or the one of a commit or of a manifest version."""
        if commit is not None:
            return read_commit_snapshot(self.location, CommitId(commit), self.branch)[0]
        return read_snapshot(self.location, self.branch, version=version)

    def commits(self) -> Iterator[CommitRecord]:
        """The branch's history, newest first."""
        snapshot = self.snapshot()
        return make_lineage(snapshot.head, snapshot.manifest.read_commits()).history()

    def commit(self, commit_id: str) -> CommitRecord:
        """One commit of the branch's lineage."""
        record = self.snapshot().manifest.find_commit(CommitId(commit_id))
        if record is None:
            raise NotFoundError(
                f"there is no commit {commit_id} on branch {self.branch}",
                code="commit_missing",
                hint="`omnigraph commit list` shows the commits of a branch",
                facts={"commit": commit_id, "branch": self.branch},
            )
        return record

    def recoveries(self) -> tuple[RecoveryRecord, ...]:
        """The finished recoveries of the branch, newest first."""
        found = self.snapshot().manifest.read_recoveries()
        return tuple(sorted(found, key=lambda record: record.recovered_us, reverse=True))

    def pending_intents(self) -> tuple[PendingIntent, ...]:
        """Every write under way or waiting for recovery, on any branch, and every intent that cannot be read."""
        from omnigraph.graph.pending import list_pending

        return list_pending(self.location)


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """How to open or create a graph: object-store settings and the actor of writes."""

    storage_options: Mapping[str, str] | None = None
    actor: str | None = None


def init(
    uri: str,
    schema: str,
    *,
    force: bool = False,
    options: OpenOptions | None = None,
    schema_name: str = "<schema>",
) -> Graph:
    """Create a graph with the given `.pg` schema text. `force` allows a directory that holds other files.

    `schema_name` is what errors in the text call it.
    """
    how = options or OpenOptions()
    location = parse_location(uri, how.storage_options)
    from omnigraph.graph.create import NewGraph, create_graph
    from omnigraph.schema import build_catalog, parse_schema

    catalog = build_catalog(parse_schema(schema, schema_name))
    create_graph(location, NewGraph(schema, catalog, how.actor or default_actor(), beside_other_files=force))
    return Graph(location)


def open(  # noqa: A001  # users write omnigraph.open
    uri: str, branch: str = MAIN, *, read_only: bool = False, options: OpenOptions | None = None
) -> Graph:
    """Open a graph; raise if there is none or if this release cannot read it.

    A read-write open first finishes or undoes what crashed writers left. A read-only one never writes.
    """
    location = parse_location(uri, (options or OpenOptions()).storage_options)
    if branch == MAIN:
        open_manifest(location)
    else:
        read_snapshot(location, branch)
    if not read_only:
        from omnigraph.graph.commit import recover_on_open

        recover_on_open(location, branch)
    return Graph(location, branch, read_only)


def default_actor() -> str:
    """Who writes when nobody is named: the login name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
