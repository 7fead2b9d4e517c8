"""The JSON shapes of commits and snapshots. Scripts rely on them: fields are only ever added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph.graph.records import CommitRecord, Pin, TableId, TableRecord
from omnigraph.graph.snapshot import Snapshot


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
            for alias, table in sorted(snapshot.tables.items(), key=_nodes_first)
        ],
    }


def commit_to_json(commit: CommitRecord, names: Mapping[TableId, str]) -> dict[str, Any]:
    """One commit. `names` has the alias of each table that still has one."""
    return {
        "graph_commit_id": commit.id,
        "graph_branch": commit.branch,
        "graph_manifest_version": commit.manifest_hint.version,
        "parent_commit_id": commit.parent,
        "merged_parent_commit_id": commit.merged_parent,
        "actor_id": commit.actor,
        "created_at": commit.created_us,
        "operation": commit.operation,
        "tables": [
            {
                "table_id": move.table,
                "table_key": names.get(move.table),
                "from": _pin_to_json(move.before),
                "to": _pin_to_json(move.after),
            }
            for move in commit.tables
        ],
        "counts": dict(commit.counts),
    }


def table_names(snapshot: Snapshot) -> dict[TableId, str]:
    """The alias of every table of a snapshot."""
    return {table.id: alias for alias, table in snapshot.tables.items()}


def _nodes_first(entry: tuple[str, TableRecord]) -> tuple[bool, str]:
    return entry[0].startswith("edge:"), entry[0]


def _pin_to_json(pin: Pin | None) -> dict[str, Any] | None:
    return None if pin is None else {"branch": pin.branch, "version": pin.version}
