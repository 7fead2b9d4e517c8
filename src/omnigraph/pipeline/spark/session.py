"""Chooses the Spark session that bulk work runs on, and starts a local one when there is none.

In order: the session that is active in this process; the master that the caller, the configuration or Spark's own
files name; the Spark Connect server in `SPARK_REMOTE`; the warm local server; a new local session. The same code then
runs on all of them. A local session says nothing, listens on loopback only, and ends with this process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omnigraph.base.errors import MachineError, UsageError
from omnigraph.pipeline.spark.class_archive import build_when_worthwhile, class_archive
from omnigraph.pipeline.spark.connect import connect_session, is_connect, is_connect_address
from omnigraph.pipeline.spark.java import Java, find_java
from omnigraph.pipeline.spark.jvm import (
    START_FLAGS,
    exchanged_environment,
    jvm_environment,
    kept_signal_handlers,
    launch_jvm,
    spark_log,
)
from omnigraph.pipeline.spark.warm_server import warm_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET: Final = {
    "spark.app.name": "omnigraph",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.catalogImplementation": "in-memory",
}
ON_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# Tasks hold the storage settings of the caller: what Spark writes to its temporary files is encrypted.
ENCRYPTED: Final = {"spark.io.encryption.enabled": "true"}
# As in Java's own files of properties: a value may hold what separates it from its name.
_SETTING: Final = re.compile(r"(?P<name>[^=:\s]+)\s*[=:\s]\s*(?P<value>.+)")


def start_classic_session(
    master: str, conf: Mapping[str, str], java: Java, flags: tuple[str, ...]
) -> SparkSession:
    """A new session; there must be none in this process."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    on_loopback = _is_on_loopback(master)
    is_local = master.partition("[")[0] == "local"
    ours = {**QUIET, **(ON_LOOPBACK if on_loopback else {}), **(ENCRYPTED if is_local else {})}
    theirs = read_spark_defaults()
    chosen = SparkConf(loadDefaults=False)
    for name, value in {**{name: ours[name] for name in ours if name not in theirs}, **conf}.items():
        chosen.set(name, value)
    chosen.setMaster(master)
    environ = jvm_environment(java, flags, on_loopback)
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)  # left behind by a Connect session that has ended
    with kept_signal_handlers():
        gateway = None if SparkContext._gateway else launch_jvm(chosen, environ)
        with exchanged_environment(environ):
            try:
                context: Any = SparkContext(conf=chosen, gateway=gateway)
                # It would print a traceback when the JVM is killed, which whoever waits for a job tells better.
                context._accumulatorServer.handle_error = lambda *_: None
                return SparkSession.builder.getOrCreate()
            except Py4JJavaError as error:
                raise _not_started(master, error) from error


def read_spark_defaults(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the user's `spark-defaults.conf` says."""
    folder = environ.get("SPARK_CONF_DIR") or (
        f"{environ['SPARK_HOME']}/conf" if environ.get("SPARK_HOME") else ""
    )
    path = Path(folder, "spark-defaults.conf")
    if not folder or not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    found = (_SETTING.fullmatch(line) for line in lines if not line.startswith("#"))
    return {setting["name"]: setting["value"] for setting in found if setting}


def _is_on_loopback(master: str) -> bool:
    return master.startswith(("local", "spark://127.0.0.1:", "spark://localhost:"))


def _not_started(master: str, error: Exception) -> MachineError:
    log = spark_log()
    return MachineError(
        f"Spark did not start on {master}: {_sentence(error)}",
        code="spark_not_started",
        hint=f"check the master's address; {log} says more",
        facts={"master": master, "log": str(log)},
    )


def _sentence(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() or java) if java is not None else str(error)
    return text.strip().partition("\n")[0][:400]


LOCAL_MASTER: Final = "local[*]"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """What the caller says about Spark. `master` may also be a Connect address, `sc://host:port`."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    session: SparkSession | None = None
    """A session to use as it is."""


def session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A ready session: the active one, that of `master` or of Spark's settings, the warm one, or a new local one."""
    return spark_session(SparkSettings(master, conf or {}), shared=False)


def spark_settings(spark: str | SparkSession | None) -> SparkSettings:
    """Return the settings for a master, a Connect address or a session; None is the configured Spark."""
    return SparkSettings(master=spark) if isinstance(spark, str | None) else SparkSettings(session=spark)


def spark_session(settings: SparkSettings | None = None, *, shared: bool = True) -> SparkSession:
    """A ready session. `shared`: on the warm server it is the one that all commands use, with its workers.

    What a program registers or names in its session is its own, the data source with its storage settings above all.
    """
    settings = settings or SparkSettings()
    if settings.session is not None:
        return settings.session
    asked = settings.master or settings.conf.get("spark.master")
    active = active_session()
    if active is not None:
        return _agreeing(active, asked)
    place = asked or configured_master()
    if place is None:
        return warm_session(settings.conf, shared=shared) or _local_session(LOCAL_MASTER, settings.conf)
    if is_connect_address(place):
        return connect_session(place, settings.conf)
    if place.startswith("local") and not place.startswith("local-cluster"):
        return _local_session(place, settings.conf)
    return start_classic_session(place, settings.conf, find_java(), START_FLAGS)


def configured_master(environ: Mapping[str, str] = os.environ) -> str | None:
    """Where Spark's own settings say that it runs: a master or a Connect address."""
    return (
        read_spark_defaults(environ).get("spark.master")
        or environ.get("MASTER")
        or environ.get("SPARK_REMOTE")
    )


def active_session() -> SparkSession | None:
    """The session that this process has, if it has one."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _agreeing(active: SparkSession, asked: str | None) -> SparkSession:
    """The active session, unless the caller names another place: one process has one."""
    running = "a Spark Connect server" if is_connect(active) else active.sparkContext.master
    if asked is None or asked == running or (is_connect(active) and is_connect_address(asked)):
        return active
    raise UsageError(
        f"this process has a Spark session on {running} already and cannot use {asked} as well",
        code="spark_session_exists",
        hint="stop that session first, or leave the master out",
    )


def _local_session(master: str, conf: Mapping[str, str]) -> SparkSession:
    """Everything in one JVM on this machine, started with the class-data archive when there is one."""
    java = find_java()
    archive = class_archive(java)
    faster = archive.flags()
    if not faster:
        session = start_classic_session(master, conf, java, START_FLAGS)
        build_when_worthwhile(archive)
        return session
    try:
        return start_classic_session(master, conf, java, (*START_FLAGS, *faster))
    except MachineError:
        archive.discard()
        return start_classic_session(master, conf, java, START_FLAGS)
