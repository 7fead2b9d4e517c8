"""Resolves URI and `--store` to one location, and asks before data of a remote graph is deleted.

In: arguments. Out: a location, or an error for what cannot be the address of a graph. It does not read the store.
"""

from __future__ import annotations

import sys
from typing import Final

import typer

from omnigraph.base.errors import ConfirmationRequiredError, UsageError
from omnigraph.cli.errors import PASS_A_STORE, PASS_A_URI, ExitCode
from omnigraph.storage.location import Location, Scheme, parse_location


def confirm_destruction(context: typer.Context, location: Location, action: str, *, yes: bool, as_json: bool) -> None:
    """Return if the action is confirmed. Raise without a terminal; exit if the user declines."""
    if location.is_local or yes:
        return
    can_ask = not as_json and not context.obj.quiet and sys.stdin.isatty() and sys.stderr.isatty()
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


SUFFIX: Final = ".omni"
"""The usual suffix of graphs. Branches, commits and queries never have it."""


def resolve_target(context: typer.Context, uri: str | None, store: str | None) -> Location:
    """Return the location of URI or `--store`."""
    command = context.command_path
    if uri is not None and store is not None and uri != store:
        raise UsageError(
            f"expected one graph, got '{uri}' and --store '{store}'",
            code="target_twice",
            hint="Pass URI or `--store`: they have the same meaning.",
        )
    text = uri if uri is not None else store
    if text is None:
        raise UsageError(f"`{command}` {_missing_graph(context)}", code="target_missing", hint=PASS_A_URI)
    if text.lower().startswith(("http://", "https://")):
        raise UsageError(
            f"`{command}` cannot use the server address '{text}': it works on storage directly",
            code="uri_is_server",
            hint=PASS_A_URI,
        )
    location = parse_location(text)
    if location.scheme is Scheme.MEMORY:
        raise UsageError(
            f"`{command}` cannot use '{text}': a graph in memory is deleted when its process ends",
            code="uri_is_memory",
            hint=PASS_A_URI,
        )
    return location


def _missing_graph(context: typer.Context) -> str:
    """Return that a graph is missing, and which argument looks like one."""
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.param_type_name == "argument" and isinstance(value, str) and value.endswith(SUFFIX):
            return f"needs a graph: '{value}' was read as its {parameter.human_readable_name}"
    return "needs a graph"


def named_target(context: typer.Context, name: str | None, store: str | None) -> Location:
    """Return the location of `--store` for commands whose argument is the name of a query, not a URI."""
    if store is None:
        looks_like_graph = name is not None and ("/" in name or name.endswith(SUFFIX))
        raise UsageError(
            f"`{context.command_path}` needs a graph: '{name}' was read as the name of a query"
            if looks_like_graph
            else f"`{context.command_path}` needs a graph",
            code="target_missing",
            hint=f"Pass `--store {name}`." if looks_like_graph else PASS_A_STORE,
        )
    return resolve_target(context, None, store)


def direct_target(context: typer.Context, uri: str | None, store: str | None) -> Location:
    """Return the location of a maintenance command, and print it on stderr before it is opened."""
    location = resolve_target(context, uri, store)
    announce_target(context, location)
    return location


def announce_target(context: typer.Context, location: Location) -> None:
    """Print on stderr the graph that a command will use."""
    if not context.obj.quiet:
        reach = "local" if location.is_local else "remote"
        sys.stderr.write(f"{context.command_path} → {location} (direct, {reach})\n")
