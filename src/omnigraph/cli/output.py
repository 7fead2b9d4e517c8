"""What commands print on stdout: one JSON document, rows in a chosen format, or text for people.

On a terminal texts are folded to its width, by rich, and words are left whole, so that ids and times can be copied; a
table that is too wide even so is wrapped by the terminal. Elsewhere it is plain aligned text without control codes, so
that other programs can read it and rich need not be loaded. Text that came out of a graph cannot send control codes to
a terminal. Nothing here writes to stderr.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from io import StringIO
from typing import Any, Final

from omnigraph.base.errors import StorageError, UsageError

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
"""What tells a terminal to do something else than to show a letter, go on to the next tab stop, or begin a line."""

_WORD_MAX: Final = 64
"""A longer word is no id, time or name, and may be broken on a terminal."""

Cell = str | int | None
Row = Mapping[str, Cell]


class RowsFormat(StrEnum):
    """The ways to print rows."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    KV = "kv"


def choose_format(rows_format: RowsFormat | None, as_json: bool) -> RowsFormat:
    """`--json` is short for `--format json`; raise when the two disagree."""
    if as_json and rows_format not in (None, RowsFormat.JSON):
        raise UsageError(
            f"--json and --format {rows_format} cannot both be had",
            code="format_twice",
            hint="leave one of them out",
        )
    return RowsFormat.JSON if as_json else rows_format or RowsFormat.TABLE


def write_json(document: Any, *, is_one_line: bool = False) -> None:
    """Print one JSON document, a struct of `wire` or plain values, on one line if lines of JSON are printed."""
    import json

    import msgspec

    document = msgspec.to_builtins(document) if isinstance(document, msgspec.Struct) else document
    write_json_text(json.dumps(document, indent=None if is_one_line else 2, ensure_ascii=False))


def write_json_text(text: str) -> None:
    """Print what is JSON already, such as lines of it; on a terminal control codes are escaped as JSON does."""
    write_text(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) if sys.stdout.isatty() else text)


def write_text(text: str) -> None:
    """Print text, ending in a newline: as it is, but for control codes on a terminal."""
    shown = _CONTROL.sub(lambda found: printable(found[0]), text) if sys.stdout.isatty() else text
    with output_errors():
        sys.stdout.write(shown if shown.endswith("\n") else shown + "\n")
        sys.stdout.flush()


@contextmanager
def output_errors() -> Iterator[None]:
    """What the system says of stdout, as an error of ours; a reader who went away is none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StorageError(
            f"the output could not be written: {error.strerror or error}",
            code="output_unwritable",
            hint="write it to another place",
        ) from error


def printable(text: str) -> str:
    """The text with control characters escaped."""
    return text if text.isprintable() else "".join(ch if ch.isprintable() else repr(ch)[1:-1] for ch in text)


def write_pairs(pairs: Mapping[str, Cell]) -> None:
    """Print names and values in two columns."""
    width = max(len(name) for name in pairs)
    write_text("\n".join(f"{name:<{width}}  {_text(value)}" for name, value in pairs.items()))


def write_rows(titles: Mapping[str, str], rows: Sequence[Row], how: RowsFormat) -> None:
    """Print rows in a format other than `json`, whose document is the command's own. `titles` are the columns."""
    match how:
        case RowsFormat.TABLE:
            _write_table(titles, rows)
        case RowsFormat.CSV:
            _write_csv(titles, rows)
        case _ if not rows:
            return  # an empty line would be a row that nobody can parse
        case RowsFormat.KV:
            write_text("\n\n".join("\n".join(f"{key}: {_text(row[key])}" for key in titles) for row in rows))
        case RowsFormat.JSONL | RowsFormat.JSON:
            _write_json_lines(titles, rows)


def _write_table(titles: Mapping[str, str], rows: Sequence[Row]) -> None:
    if sys.stdout.isatty():
        _write_rich_table(titles, rows)
    else:
        _write_plain_table(titles, rows)


def _write_plain_table(titles: Mapping[str, str], rows: Sequence[Row]) -> None:
    lines = [list(titles.values()), *([_text(row[key]) for key in titles] for row in rows)]
    widths = [max(_width(cell) for cell in column) for column in zip(*lines, strict=True)]
    numeric = [bool(rows) and all(isinstance(row[key], int) for row in rows) for key in titles]
    text = []
    for line in lines:
        cells = [
            " " * (width - _width(cell)) + cell if right else cell + " " * (width - _width(cell))
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        text.append("  ".join(cells).rstrip())
    write_text("\n".join(text))


def _width(text: str) -> int:
    """The columns that a text takes: letters of East Asia and pictures take two, marks above a letter none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(ch) else 2 if east_asian_width(ch) in "WF" else 1 for ch in text)


def _write_rich_table(titles: Mapping[str, str], rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    floors = 0
    for key, title in titles.items():
        numeric = bool(rows) and all(isinstance(row[key], int) for row in rows)
        cells = [title, *(_text(row[key]) for row in rows)]
        floor = max(
            (_width(word) for cell in cells for word in cell.split() if len(word) <= _WORD_MAX), default=1
        )
        table.add_column(
            title,
            justify="right" if numeric else "left",
            overflow="fold",
            min_width=floor,
            no_wrap=floor == max(map(_width, cells)),
        )
        floors += floor + 1
    for row in rows:
        table.add_row(*(Text(_text(row[key])) for key in titles))
    console = Console()
    console.width = max(console.width, floors)
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

    write_json_text(
        "\n".join(json.dumps({key: row[key] for key in titles}, ensure_ascii=False) for row in rows)
    )


def _text(value: Cell) -> str:
    return "" if value is None else printable(str(_plain(value)))


def _plain(value: Cell) -> Cell:
    """A truth as JSON and the query language write it."""
    return str(value).lower() if isinstance(value, bool) else value
