"""Chooses the Spark session that bulk work runs on, and starts a local one when there is none.

In order: the session that is active in this process; the master that the caller, the configuration or Spark's own
files name; the Spark Connect server in `SPARK_REMOTE`; the warm local server; a new local session. The same code then
runs on all of them. A local session says nothing, listens on loopback only, and ends with this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from omnigraph.base.errors import MachineError, UsageError
from omnigraph.base.java import find_java
from omnigraph.pipeline.jvm import (
    START_FLAGS,
    exchanged_environment,
    jvm_environment,
    kept_signal_handlers,
    launch_jvm,
    spark_log,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER: Final = "local[*]"

_QUIET: Final = {
    "spark.app.name": "omnigraph",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.catalogImplementation": "in-memory",
}
_ON_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """What the caller says about Spark. `master` may also be a Connect address, `sc://host:port`."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


def spark_session(settings: SparkSettings | None = None) -> SparkSession:
    """A ready session."""
    settings = settings or SparkSettings()
    master = settings.master or settings.conf.get("spark.master")
    active = _active_session()
    if active is not None:
        return _agreeing(active, master)
    return _classic_session(master or LOCAL_MASTER, settings.conf)


def is_connect(session: SparkSession) -> bool:
    """Whether the session talks to a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def _active_session() -> SparkSession | None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _agreeing(active: SparkSession, master: str | None) -> SparkSession:
    """The active session, unless the caller names another place: one process has one."""
    running = active.conf.get("spark.master", None) if is_connect(active) else active.sparkContext.master
    if master is None or master == running:
        return active
    raise UsageError(
        f"this process has a Spark session on {running} already and cannot use {master} as well",
        code="spark_session_exists",
        hint="stop that session first, or leave the master out",
    )


def _classic_session(master: str, conf: Mapping[str, str]) -> SparkSession:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    java = find_java()
    on_loopback = _is_on_loopback(master)
    chosen = SparkConf(loadDefaults=False)
    for name, value in {**_QUIET, **(_ON_LOOPBACK if on_loopback else {}), **conf}.items():
        chosen.set(name, value)
    chosen.setMaster(master)
    environ = jvm_environment(java, START_FLAGS, on_loopback)
    with kept_signal_handlers():
        gateway = None if SparkContext._gateway else launch_jvm(chosen, environ)
        with exchanged_environment(environ):
            try:
                SparkContext(conf=chosen, gateway=gateway)
                return SparkSession.builder.getOrCreate()
            except (Py4JJavaError, ValueError) as error:
                raise _unreachable(master, error) from error


def _is_on_loopback(master: str) -> bool:
    return master.startswith(("local", "spark://127.0.0.1:", "spark://localhost:"))


def _unreachable(master: str, error: Exception) -> MachineError:
    log = spark_log()
    return MachineError(
        f"Spark did not start on {master}: {_first_line(error)}",
        code="spark_not_started",
        hint=f"check the master's address; {log} says more",
        facts={"master": master, "log": str(log)},
    )


def _first_line(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() or java) if java is not None else str(error)
    return text.strip().partition("\n")[0][:400]
