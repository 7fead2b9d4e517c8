"""What each command takes, and how it refuses what it cannot use: two tables of the reference, as Markdown.

In: the tree of commands. Out: text. Nothing is typed by hand here: flags are read from the commands, and every refusal
is the error that the words really raise. No command runs, because each call fails while its words are parsed.
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
from omnigraph.cli.errors import UNSUPPORTED_FLAGS, exit_code, explain_usage
from omnigraph.cli.options import Flags
from omnigraph.cli.target import GraphArguments

_COLUMNS: Final = {
    "graph": ("[URI]", "--store"),
    "branch": ("--branch", "--into", "--from"),
    "earlier state": ("--commit", "--at", "--version", "--cursor"),
    "actor": ("--as",),
    "looks first": ("--dry-run", "--if-commit"),
    "agrees": ("--confirm", "--force", "--discard", "--allow-data-loss", "--yes"),
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
class _Named:
    name: str
    command: Any

    @property
    def words(self) -> frozenset[str]:
        """The flags, and the positional argument as it is shown."""
        return frozenset(
            word
            for parameter in self.command.params
            for word in ((parameter.metavar,) if parameter.param_type_name == "argument" else (*parameter.opts,))
        )


def describe_capabilities(root: TyperGroup) -> Iterator[str]:
    """The section: what each command takes, then what is refused."""
    commands = tuple(_leaves("omnigraph", root))
    yield "\n## Command capabilities\n\n"
    yield "Every command also has `--quiet`, `--debug` and `--help`. Its own section says what a flag means there.\n\n"
    yield from _table(("command", *_COLUMNS), [_taken(command) for command in commands])
    yield "\n## What is refused\n\n"
    yield "A flag that a command cannot use is never ignored. These are known from other commands and releases:\n\n"
    heads = ("flag", "`error_code`", "exit", "sentence", "of")
    yield from _table(heads, list(_refused_flags(root, commands)))
    yield "\nAnd these graphs, by every command that takes one:\n\n"
    yield from _table(("graph", "`error_code`", "exit", "sentence"), [_refused_target(*target) for target in _TARGETS])


def _leaves(name: str, command: Any) -> Iterator[_Named]:
    if not isinstance(command, TyperGroup):
        yield _Named(name, command)
        return
    for below, child in command.commands.items():
        yield from _leaves(f"{name} {below}", child)


def _taken(command: _Named) -> tuple[str, ...]:
    cells = (" ".join(f"`{flag}`" for flag in flags if flag in command.words) for flags in _COLUMNS.values())
    return (f"`{command.name.removeprefix('omnigraph ')}`", *cells)


def _refused_flags(root: TyperGroup, commands: Sequence[_Named]) -> Iterator[tuple[str, ...]]:
    """One row per flag and sentence, with the commands that answer so."""
    on_graphs = [command for command in commands if "--store" in command.words]
    for flag in UNSUPPORTED_FLAGS:
        refusing: dict[tuple[str, ...], list[str]] = {}
        for command in on_graphs:
            if flag not in command.words:
                error = _refusal(root, command.name, flag)
                sentence = error.message.replace(f"`{command.name}`", "`COMMAND`")
                row = (f"`{flag}`", f"`{error.code}`", str(exit_code(error)), sentence)
                refusing.setdefault(row, []).append(command.name.removeprefix("omnigraph "))
        for cells, names in refusing.items():
            yield (*cells, _listed(names, [command.name.removeprefix("omnigraph ") for command in on_graphs]))


def _listed(names: Sequence[str], everyone: Sequence[str]) -> str:
    """The names, or in short all of them, or all but a few."""
    others = [name for name in everyone if name not in names]
    if len(others) > _OTHERS_MAX:
        return ", ".join(f"`{name}`" for name in names)
    return " but ".join(("all", *([", ".join(f"`{name}`" for name in others)] if others else [])))


def _refusal(root: TyperGroup, name: str, flag: str) -> UsageError:
    arguments = [*name.split()[1:], flag, "x"]
    try:
        with root.make_context("omnigraph", arguments, obj=Flags()) as context:
            root.invoke(context)
    except typer.TyperException as misuse:
        return explain_usage(misuse)
    raise AssertionError(f"{name} takes {flag}")


def _refused_target(what: str, target: tuple[str | None, str | None]) -> tuple[str, ...]:
    context: Any = typer.Context(typer.core.TyperCommand("COMMAND"), info_name="COMMAND")
    try:
        GraphArguments(context, *target).locate()
    except UsageError as error:
        return what, f"`{error.code}`", str(exit_code(error)), error.message
    raise AssertionError(f"{what} is not rejected")


def _table(heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"
    for row in rows:
        yield f"| {' | '.join(row)} |\n"


_HEAD: Final = """\
# Command line

Generated from the code: change a command's docstring or flags, then run
`python -m docs._gen.cli_reference > docs/user/cli.md`.

- **Graphs.** `URI` is a local path, `file:///path` or `s3://bucket/prefix`. A positional `URI` and `--store URI` mean
  the same. S3 reads the usual `AWS_…` variables, with `AWS_ENDPOINT_URL` for other stores.
- **Output.** Data goes to stdout and everything else to stderr. `--json` prints exactly one JSON document; when the
  command fails that document is the error (see [errors](errors.md)). Where rows are shown, `--format` takes `table`,
  `json`, `jsonl`, `csv` or `kv`. A table fits the terminal; elsewhere it is plain aligned text.
- **Exit codes.** 0 done, 1 error, 2 usage, 3 refused, 4 precondition failed, 130 Ctrl-C, 143 SIGTERM.
- **Writes and maintenance** tell their target on stderr before they start, unless `--quiet`.
"""


def print_reference() -> None:
    """Write the whole reference to stdout."""
    root = make_command()
    sys.stdout.write(_HEAD + "".join((*describe_capabilities(root), *_describe("omnigraph", root))))


def _describe(name: str, command: Any) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        for below, child in command.commands.items():
            yield from _describe(f"{name} {below}", child)
        return
    yield f"\n## {name}\n\n{_paragraphs(command.help)}\n\n```\n{_usage(name, command)}\n```\n\n"
    yield "| argument | meaning |\n|---|---|\n"
    for parameter in command.params:
        yield f"| {_words(parameter)} | {_meaning(parameter)} |\n"
    examples = command.epilog.partition("Examples:\n")[2]
    yield "\n```\n" + "\n".join(line.strip() for line in examples.splitlines()) + "\n```\n"


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _usage(name: str, command: Any) -> str:
    words = [_words(parameter).replace("`", "") for parameter in command.params if _is_argument(parameter)]
    required = [
        f"{parameter.opts[0]} {parameter.metavar}"
        for parameter in command.params
        if parameter.required and not _is_argument(parameter)
    ]
    return " ".join([name, *required, "[OPTIONS]", *words])


def _words(parameter: Any) -> str:
    if _is_argument(parameter):
        return f"`{parameter.metavar}`"
    names = ", ".join(sorted(parameter.opts, reverse=True))
    choices = getattr(parameter.type, "choices", None)
    value = "|".join(str(getattr(c, "value", c)) for c in choices) if choices else parameter.metavar or ""
    value = value.replace("|", "\\|")
    return f"`{names}" + ("`" if parameter.is_flag or not value else f" {value}`")


def _meaning(parameter: Any) -> str:
    default = parameter.default
    shown = default not in (None, False) and not _is_argument(parameter)
    return str(parameter.help) + (f" Default: `{default}`." if shown else "")


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


if __name__ == "__main__":
    print_reference()
