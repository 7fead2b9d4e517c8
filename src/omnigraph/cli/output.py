"""Prints on stdout: one JSON document, rows in a chosen format, or text for people. Never writes to stderr.

On a terminal, rich folds long cells between words, so that ids and times can be copied; the terminal wraps a table that
is still too wide. Elsewhere a table is plain aligned text without control codes, so that other programs can read it and
rich is not imported. Control codes in the data of a graph are escaped on a terminal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from io import StringIO
from itertools import islice
from typing import Any, Final

from omnigraph.base.display import format_bytes
from omnigraph.base.errors import StorageError

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
"""Control codes of terminals, except tabs and ends of lines."""

_WORD_MAX: Final = 64
"""Longer words are not ids, times or names: a terminal may break them."""

_LINES_PER_WRITE: Final = 1_000

Cell = str | int | None
Row = Mapping[str, Cell]


class Number(int):
    """A number that a table shows with separators. Other formats print its digits."""


class Count(Number):
    """A number that a table also adds up, in its last row."""


class Size(Count):
    """A number of bytes that a table shows as `1.4 MiB`."""


class RowsFormat(StrEnum):
    """The formats for rows."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    KV = "kv"


def write_json(document: Any, *, is_one_line: bool = False) -> None:
    """Print one JSON document: structs of `wire`, or plain values."""
    import json

    import msgspec

    write_json_text(json.dumps(msgspec.to_builtins(document), indent=None if is_one_line else 2, ensure_ascii=False))


def write_lines(lines: Iterable[str], *, as_json: bool = False) -> None:
    """Print lines while they are read, 1,000 per write. `as_json`: the lines are JSON."""
    write = write_json_text if as_json else write_text
    iterator = iter(lines)
    while batch := list(islice(iterator, _LINES_PER_WRITE)):
        write("\n".join(batch))


def write_json_text(text: str) -> None:
    """Print JSON text. On a terminal, escape control codes as JSON does."""
    write_text(_CONTROL.sub(lambda code: f"\\u{ord(code[0]):04x}", text) if sys.stdout.isatty() else text)


def write_text(text: str) -> None:
    """Print text and a final newline. On a terminal, escape control codes."""
    shown = _CONTROL.sub(lambda code: printable(code[0]), text) if sys.stdout.isatty() else text
    with output_errors():
        sys.stdout.write(shown if shown.endswith("\n") else shown + "\n")
        sys.stdout.flush()


@contextmanager
def output_errors() -> Iterator[None]:
    """Raise `StorageError` if stdout is not writable. A closed pipe is not an error of Omnigraph."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StorageError(
            f"writing to stdout failed: {error.strerror or error}",
            code="output_unwritable",
            hint="Redirect stdout to another file.",
        ) from error


def printable(text: str) -> str:
    """Return text with control characters escaped."""
    return text if text.isprintable() else "".join(ch if ch.isprintable() else repr(ch)[1:-1] for ch in text)


def format_pairs(pairs: Mapping[str, Cell]) -> str:
    """Return names and values in two columns."""
    width = max(len(name) for name in pairs)
    return "\n".join(f"{name:<{width}}  {_text(value)}" for name, value in pairs.items())


def write_rows(titles: Mapping[str, str], rows: Sequence[Row], rows_format: RowsFormat) -> None:
    """Print rows in a format other than `json`, for which each command has its own document. `titles`: the columns."""
    match rows_format:
        case RowsFormat.TABLE:
            _write_table(titles, [*rows, *_total(titles, rows)])
        case RowsFormat.CSV:
            _write_csv(titles, rows)
        case _ if not rows:
            return  # an empty line would not be a valid row
        case RowsFormat.KV:
            write_text("\n\n".join("\n".join(f"{key}: {_text(_digits(row[key]))}" for key in titles) for row in rows))
        case RowsFormat.JSONL | RowsFormat.JSON:
            _write_json_lines(titles, rows)


def _total(titles: Mapping[str, str], rows: Sequence[Row]) -> list[Row]:
    """Return the last row of a table: the sums of its counts, unless there is one row or every sum is 0."""
    total: dict[str, Cell] = dict.fromkeys(titles)
    for name in titles:
        counts = [cell for row in rows if isinstance(cell := row[name], Count)]
        if counts and len(counts) == len(rows):
            total[name] = type(counts[0])(sum(counts))
    if len(rows) < 2 or not any(total.values()):
        return []
    return [{**total, next(iter(titles)): "total"}]


def _write_table(titles: Mapping[str, str], rows: Sequence[Row]) -> None:
    if sys.stdout.isatty():
        _write_rich_table(titles, rows)
    else:
        _write_plain_table(titles, rows)


def _write_plain_table(titles: Mapping[str, str], rows: Sequence[Row]) -> None:
    lines = [list(titles.values()), *([_text(row[key]) for key in titles] for row in rows)]
    widths = [max(_width(cell) for cell in column) for column in zip(*lines, strict=True)]
    numeric = [_is_numeric(rows, key) for key in titles]
    text = []
    for line in lines:
        cells = [
            " " * (width - _width(cell)) + cell if right else cell + " " * (width - _width(cell))
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        text.append("  ".join(cells).rstrip())
    write_text("\n".join(text))


def _is_numeric(rows: Sequence[Row], key: str) -> bool:
    cells = [row[key] for row in rows if row[key] is not None]
    return bool(cells) and all(isinstance(cell, int) for cell in cells)


def _width(text: str) -> int:
    """Return the columns of text on a terminal: East Asian letters and emoji take two, combining marks take none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(ch) else 2 if east_asian_width(ch) in "WF" else 1 for ch in text)


def _write_rich_table(titles: Mapping[str, str], rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    width_min = 0
    for key, title in titles.items():
        numeric = _is_numeric(rows, key)
        cells = [title, *(_text(row[key]) for row in rows)]
        floor = max((_width(word) for cell in cells for word in cell.split() if len(word) <= _WORD_MAX), default=1)
        table.add_column(
            title,
            justify="right" if numeric else "left",
            overflow="fold",
            min_width=floor,
            no_wrap=floor == max(map(_width, cells)),
        )
        width_min += floor + 1
    for row in rows:
        table.add_row(*(Text(_text(row[key])) for key in titles))
    console = Console()
    console.width = max(console.width, width_min)
    console.print(table, crop=False)


def _write_csv(titles: Mapping[str, str], rows: Sequence[Row]) -> None:
    import csv

    text = StringIO()
    writer = csv.DictWriter(text, list(titles), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _plain(row.get(key)) for key in titles} for row in rows)
    write_text(text.getvalue())


def _write_json_lines(titles: Mapping[str, str], rows: Sequence[Row]) -> None:
    import json

    write_json_text("\n".join(json.dumps({key: row[key] for key in titles}, ensure_ascii=False) for row in rows))


def _text(value: Cell) -> str:
    if isinstance(value, Number):
        return format_bytes(value) if isinstance(value, Size) else f"{value:,}"
    return "" if value is None else printable(str(_plain(value)))


def _digits(value: Cell) -> Cell:
    return int(value) if isinstance(value, Number) else value


def _plain(value: Cell) -> Cell:
    """Return `true` and `false` for bools, as JSON and the query language write them."""
    return str(value).lower() if isinstance(value, bool) else value
