"""How an error ends the process: a line and a hint on stderr, a document on stdout for `--json`, an exit code."""

from __future__ import annotations

import sys
from contextlib import suppress
from enum import IntEnum

from omnigraph.base.errors import (
    ContentError,
    ErrorKind,
    InvariantError,
    OmnigraphError,
    StorageError,
    TextError,
)
from omnigraph.cli.flags import Flags
from omnigraph.cli.output import printable, write_json


class ExitCode(IntEnum):
    """How a command ends that did not do what was asked. Refused: until it is confirmed, or something is repaired."""

    ERROR = 1
    USAGE = 2
    REFUSED = 3
    PRECONDITION_FAILED = 4


def exit_code(error: OmnigraphError) -> ExitCode:
    """Mistakes inside a file are errors; mistakes in the words of the call are usage."""
    match error.kind:
        case ErrorKind.BAD_REQUEST:
            return ExitCode.ERROR if isinstance(error, ContentError) else ExitCode.USAGE
        case ErrorKind.REFUSED:
            return ExitCode.REFUSED
        case ErrorKind.PRECONDITION_FAILED:
            return ExitCode.PRECONDITION_FAILED
        case _:
            return ExitCode.ERROR


def show_error(error: OmnigraphError, flags: Flags) -> None:
    """Print the error; with `--debug` also where it came from."""
    if flags.debug:
        _print_traceback(error)
    sys.stderr.write(_sentences(error) + "\n")
    if flags.json:
        with suppress(StorageError):  # stdout cannot be written to; stderr has said so
            write_json(error.to_json(), is_one_line=flags.json_lines)


def show_defect(defect: Exception, flags: Flags) -> int:
    """Print an exception that nobody expected, as one of ours; the exit code."""
    error = InvariantError(
        f"omnigraph failed unexpectedly: {type(defect).__name__}: {' '.join(str(defect).split())[:400]}",
        code="defect",
        hint="this is a defect of omnigraph; run it again with --debug and report what it prints",
    )
    error.__cause__ = defect
    show_error(error, flags)
    return exit_code(error)


def _sentences(error: OmnigraphError) -> str:
    if isinstance(error, TextError) and error.problems[0].text:
        count = len(error.problems)
        return f"error: {'a problem' if count == 1 else f'{count} problems'} in the text\n{error.render()}"
    told = printable(error.message)
    if not isinstance(error, TextError) and error.render() != error.message:
        told = _lines(error.render())
    return f"error: {told}" + (f"\nhint: {printable(error.flag_hint)}" if error.flag_hint else "")


def _lines(text: str) -> str:
    """Each line of a text that came out of a file or a graph, with control characters escaped."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _print_traceback(error: OmnigraphError) -> None:
    import traceback

    traceback.print_exception(error, file=sys.stderr)
