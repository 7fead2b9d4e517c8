"""Which graph a command means: the URI and `--store` resolved to one location, refused early when it cannot be one."""

from __future__ import annotations

import sys
from typing import Final

import typer

from omnigraph.base.errors import ConfirmationRequiredError, UsageError
from omnigraph.cli.errors import PASS_A_STORE, PASS_A_URI, ExitCode
from omnigraph.storage.location import Location, Scheme, parse_location


def confirm_destruction(
    context: typer.Context, location: Location, action: str, *, yes: bool, as_json: bool
) -> None:
    """Return if the action is confirmed; raise without a terminal, and exit if the answer is no."""
    if location.is_local or yes:
        return
    is_asked = not as_json and not context.obj.quiet and sys.stdin.isatty() and sys.stderr.isatty()
    if is_asked:
        if _is_agreed(f"{action} destroys data at {location}. Continue?"):
            return
        sys.stderr.write("cancelled: nothing was changed\n")
        raise typer.Exit(ExitCode.REFUSED)
    raise ConfirmationRequiredError(
        f"{action} destroys data at {location}, which needs a confirmation",
        code="confirmation_missing",
        hint="Nothing was changed. Pass --yes to confirm",
        facts={"uri": location.uri},
    )


def _is_agreed(question: str) -> bool:
    """The answer; whoever ends the input instead of answering has not agreed. A signal ends the command."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort as ended:
        sys.stderr.write("\n")
        if isinstance(ended.__context__, KeyboardInterrupt):  # Abort stands for both
            raise KeyboardInterrupt from ended
        return False


SUFFIX: Final = ".omni"
"""What graphs are mostly called; no branch, commit or query is."""


def resolve_target(context: typer.Context, uri: str | None, store: str | None) -> Location:
    """The location that the caller named, by either way."""
    command = context.command_path
    if uri is not None and store is not None and uri != store:
        raise UsageError(
            f"two graphs are named: '{uri}' and --store '{store}'",
            code="target_twice",
            hint="URI and --store mean the same; pass one of them",
        )
    text = uri if uri is not None else store
    if text is None:
        raise UsageError(f"`{command}` {_without_graph(context)}", code="target_missing", hint=PASS_A_URI)
    if text.lower().startswith(("http://", "https://")):
        raise UsageError(
            f"`{command}` cannot use the server address '{text}': it works on storage directly",
            code="uri_is_server",
            hint=PASS_A_URI,
        )
    location = parse_location(text)
    if location.scheme is Scheme.MEMORY:
        raise UsageError(
            f"a graph in memory ends with its process, so `{command}` cannot use '{text}'",
            code="uri_is_memory",
            hint=PASS_A_URI,
        )
    return location


def _without_graph(context: typer.Context) -> str:
    """What is missing, and which word was taken for something else."""
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.param_type_name == "argument" and isinstance(value, str) and value.endswith(SUFFIX):
            return f"takes '{value}' for its {parameter.human_readable_name}, and needs a graph"
    return "needs a graph"


def named_target(context: typer.Context, name: str | None, store: str | None) -> Location:
    """The same for commands whose word is the name of a query, where a graph is easily put by mistake."""
    if store is None:
        looks_like_graph = name is not None and ("/" in name or name.endswith(SUFFIX))
        raise UsageError(
            f"`{context.command_path}` takes '{name}' for the name of a query"
            if looks_like_graph
            else f"`{context.command_path}` needs a graph",
            code="target_missing",
            hint=f"pass --store {name}" if looks_like_graph else PASS_A_STORE,
        )
    return resolve_target(context, None, store)


def direct_target(context: typer.Context, uri: str | None, store: str | None) -> Location:
    """The location that a maintenance command works on, told on stderr before anything is opened."""
    location = resolve_target(context, uri, store)
    announce_target(context, location)
    return location


def announce_target(context: typer.Context, location: Location) -> None:
    """Tell on stderr what a command is about to work on."""
    if not context.obj.quiet:
        reach = "local" if location.is_local else "remote"
        sys.stderr.write(f"{context.command_path} → {location} (direct, {reach})\n")
