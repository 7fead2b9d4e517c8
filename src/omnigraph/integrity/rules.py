"""The rules, and the rows of a batch that violate one, as columns.

`RuleViolations` is columnar, so that millions of invalid rows cost little until they are written one by one. Rows are
numbers within the checked batch or columns; `RowOrigins` has the file and line of each of them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import repeat
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from omnigraph.arrow.columns import Column, Rows, take_rows
from omnigraph.base import limits
from omnigraph.integrity.raw import RawColumn, take_values, values_of


class Rule(Enum):
    """A code and its meaning."""

    LINE_SYNTAX = ("V001", "the line is not JSON, or not a row of CSV")
    LINE_SHAPE = ("V002", "the line is JSON, but neither a node nor an edge")
    UNKNOWN_TYPE = ("V003", "the line names a node or edge type that the schema does not have")
    LINE_TOO_LONG = ("V004", "the line is longer than a line may be")
    NAME_TWICE = ("V005", "an object of the line has a duplicate name")

    REQUIRED = ("V101", "a property that is not nullable has no value")
    UNKNOWN_PROPERTY = ("V102", "the type has no property of this name")
    WRONG_TYPE = ("V103", "the value has a different kind than the property")
    NUMBER_SIZE = ("V104", "the integer does not fit the property's type")
    NOT_FINITE = ("V105", "the number is infinite, not a number, or too large for the property's type")
    NOT_UNICODE = ("V106", "the text is not valid UTF-8")
    DATE = ("V107", "the text is not a date written as `YYYY-MM-DD`")
    DATETIME = ("V108", "the text is not an RFC 3339 datetime with an offset, or not in the years 0001 to 9999")
    DATETIME_TOO_FINE = ("V109", "the datetime is more precise than milliseconds")
    LIST_ITEM_NULL = ("V110", "an item of a list or vector is null")
    VECTOR_LENGTH = ("V111", "the vector has a different length than the property")
    BLOB_ENCODING = ("V112", "the text after `base64:` is not base64")
    BLOB_URI = ("V113", "the text does not begin with `base64:`; a blob outside of the graph is not allowed")

    ENUM = ("V201", "the value is not a value of the enum")
    RANGE = ("V202", "the value is outside of its `@range`")
    CHECK = ("V203", "the whole value does not match the pattern of its `@check`")

    ID_MISMATCH = ("V301", "the explicit id differs from the id that the key gives")
    DUPLICATE_ID = ("V302", "an earlier row of the input has the same id")
    KEY_CONFLICT = ("V303", "the graph already has this id")
    BLANK_ID = ("V304", "the id, or the key that gives it, is empty or only whitespace")

    DANGLING_END = ("V401", "an endpoint of the edge is neither in the input nor in the graph")
    UNIQUE = ("V402", "another row, of the input or of the graph, has the same values of a `@unique`")
    CARDINALITY_MAX = ("V403", "a source would have more edges than `@card` allows")
    CARDINALITY_MIN = ("V404", "a source would have fewer edges than `@card` requires")

    def __init__(self, code: str, meaning: str) -> None:
        self.code = code
        self.meaning = meaning

    @property
    def word(self) -> str:
        """The name of the rule in JSON, such as `key_conflict`."""
        return self.name.lower()


NO_ROW: Final = -1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RuleViolations:
    """Rows that violate one rule in one way. `values` are their values, or None without values to show.

    A row `NO_ROW` is something that the input changes without naming it. `earlier` has for each row the earlier row of
    the same batch with the same id or values, `existing_ids` the id of the row of the graph that has them, in `table`.
    """

    rule: Rule
    property: str | None
    message: str
    rows: Rows
    values: RawColumn | None = None
    table: str | None = None
    existing_ids: Column | None = None
    earlier: Rows | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, positions: Rows) -> RuleViolations:
        """Return some of the rows, by their positions in `rows`."""
        values = None if self.values is None else take_values(self.values, positions)
        existing_ids = None if self.existing_ids is None else take_rows(self.existing_ids, positions)
        earlier = None if self.earlier is None else self.earlier[positions]
        return replace(self, rows=self.rows[positions], values=values, existing_ids=existing_ids, earlier=earlier)

    def shown_values(self) -> Iterator[str]:
        """Return the values as short text."""
        return repeat("", len(self.rows)) if self.values is None else map(short_text, values_of(self.values))


def violations_in(rule: Rule, name: str, message: str, rows: Rows, column: RawColumn) -> tuple[RuleViolations, ...]:
    """Return the violations of some rows of a column, with their values; nothing without rows."""
    return (
        (RuleViolations(rule=rule, property=name, message=message, rows=rows, values=take_values(column, rows)),)
        if len(rows)
        else ()
    )


@dataclass(frozen=True, slots=True, eq=False)
class RowOrigins:
    """The origin of each row: the index of its file, and its line (or row of a table), from 1."""

    files: tuple[str, ...]
    file: npt.NDArray[np.int32]
    line: Rows

    @classmethod
    def in_file(cls, file: str, lines: Rows) -> RowOrigins:
        return cls((file,), np.zeros(len(lines), dtype=np.int32), lines)

    def of(self, row: int) -> tuple[str, int | None]:
        """Return the file and the line of a row."""
        if row == NO_ROW:
            return (self.files[0] if self.files else "", None)
        return self.files[self.file[row]], int(self.line[row])

    def ranks(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Return numbers that order rows by the name of their file, then by their line; `NO_ROW` is first."""
        order = np.argsort(np.argsort(np.array(self.files, dtype=object), kind="stable")).astype(np.int64)
        if not len(self.line):
            return np.zeros(len(rows), dtype=np.int64)
        return np.where(rows == NO_ROW, 0, (order[self.file[rows]] << 40) + self.line[rows] + 1)


def short_text(value: object) -> str:
    """Return a value as short text: strings unchanged, other values as JSON."""
    if isinstance(value, bytes):
        text = repr(value[: limits.VIOLATION_VALUE_LENGTH_MAX])
    elif isinstance(value, list | tuple):
        # More items cannot be shown.
        text = _json(list(value[: limits.VIOLATION_VALUE_LENGTH_MAX]))
    else:
        text = value if isinstance(value, str) else _json(value)
    if len(text) <= limits.VIOLATION_VALUE_LENGTH_MAX:
        return text
    return text[: limits.VIOLATION_VALUE_LENGTH_MAX - 1] + "…"


def _json(value: object) -> str:
    if isinstance(value, float):
        return repr(value)
    return msgspec.json.encode(value, enc_hook=str).decode(errors="replace")
