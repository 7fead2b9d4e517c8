"""Raw rows of one type to the rows of its table, with everything found wrong in them.

In: a type and raw columns. Out: a batch with the schema of the type's table, ids included, and
breaches with row numbers of the batch. A batch with breaches is never written, but its ids, ends and keys still take
part in the rules over sets, so that one attempt shows every mistake; what was refused is null in it. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.integrity.breaches import Breach
from omnigraph.integrity.convert import convert
from omnigraph.integrity.identity import no_ids, row_ids
from omnigraph.integrity.raw import FROM, ID, TO, Column, RawBatch, RawColumn, null_rows, nulls, taken
from omnigraph.integrity.row_rules import required_breaches, value_breaches
from omnigraph.integrity.rules import Rule
from omnigraph.schema import (
    EdgeType,
    Entity,
    Property,
    PropertyType,
    Scalar,
    ScalarType,
    arrow_schema,
    arrow_type,
)

_TEXT: Final = ScalarType(Scalar.STRING)
_END_COLUMNS: Final = {FROM: "src", TO: "dst"}


@dataclass(frozen=True, slots=True, eq=False)
class CheckedBatch:
    """The typed rows, and what is wrong with them. Only a batch without breaches may be written.

    `known_ids` are the ids without the new ULIDs, which no other row has: what the rules over sets compare.
    """

    rows: pa.RecordBatch
    breaches: tuple[Breach, ...]
    known_ids: Column


def check_batch(entity: Entity, raw: RawBatch) -> CheckedBatch:
    """The rows with the types of the schema."""
    typing = _Typing(raw)
    columns: dict[str, Column] = {}
    if isinstance(entity, EdgeType):
        for name, column in _END_COLUMNS.items():
            columns[column] = typing.column(name, _TEXT, required=True)
    for found in entity.properties:
        columns[found.name] = typing.property(found)
    given = typing.column(ID, _TEXT, required=False) if ID in raw.columns else no_ids(raw.rows)
    breaches = [*_unknown_properties(entity, raw), *typing.breaches, *value_breaches(entity, columns)]
    found_ids = row_ids(entity, columns, given)
    schema = arrow_schema(entity)
    arrays = [found_ids.ids if name == ID else columns[name] for name in schema.names]
    build: Callable[..., pa.RecordBatch] = pa.RecordBatch.from_arrays
    return CheckedBatch(build(arrays, schema=schema), (*breaches, *found_ids.breaches), found_ids.known)


@dataclass(slots=True)
class _Typing:
    """Converts the columns of one batch and collects what they break."""

    raw: RawBatch
    breaches: list[Breach] = field(default_factory=list)

    def column(self, name: str, target: PropertyType, *, required: bool) -> Column:
        raw = self.raw.columns.get(name)
        if raw is None:
            raw = nulls(self.raw.rows, arrow_type(target))
        assert len(raw) == self.raw.rows, f"the column {name} has {len(raw)} of {self.raw.rows} rows"
        if required:
            self.breaches.extend(required_breaches(name, raw))
        return self._converted(name, raw, target)

    def property(self, found: Property) -> Column:
        """A missing value of a required property is its default when it has one."""
        if found.nullable or found.default is None:
            return self.column(found.name, found.type, required=not found.nullable)
        column = self.column(found.name, found.type, required=False)
        raw = self.raw.columns.get(found.name)
        missing = np.arange(self.raw.rows) if raw is None else null_rows(raw)
        if not len(missing):
            return column
        mask = np.zeros(self.raw.rows, dtype=np.bool_)
        mask[missing] = True
        return _filled(column, mask, found.default)

    def _converted(self, name: str, raw: RawColumn, target: PropertyType) -> Column:
        converted = convert(raw, target)
        self.breaches.extend(
            Breach(mistake.rule, name, mistake.message, mistake.rows, taken(raw, mistake.rows))
            for mistake in converted.mistakes
        )
        return converted.values


def _filled(column: Column, mask: np.ndarray[Any, np.dtype[np.bool_]], value: object) -> Column:
    make: Any = pa.scalar
    filled: Column = pc.if_else(pa.array(mask), make(value, column.type), column)
    return filled


def _unknown_properties(entity: Entity, raw: RawBatch) -> Iterator[Breach]:
    """Values under a name that the type does not have; a null there is the same as nothing."""
    for name in _unknown_names(entity, raw.columns):
        column = raw.columns[name]
        rows = np.setdiff1d(np.arange(raw.rows, dtype=np.int64), null_rows(column), assume_unique=True)
        if len(rows):
            message = f"{entity.name} has no property of this name"
            yield Breach(Rule.UNKNOWN_PROPERTY, name, message, rows, taken(column, rows))


def _unknown_names(entity: Entity, names: Iterable[str]) -> list[str]:
    system = {ID, FROM, TO} if isinstance(entity, EdgeType) else {ID}
    return [name for name in names if name not in system and entity.property_named(name) is None]
