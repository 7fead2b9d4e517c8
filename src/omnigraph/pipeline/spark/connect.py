"""Connects to a Spark Connect server, where the driver runs.

In: an address such as `sc://host:port/;token=…`. Out: a session. An unreachable server is reported immediately; Spark's
own client would retry for minutes. Which sessions are private, so that secrets may be sent, is decided here too.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from weakref import WeakSet

from omnigraph.base import limits
from omnigraph.base.errors import MachineError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PORT: Final = 15002
_SETTINGS: Final = {"spark.sql.caseSensitive": "true", "spark.sql.execution.arrow.pyspark.enabled": "true"}
_private: Final[WeakSet[Any]] = WeakSet()


def connect_session(address: str, conf: Mapping[str, str]) -> SparkSession:
    """Return a session on the server at the address. This process must have no other session."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    host, port = _host_and_port(address)
    if not is_listening(host, port):
        raise _unreachable(f"{host}:{port}", "connection refused")
    settings = {name: value for name, value in {**_SETTINGS, **conf}.items() if name != "spark.master"}
    try:
        builder = SparkSession.builder.remote(address)
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.version  # noqa: B018  # the first request shows whether the server accepts the token
    except PySparkException as error:
        raise _unreachable(f"{host}:{port}", str(error).strip().partition("\n")[0][:400]) from error
    return session


def is_connect(session: SparkSession) -> bool:
    """Return whether the session is on a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def is_on_this_machine(session: SparkSession) -> bool:
    """Return whether the executors are known to run here, with this Python and these files, as in a local cluster."""
    return not is_connect(session) and str(session.sparkContext.master).startswith("local")


def is_private(session: SparkSession) -> bool:
    """Return whether data for the executors stays on this machine, on connections that require a token.

    The executors of a local cluster are processes on this machine, but their connections require no token.
    """
    if is_connect(session):
        return session in _private
    return str(session.sparkContext.master).partition("[")[0] == "local"


def trust(session: SparkSession) -> None:
    """Mark the server of this session as this user's own: on this machine, and with a token."""
    _private.add(session)


def is_connect_address(server: str) -> bool:
    """Return whether this is the address of a Connect server and not a master."""
    return server.startswith("sc://")


def is_listening(host: str, port: int) -> bool:
    """Return whether a process accepts connections at this port."""
    with suppress(OSError), socket.create_connection((host, port), timeout=limits.SPARK_CONNECT_SECONDS_MAX):
        return True
    return False


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        parts = urlsplit(address)
        if parts.hostname:
            return parts.hostname, parts.port or _PORT
    except ValueError:
        pass
    raise UsageError(
        f"invalid address of a Spark Connect server: expected sc://host:port, got '{address}'",
        code="spark_address",
        hint="Pass an address such as `sc://localhost:15002`.",
    )


def _unreachable(server: str, reason: str) -> MachineError:
    return MachineError(
        f"Spark Connect server at {server} is not usable: {reason}",
        code="spark_unreachable",
        hint="Check the address and the token, or start the server.",
        facts={"server": server},
    )
