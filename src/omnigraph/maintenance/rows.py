"""What the rows of optimize, repair, cleanup and doctor share: their JSON objects and the errors of tables.

In: a dataclass with the fields that `--json` prints, in their order. Out: a dictionary with the names of the fields.
Enums become their values, and empty text becomes null. Pure.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Any

from omnigraph.base.errors import Fact, FormatError, OmnigraphError
from omnigraph.base.hints import Hint, action, hint


class JsonRow:
    """A dataclass whose fields are the members of a JSON object."""

    __slots__ = ()

    def to_json(self) -> dict[str, Fact]:
        """Return the row as `--json` prints it."""
        row: Any = self
        return {field.name: _json_value(getattr(row, field.name)) for field in fields(row)}


class TableStats(JsonRow):
    """The row of one table, which says why the table failed. `reason` is `error` with calls as values."""

    __slots__ = ()
    reason: Hint | None

    @property
    def error(self) -> str | None:
        """Why the table failed or was not changed; other tables continue. Otherwise None."""
        return None if self.reason is None else str(self.reason)

    def to_json(self) -> dict[str, Fact]:
        """Return the row as `--json` prints it."""
        values = JsonRow.to_json(self)
        return {"error" if name == "reason" else name: value for name, value in values.items()}


def row_error(error: OmnigraphError) -> Hint:
    """Return the error of a table for its row, which has no hint: for a damaged table it names the call to make."""
    if isinstance(error, FormatError) and error.code == "dataset_unreadable":
        return hint("{}, run {}", error.message, action("doctor", deep=True))
    return Hint(error.message)


def _json_value(value: Any) -> Fact:
    match value:
        case JsonRow():
            return value.to_json()
        case Enum():
            return str(value.value)
        case tuple():
            return [_json_value(item) for item in value]
        case str() | Hint():
            return str(value) or None
    number: int | float | None = value
    return number
