"""How values are shown in a console (`__repr__`, at most ten lines) and in a notebook (an HTML table). Pure.

In: the summary of a value, by label. Out: text or HTML. Never prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final, Protocol

LINES_MAX: Final = 10
_VALUE_CHARACTERS_MAX: Final = 120
_BINARY_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")


class Displayed:
    """A value with a `__repr__` of at most ten lines and a table for notebooks, made from `_summary()`."""

    __slots__ = ()

    def _summary(self) -> Mapping[str, object]:
        """Return what to show, by label. An empty string is not shown."""
        raise NotImplementedError

    def __repr__(self) -> str:
        rows = _rows(self._summary())
        width = max((len(label) for label, _ in rows), default=0)
        return "\n".join([type(self).__name__, *(f"  {label:<{width}}  {value}" for label, value in rows)])

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, ("", ""), _rows(self._summary()))


class DisplayedRow(Displayed):
    """A value of a list: its `__repr__` is one line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{label}={value}' for label, value in _rows(self._summary()))})"


def html_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table for notebooks. All text is escaped."""
    names = list(columns)
    head = "".join(f"<th>{escape(name)}</th>" for name in names) if any(names) else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(shorten(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption>{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def format_count(count: int, singular: str, plural: str = "") -> str:
    """Return a number and its noun, as in `1 row` and `2,000 rows`."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


class LoadedCounts(Protocol):
    """What a load did with the rows of a type, or would do."""

    @property
    def inserted(self) -> int: ...
    @property
    def replaced(self) -> int: ...
    @property
    def unchanged(self) -> int: ...
    @property
    def deleted(self) -> int: ...
    @property
    def inserted_without_key(self) -> int: ...


def describe_rows(counts: LoadedCounts, *, dry_run: bool) -> str:
    """Return what a load did, as in `2 inserted, 1 unchanged`, or would do, as in `2 to insert, 1 unchanged`."""
    verbs = ("to insert", "to replace", "to delete") if dry_run else ("inserted", "replaced", "deleted")
    more = {verbs[1]: counts.replaced, "unchanged": counts.unchanged, verbs[2]: counts.deleted}
    parts = [f"{counts.inserted:,} {verbs[0]}", *(f"{count:,} {verb}" for verb, count in more.items() if count)]
    return ", ".join(parts)


def format_bytes(size: int) -> str:
    """Return a size for people, as in `812 B` and `1.4 MiB`."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_BINARY_UNITS))
    return f"{size / 1024**power:,.1f} {_BINARY_UNITS[power - 1]}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `: did you mean 'X'?` for the most similar name, or nothing if none is similar."""
    from difflib import get_close_matches

    similar = get_close_matches(name, list(names), n=1)
    return f": did you mean '{similar[0]}'?" if similar else ""


def shorten(value: object) -> str:
    """Return a value as one short line."""
    text = " ".join(str(value).split())
    return text if len(text) <= _VALUE_CHARACTERS_MAX else f"{text[: _VALUE_CHARACTERS_MAX - 1]}…"


def _rows(summary: Mapping[str, object]) -> list[tuple[str, str]]:
    rows = [(label, shorten(value)) for label, value in summary.items() if value != ""]
    if len(rows) < LINES_MAX:
        return rows
    shown = rows[: LINES_MAX - 2]
    return [*shown, ("…", f"{len(rows) - len(shown)} more")]
