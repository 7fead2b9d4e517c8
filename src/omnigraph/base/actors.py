"""The identity of a process, and whether the process that holds a lease or a marker is known to have ended.

In: identities as they are stored in control objects. Out: running, ended or unknown, by one pure function,
`check_process`. *Ended* is certain: host name, machine id, boot id and PID namespace are this process's own, `/proc`
shows the processes of that user, and no process has that pid and start time. Everything else is unknown, because
containers share host names and `/proc` may hide processes. Nothing here writes.
"""

from __future__ import annotations

import getpass

from omnigraph.base.errors import UsageError


def login_name() -> str:
    """Whom this process runs for."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def refuse_blank_actor(actor: str | None) -> str | None:
    """The actor that was named, if one was; raise for a name that nobody could read in the history."""
    if actor is not None and not actor.strip():
        raise UsageError(
            "the actor has no name",
            code="actor_blank",
            hint="name who writes, or leave --as out for your login name",
        )
    return actor
