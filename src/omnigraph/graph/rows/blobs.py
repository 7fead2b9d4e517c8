"""One blob of one entity: where it is stored, its length and its tag, without its bytes.

In: a snapshot and the names of a type, an entity and a property. Out: a `StoredBlob`, whose bytes are read on request.
Nothing here writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pyarrow as pa

from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.graph.manifest.snapshot import Snapshot, open_own_table
from omnigraph.graph.rows.entity_rows import blob_names, column_names
from omnigraph.storage.lance.dataset import ADDRESS, Dataset
from omnigraph.storage.lance.read import find_rows, read_blob_range


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBlob:
    """A blob of a published version of a table. `tag` differs for each version, so equal tags have equal bytes."""

    dataset: Dataset
    column: str
    address: int
    size: int
    tag: str

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Return its bytes, or a part of them. Only this part is read from storage."""
        return read_blob_range(self.dataset, self.column, self.address, start, self.size if end is None else end)


def find_blob(snapshot: Snapshot, type_name: str, entity_id: str, name: str) -> StoredBlob:
    """Return a blob of an entity; raise if the entity, the property or its value does not exist."""
    entity = snapshot.schema.catalog.require_type(type_name)
    if name not in blob_names(entity):
        raise UsageError(
            f"'{name}' is not a Blob property of '{type_name}'",
            code="blob_property",
            hint="Read the schema for the properties of the type.",
            facts={"type_name": type_name, "property": name},
        )
    table = snapshot.tables[entity.alias]
    dataset = open_own_table(snapshot, table)
    column = column_names(dataset, entity)[name]
    rows = find_rows(dataset, pa.array([entity_id], pa.utf8()), [column])
    described: list[Any] = rows.column(column).to_pylist()
    if not described or described[0] is None or described[0]["blob_uri"]:
        raise NotFoundError(
            f"no stored blob '{name}' of '{type_name}' with id '{entity_id}'",
            code="blob_missing",
            hint="Query the entity: the property may be null, or a URI of a blob outside of the graph.",
            facts={"type_name": type_name, "entity_id": entity_id, "property": name},
        )
    addresses: list[Any] = rows.column(ADDRESS).to_pylist()
    address = int(addresses[0])
    position = f"{table.path} {table.pin.branch} {table.pin.version} {address} {column}"
    tag = sha256(position.encode()).hexdigest()[:32]
    return StoredBlob(dataset=dataset, column=column, address=address, size=int(described[0]["size"]), tag=tag)
