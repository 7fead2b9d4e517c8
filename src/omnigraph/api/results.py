"""What a query gives back: Arrow batches as they come, and the same rows in the shapes that programs want.

Batches are made while they are taken; a whole shape first takes them all. In JSON an entity is an object with its
non-null members, F32 numbers and vectors have the digits of their width, datetimes are RFC 3339 in UTC. A number that
left the range of its type, as a sum can, is null, since JSON has no word for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.errors import MachineError, UsageError
from omnigraph.engine.run import Stream

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True)
class ResultSource:
    """Which query gave a result, and of which state of the graph."""

    query_name: str
    """The name of the query in its text."""
    branch: str
    """The branch that was read."""
    manifest_version: int
    """The version of the graph that was read, as `Graph.query` takes it as `version`."""
    commit: str
    """The newest commit of what was read."""


@dataclass(slots=True)
class Result:
    """The rows of a query. Either the batches are taken one by one, which works once, or the whole is."""

    source: ResultSource
    """Which query it was, and what it read."""
    stream: Stream
    _table: pa.Table | None = field(default=None, init=False)
    _is_taken: bool = field(default=False, init=False)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow types of the columns."""
        return self.stream.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order: `p.slug`, or the name after `as`."""
        return list(self.schema.names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as they are made."""
        if self._table is not None:
            yield from self._table.to_batches()
            return
        if self._is_taken:
            raise UsageError(
                "the rows of this result have been taken already",
                code="result_taken",
                hint="use arrow() first, which keeps them, or run the query again",
            )
        self._is_taken = True
        yield from self.stream.batches

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table; more than the query's memory budget are an error, unlike with `batches`."""
        if self._table is None:
            self._table = pa.Table.from_batches(list(self._held_batches()), schema=self.schema)
        return self._table

    def _held_batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches():
            self.stream.budget.reserve(batch.nbytes)
            yield batch

    def pandas(self) -> pd.DataFrame:
        """All rows as a pandas frame."""
        return self.arrow().to_pandas()

    def polars(self) -> Any:
        """All rows as a Polars frame; Polars is not installed with this package."""
        try:
            import polars
        except ImportError as missing:
            raise MachineError(
                "Polars is not installed", code="polars_missing", hint="install the package `polars`"
            ) from missing
        return polars.from_arrow(self.arrow())

    def rows(self) -> list[dict[str, Any]]:
        """All rows as dictionaries of Python values; an entity is a dictionary of its non-null members."""
        return [row for batch in self.arrow().to_batches() for row in _rows(batch, _as_python)]

    def json(self) -> list[dict[str, Json]]:
        """All rows as JSON values."""
        return [row for batch in self.arrow().to_batches() for row in json_rows(batch)]


def json_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Json]]:
    """The rows of a batch as JSON values."""
    return _rows(batch, _as_json)


def _rows(batch: pa.RecordBatch, convert: Any) -> Iterator[dict[str, Any]]:
    names = batch.schema.names
    columns = [convert(batch.column(number)) for number in range(len(names))]
    for cells in zip(*columns, strict=True):
        yield dict(zip(names, cells, strict=True))


def _as_python(array: Any) -> list[Any]:
    if pa.types.is_struct(array.type):
        return _members(array, _as_python)
    return array.to_pylist()  # type: ignore[no-any-return]


def _as_json(array: Any) -> list[Any]:
    kind = array.type
    if pa.types.is_struct(kind):
        return _members(array, _as_json)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(array)
    if pa.types.is_floating(kind) and not pc.all(pc.is_finite(array), min_count=0).as_py():
        array = pc.if_else(pc.is_finite(array), array, None)
    if pa.types.is_float32(kind):
        return [None if text is None else float(text) for text in array.cast(pa.utf8()).to_pylist()]
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return [_moment_text(value) for value in array.to_pylist()]
    return array.to_pylist()  # type: ignore[no-any-return]


def _members(array: Any, convert: Any) -> list[Any]:
    """Structs as dictionaries without the nulls."""
    names = [array.type.field(number).name for number in range(array.type.num_fields)]
    columns = [convert(member) for member in array.flatten()]
    present = array.is_valid().to_pylist()
    return [
        {name: cell for name, cell in zip(names, cells, strict=True) if cell is not None} if there else None
        for there, cells in zip(present, zip(*columns, strict=True), strict=True)
    ]


def _lists(array: Any) -> list[Any]:
    """Lists, cut out of their items: converting these row by row would cost many times as much."""
    items = iter(_as_json(array.flatten()))  # without the items behind a null, and those outside of a slice
    lengths = pc.list_value_length(array).to_pylist()
    return [None if length is None else list(islice(items, length)) for length in lengths]


def _moment_text(value: date | datetime | None) -> str | None:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    return None if value is None else value.isoformat()
