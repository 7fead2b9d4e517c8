"""Rows of a table by their ids, side by side: what an entity is in one snapshot, or that it is not there.

In: a table at a pin and ids. Out: an `EntityRows`, aligned with the ids, whose rows have the columns of the type's
schema with the contents of their blobs, ready to be compared and written. Nothing here writes.
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


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """Where the rows of some ids lie; what is not there has neither identity nor address.

    `rows` are the rows as the table has them, if they are few: they were found and read at once.
    """

    ids: Texts
    present: Mask
    identities: Numbers
    addresses: Numbers
    rows: pa.Table | None = None

    def only(self, which: Mask) -> Located:
        ids: Any = self.ids.filter(pa.array(which))
        rows = None if self.rows is None else self.rows.filter(pa.array(which))
        return Located(ids, self.present[which], self.identities[which], self.addresses[which], rows)

    def slice(self, start: int, rows: int) -> Located:
        which = slice(start, start + rows)
        ids = self.ids.slice(start, rows)
        some = None if self.rows is None else self.rows.slice(start, rows)
        return Located(ids, self.present[which], self.identities[which], self.addresses[which], some)


@dataclass(frozen=True, slots=True, eq=False)
class EntityRows:
    """The rows of some ids; a row that is not `present` is null throughout. `undecided`: no side is the right one."""

    rows: pa.Table
    present: Mask
    undecided: Mask

    @classmethod
    def of(cls, rows: pa.Table, present: Mask) -> EntityRows:
        return cls(rows, present, np.zeros(len(present), np.bool_))


def locate(dataset: Dataset | None, entity: Entity | None, ids: Texts) -> Located:
    """Where each of the ids is, in their order, by a look through the table; without a dataset nowhere.

    With an entity a few rows are read at once.
    """
    size = len(ids)
    identities, addresses = np.zeros(size, np.uint64), np.zeros(size, np.uint64)
    present = np.zeros(size, np.bool_)
    rows = None
    if dataset is not None and size:
        is_few = entity is not None and size <= limits.LOOKUP_FILTER_VALUES_MAX
        if entity is not None and is_few:
            found = find_rows(dataset, ids, list(column_names(dataset, entity).values()))
        else:
            found = locate_rows(dataset, ids)
        at: Any = pc.index_in(ids, value_set=found.column("id").combine_chunks())
        present = at.is_valid().to_numpy(zero_copy_only=False)
        places = at.drop_null().to_numpy(zero_copy_only=False)
        identities[present] = found.column(IDENTITY).to_numpy()[places]
        addresses[present] = found.column(ADDRESS).to_numpy()[places]
        rows = found.take(at) if is_few else None
    return Located(ids, present, identities, addresses, rows)


def filled(dataset: Dataset, entity: Entity, located: Located) -> Located:
    """The same with its rows, if they are few, so that they are read once."""
    if located.rows is not None or len(located.ids) > limits.LOOKUP_FILTER_VALUES_MAX:
        return located
    there = located.present
    rows = read_rows_at(
        dataset,
        located.identities[there],
        located.addresses[there],
        list(column_names(dataset, entity).values()),
    )
    return replace(located, rows=rows.take(_aligned(there)))


def read_image(dataset: Dataset | None, entity: Entity, located: Located) -> EntityRows:
    """The rows of the ids, with nulls where there is none."""
    schema = arrow_schema(entity)
    size = len(located.present)
    if dataset is None or not located.present.any():
        columns = [pa.nulls(size, field.type) for field in schema]
        return EntityRows.of(pa.Table.from_arrays(columns, schema=schema), located.present)
    rows = read_rows(dataset, entity, located.only(located.present))
    return EntityRows.of(rows.take(_aligned(located.present)), located.present)


def read_rows(dataset: Dataset, entity: Entity, located: Located) -> pa.Table:
    """The rows of ids that are all there, in their order. A column that the table lacks has what it came with.

    A null that got a value when the property became required has that value.
    """
    schema = arrow_schema(entity)
    names = column_names(dataset, entity)
    found = located.rows
    if found is None:
        found = read_rows_at(dataset, located.identities, located.addresses, list(names.values()))
    columns: list[Any] = []
    for field in schema:
        there = names.get(field.name)
        if there is None:
            columns.append(filled_column(entity, field, found.num_rows))
        elif field.name in blob_names(entity):
            columns.append(_contents(dataset, field, there, located.addresses, found.column(there)))
        else:
            fill = null_fill(entity, field.name, dataset.schema.field(there))
            columns.append(with_null_fill(found.column(there).cast(field.type), fill))
    return pa.Table.from_arrays(columns, schema=schema).combine_chunks()


def pieces(entity: Entity, rows: int) -> Iterator[tuple[int, int]]:
    """Start and size of the pieces in which so many rows are read: few where a row can be large."""
    size = limits.IMAGE_BLOB_ROWS if blob_names(entity) else limits.IMAGE_ROWS
    yield from ((start, min(size, rows - start)) for start in range(0, rows, size))


def blob_names(entity: Entity) -> list[str]:
    """The properties that are blobs."""
    return [found.name for found in entity.properties if found.type == ScalarType(Scalar.BLOB)]


def _aligned(present: Mask) -> Any:
    """For each position the number of the present ones before it, or null where it is not present."""
    return pa.array(np.cumsum(present) - 1, mask=~present)


def column_names(dataset: Dataset, entity: Entity) -> dict[str, str]:
    """For each column of the type that the table has, its name there: a property is what its id says."""
    there = {column_identity(field): field.name for field in dataset.schema}
    wanted = ((field.name, column_identity(field)) for field in arrow_schema(entity))
    return {name: there[identity] for name, identity in wanted if identity in there}


def filled_column(entity: Entity, field: Any, rows: int) -> Any:
    """What rows get in a column that they do not have: the default with which it came, or null."""
    found = entity.property_named(field.name)
    if found is None or found.fill is None:
        return pa.nulls(rows, field.type)
    make: Any = pa.scalar
    return pa.repeat(make(found.fill, field.type), rows)


def null_fill(entity: Entity, name: str, there: Any) -> Value | None:
    """What null became in a column that a table has, since the table had it as the field `there`."""
    own = entity.property_named(name)
    past = int((there.metadata or {}).get(NULL_FILLS_KEY.encode(), 0))
    return None if own is None else own.null_fill(past)


def with_null_fill(column: Any, fill: Value | None) -> Any:
    """The column with what null became."""
    make: Any = pa.scalar
    return column if fill is None else pc.fill_null(column, make(fill, column.type))


def column_identity(field: Any) -> bytes | str:
    """The id of a property; a system column is its name."""
    own: bytes | None = (field.metadata or {}).get(PROPERTY_ID_KEY.encode())
    return field.name if own is None else own


def _contents(dataset: Dataset, field: Any, name: str, addresses: Numbers, described: Any) -> Any:
    """Blobs as they are written: bytes, or the URI of one that lies outside of the graph."""
    whole = described.combine_chunks()
    uris = whole.field("blob_uri").to_pylist()
    valid = whole.is_valid().to_pylist()
    inside = [row for row, there in enumerate(valid) if there and not uris[row]]
    found = iter(read_blobs(dataset, name, [int(addresses[row]) for row in inside]))
    values: list[dict[str, Any] | None] = [
        None if not there else {"uri": uri} if uri else {"data": next(found)}
        for there, uri in zip(valid, uris, strict=True)
    ]
    return pa.array(values, field.type)


def same_states(left: EntityRows, right: EntityRows) -> Mask:
    """For each row whether both sides have it alike, or both have it not; what is undecided is like nothing."""
    both = left.present & right.present
    same: Mask = (left.present == right.present) & ~left.undecided & ~right.undecided
    if both.any():
        same &= ~both | same_rows(left.rows, right.rows)
    return same


def same_rows(left: pa.Table, right: pa.Table) -> Mask:
    """For each row whether all columns are equal. Both tables have the same columns and as many rows."""
    same = np.ones(left.num_rows, np.bool_)
    for name in left.schema.names:
        same &= same_values(_whole(left, name), _whole(right, name))
    return same


def differing_columns(left: pa.Table, right: pa.Table) -> list[list[str]]:
    """For each row the names of the columns that differ."""
    names = left.schema.names
    differs = {name: ~same_values(_whole(left, name), _whole(right, name)) for name in names}
    return [[name for name in names if differs[name][row]] for row in range(left.num_rows)]


def same_values(left: Any, right: Any) -> Mask:
    """For each position whether two columns of one type are equal there."""
    there, also = _valid(left), _valid(right)
    same: Mask = there == also
    both = there & also
    if not both.any():
        return same
    mask = pa.array(both)
    same[both] = _same_present(left.filter(mask), right.filter(mask))
    return same


def _same_present(left: Any, right: Any) -> Mask:
    """Two columns without nulls."""
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
    found: Any = pc.equal(left, right)
    return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _same_lists(left: Any, right: Any) -> Mask:
    sizes = [pc.list_value_length(side).to_numpy(zero_copy_only=False) for side in (left, right)]
    same: Mask = sizes[0] == sizes[1]
    if not same.any():
        return same
    mask = pa.array(same)
    items = [side.filter(mask).flatten() for side in (left, right)]
    equal = same_values(items[0], items[1])
    rows = np.repeat(np.arange(int(same.sum())), sizes[0][same])
    wrong = np.zeros(int(same.sum()), np.bool_)
    wrong[rows[~equal]] = True
    same[same] = ~wrong
    return same


def _whole(table: pa.Table, name: str) -> Any:
    return table.column(name).combine_chunks()


def _valid(column: Any) -> Mask:
    answer: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return answer


Content = bytes | str | None
"""A blob: its bytes, or the URI of one that lies elsewhere."""


def image_lines(
    entity: Entity, image: EntityRows, shown: Callable[[Content], Content] = lambda content: content
) -> Iterator[str | None]:
    """Each row as a line of graph data. `shown` is what is told of a blob, all of it unless given."""
    rows = image.rows.filter(pa.array(image.present))
    for name in blob_names(entity):
        contents = [
            None if one is None else shown(one["data"] if one["uri"] is None else one["uri"])
            for one in rows.column(name).to_pylist()
        ]
        rows = rows.set_column(rows.schema.get_field_index(name), name, blob_text(contents))
    lines: Iterator[Any] = iter(())
    if rows.num_rows:
        lines = iter(json_lines(entity, rows.combine_chunks().to_batches()[0]).to_pylist())
    for there in image.present:
        yield str(next(lines)) if there else None


def digest_of(content: Content) -> Content:
    """A blob by its size and digest, for where many of them would be too much."""
    if not isinstance(content, bytes):
        return content
    return f"sha256:{hashlib.sha256(content).hexdigest()} ({len(content)} bytes)"
