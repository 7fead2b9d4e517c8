"""What the rows of `__manifest` say, as values: pins, commits, branches, schema, recoveries.

These are the words of the storage format without its encoding, which is `graph/encoding`. What a newer release
wrote into a row survives when `graph/publish` replaces it; a commit, which merge copies from branch to branch, takes
its unknown metadata keys along as `extra`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Final, NewType

from omnigraph.base.clock import datetime_of
from omnigraph.base.errors import FormatError
from omnigraph.base.ids import BranchId, CommitId, Incarnation, OperationId, SchemaHash, TypeId
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_json import catalog_from_json

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
TableId = NewType("TableId", str)
"""`<type_id>:<incarnation>`: one dataset's identity, whatever its name."""

_NOTHING: Final[Mapping[str, Json]] = MappingProxyType({})


def nothing() -> Mapping[str, Json]:
    """The default of every mapping of unknown things; it cannot be written to, so all records share one."""
    return _NOTHING


def table_id(type_id: TypeId, incarnation: Incarnation) -> TableId:
    """The identity of a table."""
    return TableId(f"{type_id}:{incarnation}")


def tombstone_object_id(table: TableId, version: int) -> str:
    """The row that takes a table out of snapshots from `version` on."""
    return f"table_tombstone:{table}:{version}"


@dataclass(frozen=True, slots=True)
class Pin:
    """A published version of a Lance dataset."""

    branch: str | None
    """The Lance branch; None is Lance's main."""
    version: int
    """The Lance version."""


def pin_text(pin: Pin | None) -> str | None:
    """A pin as people read it."""
    return None if pin is None else f"{pin.branch or 'main'}@{pin.version}"


@dataclass(frozen=True, slots=True)
class TableRecord:
    """One table as published."""

    type_id: TypeId
    incarnation: Incarnation
    alias: str
    """`node:Person` or `edge:Knows`."""
    path: str
    """The folder of its Lance dataset, below the graph."""
    pin: Pin
    """Which Lance version of the dataset has its rows."""
    owner: BranchId
    """The id of the branch that wrote it; a branch reads its parent's table until it writes to it."""
    row_count: int
    """How many rows it has."""

    @property
    def id(self) -> TableId:
        """What names the table in commits and changes, also after its type got another name."""
        return table_id(self.type_id, self.incarnation)


@dataclass(frozen=True, slots=True)
class TombstoneRecord:
    """From `version` on the table is not part of a snapshot."""

    table: TableId
    alias: str
    version: int


@dataclass(frozen=True)
class SchemaRecord:
    """The accepted schema of a branch."""

    source: str
    """The `.pg` text, as it was given."""
    catalog_json: str
    """The compiled schema as JSON, with the ids of types and properties."""
    hash: SchemaHash
    """Two schemas with the same hash are the same."""

    @cached_property
    def catalog(self) -> Catalog:
        self.refuse_altered()
        return catalog_from_json(self.catalog_json)

    def refuse_altered(self) -> None:
        """Raise `FormatError` unless the hash is the catalog's."""
        found = hashlib.sha256(self.catalog_json.encode()).hexdigest()
        if found != self.hash:
            raise FormatError(
                "the schema in the graph's manifest is damaged: its catalog and its hash do not belong together",
                code="manifest_damaged",
                hint="open an older version with `omnigraph snapshot --version`, or restore the directory from a "
                "backup",
                facts={"expected": self.hash, "actual": found},
            )


@dataclass(frozen=True, slots=True)
class TableMove:
    """What a commit did to one table."""

    table: TableId
    """Which table, by `TableRecord.id`."""
    before: Pin | None
    """The version that was published before; None when the commit created the table."""
    after: Pin | None
    """The version that the commit published; None when it dropped the table."""


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One batch of a streaming query. A batch that a commit names is never committed again."""

    query: str
    """The id of the streaming query."""
    batch: int
    """The number of the batch in it, from 0."""


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One commit. It never changes."""

    id: CommitId
    """The id, by which every call names the commit."""
    parent: CommitId | None
    """The commit before it; None for the first of a graph."""
    merged_parent: CommitId | None
    """The newest commit of what was merged; None unless it is a merge."""
    branch: str
    """The branch on which it was made."""
    branch_id: BranchId
    """The id of that branch, as another one may get its name."""
    actor: str
    """Who made it."""
    operation: str
    """`init`, `load`, `mutate`, `merge`, `revert`, `schema_apply`, `optimize`, `ensure_indices` or `repair`."""
    operation_id: OperationId
    """The id of the write that made it."""
    created_us: int
    """When, in microseconds since 1970-01-01 UTC."""
    manifest_hint: Pin
    tables: tuple[TableMove, ...]
    """The tables that it changed."""
    counts: Mapping[str, int]
    """What was done: of a load rows by alias, of a mutation `nodes` and `edges`, of others other counts."""
    schema_hash: SchemaHash
    """The hash of the schema that it left."""
    pins: Mapping[TableId, Pin] | None = None
    stream: StreamBatch | None = None
    """The batch of a Spark stream that it holds, else None."""
    extra: Mapping[str, Json] = field(default_factory=nothing, compare=False)

    @property
    def created_at(self) -> datetime:
        """When it was created, in UTC."""
        return datetime_of(self.created_us)


@dataclass(frozen=True, slots=True)
class BranchParent:
    """What a branch was made from."""

    branch: str
    """The name of that branch."""
    branch_id: BranchId
    """Its id, as another branch may get its name."""
    commit: CommitId
    """The commit that the branch was made at."""


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """A branch."""

    name: str
    """The name."""
    id: BranchId
    """The id; a branch that is deleted and made again has another one."""
    lance_branch: str | None
    """Its name in the Lance datasets; None of main, which is Lance's main."""
    parent: BranchParent | None
    """What it was made from; None of main."""
    creator: str
    """Who made it."""
    created_us: int
    """When, in microseconds since 1970-01-01 UTC."""

    @property
    def created_at(self) -> datetime:
        """When it was created, in UTC."""
        return datetime_of(self.created_us)


@dataclass(frozen=True, slots=True)
class RecoveryRecord:
    """One finished recovery of a write that had stopped half-way."""

    operation_id: OperationId
    """The id of that write."""
    kind: str
    """What it was: `load`, `mutate`, …; `recovery` when a recovery itself had left something."""
    actor: str
    """Who wrote."""
    action: str
    """`rolled_forward`, `rolled_back`, `finished`, `nothing_moved`, `branch_gone` or `healed`."""
    recovered_us: int
    """When it was recovered, in microseconds since 1970-01-01 UTC."""
    tables: Mapping[str, str]
    """What became of each table, by its id: the action, or `fenced`, `drift`, `gone`, `discarded`, `restored`."""
    detail: str = ""
    """More about it, if there is more."""

    @property
    def recovered_at(self) -> datetime:
        """When it was recovered, in UTC."""
        return datetime_of(self.recovered_us)
