"""Rows of a table by their ids: the state of each entity in one snapshot, or that it does not exist.

In: a table at a pin, and ids. Out: `EntityRows`, aligned with the ids. The rows have the columns of the schema of the
type, with the contents of their blobs, ready to be compared and written. Nothing here writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.graph.rows.ndjson import blob_text, json_lines
from omnigraph.schema.catalog import Entity
from omnigraph.schema.property_types import Scalar, ScalarType
from omnigraph.schema.tables import NULL_FILLS_KEY, PROPERTY_ID_KEY, arrow_schema
from omnigraph.schema.values import Value
from omnigraph.storage.lance.dataset import ADDRESS, IDENTITY, Dataset, Texts
from omnigraph.storage.lance.read import Numbers, find_rows, locate_rows, read_blobs, read_rows_at

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Indexes = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RowLocations:
    """The locations of the rows of some ids. A row that is not present has neither identity nor address.

    `rows` are the rows themselves if they are few: they were read together with their locations.
    """

    ids: Texts
    present: Mask
    identities: Numbers
    addresses: Numbers
    rows: pa.Table | None = None

    @classmethod
    def absent(cls, ids: Texts) -> RowLocations:
        """Return locations of which none is present."""
        size = len(ids)
        return cls(
            ids=ids,
            present=np.zeros(size, np.bool_),
            identities=np.zeros(size, np.uint64),
            addresses=np.zeros(size, np.uint64),
        )

    def put(self, indexes: Indexes, rows: pa.Table) -> None:
        """Set the locations of rows that were found; `indexes` has the row number for each id, or -1."""
        exists = indexes >= 0
        self.present[exists] = True
        self.identities[exists] = rows.column(IDENTITY).to_numpy()[indexes[exists]]
        self.addresses[exists] = rows.column(ADDRESS).to_numpy()[indexes[exists]]

    def only(self, mask: Mask) -> RowLocations:
        """Return the locations for which the mask is true."""
        filter_: Any = pa.array(mask)
        rows = None if self.rows is None else self.rows.filter(filter_)
        return self._select(mask, self.ids.filter(filter_), rows)

    def slice(self, start: int, rows: int) -> RowLocations:
        """Return the locations of some adjacent ids."""
        rows_of_slice = None if self.rows is None else self.rows.slice(start, rows)
        return self._select(slice(start, start + rows), self.ids.slice(start, rows), rows_of_slice)

    def _select(self, index: Any, ids: Texts, rows: pa.Table | None) -> RowLocations:
        """Return the locations at an index of NumPy, a mask or a slice."""
        return RowLocations(
            ids=ids,
            present=self.present[index],
            identities=self.identities[index],
            addresses=self.addresses[index],
            rows=rows,
        )


@dataclass(frozen=True, slots=True, eq=False)
class EntityRows:
    """The rows of some ids. A row that is not `present` is all null. `undecided`: no side has the right state."""

    rows: pa.Table
    present: Mask
    undecided: Mask

    @classmethod
    def of(cls, rows: pa.Table, present: Mask) -> EntityRows:
        return cls(rows, present, np.zeros(len(present), np.bool_))

    def only(self, mask: Mask) -> EntityRows:
        """Return the rows for which the mask is true."""
        return EntityRows(self.rows.filter(pa.array(mask)), self.present[mask], self.undecided[mask])


def locate(dataset: Dataset, entity: Entity | None, ids: Texts) -> RowLocations:
    """Locate each of the ids, in their order, by searching the table.

    With an entity, a small number of rows is read in the same search.
    """
    locations = RowLocations.absent(ids)
    if not len(ids):
        return locations
    if entity is None or len(ids) > limits.LOOKUP_FILTER_VALUES_MAX:
        rows = locate_rows(dataset, ids)
        locations.put(indexes_in(ids, rows), rows)
        return locations
    rows = find_rows(dataset, ids, list(column_names(dataset, entity).values()))
    indexes = indexes_in(ids, rows)
    locations.put(indexes, rows)
    return replace(locations, rows=rows.take(pa.array(indexes, mask=indexes < 0)))


def indexes_in(ids: Texts, rows: pa.Table) -> Indexes:
    """Return for each id the number of its row, or -1."""
    indexes: Any = pc.index_in(ids, value_set=rows.column("id").combine_chunks())
    answer: Indexes = indexes.fill_null(-1).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return answer


def with_rows(dataset: Dataset, entity: Entity, located: RowLocations) -> RowLocations:
    """Return the locations with their rows, if they are few, so that they are read once."""
    if located.rows is not None or len(located.ids) > limits.LOOKUP_FILTER_VALUES_MAX:
        return located
    present = located.present
    rows = read_rows_at(
        dataset, located.identities[present], located.addresses[present], list(column_names(dataset, entity).values())
    )
    return replace(located, rows=rows.take(_positions(present)))


def read_entity_rows(dataset: Dataset | None, entity: Entity, located: RowLocations) -> EntityRows:
    """Read the rows of the ids, with nulls for ids that do not exist."""
    schema = arrow_schema(entity)
    size = len(located.present)
    if dataset is None or not located.present.any():
        columns = [pa.nulls(size, field.type) for field in schema]
        return EntityRows.of(pa.Table.from_arrays(columns, schema=schema), located.present)
    rows = read_rows(dataset, entity, located.only(located.present))
    return EntityRows.of(rows.take(_positions(located.present)), located.present)


def read_rows(dataset: Dataset, entity: Entity, located: RowLocations) -> pa.Table:
    """Read the rows of ids that all exist, in their order. A column that the table lacks has its default.

    A null in a property that became required has the default of that change.
    """
    schema = arrow_schema(entity)
    names = column_names(dataset, entity)
    stored = located.rows
    if stored is None:
        stored = read_rows_at(dataset, located.identities, located.addresses, list(names.values()))
    columns: list[Any] = []
    for field in schema:
        stored_name = names.get(field.name)
        if stored_name is None:
            columns.append(filled_column(entity, field, stored.num_rows))
        elif field.name in blob_names(entity):
            columns.append(_read_contents(dataset, field, stored_name, located.addresses, stored.column(stored_name)))
        else:
            fill = null_replacement(entity, field.name, dataset.schema.field(stored_name))
            columns.append(replace_nulls(stored.column(stored_name).cast(field.type), fill))
    return pa.Table.from_arrays(columns, schema=schema).combine_chunks()


def row_ranges(entity: Entity, rows: int) -> Iterator[tuple[int, int]]:
    """Yield start and size of the ranges in which `rows` rows are read: small ranges if a row can be large."""
    size = limits.ENTITY_ROWS_WITH_BLOBS if blob_names(entity) else limits.ENTITY_ROWS
    yield from ((start, min(size, rows - start)) for start in range(0, rows, size))


def blob_names(entity: Entity) -> list[str]:
    """Return the properties that are blobs."""
    return [property_.name for property_ in entity.properties if property_.type == ScalarType(Scalar.BLOB)]


def _positions(present: Mask) -> Any:
    """Return for each position the number of present ones before it, or null if it is not present."""
    return pa.array(np.cumsum(present) - 1, mask=~present)


def column_names(dataset: Dataset, entity: Entity) -> dict[str, str]:
    """Return for each column of the type its name in the table, if the table has it. Properties are matched by id."""
    stored_names = {column_identity(field): field.name for field in dataset.schema}
    columns = ((field.name, column_identity(field)) for field in arrow_schema(entity))
    return {name: stored_names[identity] for name, identity in columns if identity in stored_names}


def filled_column(entity: Entity, field: Any, rows: int) -> Any:
    """Return the values of rows in a column that they lack: the default of the column, or null."""
    property_ = entity.property_named(field.name)
    if property_ is None or property_.value_of_older_rows is None:
        return pa.nulls(rows, field.type)
    make: Any = pa.scalar
    return pa.repeat(make(property_.value_of_older_rows, field.type), rows)


def null_replacement(entity: Entity, name: str, stored_field: Any) -> Value | None:
    """Return the value that null has in a column; `stored_field` is the column as the table has it."""
    property_ = entity.property_named(name)
    applied_fills = int((stored_field.metadata or {}).get(NULL_FILLS_KEY.encode(), 0))
    return None if property_ is None else property_.null_replacement(applied_fills)


def replace_nulls(column: Any, fill: Value | None) -> Any:
    """Return the column with nulls replaced by `fill`."""
    make: Any = pa.scalar
    return column if fill is None else pc.fill_null(column, make(fill, column.type))


def column_identity(field: Any) -> bytes | str:
    """Return the id of a property, or the name of a system column."""
    own: bytes | None = (field.metadata or {}).get(PROPERTY_ID_KEY.encode())
    return field.name if own is None else own


def _read_contents(dataset: Dataset, field: Any, name: str, addresses: Numbers, described: Any) -> Any:
    """Read blobs as they are written: bytes, or the URI of a blob that is stored outside the graph."""
    descriptions = described.combine_chunks()
    uris = descriptions.field("blob_uri").to_pylist()
    valid = descriptions.is_valid().to_pylist()
    inside = [row for row, is_present in enumerate(valid) if is_present and not uris[row]]
    contents = iter(read_blobs(dataset, name, [int(addresses[row]) for row in inside]))
    values: list[dict[str, Any] | None] = [
        None if not is_present else {"uri": uri} if uri else {"data": next(contents)}
        for is_present, uri in zip(valid, uris, strict=True)
    ]
    return pa.array(values, field.type)


def same_states(left: EntityRows, right: EntityRows) -> Mask:
    """Return for each row whether both sides have equal rows, or both lack it. Undecided rows are never equal."""
    in_both = left.present & right.present
    same: Mask = (left.present == right.present) & ~left.undecided & ~right.undecided
    if in_both.any():
        same &= ~in_both | same_rows(left.rows, right.rows)
    return same


def same_rows(left: pa.Table, right: pa.Table) -> Mask:
    """Return for each row whether all columns are equal. Both tables have the same columns and number of rows."""
    same = np.ones(left.num_rows, np.bool_)
    for name in left.schema.names:
        same &= same_values(_column(left, name), _column(right, name))
    return same


def differing_columns(left: pa.Table, right: pa.Table) -> list[list[str]]:
    """Return for each row the names of the columns that differ."""
    names = left.schema.names
    differs = {name: ~same_values(_column(left, name), _column(right, name)) for name in names}
    return [[name for name in names if differs[name][row]] for row in range(left.num_rows)]


def same_values(left: Any, right: Any) -> Mask:
    """Return for each position whether two columns of one type are equal there."""
    left_valid, right_valid = _validity(left), _validity(right)
    same: Mask = left_valid == right_valid
    in_both = left_valid & right_valid
    if not in_both.any():
        return same
    mask = pa.array(in_both)
    same[in_both] = _same_present(left.filter(mask), right.filter(mask))
    return same


def _same_present(left: Any, right: Any) -> Mask:
    """Compare two columns without nulls."""
    kind = left.type
    if pa.types.is_floating(kind):
        bits = np.uint32 if kind == pa.float32() else np.uint64
        return left.to_numpy().view(bits) == right.to_numpy().view(bits)  # type: ignore[no-any-return]
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        ours, theirs = (side.flatten().to_numpy().view(np.uint32).reshape(-1, size) for side in (left, right))
        return (ours == theirs).all(axis=1)  # type: ignore[no-any-return]
    if pa.types.is_list(kind):
        return _same_lists(left, right)
    if pa.types.is_struct(kind):
        parts = [same_values(left.field(name), right.field(name)) for name in ("data", "uri")]
        return parts[0] & parts[1]
    equal: Any = pc.equal(left, right)
    return equal.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _same_lists(left: Any, right: Any) -> Mask:
    sizes = [pc.list_value_length(side).to_numpy(zero_copy_only=False) for side in (left, right)]
    same: Mask = sizes[0] == sizes[1]
    if not same.any():
        return same
    mask = pa.array(same)
    items = [side.filter(mask).flatten() for side in (left, right)]
    equal = same_values(items[0], items[1])
    rows = np.repeat(np.arange(int(same.sum())), sizes[0][same])
    differs = np.zeros(int(same.sum()), np.bool_)
    differs[rows[~equal]] = True
    same[same] = ~differs
    return same


def _column(table: pa.Table, name: str) -> Any:
    return table.column(name).combine_chunks()


def _validity(column: Any) -> Mask:
    answer: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return answer


Content = bytes | str | None
"""A blob: its bytes, or the URI of a blob that is stored elsewhere."""


def entity_lines(
    entity: Entity, entities: EntityRows, show_blob: Callable[[Content], Content] = lambda content: content
) -> Iterator[str | None]:
    """Yield each row as a line of graph data. `show_blob` returns what to print for a blob (default: all of it)."""
    rows = entities.rows.filter(pa.array(entities.present))
    for name in blob_names(entity):
        contents = [
            None if blob is None else show_blob(blob["data"] if blob["uri"] is None else blob["uri"])
            for blob in rows.column(name).to_pylist()
        ]
        rows = rows.set_column(rows.schema.get_field_index(name), name, blob_text(contents))
    lines: Iterator[Any] = iter(())
    if rows.num_rows:
        lines = iter(json_lines(entity, rows.combine_chunks().to_batches()[0]).to_pylist())
    for is_present in entities.present:
        yield str(next(lines)) if is_present else None


def digest_of(content: Content) -> Content:
    """Return a blob as its size and digest, for output with many blobs."""
    if not isinstance(content, bytes):
        return content
    return f"sha256:{hashlib.sha256(content).hexdigest()} ({len(content)} bytes)"
