"""The JSON shapes of branches, commits and snapshots. Scripts rely on them: fields are only ever added."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from omnigraph.base.clock import format_timestamp
from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.branches import BranchStatus
from omnigraph.graph.manifest.records import BranchRecord, CommitRecord, Pin, TableId
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.schema.catalog import display_order
from omnigraph.storage.location import Location


def snapshot_to_json(snapshot: Snapshot) -> dict[str, Any]:
    """What one manifest version publishes: nodes before edges, each by name."""
    return {
        "graph_branch": snapshot.branch.name,
        "graph_commit_id": snapshot.head,
        "graph_manifest_version": snapshot.version,
        "internal_schema_version": snapshot.stamp,
        "schema_hash": snapshot.schema.hash,
        "datasets": [
            {
                "table_key": alias,
                "table_version": table.pin.version,
                "table_branch": table.pin.branch,
                "row_count": table.row_count,
            }
            for alias, table in sorted(snapshot.tables.items(), key=lambda entry: display_order(entry[0]))
        ],
    }


def commit_to_json(commit: CommitRecord, names: Mapping[TableId, str]) -> dict[str, Any]:
    """One commit. `names` has the alias of each table that still has one.

    `created_at` is in microseconds since the epoch; `created` is the same as `--at` takes it.
    """
    return {
        "graph_commit_id": commit.id,
        "graph_branch": commit.branch,
        "graph_manifest_version": commit.manifest_hint.version,
        "parent_commit_id": commit.parent,
        "merged_parent_commit_id": commit.merged_parent,
        "actor_id": commit.actor,
        "created_at": commit.created_us,
        "created": format_timestamp(commit.created_us),
        "operation": commit.operation,
        "tables": [
            {
                "table_id": move.table,
                "table_key": names.get(move.table),
                "from": _pin_to_json(move.before),
                "to": _pin_to_json(move.after),
            }
            for move in sorted(commit.tables, key=lambda one: display_order(names.get(one.table, "")))
        ],
        "counts": dict(commit.counts),
    }


def new_commit_to_json(location: Location, commit: CommitRecord | None) -> dict[str, Any] | None:
    """The commit that a command has just made, if it made one, with the tables as its branch calls them now.

    The commit is there: a store that fails from here on, or a branch that is deleted meanwhile, costs only the names.
    """
    if commit is None:
        return None
    names: dict[TableId, str] = {}
    with suppress(OmnigraphError):
        names = table_names(read_snapshot(location, commit.branch))
    return commit_to_json(commit, names)


def branch_to_json(record: BranchRecord) -> dict[str, Any]:
    """One branch, as it was made; its times twice, as those of a commit."""
    parent = record.parent
    return {
        "name": record.name,
        "branch_id": record.id,
        "parent_branch": None if parent is None else parent.branch,
        "parent_commit_id": None if parent is None else parent.commit,
        "actor_id": record.creator,
        "created_at": record.created_us,
        "created": format_timestamp(record.created_us),
    }


def standing_to_json(standing: BranchStatus) -> dict[str, Any]:
    """One branch and where it stands."""
    return {
        **branch_to_json(standing.record),
        "graph_commit_id": None if standing.head is None else standing.head.id,
        "committed_at": None if standing.head is None else standing.head.created_us,
        "committed": None if standing.head is None else format_timestamp(standing.head.created_us),
        "ahead": standing.ahead,
        "behind": standing.behind,
        "readable": standing.is_readable,
        "error": standing.error or None,
    }


def counts_to_json(counts: Mapping[str, int], member: str) -> dict[str, Any]:
    """How many rows there were of each type, nodes and edges apart. `member` says what was done to them."""
    return {
        name: [
            {"type_name": alias.removeprefix(kind), member: count}
            for alias, count in counts.items()
            if alias.startswith(kind)
        ]
        for name, kind in (("nodes", "node:"), ("edges", "edge:"))
    }


def table_names(snapshot: Snapshot) -> dict[TableId, str]:
    """The alias of every table of a snapshot."""
    return {table.id: alias for alias, table in snapshot.tables.items()}


def _pin_to_json(pin: Pin | None) -> dict[str, Any] | None:
    return None if pin is None else {"branch": pin.branch, "version": pin.version}
