"""Resolves URI and `--store` to one location, and asks for confirmation before data of a remote graph is deleted.

In: arguments. Out: a location, or an error for what cannot be the address of a graph. Only `GraphArguments.open` reads
the store.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import typer

from omnigraph.base.errors import ConfirmationRequiredError, UsageError
from omnigraph.cli.errors import PASS_A_URI, ExitCode
from omnigraph.cli.options import Store, Uri
from omnigraph.storage.location import Location, Scheme, parse_location

if TYPE_CHECKING:
    from omnigraph.api.graph import Graph

SUFFIX: Final = ".omni"
"""The usual suffix of graphs. Branches, commits and queries never have it."""


@dataclass(frozen=True, slots=True)
class GraphArguments:
    """The graph of a command, as URI or `--store`."""

    context: typer.Context
    uri: Uri = None
    store: Store = None

    @property
    def address(self) -> str | None:
        """The graph as the caller typed it."""
        return self.uri if self.uri is not None else self.store

    def locate(self) -> Location:
        """Return the location of the graph."""
        if self.uri is not None and self.store is not None and self.uri != self.store:
            raise UsageError(
                f"expected one graph, got '{self.uri}' and --store '{self.store}'",
                code="target_twice",
                hint="Pass URI or `--store`: they have the same meaning.",
            )
        if self.address is None:
            raise UsageError(_missing_graph(self.context), code="target_missing", hint=PASS_A_URI)
        return locate(self.context, self.address)

    def locate_and_print(self) -> Location:
        """Return the location of the graph, and print it on stderr before it is opened."""
        location = self.locate()
        print_location(self.context, location)
        return location

    def open(self, branch: str = "main", *, spark: str | None = None) -> Graph:
        """Open the graph read-only."""
        location = self.locate()

        from omnigraph.api.graph import Graph

        return Graph(location, branch=branch, read_only=True, spark=spark)


def locate(context: typer.Context, address: str) -> Location:
    """Return the location of an address; raise if a command cannot use it."""
    command = context.command_path
    if address.lower().startswith(("http://", "https://")):
        raise UsageError(
            f"`{command}` cannot use the server address '{address}': it works on storage directly",
            code="uri_is_server",
            hint=PASS_A_URI,
        )
    location = parse_location(address)
    if location.scheme is Scheme.MEMORY:
        raise UsageError(
            f"`{command}` cannot use '{address}': a graph in memory is deleted when its process ends",
            code="uri_is_memory",
            hint=PASS_A_URI,
        )
    return location


def print_location(context: typer.Context, location: Location) -> None:
    """Print on stderr the graph that a command will use."""
    if not context.obj.quiet:
        reach = "local" if location.is_local else "remote"
        sys.stderr.write(f"{context.command_path} → {location} (direct, {reach})\n")


def confirm_destruction(context: typer.Context, location: Location, action: str, *, yes: bool) -> None:
    """Ask for confirmation before data is deleted. Raise without a terminal; exit if the user declines."""
    if location.is_local or yes:
        return
    can_ask = not context.obj.json and not context.obj.quiet and sys.stdin.isatty() and sys.stderr.isatty()
    if can_ask:
        if _ask(f"{action} deletes data at {location}. Continue?"):
            return
        sys.stderr.write("cancelled: nothing was changed\n")
        raise typer.Exit(ExitCode.REFUSED)
    raise ConfirmationRequiredError(
        f"{action} deletes data at {location}: expected a confirmation",
        code="confirmation_missing",
        hint="Nothing was changed. Pass `--yes` to confirm.",
        facts={"uri": location.uri},
    )


def _ask(question: str) -> bool:
    """Return whether the answer is yes. The end of the input means no. A signal ends the command."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort as aborted:
        sys.stderr.write("\n")
        if isinstance(aborted.__context__, KeyboardInterrupt):  # Typer raises Abort for both
            raise KeyboardInterrupt from aborted
        return False


def _missing_graph(context: typer.Context) -> str:
    """Return the message, and name an argument that looks like a graph."""
    message = f"missing graph: `{context.command_path}` requires a graph"
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.param_type_name == "argument" and isinstance(value, str) and value.endswith(SUFFIX):
            return f"{message}, but '{value}' was read as its {parameter.human_readable_name}"
    return message
