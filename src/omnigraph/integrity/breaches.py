"""What a rule found in a batch: the rows that break it, as columns, and how they are shown.

A breach stays columnar, so that millions of bad rows cost little until they are written out one by one. Rows are
numbers within the batch or columns that were checked; `Places` says which line of which file each of them is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from omnigraph.base import limits
from omnigraph.integrity.raw import RawColumn, Rows, taken, values_of
from omnigraph.integrity.rules import Rule

NO_ROW: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Breach:
    """Rows that break one rule in one way. `given` are their values, or None when there is nothing to show.

    A row of `NO_ROW` stands for something that the input changes without naming it.
    """

    rule: Rule
    property: str | None
    message: str
    rows: Rows
    given: RawColumn | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, which: Rows) -> Breach:
        """Some of the rows, by their position within the breach."""
        given = None if self.given is None else taken(self.given, which)
        return replace(self, rows=self.rows[which], given=given)

    def shown_values(self) -> Iterator[str]:
        """The given values as short texts."""
        if self.given is None:
            yield from ("" for _ in self.rows)
        else:
            yield from (shown(value) for value in values_of(self.given))


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where rows come from: for each row the number of its file and its line (or row of a table), from 1."""

    files: tuple[str, ...]
    file: npt.NDArray[np.int32]
    line: Rows

    @classmethod
    def in_file(cls, file: str, lines: Rows) -> Places:
        return cls((file,), np.zeros(len(lines), dtype=np.int32), lines)

    def of(self, row: int) -> tuple[str, int | None]:
        """The file and the line of a row."""
        if row == NO_ROW:
            return (self.files[0] if self.files else "", None)
        return self.files[self.file[row]], int(self.line[row])

    def ranks(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Numbers that order rows by the name of their file and then by their line; `NO_ROW` comes first."""
        order = np.argsort(np.argsort(np.array(self.files, dtype=object), kind="stable")).astype(np.int64)
        if not len(self.line):
            return np.zeros(len(rows), dtype=np.int64)
        known = (order[self.file[rows]] << 40) + self.line[rows] + 1
        return np.where(rows == NO_ROW, 0, known)


def shown(value: object) -> str:
    """A value as short text: strings as they are, everything else as JSON would write it."""
    if isinstance(value, bytes):
        text = repr(value[: limits.VIOLATION_VALUE_LENGTH_MAX])
    elif isinstance(value, list | tuple):
        # More items than could be shown are not worth writing.
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
