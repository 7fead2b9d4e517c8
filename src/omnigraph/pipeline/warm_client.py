"""Uses the warm local server, when there is one.

A command finds it by the file in the cache directory, holds it as long as this process lives, and goes on without it
when it does not answer. It never starts one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Final

from omnigraph.base.errors import MachineError
from omnigraph.pipeline.connect import connect_session, trust
from omnigraph.pipeline.executors import assume_ready
from omnigraph.pipeline.warm_state import Health, check_health, read_server, use_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_held: Final[list[IO[bytes]]] = []


def warm_session(conf: Mapping[str, str], *, shared: bool = True) -> SparkSession | None:
    """A session on the warm server, the shared one or a new one; None when this installation can use none."""
    if read_server() is None:
        return None
    hold = use_server()
    server = read_server()  # again: it may have ended before we held it
    if server is not None and check_health(server) is Health.RUNNING:
        for address in (server.shared_address, server.address) if shared else (server.address,):
            with suppress(MachineError):
                session = connect_session(address, conf)
                if shared:
                    _keep_open(session)
                assume_ready(session)
                trust(session)
                _held.append(hold)
                return session
    hold.close()
    return None


def _keep_open(session: Any) -> None:
    """Stopping it here must not close the session that other commands share."""
    session.release_session_on_close = False
