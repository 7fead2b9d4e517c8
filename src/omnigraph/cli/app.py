"""The tree of commands. A command's file is imported when its name is typed, so that no command pays for another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

from omnigraph.cli.command import HELP, build_command
from omnigraph.cli.usage import unknown_command


@dataclass(frozen=True, slots=True)
class Family:
    """Commands under one word. `commands` maps a name to the module that exports `COMMAND`."""

    help: str
    commands: Mapping[str, str]


COMMANDS: Final[Mapping[str, str | Family]] = {
    "init": "omnigraph.cli.init",
    "load": "omnigraph.cli.load",
    "export": "omnigraph.cli.export",
    "query": "omnigraph.cli.query",
    "mutate": "omnigraph.cli.mutate",
    "lint": "omnigraph.cli.lint",
    "explain": "omnigraph.cli.explain",
    "snapshot": "omnigraph.cli.snapshot",
    "schema": Family(
        "Look at the accepted schema, and change it.",
        {
            "show": "omnigraph.cli.schema_show",
            "plan": "omnigraph.cli.schema_plan",
            "apply": "omnigraph.cli.schema_apply",
        },
    ),
    "branch": Family(
        "Work on branches of a graph.",
        {
            "create": "omnigraph.cli.branch_create",
            "list": "omnigraph.cli.branch_list",
            "delete": "omnigraph.cli.branch_delete",
            "merge": "omnigraph.cli.branch_merge",
        },
    ),
    "commit": Family(
        "Look at the history of a branch, and undo a commit.",
        {
            "list": "omnigraph.cli.commit_list",
            "show": "omnigraph.cli.commit_show",
            "changes": "omnigraph.cli.commit_changes",
            "revert": "omnigraph.cli.commit_revert",
        },
    ),
    "optimize": "omnigraph.cli.optimize",
    "repair": "omnigraph.cli.repair",
    "doctor": "omnigraph.cli.doctor",
    "index": Family("Look at the indexes.", {"status": "omnigraph.cli.index_status"}),
    "changes": Family("Follow the changes of a branch.", {"poll": "omnigraph.cli.changes_poll"}),
    "diff": "omnigraph.cli.diff",
    "log": "omnigraph.cli.log",
    "recovery": Family("Look at writes that stopped half-way.", {"list": "omnigraph.cli.recovery_list"}),
    "cleanup": "omnigraph.cli.cleanup",
    "spark": Family(
        "Keep a Spark warm for later commands.",
        {
            "start": "omnigraph.cli.spark_start",
            "stop": "omnigraph.cli.spark_stop",
            "status": "omnigraph.cli.spark_status",
        },
    ),
    "demo": "omnigraph.cli.demo",
    "version": "omnigraph.cli.version",
}

_ABOUT: Final = """A versioned graph database on open Lance files.

    A graph is a directory or an S3 prefix: pass it as URI or as --store URI. Data goes to stdout, everything else to
    stderr. Exit codes: 0 done, 1 error, 2 usage, 3 refused, 4 precondition failed, 130 Ctrl-C, 143
    SIGTERM.
    """


class CommandGroup(TyperGroup):
    """A group that answers an unknown name with a suggestion."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            raise unknown_command(ctx.command_path, args[0], tuple(self.commands))
        return super().resolve_command(ctx, args)


def make_command() -> CommandGroup:
    """The whole command line, none of it loaded yet."""
    return _make_group("omnigraph", Family(_ABOUT, {}), COMMANDS)


class _LazyCommands(Mapping[str, TyperCommand | TyperGroup]):
    """Commands by name, each built when it is first looked up."""

    def __init__(self, entries: Mapping[str, str | Family]) -> None:
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


def _build(name: str, entry: str | Family) -> TyperCommand | TyperGroup:
    if isinstance(entry, Family):
        return _make_group(name, entry, entry.commands)
    return build_command(import_module(entry).COMMAND)


def _make_group(name: str, family: Family, entries: Mapping[str, str | Family]) -> CommandGroup:
    group = CommandGroup(name=name, help=family.help, rich_markup_mode=None, context_settings=HELP)
    lazy: Any = _LazyCommands(entries)  # read like a dict, never written to
    group.commands = lazy
    return group
