"""The actor of a write: the name in the history that says who wrote a commit.

In: the `actor` of a call, or None. Out: that name, checked, and the login name, which callers use as the default. Never
reads or writes the history.
"""

from __future__ import annotations

import getpass
from typing import Final

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


def require_actor_name(actor: str | None) -> str | None:
    """Return the actor of a call; raise for a name without visible characters."""
    if actor is not None and not actor.strip():
        raise UsageError(
            "the actor is blank: expected a name",
            code="actor_blank",
            hint=hint("Pass {}, or omit it to use your login name.", Argument("actor", Placeholder("NAME"))),
        )
    return actor
