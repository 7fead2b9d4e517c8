"""What calls return: the rows of a query, and the results of maintenance.

In: a stream of Arrow batches, computed while they are read. Out: the same rows in other forms; every form except
`batches` first reads all rows. In JSON an entity is an object with its non-null members, F32 numbers and vectors
have the digits of their width, datetimes are RFC 3339 in UTC, and a number that is not finite is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.display import LINES_MAX, Displayed, html_table, shorten
from omnigraph.base.errors import MachineError, UsageError

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

    from omnigraph.engine.run import Stream
    from omnigraph.maintenance.cleanup.options import KeptVersions, TableCleanupStats
    from omnigraph.maintenance.optimize.options import TableOptimizeStats
    from omnigraph.maintenance.repair import TableRepairStats

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_HTML_ROWS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class ResultSource:
    """Which query returned a result, and of which state of the graph."""

    query_name: str
    """The name of the query in its text."""
    branch: str
    """The branch that was read."""
    manifest_version: int
    """The manifest version that was read; `Graph.query` takes it as `as_of`."""
    commit: str
    """The newest commit of the state that was read."""


@dataclass(slots=True, repr=False)
class Result:
    """The rows of a query.

    `pyarrow.table(result)`, `polars.from_arrow(result)` and `duckdb.from_arrow(result)` read it directly.
    """

    source: ResultSource
    """Which query it was, and what it read."""
    stream: Stream
    _table: pa.Table | None = field(default=None, init=False)
    _is_read: bool = field(default=False, init=False)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow types of the columns."""
        return self.stream.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order: `p.slug`, or the name after `as`."""
        return list(self.schema.names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches while they are computed. Without `to_arrow` before it, this works once.

        Example:
            >>> rows = graph.query("query q() { match { $p: Person } return { $p.slug } }")
            >>> sum(batch.num_rows for batch in rows.batches())
            2
        """
        if self._table is not None:
            yield from self._table.to_batches()
            return
        if self._is_read:
            raise UsageError(
                "the rows of this result were already read",
                code="result_taken",
                hint="Call `to_arrow()` first, which keeps the rows, or run the query again.",
            )
        self._is_read = True
        yield from self.stream.batches

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table. The rows count against the memory limit of the query.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { $p.slug } }").to_arrow().num_rows
            2
        """
        if self._table is None:
            self._table = pa.Table.from_batches(list(self._reserved_batches()), schema=self.schema)
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a pandas frame.

        Example:
            >>> list(graph.query("query q() { match { $p: Person } return { $p.slug } }").to_pandas()["p.slug"])
            ['ada', 'bob']
        """
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return all rows as a Polars frame. Polars is not installed with Omnigraph.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { $p.slug } }").to_polars().height
            2
        """
        try:
            import polars
        except ImportError as missing:
            raise MachineError(
                "Polars is not installed", code="polars_missing", hint="Install the package `polars`."
            ) from missing
        return polars.from_arrow(self.to_arrow())

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return all rows as dictionaries of Python values. An entity is a dictionary of its non-null members.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { $p.slug } }").to_pylist()
            [{'p.slug': 'ada'}, {'p.slug': 'bob'}]
        """
        return list(self)

    def to_json(self) -> str:
        """Return all rows as JSON text: a list of objects.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { $p.slug } }").to_json()
            '[{"p.slug": "ada"}, {"p.slug": "bob"}]'
        """
        rows = [row for batch in self.to_arrow().to_batches() for row in json_rows(batch)]
        return json.dumps(rows, ensure_ascii=False)

    def row(self) -> dict[str, Any]:
        """Return the only row; raise if there is none or more than one.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { count($p) as people } }").row()
            {'people': 2}
        """
        if len(self) != 1:
            raise UsageError(
                f"expected one row, got {len(self):,}",
                code="result_shape",
                hint="Use `to_pylist()` for any number of rows.",
                facts={"rows": len(self)},
            )
        return next(iter(self))

    def scalar(self) -> Any:
        """Return the only value of the only row; raise if there are more rows or columns.

        Example:
            >>> graph.query("query q() { match { $p: Person } return { count($p) as people } }").scalar()
            2
        """
        if len(self.columns) != 1:
            raise UsageError(
                f"expected one column, got {len(self.columns):,}",
                code="result_shape",
                hint="Use `row()` for several columns.",
                facts={"columns": list(self.columns)},
            )
        return self.row()[self.columns[0]]

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.to_arrow().to_batches():
            yield from _rows(batch, _as_python)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        table: Any = self.to_arrow()
        return table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        head = f"Result of query {self.source.query_name}: {', '.join(self.columns)}"
        if self._table is None:
            unread = "\n  rows are read on demand: call `to_pandas()` or `to_pylist()`, or iterate"
            return shorten(head) + ("" if self._is_read else unread)
        count = self._table.num_rows
        shown = [f"  {shorten(row)}" for row in islice(self, LINES_MAX - 2)]
        more = [f"  … {count - len(shown):,} more rows"] if count > len(shown) else []
        return "\n".join([shorten(head), *shown, *more])

    def _repr_html_(self) -> str:
        rows = [tuple(row.values()) for row in islice(self, _HTML_ROWS_MAX)]
        return html_table(f"{self.source.query_name}: {len(self):,} rows", self.columns, rows)

    def _reserved_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, whose memory stays reserved because this result keeps them."""
        for batch in self.batches():
            self.stream.budget.reserve(batch.nbytes)
            yield batch


@dataclass(frozen=True, slots=True, repr=False)
class OptimizeResult(Displayed):
    """What `optimize` did, or would do."""

    tables: tuple[TableOptimizeStats, ...]
    """One row for each table of the branch."""
    manifest: TableOptimizeStats
    """What was done to `__manifest`."""
    commit: str | None
    """The last commit that was published; None if nothing changed."""
    runner: str = "local"
    """Where the tasks ran: `local`, or `spark` and its master."""

    def _summary(self) -> Mapping[str, object]:
        return {
            "commit": self.commit,
            **{
                row.table_key: row.error or row.skipped or ("committed" if row.committed else "unchanged")
                for row in (*self.tables, self.manifest)
            },
        }


@dataclass(frozen=True, slots=True, repr=False)
class RepairResult(Displayed):
    """What `repair` found and did."""

    tables: tuple[TableRepairStats, ...]
    """One row for each table of each branch."""
    commits: Mapping[str, str]
    """The commits that it published, by branch."""

    @property
    def commit(self) -> str | None:
        """The commit on main, or on the first branch that has one; None if nothing was published."""
        return next(iter(self.commits.values()), None)

    def _summary(self) -> Mapping[str, object]:
        rows = {f"{row.table_key} on {row.branch}": row.action.value for row in self.tables}
        return {"commit": self.commit, **rows}


@dataclass(frozen=True, slots=True, repr=False)
class CleanupResult(Displayed):
    """What `cleanup` deleted, or would delete."""

    tables: tuple[TableCleanupStats, ...]
    """One row for each table and branch, and for `__manifest`."""
    dry_run: bool
    """Whether nothing was deleted."""
    runner: str = "local"
    """Where the tasks ran: `local`, or `spark` and its master."""

    @property
    def kept(self) -> tuple[KeptVersions, ...]:
        """The versions that are kept although the policy would delete them, by reason."""
        from omnigraph.maintenance.cleanup.options import sum_kept

        return sum_kept(self.tables)

    @property
    def files_removed(self) -> int:
        """The number of files."""
        return sum(row.files_removed for row in self.tables)

    @property
    def bytes_removed(self) -> int:
        """The size of the files."""
        return sum(row.bytes_removed for row in self.tables)

    def _summary(self) -> Mapping[str, object]:
        return {
            "dry_run": self.dry_run,
            "files_removed": f"{self.files_removed:,}",
            "bytes_removed": f"{self.bytes_removed:,}",
            **{f"{row.table_key} on {row.branch}": row.error or f"{row.files_removed:,} files" for row in self.tables},
        }


def json_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Json]]:
    """Return the rows of a batch as JSON values."""
    return _rows(batch, _as_json)


def integers_as_text(table: pa.Table) -> pa.Table:
    """Return a table with its 64-bit integers as text, also those in lists and entities."""
    return table.cast(pa.schema([field.with_type(_with_integers_as_text(field.type)) for field in table.schema]))


def _with_integers_as_text(kind: Any) -> Any:
    if pa.types.is_int64(kind) or pa.types.is_uint64(kind):
        return pa.utf8()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_integers_as_text(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_integers_as_text(field.type)) for field in kind])
    return kind


def _rows(batch: pa.RecordBatch, convert: Any) -> Iterator[dict[str, Any]]:
    names = batch.schema.names
    columns = [convert(batch.column(number)) for number in range(len(names))]
    for cells in zip(*columns, strict=True):
        yield dict(zip(names, cells, strict=True))


def _as_python(array: Any) -> list[Any]:
    if pa.types.is_struct(array.type):
        return _struct_values(array, _as_python)
    if pa.types.is_list(array.type) and pa.types.is_struct(array.type.value_type):
        return _list_values(array, _as_python)
    return array.to_pylist()  # type: ignore[no-any-return]


def _as_json(array: Any) -> list[Any]:
    kind = array.type
    if pa.types.is_struct(kind):
        return _struct_values(array, _as_json)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _list_values(array, _as_json)
    if pa.types.is_floating(kind) and not pc.all(pc.is_finite(array), min_count=0).as_py():
        array = pc.if_else(pc.is_finite(array), array, None)
    if pa.types.is_float32(kind):
        return [None if text is None else float(text) for text in array.cast(pa.utf8()).to_pylist()]
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return [_time_text(value) for value in array.to_pylist()]
    return array.to_pylist()  # type: ignore[no-any-return]


def _struct_values(array: Any, convert: Any) -> list[Any]:
    """Return structs as dictionaries without nulls."""
    names = [array.type.field(number).name for number in range(array.type.num_fields)]
    columns = [convert(member) for member in array.flatten()]
    are_valid = array.is_valid().to_pylist()
    return [
        {name: cell for name, cell in zip(names, cells, strict=True) if cell is not None} if is_valid else None
        for is_valid, cells in zip(are_valid, zip(*columns, strict=True), strict=True)
    ]


def _list_values(array: Any, convert: Any) -> list[Any]:
    """Return lists, cut from the converted items: converting row by row is many times slower."""
    items = iter(convert(array.flatten()))  # without the items of nulls and of rows outside of a slice
    lengths = pc.list_value_length(array).to_pylist()
    return [None if length is None else list(islice(items, length)) for length in lengths]


def _time_text(value: date | datetime | None) -> str | None:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    return None if value is None else value.isoformat()
