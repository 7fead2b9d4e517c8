"""Errors on the command line: how they are printed, their exit codes, and the errors for unknown commands and flags.

In: an error, an exception of Typer or an unexpected exception. Out: text on stderr, with `--json` also a document on
stdout, and an exit code. No argument is silently ignored.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import typer

from omnigraph.base.display import format_count
from omnigraph.base.errors import (
    ErrorKind,
    InvariantError,
    OmnigraphError,
    SchemaTextError,
    StorageError,
    TextError,
    UsageError,
)
from omnigraph.cli.flags import Flags
from omnigraph.cli.hints import render_hint
from omnigraph.cli.output import printable, write_json
from omnigraph.wire.errors import error_document


class ExitCode(IntEnum):
    """The exit codes of failed commands. `REFUSED`: the caller must confirm the command or repair something first."""

    ERROR = 1
    USAGE = 2
    REFUSED = 3
    PRECONDITION_FAILED = 4


_EXIT_CODES: Final = {
    ErrorKind.BAD_REQUEST: ExitCode.USAGE,
    ErrorKind.REFUSED: ExitCode.REFUSED,
    ErrorKind.PRECONDITION_FAILED: ExitCode.PRECONDITION_FAILED,
}
"""The exit codes of kinds. Every other kind has 1."""


def exit_code(error: OmnigraphError) -> ExitCode:
    """Return the exit code of a command that ends with this error."""
    return _EXIT_CODES.get(error.kind, ExitCode.ERROR)


def show_error(error: OmnigraphError, flags: Flags, graph: tuple[str, ...] | None = None) -> None:
    """Print the error, with `--debug` also its traceback. `graph`: its arguments, which commands in the hint repeat."""
    if flags.debug:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    hint = render_hint(error.advice, graph)
    sys.stderr.write(_error_text(error, hint) + "\n")
    if flags.json:
        with suppress(StorageError):  # stdout is not writable; the error on stderr is enough
            write_json(error_document(error, hint), is_one_line=flags.json_lines)


def show_defect(defect: Exception, flags: Flags) -> int:
    """Print an unexpected exception as an `InvariantError` and return the exit code."""
    error = InvariantError(
        f"omnigraph failed unexpectedly: {type(defect).__name__}: {' '.join(str(defect).split())[:400]}",
        code="defect",
        hint="This is a bug in Omnigraph. It is unknown whether a write was applied: run `omnigraph commit list` "
        "first. Then run the command again with `--debug` and report the output.",
    )
    error.__cause__ = defect
    show_error(error, flags)
    return exit_code(error)


def _error_text(error: OmnigraphError, hint: str) -> str:
    if isinstance(error, TextError) and error.problems[0].text:
        count = format_count(len(error.problems), "error")
        return f"error: {count} in {_source_text(error)}\n{error.render()}"
    message = printable(error.message)  # it may contain values of a file or a graph
    if not isinstance(error, TextError) and error.render() != error.message:
        message = "\n".join(map(printable, error.render().split("\n")))
    return f"error: {message}" + (f"\nhint: {printable(hint)}" if hint else "")


def _source_text(error: TextError) -> str:
    """Return the file of the text, or the kind of text if it has no file."""
    sources = {problem.source for problem in error.problems}
    source = sources.pop()
    if not sources and Path(source).suffix in (".pg", ".gq"):
        return f"'{printable(source)}'"
    return "the schema" if isinstance(error, SchemaTextError) else "the query"


@dataclass(frozen=True, slots=True)
class UnsupportedFlag:
    """A flag of other commands or earlier releases: the message, the hint and the code of its error."""

    message: str
    hint: str
    code: str = "usage"


PASS_A_URI: Final = (
    "Pass the graph as a URI argument or with `--store URI`: a local path, file:///path or s3://bucket/prefix."
)
PASS_STORAGE: Final = "Pass `--store URI`, the storage of the graph, or `--cluster DIR --graph ID`."

UNSUPPORTED_FLAGS: Final = {
    "--cluster-graph": UnsupportedFlag(
        "`--cluster-graph` was renamed to `--graph`", "Pass `--cluster DIR --graph ID`.", "flag_renamed"
    ),
    "--target": UnsupportedFlag("`--target` was renamed to `--store`", PASS_A_URI, "flag_renamed"),
    "--uri": UnsupportedFlag("{command} has no `--uri`", PASS_A_URI),
    "--as": UnsupportedFlag("{command} cannot use `--as`: it creates no commit, so it has no actor", "Omit `--as`."),
    "--actor": UnsupportedFlag("{command} has no `--actor`", "Pass `--as ACTOR` to a command that writes."),
    "--output": UnsupportedFlag(
        "{command} has no `--output`", "Choose a format with `--format` and redirect stdout to a file."
    ),
}

_SYSTEM_COMMANDS: Final = frozenset({"omnigraph optimize", "omnigraph repair", "omnigraph cleanup"})
_SYSTEM_ACTOR: Final = UnsupportedFlag(
    "{command} cannot use `--as`: its commits always have the system actor", "Omit `--as`."
)

_SIMILARITY_MIN: Final = 0.7
"""How similar a name must be to be suggested: `lst` is similar to `list`, `rename` is not similar to `create`."""

_OTHER_NAMES: Final = {
    "create": "init",
    "new": "init",
    "history": "commit list",
    "commits": "commit list",
    "status": "snapshot",
    "info": "snapshot",
    "snapshots": "snapshot",
    "merge": "branch merge",
}
_PLANNED: Final = frozenset({"queries", "alias"})


def explain_usage(misuse: typer.TyperException) -> UsageError:
    """Return the error for arguments that Typer could not parse."""
    context: Any = getattr(misuse, "ctx", None)
    command = context.command_path if context is not None else "omnigraph"
    flag = getattr(misuse, "option_name", None)
    # Typer's errors have no codes, so its English text is compared; `test_invalid_arguments` fails if it changes.
    if flag is not None and misuse.format_message().startswith("No such option"):
        return _unknown_flag(command, flag, context)
    if misuse.message == "Missing command.":
        names = ", ".join(context.command.commands)
        return _usage(
            f"missing command after `{command}`: expected one of {names}",
            f"Run `{command} --help` for a description of each.",
        )
    message = " ".join(misuse.format_message().split()).rstrip(".").replace(". Choose from:", ": expected one of")
    message = re.sub(r"is not a valid int(eger)?( range)?$", "is not a whole number", message)
    if message.startswith("Missing option"):
        parameter: Any = getattr(misuse, "param", None)
        examples = getattr(context.command, "examples", ())
        example = next((text for text in examples if not {*parameter.opts}.isdisjoint(text.split())), None)
        if example is not None:
            return _usage(message[:1].lower() + message[1:], f"Pass it, as in `{example}`.")
    return _usage(message[:1].lower() + message[1:], f"Run `{command} --help` for the flags and examples.")


def unknown_command(command: str, name: str, names: tuple[str, ...]) -> UsageError:
    """Return the error for an unknown name of a command."""
    instead = _OTHER_NAMES.get(name) if command == "omnigraph" else None
    if instead is not None:
        return _usage(f"unknown command '{name}'", f"Did you mean `omnigraph {instead}`?")
    if command == "omnigraph" and name in _PLANNED:
        return _usage(
            f"`omnigraph {name}` is planned but not part of this release", "Run `omnigraph --help` for the commands."
        )
    near = _nearest(name, names)
    hint = f"Did you mean `{command} {near}`?" if near else f"Run `{command} --help` for the commands."
    return _usage(f"unknown command '{name}'", hint)


def _unknown_flag(command: str, flag: str, context: Any) -> UsageError:
    if context.parent is None:
        return _usage(f"{flag} is not a flag of `omnigraph`", "Pass flags after the command.")
    flags = [name for parameter in context.command.get_params(context) for name in parameter.opts]
    make_error = getattr(context.command, "unsupported_flag_error", None)
    error = None if make_error is None else make_error(command, flag)
    if error is not None:
        assert isinstance(error, UsageError)
        return error
    if flag in UNSUPPORTED_FLAGS and "--store" in flags:
        unsupported = UNSUPPORTED_FLAGS[flag]
        if flag == "--as" and command in _SYSTEM_COMMANDS:
            unsupported = _SYSTEM_ACTOR
        message = unsupported.message.format(command=f"`{command}`")
        return UsageError(message, code=unsupported.code, hint=unsupported.hint)
    near = _nearest(flag.lstrip("-"), tuple(name[2:] for name in flags if name.startswith("--")))
    hint = f"Did you mean `--{near}`?" if near else f"Run `{command} --help` for the flags."
    return _usage(f"`{command}` has no flag {flag}", hint)


def _nearest(name: str, names: tuple[str, ...]) -> str | None:
    from difflib import get_close_matches

    longer = [full for full in names if full.startswith(f"{name}-")]
    if len(longer) == 1:  # `--older` means `--older-than`
        return longer[0]
    return next(iter(get_close_matches(name[:60], names, n=1, cutoff=_SIMILARITY_MIN)), None)


def _usage(message: str, hint: str) -> UsageError:
    return UsageError(message, code="usage", hint=hint)
