"""What the rows of `__manifest` say, as values: pins, commits, branches, schema, recoveries.

These are the words of the storage format without its encoding, which is `graph/encoding`. What a newer release
wrote into a row survives when `graph/publish` replaces it; a commit, which merge copies from branch to branch, takes
its unknown metadata keys along as `extra`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final, NewType

from omnigraph.base.errors import FormatError
from omnigraph.base.ids import BranchId, CommitId, Incarnation, OperationId, SchemaHash, TypeId
from omnigraph.schema import Catalog, catalog_from_json

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
    """A published version of a dataset. `branch` is the Lance branch; None is Lance's main."""

    branch: str | None
    version: int


def pin_text(pin: Pin | None) -> str | None:
    """A pin as people read it."""
    return None if pin is None else f"{pin.branch or 'main'}@{pin.version}"


@dataclass(frozen=True, slots=True)
class TableRecord:
    """One table as published: its pin, its size, and the graph branch that owns the pinned Lance branch."""

    type_id: TypeId
    incarnation: Incarnation
    alias: str
    path: str
    pin: Pin
    owner: BranchId
    row_count: int

    @property
    def id(self) -> TableId:
        return table_id(self.type_id, self.incarnation)


@dataclass(frozen=True, slots=True)
class TombstoneRecord:
    """From `version` on the table is not part of a snapshot."""

    table: TableId
    alias: str
    version: int


@dataclass(frozen=True)
class SchemaRecord:
    """The accepted schema: source text, catalog as JSON, and its hash. The catalog is decoded when first asked for."""

    source: str
    catalog_json: str
    hash: SchemaHash

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
    """One table of a commit: where its pin was and where it is now. None on a side: created or dropped."""

    table: TableId
    before: Pin | None
    after: Pin | None


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One batch of a streaming query. A batch that a commit names is never committed again."""

    query: str
    batch: int


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One commit of the lineage, as stored."""

    id: CommitId
    parent: CommitId | None
    merged_parent: CommitId | None
    branch: str
    branch_id: BranchId
    actor: str
    operation: str
    operation_id: OperationId
    created_us: int
    manifest_hint: Pin
    tables: tuple[TableMove, ...]
    counts: Mapping[str, int]
    schema_hash: SchemaHash
    pins: Mapping[TableId, Pin] | None = None
    stream: StreamBatch | None = None
    extra: Mapping[str, Json] = field(default_factory=nothing, compare=False)


@dataclass(frozen=True, slots=True)
class BranchParent:
    """What a branch was made from."""

    branch: str
    branch_id: BranchId
    commit: CommitId


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """A live graph branch. The row is the branch."""

    name: str
    id: BranchId
    lance_branch: str | None
    parent: BranchParent | None
    creator: str
    created_us: int


@dataclass(frozen=True, slots=True)
class RecoveryRecord:
    """One finished recovery: for whose operation, what it did, and what became of each table."""

    operation_id: OperationId
    kind: str
    actor: str
    action: str
    recovered_us: int
    tables: Mapping[str, str]
    detail: str = ""
