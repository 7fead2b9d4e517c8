"""Which keys of a row the rules over sets compare, and the sections of key files that they go to.

One section for each thing that a rule compares: the id of a type, an end of an edge type, a `@unique` of a type. Rows
of the input and rows of the graph have sections of their own, and meet in a task because one key has one bucket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.integrity.raw import Column, whole_array
from omnigraph.integrity.set_rules import unique_keys
from omnigraph.pipeline.key_files import KeyWriter
from omnigraph.schema import Cardinality, EdgeType, Entity

LINE: Final = "omnigraph:line"
KEY: Final = "key"
ENDS: Final = ("src", "dst")


@dataclass(frozen=True, slots=True)
class Section:
    """The names of the sections of one type, of the input or of the graph."""

    alias: str
    of_graph: bool = False

    @property
    def ids(self) -> str:
        return self._named("id")

    def end(self, column: str) -> str:
        return self._named(column)

    def unique(self, number: int) -> str:
        return self._named(f"unique{number}")

    @property
    def moved(self) -> str:
        """The addresses of rows of the graph that a merge replaces."""
        return self._named("moved")

    def _named(self, what: str) -> str:
        return f"{'graph' if self.of_graph else 'input'} {what} {self.alias}"


def compared_columns(entity: Entity) -> list[str]:
    """The columns of rows of the graph that the rules compare with rows of the same type."""
    sources = ["src"] if is_counted(entity) else []
    uniques = [name for names in entity.rules.uniques for name in names]
    return list(dict.fromkeys(["id", *sources, *uniques]))


def is_counted(entity: Entity) -> bool:
    """Whether the number of edges of a source has a bound."""
    return isinstance(entity, EdgeType) and entity.cardinality != Cardinality()


def unique_key(entity: Entity, number: int, rows: pa.RecordBatch | pa.Table) -> Column:
    """What a `@unique` of the type compares."""
    return unique_keys([whole_array(rows.column(name)) for name in entity.rules.uniques[number]])


def add_input_keys(
    writer: KeyWriter, entity: Entity, rows: pa.RecordBatch, lines: np.ndarray[Any, Any], *, whole: bool
) -> None:
    """The keys of rows of the input, each with its line, and the `whole` rows with their ids if asked for."""
    section = Section(entity.alias)
    numbers = pa.array(lines, pa.int64())
    ids = rows.column("id")
    with_ids = (rows if whole else rows.select(["id"])).append_column(LINE, numbers)
    # A row without an id, or with a new one, has nothing to compare.
    compared = with_ids if whole or not ids.null_count else with_ids.filter(ids.is_valid())
    writer.add(section.ids, compared.column("id"), compared)
    for end in ENDS if isinstance(entity, EdgeType) else ():
        writer.add(section.end(end), rows.column(end), keyed(rows.column(end), LINE, numbers))
    for number in range(len(entity.rules.uniques)):
        keys = unique_key(entity, number, rows)
        writer.add(section.unique(number), keys, keyed(keys, LINE, numbers))


def keyed(keys: Column, name: str, values: Column) -> pa.RecordBatch:
    """A batch of keys and one thing to know of each."""
    return pa.RecordBatch.from_arrays([keys, values], names=[KEY, name])
