"""The tree of commands. The module of a command is imported when the command is called, so that it starts fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

from omnigraph.cli.command import HELP, build_command
from omnigraph.cli.errors import unknown_command


@dataclass(frozen=True, slots=True)
class CommandFamily:
    """Commands with a common first name. `commands` maps a name to the module that exports `COMMAND`."""

    help: str
    commands: Mapping[str, str]


COMMANDS: Final[Mapping[str, str | CommandFamily]] = {
    "init": "omnigraph.cli.commands.init",
    "load": "omnigraph.cli.commands.load",
    "export": "omnigraph.cli.commands.export",
    "query": "omnigraph.cli.commands.query",
    "mutate": "omnigraph.cli.commands.mutate",
    "lint": "omnigraph.cli.commands.lint",
    "explain": "omnigraph.cli.commands.explain",
    "snapshot": "omnigraph.cli.commands.snapshot",
    "schema": CommandFamily(
        "Show and change the schema of a graph.",
        {
            "show": "omnigraph.cli.commands.schema.show",
            "plan": "omnigraph.cli.commands.schema.plan",
            "apply": "omnigraph.cli.commands.schema.apply",
        },
    ),
    "branch": CommandFamily(
        "Create, list, merge and delete branches.",
        {
            "create": "omnigraph.cli.commands.branch.create",
            "list": "omnigraph.cli.commands.branch.list",
            "delete": "omnigraph.cli.commands.branch.delete",
            "merge": "omnigraph.cli.commands.branch.merge",
        },
    ),
    "commit": CommandFamily(
        "Show the history of a branch, and undo a commit.",
        {
            "list": "omnigraph.cli.commands.commit.list",
            "show": "omnigraph.cli.commands.commit.show",
            "changes": "omnigraph.cli.commands.commit.changes",
            "revert": "omnigraph.cli.commands.commit.revert",
        },
    ),
    "optimize": "omnigraph.cli.commands.optimize",
    "repair": "omnigraph.cli.commands.repair",
    "doctor": "omnigraph.cli.commands.doctor",
    "index": CommandFamily("Show the indexes.", {"status": "omnigraph.cli.commands.index_status"}),
    "changes": CommandFamily("Read the changes of a branch.", {"poll": "omnigraph.cli.commands.changes"}),
    "diff": "omnigraph.cli.commands.diff",
    "log": "omnigraph.cli.commands.log",
    "recovery": CommandFamily(
        "Show interrupted writes and their recovery.", {"list": "omnigraph.cli.commands.recovery_list"}
    ),
    "cleanup": "omnigraph.cli.commands.cleanup",
    "spark": CommandFamily(
        "Manage a running Spark server for later commands.",
        {
            "start": "omnigraph.cli.commands.spark.start",
            "stop": "omnigraph.cli.commands.spark.stop",
            "status": "omnigraph.cli.commands.spark.status",
        },
    ),
    "demo": "omnigraph.cli.demo.run",
    "version": "omnigraph.cli.commands.version",
}

_ABOUT: Final = """A versioned graph database on open Lance files.

    A graph is a directory or an S3 prefix: pass it as URI or as --store URI. Data is written to stdout, everything else
    to stderr. Exit codes: 0 success, 1 error, 2 usage, 3 refused, 4 precondition failed, 130 Ctrl-C, 143
    SIGTERM.
    """


class CommandGroup(TyperGroup):
    """A group whose error for an unknown name suggests a similar one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            raise unknown_command(ctx.command_path, args[0], tuple(self.commands))
        return super().resolve_command(ctx, args)


def make_command() -> CommandGroup:
    """Return the command line. No command is imported yet."""
    return _make_group("omnigraph", CommandFamily(_ABOUT, {}), COMMANDS)


class _LazyCommands(Mapping[str, TyperCommand | TyperGroup]):
    """Commands by name, each built when it is first looked up."""

    def __init__(self, entries: Mapping[str, str | CommandFamily]) -> None:
        self._entries = entries
        self._built: dict[str, TyperCommand | TyperGroup] = {}

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        if name not in self._built:
            self._built[name] = _build(name, self._entries[name])
        return self._built[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _build(name: str, entry: str | CommandFamily) -> TyperCommand | TyperGroup:
    if isinstance(entry, CommandFamily):
        return _make_group(name, entry, entry.commands)
    return build_command(name, import_module(entry).COMMAND)


def _make_group(name: str, family: CommandFamily, entries: Mapping[str, str | CommandFamily]) -> CommandGroup:
    group = CommandGroup(name=name, help=family.help, rich_markup_mode=None, context_settings=HELP)
    lazy: Any = _LazyCommands(entries)  # Typer reads it like a dict and never writes to it
    group.commands = lazy
    return group
