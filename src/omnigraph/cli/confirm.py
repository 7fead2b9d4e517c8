"""Asks before something is destroyed. A local graph is the caller's own; elsewhere somebody must agree to it."""

from __future__ import annotations

import sys

import typer

from omnigraph.base.errors import RefusedError
from omnigraph.storage.location import Location


def confirm_destruction(
    context: typer.Context, location: Location, action: str, *, yes: bool, as_json: bool
) -> None:
    """Return when the action may go on; raise `RefusedError` when nobody agreed to it."""
    if location.is_local or yes:
        return
    is_asked = not as_json and not context.obj.quiet and sys.stdin.isatty() and sys.stderr.isatty()
    if is_asked and _is_agreed(f"{action} destroys data at {location}. Go on?"):
        return
    raise RefusedError(
        f"{action} destroys data at {location}, and nobody agreed to it",
        code="confirmation_missing",
        hint="pass --yes",
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
