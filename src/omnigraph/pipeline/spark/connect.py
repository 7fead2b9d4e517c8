"""Connects to a Spark Connect server: the driver is there, this process only describes the work.

In: an address such as `sc://host:port/;token=…`. Out: a session. A server that does not answer is said so at once,
where Spark's own client would go on trying for minutes.
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
    """A session on the server at the address; there must be none in this process."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    host, port = _host_and_port(address)
    if not is_listening(host, port):
        raise _unreachable(f"{host}:{port}", "nobody listens there")
    settings = {name: value for name, value in {**_SETTINGS, **conf}.items() if name != "spark.master"}
    try:
        builder = SparkSession.builder.remote(address)
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.version  # noqa: B018  # the first question shows whether the server lets us in
    except PySparkException as error:
        raise _unreachable(f"{host}:{port}", str(error).strip().partition("\n")[0][:400]) from error
    return session


def is_connect(session: SparkSession) -> bool:
    """Whether the session talks to a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def is_on_this_machine(session: SparkSession) -> bool:
    """Whether the executors surely run here, with this Python and these files; a local cluster's do too."""
    return not is_connect(session) and str(session.sparkContext.master).startswith("local")


def is_private(session: SparkSession) -> bool:
    """Whether what is sent to the executors stays on this machine, on connections that ask for a token.

    The executors of a local cluster are processes on this machine, but nothing asks who connects to them.
    """
    if is_connect(session):
        return session in _private
    return str(session.sparkContext.master).partition("[")[0] == "local"


def trust(session: SparkSession) -> None:
    """The server of this session is this user's own, on this machine, and asks for a token."""
    _private.add(session)


def is_connect_address(place: str) -> bool:
    """Whether this is the address of a Connect server and not a master."""
    return place.startswith("sc://")


def is_listening(host: str, port: int) -> bool:
    """Whether somebody takes connections there."""
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
        f"'{address}' is no address of a Spark Connect server",
        code="spark_address",
        hint="write it as sc://host:port",
    )


def _unreachable(place: str, reason: str) -> MachineError:
    return MachineError(
        f"the Spark Connect server at {place} cannot be used: {reason}",
        code="spark_unreachable",
        hint="check the address and the token, or start the server",
        facts={"server": place},
    )
