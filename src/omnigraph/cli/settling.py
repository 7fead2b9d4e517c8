"""What commands of maintenance that write do first: finish or undo what crashed writers left, on every branch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from omnigraph.cli.output import printable

if TYPE_CHECKING:
    from omnigraph.graph.recovery.run import Recovered
    from omnigraph.storage.location import Location


def settle(context: typer.Context, location: Location) -> None:
    """Recover, and tell on stderr what became of each write that had stopped half-way."""
    from omnigraph.graph.recovery.on_open import recover_every_branch

    for done in recover_every_branch(location):
        if not context.obj.quiet:
            sys.stderr.write(f"note: {printable(_told(done))}\n")


def _told(done: Recovered) -> str:
    write = f"a write of {done.intent.actor} on {done.intent.branch} that had stopped half-way ({done.intent.kind})"
    is_there = done.action.value in {"finished", "rolled_forward"}
    return f"{write} is there now: commit {done.intent.commit_id}" if is_there else f"{write} was undone"
