"""One table at its published version, as the steps of a plan read it: whole columns from the cache, or streams.

A column enters the cache when it would be read whole anyway, when the table is small, or when it is asked for again;
never more than a part of the cache for one request: columns that turn out to be larger are given up and remembered as
such. What is not cached is read from storage, batch by batch, for as long as the query has time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, assert_never

import pyarrow as pa

from omnigraph.base import limits
from omnigraph.engine.cache import Cache, Key, TableKey
from omnigraph.engine.columns.domain import Array, Codes, ValueDictionary
from omnigraph.engine.limits import Budget, taken_in_time
from omnigraph.engine.options import EngineOptions
from omnigraph.graph.manifest.records import TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot, open_table, require_same_graph
from omnigraph.query.plan.types import IndexFact, TableFacts
from omnigraph.storage.lance.dataset import Dataset, any_of
from omnigraph.storage.lance.indexes import (
    Coverage,
    Degraded,
    Indexed,
    IndexSpec,
    read_coverage,
    read_indexes,
)
from omnigraph.storage.location import Location


def read_table_facts(dataset: Dataset, rows: int) -> TableFacts:
    """The facts of one table that is open already."""
    kinds = {(index.column, index.kind) for index in read_indexes(dataset)}
    specs = [IndexSpec(column, kind) for column, kind in sorted(kinds, key=str) if kind is not None]
    if not specs:
        return TableFacts(rows)
    return TableFacts(rows, tuple(_fact(*entry) for entry in read_coverage(dataset, specs).items()))


def _fact(spec: IndexSpec, coverage: Coverage) -> IndexFact:
    match coverage:
        case Indexed():
            return IndexFact(spec.column, spec.kind)
        case Degraded(fragments, rows):
            return IndexFact(spec.column, spec.kind, len(fragments), rows)
        case _:
            assert_never(coverage)


_TEXT_BYTES: Final = 24
_FACTS_BYTES: Final = 1024
_MARK_BYTES: Final = 256


class TableReader:
    """Reads one table at its pin."""

    __slots__ = ("_budget", "_cache", "_options", "_snapshot", "key", "record")

    def __init__(
        self,
        snapshot: Snapshot,
        record: TableRecord,
        cache: Cache,
        options: EngineOptions,
        budget: Budget | None = None,
    ) -> None:
        self.record = record
        identity = snapshot.identities.of(record.pin)
        self.key = TableKey(identity, record.id, record.pin.branch, record.pin.version)
        self._snapshot = snapshot
        self._cache = cache
        self._options = options
        self._budget = budget or Budget(options)

    @property
    def rows(self) -> int:
        return self.record.row_count

    @property
    def root(self) -> Location:
        return self._snapshot.root

    def dataset(self) -> Dataset:
        """The open dataset; opening one takes longer than many reads."""
        found = self._cache.get((self.key, "dataset"), Dataset)
        if found is None:
            found = open_table(self.root, self.record)
            require_same_graph(self._snapshot)
            self._cache.put((self.key, "dataset"), found, found.handle_bytes)
        return found

    def facts(self) -> TableFacts:
        """The size and the indexes, for the rules."""
        return self._cache.get_or_make(
            (self.key, "facts"), TableFacts, lambda: read_table_facts(self.dataset(), self.rows), _FACTS_BYTES
        )

    def hot(self, names: Sequence[str], *, whole: bool) -> dict[str, ValueDictionary] | None:
        """These columns from memory, or None if they are better read from storage.

        `whole` says that all of them would be read anyway.
        """
        if not self._options.cached:
            return None
        found: dict[str, ValueDictionary] = {}
        missing: list[str] = []
        for name in names:
            domain = self._cache.get((self.key, "column", name), ValueDictionary)
            if domain is None:
                missing.append(name)
            else:
                found[name] = domain
        if not missing:
            return found
        if not self._is_admitted(missing, whole=whole):
            return None
        read = self._read_whole(missing)
        return None if read is None else found | read

    def batches(self, names: Sequence[str], where: str | None) -> Iterator[pa.RecordBatch]:
        """The rows that pass, from storage. Names come without repetition."""
        if not self.rows:
            return
        found = self.dataset().read_batches(
            list(names), where, batch_rows=self._options.frame_rows, batch_bytes=limits.ENGINE_FRAME_BYTES
        )
        for batch in (
            taken_in_time(found, self._budget) if self.rows >= limits.ENGINE_TIMED_ROWS_MIN else found
        ):
            self._budget.tick()
            yield batch

    def rows_with(self, names: Sequence[str], name: str, texts: Array) -> Iterator[pa.RecordBatch]:
        """The rows whose text column is one of these, through an index where there is one."""
        values = [str(value) for value in texts.to_pylist()]
        for start in range(0, len(values), limits.LOOKUP_FILTER_VALUES_MAX):
            part = values[start : start + limits.LOOKUP_FILTER_VALUES_MAX]
            yield from self.batches(names, any_of(name, part))

    def at(self, offsets: Codes, names: Sequence[str]) -> dict[str, Array]:
        """Columns of the rows at these positions, from storage."""
        table = self.dataset().take(offsets.tolist(), names)
        return {name: one_array(table.column(name)) for name in names}

    def size_of(self, names: Sequence[str]) -> int:
        """About how many bytes whole columns take."""
        schema = self.dataset().schema
        return sum(_width(schema.field(name).type) for name in names) * self.rows

    def _is_admitted(self, names: Sequence[str], *, whole: bool) -> bool:
        if any(self._cache.get((self.key, "large", name), bool) for name in names):
            return False
        if (
            self.rows <= limits.ENGINE_EAGER_ROWS_MAX
            and self.dataset().data_bytes() <= limits.ENGINE_EAGER_BYTES_MAX
        ):
            return True
        if self.size_of(names) > self._bytes_max:
            return False
        touched = self._cache.touch((self.key, "column", tuple(names)))
        return whole or touched >= limits.ENGINE_TOUCHES_MIN

    @property
    def _bytes_max(self) -> int:
        return self._cache.bytes_max // limits.ENGINE_CACHE_COLUMN_PART

    def _read_whole(self, names: Sequence[str]) -> dict[str, ValueDictionary] | None:
        """Whole columns, which the cache keeps from now on; None if they are larger than they looked."""
        batches, size = [], 0
        for batch in self.dataset().read_batches(list(names), batch_bytes=limits.ENGINE_FRAME_BYTES):
            self._budget.tick()
            batches.append(batch)
            size += batch.nbytes
            if size > self._bytes_max and self.rows > 1:
                widest = max(names, key=lambda name: sum(one.column(name).nbytes for one in batches))
                self._cache.put((self.key, "large", widest), True, _MARK_BYTES)
                return None
        table = pa.Table.from_batches(batches, batches[0].schema if batches else self._schema_of(names))
        found = {}
        for name in names:
            domain = ValueDictionary(one_array(table.column(name)), is_unique=name == "id")
            domain.on_growth = _keeping(self._cache, (self.key, "column", name))
            domain.on_growth(domain)
            found[name] = domain
        return found

    def _schema_of(self, names: Sequence[str]) -> pa.Schema:
        schema = self.dataset().schema
        return pa.schema([schema.field(name) for name in names])


def _keeping(cache: Cache, key: Key) -> Callable[[ValueDictionary], None]:
    """What keeps a column, again whenever it has grown. It must not hold the reader: that holds a snapshot."""
    return lambda domain: cache.put(key, domain, domain.nbytes)


def one_array(column: Any) -> Array:
    """A column of a table as one array."""
    whole: Any = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    return whole  # type: ignore[no-any-return]


def _width(kind: pa.DataType) -> int:
    if pa.types.is_primitive(kind):
        return max(1, kind.bit_width // 8)
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _width(kind.value_type)
    return _TEXT_BYTES * (4 if pa.types.is_list(kind) else 2)
