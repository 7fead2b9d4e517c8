"""Reads one table at its published version: complete columns from the cache, or a stream of batches from storage.

A column is added to the cache when the query reads it completely anyway, when the table is small, or when it is
requested again. One request may use only a part of the cache: columns that turn out to be larger are dropped, and the
cache remembers that. Columns that are not cached are read from storage, batch by batch, until the deadline of the
query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from omnigraph.base import limits
from omnigraph.engine.cache import Cache, Key, TableKey
from omnigraph.engine.columns.dictionary import Array, Codes, ValueDictionary
from omnigraph.engine.columns.scores import TextStatistics, WordQuery
from omnigraph.engine.limits import Budget, iterate_until_deadline
from omnigraph.engine.options import EngineOptions
from omnigraph.graph.manifest.records import TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot, open_table, require_same_graph
from omnigraph.query.plan.types import IndexFact, TableFacts
from omnigraph.schema.property_types import IndexKind, TextOptions
from omnigraph.storage.lance.dataset import Dataset, any_of
from omnigraph.storage.lance.indexes import Degraded, IndexSpec, coverage_of, read_indexes
from omnigraph.storage.lance.search import IndexedTexts, VectorQuery, WordsQuery, read_indexed_texts, search_batches
from omnigraph.storage.lance.words import WordRules
from omnigraph.storage.location import Location

_TEXT_BYTES: Final = 24
_FACTS_BYTES: Final = 1024
_MARK_BYTES: Final = 256
_SAMPLE_ROWS: Final = 1_000
_STATISTICS_BYTES: Final = 512


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
    def row_count(self) -> int:
        return self.record.row_count

    @property
    def root(self) -> Location:
        return self._snapshot.root

    def dataset(self) -> Dataset:
        """Return the open dataset, from the cache because opening one takes longer than many reads."""
        dataset = self._cache.get((self.key, "dataset"), Dataset)
        if dataset is None:
            dataset = open_table(self.root, self.record)
            require_same_graph(self._snapshot)
            self._cache.put((self.key, "dataset"), dataset, dataset.handle_bytes)
        return dataset

    def facts(self) -> TableFacts:
        """Return the size and the indexes, for the rules."""
        facts = self._cache.get((self.key, "facts"), TableFacts)
        if facts is None:
            facts = read_table_facts(self.dataset(), self.row_count)
            self._cache.put((self.key, "facts"), facts, _FACTS_BYTES)
        return facts

    def cached_columns(self, names: Sequence[str], *, whole: bool) -> dict[str, ValueDictionary] | None:
        """Return complete columns from the cache, or None if the caller should read them from storage.

        Args:
            whole: The caller would read all rows of these columns anyway.
        """
        if not self._options.cached:
            return None
        entries = {name: self._cache.get((self.key, "column", name), ValueDictionary) for name in names}
        columns = {name: dictionary for name, dictionary in entries.items() if dictionary is not None}
        missing = [name for name, dictionary in entries.items() if dictionary is None]
        if not missing:
            return columns
        new_columns = self._read_whole(missing) if self._is_admitted(missing, whole=whole) else None
        return None if new_columns is None else columns | new_columns

    def cached_statistics(
        self, column: str, query: WordQuery, count: Callable[[WordQuery], TextStatistics], source: str = "words"
    ) -> TextStatistics:
        """Return the statistics of a column for the words in a query; `count` counts those that are not cached."""
        words, options = query.words, query.rules.options.text
        keys: dict[str, Key] = {word: (self.key, source, column, options, word) for word in words}
        cached = {word: self._cache.get(key, TextStatistics) for word, key in keys.items()}
        present = {word: statistics for word, statistics in cached.items() if statistics is not None}
        if len(present) == len(words):
            texts_by_word = {word: statistics.texts_by_word[word] for word, statistics in present.items()}
            return replace(next(iter(present.values())), texts_by_word=texts_by_word)
        counted = count(query)
        for word, key in keys.items():
            entry = replace(counted, texts_by_word={word: counted.texts_by_word[word]})
            self._cache.put(key, entry, _STATISTICS_BYTES + len(word))
        return counted

    def read_batches(self, names: Sequence[str], where: str | None) -> Iterator[pa.RecordBatch]:
        """Read the rows that pass the filter from storage; `names` has no duplicates."""
        if not self.row_count:
            return
        yield from self._until_deadline(
            self.dataset().read_batches(
                list(names), where, batch_rows=self._options.frame_rows, batch_bytes=limits.ENGINE_FRAME_BYTES
            )
        )

    def search(
        self, names: Sequence[str], query: VectorQuery | WordsQuery, where: str | None
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows that pass the filter and match a query, through an index of storage."""
        yield from self._until_deadline(search_batches(self.dataset(), names, query, where, self._options.frame_rows))

    def count_matching(self, where: str | None) -> int:
        """Return the number of rows that pass a filter; it is cached for the version."""
        if where is None:
            return self.row_count
        key: Key = (self.key, "count", where)
        count = self._cache.get(key, int)
        if count is None:
            count = self.dataset().count_rows(where)
            self._cache.put(key, count, _MARK_BYTES + len(where))
        return count

    def indexed_texts(self, name: str) -> IndexedTexts:
        """Return what the text index of a column contains; it is cached."""
        key: Key = (self.key, "indexed texts", name)
        indexed = self._cache.get(key, IndexedTexts)
        if indexed is None:
            indexed = read_indexed_texts(self.dataset(), name)
            self._cache.put(key, indexed, _MARK_BYTES)
        return indexed

    def indexed_statistics(self, name: str, query: WordQuery, text: str) -> TextStatistics:
        """Return the statistics of a column with a text index for the words in a text; read only uncovered texts."""
        spellings = query.rules.spellings(text)

        def count(counted: WordQuery) -> TextStatistics:
            texts_by_word = {
                word: self.count_found(WordsQuery(column=name, text=spellings[word])) for word in counted.words
            }
            return replace(self._count_words(name, query.rules), texts_by_word=texts_by_word)

        return self.cached_statistics(name, query, count, "indexed words")

    def _count_words(self, name: str, rules: WordRules) -> TextStatistics:
        key: Key = (self.key, "indexed words", name, rules.options.text)
        statistics = self._cache.get(key, TextStatistics)
        if statistics is None:
            indexed, query = self.indexed_texts(name), WordQuery((), (), rules)
            statistics = TextStatistics(indexed.texts, indexed.words, {})
            for batch in self._until_deadline(self.dataset().read_fragments(indexed.uncovered, [name])):
                statistics += query.statistics(query.count(batch.column(name)))
            self._cache.put(key, statistics, _STATISTICS_BYTES)
        return statistics

    def count_found(self, query: WordsQuery, where: str | None = None) -> int:
        """Return the number of rows that pass the filter and match a query."""
        return sum(batch.num_rows for batch in self.search((), query, where))

    def text_bytes(self, name: str) -> int:
        """Return about how many bytes the texts of a column have, from its first rows; it is cached."""
        key: Key = (self.key, "text bytes", name)
        size = self._cache.get(key, int)
        if size is None:
            sample = self.dataset().read_head(name, _SAMPLE_ROWS)
            size = int(sample.nbytes) * self.row_count // max(len(sample), 1)
            self._cache.put(key, size, _MARK_BYTES)
        return size

    def has_words(self, name: str, options: TextOptions) -> bool:
        """Return whether the words in a column are in the cache, or the table is so small that they soon are."""
        cached = self._cache.get((self.key, "column", name), ValueDictionary) if self._options.cached else None
        return (cached is not None and cached.has_words(options)) or self.row_count <= limits.ENGINE_EAGER_ROWS_MAX

    def _until_deadline(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self.row_count >= limits.ENGINE_TIMED_ROWS_MIN:
            batches = iterate_until_deadline(batches, self._budget)
        for batch in batches:
            self._budget.require_time()
            yield batch

    def read_matching(self, names: Sequence[str], name: str, texts: Array) -> Iterator[pa.RecordBatch]:
        """Read the rows whose column `name` has one of these values, through its index if it has one."""
        values = [str(value) for value in texts.to_pylist()]
        for start in range(0, len(values), limits.LOOKUP_FILTER_VALUES_MAX):
            part = values[start : start + limits.LOOKUP_FILTER_VALUES_MAX]
            yield from self.read_batches(names, any_of(name, part))

    def take(self, offsets: Codes, names: Sequence[str]) -> dict[str, ValueDictionary]:
        """Read columns of the rows at these positions from storage."""
        return self.as_columns(self.dataset().take(offsets.tolist(), names).to_batches(), names, is_per_query=True)

    def as_columns(
        self, batches: list[pa.RecordBatch], names: Sequence[str], *, is_per_query: bool
    ) -> dict[str, ValueDictionary]:
        """Return the columns of batches of this table; `is_per_query`: for one query, not for the cache."""
        schema = pa.schema([self.dataset().schema.field(name) for name in names])
        table = pa.Table.from_batches(batches, batches[0].schema if batches else schema)
        return {
            name: ValueDictionary(
                table.column(name).combine_chunks(), is_unique=name == "id", is_per_query=is_per_query
            )
            for name in names
        }

    def estimate_bytes(self, names: Sequence[str]) -> int:
        """Return about how many bytes complete columns take."""
        schema = self.dataset().schema
        return sum(_width(schema.field(name).type) for name in names) * self.row_count

    def _is_admitted(self, names: Sequence[str], *, whole: bool) -> bool:
        if any(self._cache.get((self.key, "large", name), bool) for name in names):
            return False
        if (
            self.row_count <= limits.ENGINE_EAGER_ROWS_MAX
            and self.dataset().data_bytes() <= limits.ENGINE_EAGER_BYTES_MAX
        ):
            return True
        if self.estimate_bytes(names) > self._bytes_max:
            return False
        touched = self._cache.touch((self.key, "column", tuple(names)))
        return whole or touched >= limits.ENGINE_TOUCHES_MIN

    @property
    def _bytes_max(self) -> int:
        return self._cache.bytes_max // limits.ENGINE_CACHE_COLUMN_PART

    def _read_whole(self, names: Sequence[str]) -> dict[str, ValueDictionary] | None:
        """Read complete columns and cache them; None if they are larger than estimated."""
        batches, size = [], 0
        for batch in self.dataset().read_batches(list(names), batch_bytes=limits.ENGINE_FRAME_BYTES):
            self._budget.require_time()
            batches.append(batch)
            size += batch.nbytes
            if size > self._bytes_max and self.row_count > 1:
                widest = max(names, key=lambda name: sum(part.column(name).nbytes for part in batches))
                self._cache.put((self.key, "large", widest), True, _MARK_BYTES)
                return None
        columns = self.as_columns(batches, names, is_per_query=False)
        for name, dictionary in columns.items():
            dictionary.on_growth = _cache_updater(self._cache, (self.key, "column", name))
            dictionary.on_growth(dictionary)
        return columns


def read_table_facts(dataset: Dataset, rows: int) -> TableFacts:
    """Read the size and the indexes of an open table."""
    present, fragments = read_indexes(dataset), dataset.fragment_rows()
    named = {(index.column, index.kind): index for index in present if index.kind is not None}
    indexes = []
    for (column, kind), index in sorted(named.items(), key=lambda item: str(item[0])):
        assert kind is not None
        coverage = coverage_of(IndexSpec(column, kind), present, fragments)
        uncovered = coverage if isinstance(coverage, Degraded) else Degraded((), 0)
        # Only a search shows the type and the segments of its index.
        is_search = kind is not IndexKind.BTREE
        indexes.append(
            IndexFact(
                column,
                kind,
                len(uncovered.uncovered_fragments),
                uncovered.uncovered_rows,
                lance_type=index.lance_type if is_search else "",
                segments=index.segments if is_search else 1,
                is_current=index.is_current,
                text=index.text,
            )
        )
    return TableFacts(rows, tuple(indexes), dataset.has_deleted_rows())


def _cache_updater(cache: Cache, key: Key) -> Callable[[ValueDictionary], None]:
    """Return a function that caches a column with its current size. It must not keep the reader's snapshot alive."""
    return lambda dictionary: cache.put(key, dictionary, dictionary.nbytes)


def _width(kind: pa.DataType) -> int:
    if pa.types.is_primitive(kind):
        return max(1, kind.bit_width // 8)
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _width(kind.value_type)
    return _TEXT_BYTES * (4 if pa.types.is_list(kind) else 2)
