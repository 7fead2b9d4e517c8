"""The actor of a write: the name in the history that says who wrote a commit.

In: the `actor` of a call, or None. Out: that name, checked, and the login name, which callers use as the default.
Tokens and policies have the same rules for names. Never reads or writes the history.
"""

from __future__ import annotations

import getpass
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.base.hints import Argument, Placeholder, hint

SYSTEM_PREFIX: Final = "omnigraph:"
"""The names of actors of the system start with it; no caller may use one."""


def login_name() -> str:
    """Return the login name of the user of this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def find_actor_problem(actor: str) -> str | None:
    """Return why a name cannot be that of an actor; None if it can."""
    if actor.startswith(SYSTEM_PREFIX):
        return f"'{actor}' is an actor of the system"
    if not actor or actor != actor.strip() or not actor.isprintable() or len(actor) > limits.ACTOR_LENGTH_MAX:
        return (
            f"invalid actor id '{actor}': expected 1 to {limits.ACTOR_LENGTH_MAX} printable characters "
            "without leading or trailing blanks"
        )
    return None


def require_actor_name(actor: str | None) -> str | None:
    """Return the actor of a call; raise if its name is blank, not valid, or one of the system."""
    advice = hint("Pass {}, or omit it to use your login name.", Argument("actor", Placeholder("NAME")))
    if actor is not None and not actor.strip():
        raise UsageError("the actor is blank: expected a name", code="actor_blank", hint=advice)
    problem = None if actor is None else find_actor_problem(actor)
    if problem is not None:
        raise UsageError(problem, code="actor_invalid", hint=advice, facts={"actor": actor})
    return actor
