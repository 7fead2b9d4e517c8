"""What the rows of optimize, repair and cleanup share: the error of a table. Pure."""

from __future__ import annotations

from omnigraph.base.errors import FormatError, OmnigraphError
from omnigraph.base.hints import Hint, action, hint


class TableStats:
    """The row of one table, which says why the table failed. `reason` is `error` with calls as values."""

    __slots__ = ()
    table_key: str
    reason: Hint | None

    @property
    def error(self) -> str | None:
        """Why the table failed or was not changed; other tables continue. Otherwise None."""
        return None if self.reason is None else str(self.reason)

    @property
    def needs_repair(self) -> bool:
        """Whether the error says to run `repair`."""
        return self.reason is not None and action("repair") in self.reason.parts


def row_error(error: OmnigraphError) -> Hint:
    """Return the error of a table for its row, which has no hint: for a damaged table it names the call to make."""
    if isinstance(error, FormatError) and error.code == "dataset_unreadable":
        return hint("{}, run {}", error.message, action("doctor", deep=True))
    return Hint(error.message)
