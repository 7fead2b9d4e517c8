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
    """Commands with a common first name, by their second name."""

    help: str
    commands: Mapping[str, str]


COMMANDS: Final[Mapping[str, str | CommandFamily]] = {
    "init": "commands.init.init",
    "load": "commands.load.load",
    "embed": "commands.embed.embed",
    "export": "commands.export.export",
    "query": "commands.query.query",
    "mutate": "commands.mutate.mutate",
    "lint": "commands.lint.lint",
    "explain": "commands.explain.explain",
    "snapshot": "commands.snapshot.snapshot",
    "schema": CommandFamily(
        "Show and change the schema of a graph.",
        {"show": "commands.schema.show", "plan": "commands.schema.plan", "apply": "commands.schema.apply"},
    ),
    "branch": CommandFamily(
        "Create, list, merge and delete branches.",
        {
            "create": "commands.branch.create",
            "list": "commands.branch.show_branches",
            "delete": "commands.branch.delete",
            "merge": "commands.merge.merge",
        },
    ),
    "commit": CommandFamily(
        "Show the history of a branch, and undo a commit.",
        {
            "list": "commands.commit.list_commits",
            "show": "commands.commit.show_commit",
            "changes": "commands.changes.changes_of_commit",
            "revert": "commands.merge.revert",
        },
    ),
    "maintain": "commands.maintain.maintain",
    "optimize": "commands.optimize.optimize",
    "repair": "commands.repair.repair",
    "doctor": "commands.doctor.doctor",
    "index": CommandFamily("Show the indexes.", {"status": "commands.index_status.index_status"}),
    "changes": CommandFamily("Read the changes of a branch.", {"poll": "commands.changes.poll"}),
    "diff": "commands.changes.diff",
    "log": "commands.log.log",
    "blob": CommandFamily(
        "Read the bytes of Blob properties.", {"get": "commands.blob.get", "stat": "commands.blob.stat"}
    ),
    "recovery": CommandFamily(
        "Show interrupted writes and their recovery.", {"list": "commands.recovery_list.list_recoveries"}
    ),
    "cleanup": "commands.cleanup.cleanup",
    "spark": CommandFamily(
        "Manage a running Spark server for later commands.",
        {"start": "commands.spark.start", "stop": "commands.spark.stop", "status": "commands.spark.status"},
    ),
    "policy": CommandFamily(
        "Check policies and ask them about requests.",
        {
            "validate": "commands.policy.validate",
            "test": "commands.policy.run_tests",
            "explain": "commands.policy.explain",
        },
    ),
    "cluster": CommandFamily(
        "Declare graphs, queries and policies in files, and deploy them.",
        {
            "validate": "commands.cluster.validate",
            "plan": "commands.cluster.plan",
            "apply": "commands.cluster.apply",
            "approve": "commands.cluster.approve",
            "status": "commands.cluster.status",
            "import": "commands.cluster.import_graphs",
        },
    ),
    "serve": "commands.serve.serve",
    "login": "commands.login.login",
    "logout": "commands.login.logout",
    "whoami": "commands.server_info.whoami",
    "graphs": CommandFamily("Show the graphs of a server.", {"list": "commands.server_info.list_graphs"}),
    "profile": CommandFamily("Show the profiles of the operator file.", {"list": "commands.profile.list_profiles"}),
    "mcp": "commands.mcp.mcp",
    "demo": "demo.run.demo",
    "completion": "commands.completion.completion",
    "version": "commands.version.version",
}
"""The functions of the commands below `omnigraph.cli`."""

_ABOUT: Final = """A versioned graph database on open Lance files.

    A graph is a directory or an S3 prefix: pass it as URI or as --store URI. --server uses a graph of a server. Data is
    written to stdout, everything else to stderr. Exit codes: 0 success, 1 error, 2 usage, 3 refused, 4 precondition
    failed, 130 Ctrl-C, 143 SIGTERM.

    `omnigraph help COMMAND` shows the flags of a command, and `omnigraph --version` the versions.
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
    module, _, function = entry.rpartition(".")
    return build_command(name, getattr(import_module(f"omnigraph.cli.{module}"), function))


def _make_group(name: str, family: CommandFamily, entries: Mapping[str, str | CommandFamily]) -> CommandGroup:
    group = CommandGroup(name=name, help=family.help, rich_markup_mode=None, context_settings=HELP)
    lazy: Any = _LazyCommands(entries)  # Typer reads it like a dict and never writes to it
    group.commands = lazy
    return group
