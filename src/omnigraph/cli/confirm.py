"""Asks before something is destroyed. A local graph is the caller's own; elsewhere somebody must agree to it."""

from __future__ import annotations

import sys

import typer

from omnigraph.base.errors import RefusedError
from omnigraph.cli.errors import ExitCode
from omnigraph.storage.location import Location


def confirm_destruction(
    context: typer.Context, location: Location, action: str, *, yes: bool, as_json: bool
) -> None:
    """Return if the action is confirmed; raise `RefusedError` without a terminal, and exit if the answer is no."""
    if location.is_local or yes:
        return
    is_asked = not as_json and not context.obj.quiet and sys.stdin.isatty() and sys.stderr.isatty()
    if is_asked:
        if _is_agreed(f"{action} destroys data at {location}. Continue?"):
            return
        sys.stderr.write("cancelled: nothing was changed\n")
        raise typer.Exit(ExitCode.REFUSED)
    raise RefusedError(
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
