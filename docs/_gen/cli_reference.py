"""Prints the reference of the command line as Markdown: docs/user/cli.md.

In: the tree of commands. Out: text. Flags and help texts are read from the commands, and every rejected flag or graph
has the error that the arguments raise. No command runs, because each call fails while its arguments are parsed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import typer
from typer.core import TyperGroup

from omnigraph.base.errors import UsageError
from omnigraph.cli.app import make_command
from omnigraph.cli.command import GRAPH_FLAGS
from omnigraph.cli.errors import UNSUPPORTED_FLAGS, exit_code, explain_usage
from omnigraph.cli.flags import Flags
from omnigraph.cli.target import FLAGS_OF_STORAGE, GraphArguments

_COLUMNS: Final = {
    "graph": ("[URI]", *GRAPH_FLAGS),
    "branch": ("--branch", "--into", "--from"),
    "earlier state": ("--commit", "--at", "--version", "--cursor"),
    "actor": ("--as",),
    "preview": ("--dry-run", "--if-commit"),
    "confirmation": ("--confirm", "--force", "--discard", "--allow-data-loss", "--yes"),
    "bounds": ("--limit", "--max-hops", "--max-memory", "--max-seconds", "--max-rows-per-task", "--max-tasks"),
    "output": ("--json", "--format", "--out", "--log-file"),
    "Spark": ("--spark-master", "--engine"),
}
_TARGETS: Final = (
    ("none, where one is needed", (None, None)),
    ("two graphs", ("one.omni", "two.omni")),
    ("`http://…`, `https://…`", ("https://host/graph", None)),
    ("`memory://…`", ("memory://graph/g", None)),
    ("another scheme, `gs://…`", ("gs://bucket/graph.omni", None)),
    ("a bucket alone, `s3://bucket`", ("s3://bucket", None)),
)
_OTHERS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class _Command:
    path: str
    native: Any

    @property
    def name(self) -> str:
        return self.path.removeprefix("omnigraph ")

    @property
    def arguments(self) -> frozenset[str]:
        """The flags, and the positional argument as it is shown."""
        return frozenset(
            argument
            for parameter in self.native.params
            for argument in ((parameter.metavar,) if _is_positional(parameter) else parameter.opts)
        )


def _commands(path: str, native: Any) -> Iterator[_Command]:
    if not isinstance(native, TyperGroup):
        yield _Command(path, native)
        return
    for name, child in native.commands.items():
        yield from _commands(f"{path} {name}", child)


def _describe_capabilities(root: TyperGroup, commands: Sequence[_Command]) -> Iterator[str]:
    """Yield the flags of each command, then the flags and graphs that commands reject."""
    yield "\n## Command capabilities\n\n"
    yield "Every command also has `--quiet`, `--debug` and `--help`. Its own section says what a flag means there.\n\n"
    yield from _table(("command", *_COLUMNS), [_capabilities(command) for command in commands])
    yield "\n## Rejected flags and graphs\n\n"
    yield "A command never ignores a flag that it does not have. These are flags of other commands and releases:\n\n"
    heads = ("flag", "`error_code`", "exit", "message", "rejected by")
    yield from _table(heads, [*_rejected_scopes(commands), *_rejected_flags(root, commands)])
    yield "\nThese flags have no meaning for a graph of a server:\n\n"
    yield from _table(("flag", "what to do"), [(f"`{flag}`", text) for flag, text in FLAGS_OF_STORAGE.items()])
    yield "\nEvery command on a graph rejects these graphs:\n\n"
    yield from _table(("graph", "`error_code`", "exit", "message"), [_rejected_target(*target) for target in _TARGETS])


def _capabilities(command: _Command) -> tuple[str, ...]:
    cells = (" ".join(f"`{flag}`" for flag in flags if flag in command.arguments) for flags in _COLUMNS.values())
    return (f"`{command.name}`", *cells)


def _rejected_scopes(commands: Sequence[_Command]) -> Iterator[tuple[str, ...]]:
    """Yield one row per flag that selects a graph and reason why a command does not have it."""
    for flag in GRAPH_FLAGS:
        names_by_row: dict[tuple[str, ...], list[str]] = {}
        for command in commands:
            if flag not in command.arguments:
                error = command.native.unsupported_flag_error("COMMAND", flag)
                row = (f"`{flag}`", f"`{error.code}`", str(exit_code(error)), f"{error.message}. {error.hint}")
                names_by_row.setdefault(row, []).append(command.name)
        for row, names in names_by_row.items():
            yield (*row, ", ".join(f"`{name}`" for name in names))


def _rejected_flags(root: TyperGroup, commands: Sequence[_Command]) -> Iterator[tuple[str, ...]]:
    """Yield one row per flag and message, with the commands that give this message."""
    on_graphs = [command for command in commands if "--store" in command.arguments]
    for flag in UNSUPPORTED_FLAGS:
        names_by_row: dict[tuple[str, ...], list[str]] = {}
        for command in on_graphs:
            if flag not in command.arguments:
                error = _flag_error(root, command.path, flag)
                message = error.message.replace(f"`{command.path}`", "`COMMAND`")
                row = (f"`{flag}`", f"`{error.code}`", str(exit_code(error)), message)
                names_by_row.setdefault(row, []).append(command.name)
        for row, names in names_by_row.items():
            others = [command.name for command in on_graphs if command.name not in names]
            yield (*row, _list_names(names, others))


def _list_names(names: Sequence[str], others: Sequence[str]) -> str:
    """Return the names; if only a few others remain: all but the others."""
    if len(others) > _OTHERS_MAX:
        return ", ".join(f"`{name}`" for name in names)
    return "all" + (f" but {', '.join(f'`{name}`' for name in others)}" if others else "")


def _flag_error(root: TyperGroup, path: str, flag: str) -> UsageError:
    arguments = [*path.split()[1:], flag, "x"]
    try:
        with root.make_context("omnigraph", arguments, obj=Flags()) as context:
            root.invoke(context)
    except typer.TyperException as misuse:
        return explain_usage(misuse)
    raise AssertionError(f"{path} accepts {flag}")


def _rejected_target(description: str, target: tuple[str | None, str | None]) -> tuple[str, ...]:
    context: Any = typer.Context(typer.core.TyperCommand("COMMAND"), info_name="COMMAND", obj=Flags())
    try:
        GraphArguments(context=context, uri=target[0], store=target[1]).locate()
    except UsageError as error:
        return description, f"`{error.code}`", str(exit_code(error)), error.message
    raise AssertionError(f"{description} is not rejected")


def _table(heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"
    for row in rows:
        yield f"| {' | '.join(row)} |\n"


_HEAD: Final = """\
# Command line

Generated from the code: change a command's docstring or flags, then run
`python -m docs._gen.cli_reference > docs/user/cli.md`.

- **Graphs.** `URI` is a local path, `file:///path` or `s3://bucket/prefix`. A positional `URI` and `--store URI` mean
  the same. `--server` selects a graph of a server ([clients](client.md)). S3 reads the usual `AWS_…` variables, with
  `AWS_ENDPOINT_URL` for other stores.
- **Output.** Commands print data to stdout and everything else to stderr. `--json` prints exactly one JSON document;
  if the command fails, that document is the error (see [errors](errors.md)). For rows, `--format` is `table`, `json`,
  `jsonl`, `csv` or `kv`. A table fits the terminal; in a file or pipe it is plain aligned text.
- **Exit codes.** 0 success, 1 error, 2 usage, 3 refused, 4 precondition failed, 130 Ctrl-C, 143 SIGTERM.
- **Writes and maintenance** print their target on stderr before they start, unless `--quiet` is set.
"""


def print_reference() -> None:
    """Write the whole reference to stdout."""
    root = make_command()
    commands = tuple(_commands("omnigraph", root))
    described = (text for command in commands for text in _describe(command.path, command.native))
    sys.stdout.write(_HEAD + "".join((*_describe_capabilities(root, commands), *described)))


def _describe(path: str, native: Any) -> Iterator[str]:
    paragraphs = "\n\n".join(" ".join(part.split()) for part in native.help.split("\n\n"))
    yield f"\n## {path}\n\n{paragraphs}\n\n```\n{_usage(path, native)}\n```\n\n"
    yield "| argument | meaning |\n|---|---|\n"
    for parameter in native.params:
        yield f"| {_syntax(parameter)} | {_meaning(parameter)} |\n"
    examples = native.epilog.partition("Examples:\n")[2]
    yield "\n```\n" + "\n".join(line.strip() for line in examples.splitlines()) + "\n```\n"


def _usage(path: str, native: Any) -> str:
    positional = [parameter.metavar for parameter in native.params if _is_positional(parameter)]
    required = [
        f"{parameter.opts[0]} {parameter.metavar}"
        for parameter in native.params
        if parameter.required and not _is_positional(parameter)
    ]
    return " ".join([path, *required, "[OPTIONS]", *positional])


def _syntax(parameter: Any) -> str:
    if _is_positional(parameter):
        return f"`{parameter.metavar}`"
    names = ", ".join(sorted(parameter.opts, reverse=True))
    choices = getattr(parameter.type, "choices", None)
    value = "|".join(str(getattr(c, "value", c)) for c in choices) if choices else parameter.metavar or ""
    value = value.replace("|", "\\|")
    return f"`{names}" + ("`" if parameter.is_flag or not value else f" {value}`")


def _meaning(parameter: Any) -> str:
    default = parameter.default
    is_shown = default not in (None, False) and not _is_positional(parameter)
    return str(parameter.help) + (f" Default: `{default}`." if is_shown else "")


def _is_positional(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


if __name__ == "__main__":
    print_reference()
