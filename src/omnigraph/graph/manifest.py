"""`__manifest`, the only authority: open it, read it, find a commit in it. Nothing here writes.

In: a graph's location, a graph branch, a version. Out: a `Manifest` handle pinned to one version, and its
state. The stamp is read before anything else. The state leaves commits and recoveries aside, so that its cost
does not follow history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.errors import FormatError, NotFoundError
from omnigraph.base.ids import CommitId, OperationId
from omnigraph.graph.encoding import (
    commit_object_id,
    decode_branch,
    decode_commit,
    decode_head,
    decode_recovery,
    decode_schema,
    decode_tables,
    decode_tombstone,
    recovery_object_id,
)
from omnigraph.graph.layout import INIT_MARKERS, MANIFEST
from omnigraph.graph.records import (
    BranchRecord,
    CommitRecord,
    RecoveryRecord,
    SchemaRecord,
    TableId,
    TableRecord,
    TombstoneRecord,
)
from omnigraph.graph.stamp import FORMAT, ROOT_KEY, Format, read_stamp
from omnigraph.storage.dataset import Dataset, open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

# A branch's manifest starts as a copy of its parent's, so the branch rows in it are old ones of main.
_BRANCH_STATE_FILTER: Final = "object_type IN ('table', 'table_tombstone', 'schema', 'graph_head')"
_STATE_FILTER: Final = "object_type IN ('table', 'table_tombstone', 'schema', 'graph_head', 'branch')"


FoundRow = Mapping[str, Any]
"""A row as read: `object_id` and `metadata`."""


@dataclass(frozen=True, slots=True)
class ManifestState:
    """What one version of a manifest publishes. `branches` is filled on main's manifest only."""

    head: CommitId
    schema: SchemaRecord
    tables: Mapping[TableId, TableRecord]
    tombstones: tuple[TombstoneRecord, ...]
    branches: Mapping[str, BranchRecord]

    def live_tables(self) -> Mapping[TableId, TableRecord]:
        """The tables of the snapshot: those that no tombstone takes out."""
        gone = {stone.table for stone in self.tombstones if self._covers(stone)}
        return {key: table for key, table in self.tables.items() if key not in gone} if gone else self.tables

    def _covers(self, stone: TombstoneRecord) -> bool:
        table = self.tables.get(stone.table)
        return table is not None and table.pin.version >= stone.version


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest opened at one version. `stamp` is the branch's format stamp."""

    dataset: Dataset
    stamp: int

    @property
    def version(self) -> int:
        return self.dataset.version

    @property
    def root_uri(self) -> str:
        """Where the graph was created."""
        return self.dataset.metadata.get(ROOT_KEY, "")

    def read_state(self) -> ManifestState:
        """Everything a snapshot needs, in one scan."""
        return self.read_state_and(())[0]

    def read_state_and(self, object_ids: tuple[str, ...]) -> tuple[ManifestState, tuple[FoundRow, ...]]:
        """The state, and in the same scan those rows of `object_ids` that there are."""
        where = _STATE_FILTER if self.dataset.branch is None else _BRANCH_STATE_FILTER
        wanted = f" OR {_any_of(object_ids)}" if object_ids else ""
        rows = self.dataset.read(where=where + wanted)
        found = self._select(rows, object_ids) if object_ids else ()
        return _decode_state(rows, self.dataset.uri), found

    def find_rows(self, object_ids: tuple[str, ...]) -> tuple[FoundRow, ...]:
        """Those rows of `object_ids` that there are."""
        return (
            tuple(self.dataset.read(["object_id", "metadata"], _any_of(object_ids)).to_pylist())
            if object_ids
            else ()
        )

    def read_head(self) -> CommitId:
        """The newest commit of this version."""
        rows = self.dataset.read(["object_id", "metadata"], "object_id = 'graph_head'").to_pylist()
        if len(rows) != 1:
            raise _not_a_manifest(self.dataset.uri, f"{len(rows)} graph_head rows")
        return decode_head(rows[0])

    def find_commit(self, commit: CommitId) -> CommitRecord | None:
        """The commit's row, if this version has it."""
        rows = self.find_rows((commit_object_id(commit),))
        return decode_commit(rows[0]) if rows else None

    def find_recovery(self, operation: OperationId) -> RecoveryRecord | None:
        """The audit row of a finished recovery, if this version has it."""
        rows = self.find_rows((recovery_object_id(operation),))
        return decode_recovery(rows[0]) if rows else None

    def read_commits(self) -> tuple[CommitRecord, ...]:
        """Every commit of this branch's lineage that the manifest holds, in no order."""
        return tuple(decode_commit(row) for row in self._rows_of("graph_commit"))

    def read_recoveries(self) -> tuple[RecoveryRecord, ...]:
        """Every finished recovery, in no order."""
        return tuple(decode_recovery(row) for row in self._rows_of("recovery"))

    def _rows_of(self, object_type: str) -> list[dict[str, Any]]:
        return self.dataset.read(["object_id", "metadata"], f"object_type = '{object_type}'").to_pylist()

    @staticmethod
    def _select(rows: pa.Table, object_ids: tuple[str, ...]) -> tuple[FoundRow, ...]:
        chosen = rows.filter(pc.is_in(rows.column("object_id"), pa.array(object_ids, pa.utf8())))
        return tuple(chosen.select(["object_id", "metadata"]).to_pylist())


def open_manifest(
    root: Location, *, lance_branch: str | None = None, version: int | None = None, rules: Format = FORMAT
) -> Manifest:
    """Open a manifest branch at its newest version or at the given one, and judge its stamp."""
    try:
        dataset = open_dataset(root.child(MANIFEST), branch=lance_branch, version=version)
    except NotFoundError as missing:
        if missing.code == "object_missing":
            raise _explain_missing(root, lance_branch, version) from missing
        raise
    return Manifest(dataset, read_stamp(dataset, rules))


def _any_of(object_ids: tuple[str, ...]) -> str:
    quoted = ", ".join("'" + object_id.replace("'", "''") + "'" for object_id in object_ids)
    return f"object_id IN ({quoted})"


def _decode_state(rows: pa.Table, uri: str) -> ManifestState:
    kinds = rows.column("object_type")
    tables = decode_tables(rows.filter(pc.equal(kinds, "table")))
    others = rows.filter(pc.not_equal(kinds, "table")).select(
        ["object_id", "object_type", "type_id", "incarnation", "table_key", "table_version", "metadata"]
    )
    tombstones: list[TombstoneRecord] = []
    branches: dict[str, BranchRecord] = {}
    schemas: list[SchemaRecord] = []
    heads: list[CommitId] = []
    for row in others.to_pylist():
        match row["object_type"]:
            case "table_tombstone":
                tombstones.append(decode_tombstone(row))
            case "branch":
                branch = decode_branch(row)
                branches[branch.name] = branch
            case "schema":
                schemas.append(decode_schema(row))
            case "graph_head":
                heads.append(decode_head(row))
    if len(schemas) != 1 or len(heads) != 1:
        raise _not_a_manifest(uri, f"{len(schemas)} schema rows and {len(heads)} graph_head rows")
    return ManifestState(heads[0], schemas[0], {t.id: t for t in tables}, tuple(tombstones), branches)


def _explain_missing(root: Location, lance_branch: str | None, version: int | None) -> NotFoundError:
    facts = {"uri": root.uri}
    names = ObjectStore(root).folders()
    if MANIFEST in names:
        what = f"version {version}" if version is not None else f"the Lance branch {lance_branch}"
        return NotFoundError(
            f"{what} of the manifest at {root} is not there",
            code="manifest_version_missing",
            hint="`omnigraph cleanup` may have collected it; `omnigraph commit list` shows what can be read",
            facts=facts,
        )
    if INIT_MARKERS in names:
        return NotFoundError(
            f"the graph at {root} was never finished: its init was interrupted",
            code="init_unfinished",
            hint="run `omnigraph init` again; it removes what the interrupted one left",
            facts=facts,
        )
    if names:
        return NotFoundError(
            f"{root} is not an Omnigraph graph: it has no {MANIFEST}",
            code="not_a_graph",
            hint="check the path; `omnigraph init --schema schema.pg URI` makes a new graph",
            facts=facts,
        )
    return NotFoundError(
        f"there is no graph at {root}",
        code="graph_missing",
        hint="check the path; `omnigraph init --schema schema.pg URI` makes a new graph",
        facts=facts,
    )


def _not_a_manifest(uri: str, found: str) -> FormatError:
    return FormatError(
        f"{uri} is damaged: it has {found}, one of each is expected",
        code="manifest_damaged",
        hint="open an older version with `omnigraph snapshot --commit`, or restore the directory from a backup",
        facts={"uri": uri},
    )
