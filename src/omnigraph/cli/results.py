"""Prints the result of a command: one JSON document with `--json`, otherwise rows or text; notices go to stderr.

In: the flags of a command, and what it did. The document is a function, because it may read the store. Data is never
written to stderr, and `--json` prints nothing but the document to stdout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from omnigraph.base.errors import UsageError
from omnigraph.base.progress import Report
from omnigraph.cli.output import Row, RowsFormat, write_json, write_rows, write_text
from omnigraph.cli.progress import show_progress

Document = Callable[[], Any]
"""Returns the document of `--json`: a struct of `wire`, or plain values."""

PASS_ONLY_ONE: Final = "Pass only one of them."
"""The hint for two flags that cannot be used together."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
RowsFormatOption = Annotated[
    RowsFormat | None,
    typer.Option("--format", help="The format of the rows. Default: table. --json means --format json."),
]


@dataclass(frozen=True, slots=True)
class Notices:
    """Prints on stderr unless `--quiet`."""

    context: typer.Context

    def notify(self, *lines: str) -> None:
        """Print lines on stderr unless `--quiet`."""
        if not self.context.obj.quiet:
            sys.stderr.writelines(f"{line}\n" for line in lines)

    def progress(self) -> AbstractContextManager[Report]:
        """Show the progress that the function receives until the block ends."""
        return show_progress(quiet=self.context.obj.quiet)


@dataclass(frozen=True, slots=True)
class TextOutput(Notices):
    """The output of a command that prints text, or a document with `--json`."""

    as_json: Json = False

    def show(self, document: Document, *, text: str = "", notices: Iterable[str] = ()) -> None:
        """Print the document with `--json`, otherwise the text on stdout and the notices on stderr."""
        if self.as_json:
            write_json(document())
            return
        if text:
            write_text(text)
        self.notify(*notices)


@dataclass(frozen=True, slots=True)
class RowsOutput(Notices):
    """The output of a command that prints rows in a chosen format, or a document with `--json`."""

    rows_format: RowsFormatOption = None
    as_json: Json = False

    def __post_init__(self) -> None:
        choose_format(self.rows_format, self.as_json)

    @property
    def format(self) -> RowsFormat:
        """The chosen format. Default: the one of the operator file, or a table."""
        if self.rows_format is None and not self.as_json:
            from omnigraph.cli.target import read_settings

            return RowsFormat(read_settings(self.context).output or RowsFormat.TABLE)
        return choose_format(self.rows_format, self.as_json)

    def show(
        self,
        document: Document,
        titles: Mapping[str, str],
        rows: Sequence[Row],
        *,
        fields: Iterable[str] | None = None,
        field_rows: Sequence[Row] | None = None,
    ) -> None:
        """Print the document, or rows. Other formats than `table` print `fields`, and `field_rows` if they differ."""
        if self.format is RowsFormat.JSON:
            write_json(document())
        elif self.format is RowsFormat.TABLE:
            write_rows(titles, rows, self.format)
        else:
            names = {name: name for name in fields or titles}
            write_rows(names, rows if field_rows is None else field_rows, self.format)


def choose_format(rows_format: StrEnum | None, as_json: bool) -> RowsFormat:
    """Return the format; `--json` means `--format json`. Raise if the two differ."""
    if as_json and rows_format not in (None, RowsFormat.JSON):
        raise UsageError(
            f"`--json` and `--format {rows_format}` cannot be used together", code="format_twice", hint=PASS_ONLY_ONE
        )
    return RowsFormat.JSON if as_json else RowsFormat(rows_format or RowsFormat.TABLE)
