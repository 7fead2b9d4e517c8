"""Words that no command understands, answered with what to type instead. Nothing is ever silently ignored."""

from __future__ import annotations

import sys
from contextlib import suppress
from enum import IntEnum
from typing import Any, Final

import typer

from omnigraph.base.errors import (
    ErrorKind,
    InvariantError,
    OmnigraphError,
    StorageError,
    TextError,
    UsageError,
)
from omnigraph.cli.hints import render_hint
from omnigraph.cli.options import Flags
from omnigraph.cli.output import printable, write_json
from omnigraph.wire.errors import error_document


class ExitCode(IntEnum):
    """The exit codes of commands that failed. Refused: until the caller confirms it or repairs something."""

    ERROR = 1
    USAGE = 2
    REFUSED = 3
    PRECONDITION_FAILED = 4


_EXIT_CODES: Final = {
    ErrorKind.BAD_REQUEST: ExitCode.USAGE,
    ErrorKind.REFUSED: ExitCode.REFUSED,
    ErrorKind.PRECONDITION_FAILED: ExitCode.PRECONDITION_FAILED,
}
"""The exit codes of kinds; every other kind is 1."""


def exit_code(error: OmnigraphError) -> ExitCode:
    """Return the exit code of a command that ends with this error."""
    return _EXIT_CODES.get(error.kind, ExitCode.ERROR)


def show_error(error: OmnigraphError, flags: Flags) -> None:
    """Print the error; with `--debug` also where it came from."""
    if flags.debug:
        _print_traceback(error)
    sys.stderr.write(_sentences(error) + "\n")
    if flags.json:
        with suppress(StorageError):  # stdout cannot be written to; stderr has said so
            write_json(error_document(error, render_hint(error.advice)), is_one_line=flags.json_lines)


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
    return f"error: {told}" + (f"\nhint: {printable(render_hint(error.advice))}" if error.advice else "")


def _lines(text: str) -> str:
    """Each line of a text that came out of a file or a graph, with control characters escaped."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _print_traceback(error: OmnigraphError) -> None:
    import traceback

    traceback.print_exception(error, file=sys.stderr)


PASS_A_STORE: Final = "pass the graph as --store URI: a local path, file:///path or s3://bucket/prefix"
PASS_A_URI: Final = "pass the graph as URI or --store URI: a local path, file:///path or s3://bucket/prefix"

FOREIGN_FLAGS: Final = {
    "--server": (
        "{command} cannot use --server: it works on storage directly, not through a server",
        PASS_A_URI,
        "server_unsupported",
    ),
    "--cluster": (
        "{command} cannot use --cluster yet: clusters are not part of this release",
        PASS_A_URI,
        "cluster_unsupported",
    ),
    "--graph": (
        "{command} cannot use --graph without --cluster, and clusters are not part of this release",
        PASS_A_URI,
        "cluster_unsupported",
    ),
    "--cluster-graph": (
        "--cluster-graph is an old name of --graph, which goes with --cluster; clusters are not part of this release",
        PASS_A_URI,
        "flag_renamed",
    ),
    "--profile": ("{command} cannot use --profile: it reads no configuration", PASS_A_URI, "usage"),
    "--target": ("--target is an old name of --store", PASS_A_URI, "flag_renamed"),
    "--uri": ("{command} has no --uri", PASS_A_URI, "usage"),
    "--as": (
        "{command} cannot use --as: it makes no commit, so there is no actor",
        "leave it out",
        "usage",
    ),
    "--actor": ("{command} has no --actor", "commands that write take --as ACTOR", "usage"),
    "--output": (
        "{command} has no --output",
        "choose with --format, and redirect stdout to a file",
        "usage",
    ),
}
"""Flags that another command has, or had: what is wrong, what to pass, and the error's code."""

_OF_THE_SYSTEM: Final = frozenset({"omnigraph optimize", "omnigraph repair", "omnigraph cleanup"})
_SYSTEM_ACTOR: Final = (
    "{command} cannot use --as: what it publishes is by the system",
    "leave it out",
    "usage",
)

_CLOSE: Final = 0.7
"""How like a known word a word must be for us to ask whether it was meant: lst is like list, rename not like create."""

_OF_NAMES: Final = frozenset({"omnigraph query", "omnigraph mutate", "omnigraph explain"})
_OTHER_NAMES: Final = {
    "create": "init",
    "new": "init",
    "history": "commit list",
    "commits": "commit list",
    "status": "snapshot",
    "info": "snapshot",
    "snapshots": "snapshot",
    "help": "--help",
}
_PLANNED: Final = frozenset(
    {
        "blob",
        "cluster",
        "policy",
        "queries",
        "graphs",
        "embed",
        "alias",
        "profile",
        "login",
        "logout",
        "completion",
    }
)


def explain_usage(misuse: typer.TyperException) -> UsageError:
    """Our error for what Typer could not parse."""
    context: Any = getattr(misuse, "ctx", None)
    command = context.command_path if context is not None else "omnigraph"
    flag = getattr(misuse, "option_name", None)
    if flag is not None and misuse.format_message().startswith("No such option"):
        return _unknown_flag(command, flag, context)
    if misuse.message == "Missing command.":
        names = ", ".join(context.command.commands)
        return _usage(f"`{command}` needs a command: {names}", f"`{command} --help` says what they do")
    sentence = misuse.format_message().rstrip(".").replace("a valid int range", "a whole number")
    if command in _OF_NAMES and "extra argument" in sentence:
        return _usage(f"`{command}` takes one word, the name of a query", PASS_A_STORE)
    return _usage(sentence[:1].lower() + sentence[1:], f"`{command} --help` shows the flags and examples")


def unknown_command(command: str, name: str, known: tuple[str, ...]) -> UsageError:
    """The error for a word where a command was expected."""
    instead = _OTHER_NAMES.get(name) if command == "omnigraph" else None
    if instead is not None:
        return _usage(f"there is no command '{name}'", f"did you mean `omnigraph {instead}`?")
    if command == "omnigraph" and name in _PLANNED:
        return _usage(
            f"`omnigraph {name}` is planned and not part of this release",
            "`omnigraph --help` lists what there is",
        )
    near = _nearest(name, known)
    hint = f"did you mean `{command} {near}`?" if near else f"`{command} --help` lists the commands"
    return _usage(f"there is no command '{name}'", hint)


def _unknown_flag(command: str, flag: str, context: Any) -> UsageError:
    if context.parent is None:
        if flag == "--version":
            return _usage("--version is a command here", "run `omnigraph version`")
        return _usage(f"there is no flag {flag} before a command", "put flags after the command")
    known = [name for parameter in context.command.get_params(context) for name in parameter.opts]
    if flag in FOREIGN_FLAGS and "--store" in known:
        by_system = flag == "--as" and command in _OF_THE_SYSTEM
        sentence, hint, code = _SYSTEM_ACTOR if by_system else FOREIGN_FLAGS[flag]
        return UsageError(sentence.format(command=f"`{command}`"), code=code, hint=hint)
    near = _nearest(flag.lstrip("-"), tuple(name[2:] for name in known if name.startswith("--")))
    hint = f"did you mean --{near}?" if near else f"`{command} --help` lists the flags"
    return _usage(f"`{command}` has no flag {flag}", hint)


def _nearest(word: str, known: tuple[str, ...]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word[:60], known, n=1, cutoff=_CLOSE)), None)


def _usage(sentence: str, hint: str) -> UsageError:
    return UsageError(sentence, code="usage", hint=hint)
