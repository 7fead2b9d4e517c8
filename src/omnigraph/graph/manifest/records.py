"""The rows of `__manifest` as values: pins, commits, branches, schema, recoveries.

These are the values of the storage format without its encoding, which is `manifest/encoding.py`. Keys that a newer
release wrote into a row are kept when `manifest/publish.py` replaces it. A merge copies commits from branch to
branch, so a commit keeps its unknown metadata keys in `extra`. Nothing here does I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Final, NewType

from omnigraph.base.clock import to_datetime
from omnigraph.base.display import DisplayedRow
from omnigraph.base.errors import FormatError
from omnigraph.base.hints import Placeholder, action, hint
from omnigraph.base.ids import BranchId, CommitId, Incarnation, OperationId, SchemaHash, TypeId
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_json import catalog_from_json

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
TableId = NewType("TableId", str)
"""`<type_id>:<incarnation>`: the identity of one dataset, whatever its name."""

OLDER_VERSION_HINT: Final = hint(
    "Run {} to read an older version, or restore the directory of the graph from a backup.",
    action("snapshot", version=Placeholder("N")),
)
NO_EXTRA: Final[Mapping[str, Json]] = MappingProxyType({})
"""The default of every mapping of unknown keys. It is read-only, so all records share it."""


class WriteOperation(StrEnum):
    """What a write does. The value is the operation of a commit, and the `kind` of an intent and of a recovery.

    An operation that only newer releases have is read as a member whose name is its value.
    """

    INIT = "init"
    LOAD = "load"
    MUTATE = "mutate"
    EMBED = "embed"
    MERGE = "merge"
    REVERT = "revert"
    SCHEMA_APPLY = "schema_apply"
    OPTIMIZE = "optimize"
    ENSURE_INDICES = "ensure_indices"
    REPAIR = "repair"
    RECOVERY = "recovery"

    @classmethod
    def _missing_(cls, value: object) -> WriteOperation | None:
        if not isinstance(value, str):
            return None
        operation = str.__new__(cls, value)
        operation._name_ = operation._value_ = value
        return operation


def table_id(type_id: TypeId, incarnation: Incarnation) -> TableId:
    """Return the identity of a table."""
    return TableId(f"{type_id}:{incarnation}")


def tombstone_object_id(table: TableId, version: int) -> str:
    """Return the key of the row that removes a table from snapshots from `version` on."""
    return f"table_tombstone:{table}:{version}"


@dataclass(frozen=True, slots=True)
class Pin:
    """A published version of a Lance dataset."""

    branch: str | None
    """The Lance branch; None is Lance's main."""
    version: int
    """The Lance version."""


def pin_text(pin: Pin | None) -> str | None:
    """Return a pin as text for messages."""
    return None if pin is None else f"{pin.branch or 'main'}@{pin.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRecord:
    """One published table."""

    type_id: TypeId
    incarnation: Incarnation
    alias: str
    """`node:Person` or `edge:Knows`."""
    path: str
    """The directory of its Lance dataset, below the graph."""
    pin: Pin
    """The Lance version of the dataset that has its rows."""
    owner: BranchId
    """The id of the branch that wrote it. A branch reads the table of its parent until it writes to the table."""
    row_count: int
    """The number of rows."""

    @property
    def id(self) -> TableId:
        """The identity of the table in commits and changes. It does not change when the type is renamed."""
        return table_id(self.type_id, self.incarnation)


@dataclass(frozen=True, slots=True)
class TombstoneRecord:
    """From `version` on, the table is not part of a snapshot."""

    table: TableId
    alias: str
    version: int


@dataclass(frozen=True)
class SchemaRecord:
    """The accepted schema of a branch."""

    source: str
    """The `.pg` text, as it was passed."""
    catalog_json: str
    """The compiled schema as JSON, with the ids of types and properties."""
    hash: SchemaHash
    """The hash of the compiled schema. Equal schemas have equal hashes."""

    @cached_property
    def catalog(self) -> Catalog:
        self.require_intact()
        return catalog_from_json(self.catalog_json)

    def require_intact(self) -> None:
        """Raise `FormatError` unless the hash is that of the catalog."""
        actual = hashlib.sha256(self.catalog_json.encode()).hexdigest()
        if actual != self.hash:
            raise FormatError(
                f"the schema in the manifest is damaged: expected hash {self.hash}, got {actual}",
                code="manifest_damaged",
                hint=OLDER_VERSION_HINT,
                facts={"expected": self.hash, "actual": actual},
            )


@dataclass(frozen=True, slots=True)
class TableMove:
    """What a commit did to one table."""

    table: TableId
    """The table, by `TableRecord.id`."""
    before: Pin | None
    """The version that was published before; None if the commit created the table."""
    after: Pin | None
    """The version that the commit published; None if it dropped the table."""


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One batch of a streaming query. A batch that a commit names is never committed again."""

    query: str
    """The id of the streaming query."""
    batch: int
    """The number of the batch in the query, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CommitRecord(DisplayedRow):
    """One commit. It never changes."""

    id: CommitId
    """The id of the commit."""
    parent: CommitId | None
    """The commit before it; None for the first commit of a graph."""
    merged_parent: CommitId | None
    """The newest commit of the merged branch; None unless it is a merge."""
    branch: str
    """The branch on which it was made."""
    branch_id: BranchId
    """The id of that branch. Another branch may get its name later."""
    actor: str
    """Who made it."""
    operation: WriteOperation
    """What made it."""
    operation_id: OperationId
    """The id of the write that made it."""
    created_us: int
    """When it was made, in microseconds since 1970-01-01 UTC."""
    manifest_hint: Pin  # the first version of the manifest that can have the commit; a retry may publish a later one
    tables: tuple[TableMove, ...]
    """The tables that it changed."""
    counts: Mapping[str, int]
    """What was done: for a load, the rows by alias, and those `inserted`, `updated` and `deleted`; for a mutation,
    `nodes` and `edges`; other counts for others."""
    schema_hash: SchemaHash
    """The hash of the schema after the commit."""
    pins: Mapping[TableId, Pin] | None = None  # of a merge: the tables of the merged branch
    stream: StreamBatch | None = None
    """The batch of a Spark stream that it holds, else None."""
    extra: Mapping[str, Json] = field(default_factory=lambda: NO_EXTRA, compare=False)

    @property
    def created_at(self) -> datetime:
        """When it was created, in UTC."""
        return to_datetime(self.created_us)

    def _summary(self) -> Mapping[str, object]:
        return {
            "id": self.id,
            "operation": self.operation.value,
            "branch": self.branch,
            "actor": self.actor,
            "created_at": self.created_at.isoformat(timespec="seconds"),
        }


@dataclass(frozen=True, slots=True)
class BranchParent:
    """The commit and branch that a branch was created from."""

    branch: str
    """The name of that branch."""
    branch_id: BranchId
    """Its id. Another branch may get its name later."""
    commit: CommitId
    """The commit that the branch was created from."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BranchRecord(DisplayedRow):
    """A branch."""

    name: str
    """The name."""
    id: BranchId
    """The id. A branch that is deleted and created again has another id."""
    lance_branch: str | None
    """Its name in the Lance datasets; None for main, which is the main branch of Lance."""
    parent: BranchParent | None
    """What it was created from; None for main."""
    creator: str
    """Who created it."""
    created_us: int
    """When it was created, in microseconds since 1970-01-01 UTC."""

    @property
    def created_at(self) -> datetime:
        """When it was created, in UTC."""
        return to_datetime(self.created_us)

    def _summary(self) -> Mapping[str, object]:
        return {"name": self.name, "creator": self.creator, "parent": self.parent or ""}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RecoveryRecord(DisplayedRow):
    """One finished recovery of a write that was interrupted."""

    operation_id: OperationId
    """The id of that write."""
    operation: WriteOperation
    """What the write did; `recovery` if a recovery itself was interrupted."""
    actor: str
    """Who wrote."""
    action: str
    """`rolled_forward`, `rolled_back`, `finished`, `nothing_moved`, `branch_gone` or `healed`."""
    recovered_us: int
    """When it was recovered, in microseconds since 1970-01-01 UTC."""
    tables: Mapping[str, str]
    """The result for each table, by its id: the action, or `fenced`, `drift`, `gone`, `discarded`, `restored`."""
    detail: str = ""
    """More details, or empty."""

    @property
    def recovered_at(self) -> datetime:
        """When it was recovered, in UTC."""
        return to_datetime(self.recovered_us)

    def _summary(self) -> Mapping[str, object]:
        return {
            "operation": self.operation.value,
            "actor": self.actor,
            "action": self.action,
            "recovered_at": self.recovered_at.isoformat(timespec="seconds"),
        }
