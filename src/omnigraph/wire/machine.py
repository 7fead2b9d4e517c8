"""The JSON documents about this machine: the installed versions, and the warm Spark server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from omnigraph.pipeline.spark.warm_server import ServerStatus


class VersionOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The versions of Omnigraph, its storage format, Python, Lance and Spark; null if a package is not installed."""

    version: str
    internal_schema_version: int
    python: str
    lance: str | None
    pyspark: str | None


class SparkStatusOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the warm Spark server, without its token. `started` is present after `spark start`."""

    started: bool | msgspec.UnsetType = msgspec.UNSET
    status: str
    in_use: bool
    pid: int | None
    port: int | None
    started_at: int | None
    idle_minutes: float | None


class SparkStopOutput(msgspec.Struct, frozen=True):
    """Whether a warm Spark server was running and was stopped."""

    stopped: bool


def spark_status_output(status: ServerStatus, *, started: bool | None = None) -> SparkStatusOutput:
    """Return the document of the warm Spark server. `started`: whether this call started it."""
    server = status.server
    return SparkStatusOutput(
        started=msgspec.UNSET if started is None else started,
        status=status.health.value,
        in_use=status.in_use,
        pid=server.process.pid if server else None,
        port=server.port if server else None,
        started_at=server.started_us if server else None,
        idle_minutes=server.idle_seconds / 60 if server else None,
    )
