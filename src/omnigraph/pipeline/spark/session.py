"""Chooses the Spark session for bulk work, and starts a local one if necessary.

In: the settings of the caller. Out: a session; the same code runs on all kinds. In order: the session that is active in
this process; the master that the caller, the configuration or Spark's own files name; the Spark Connect server in
`SPARK_REMOTE`; the warm local server; a new local session, which prints nothing, listens on loopback only, and ends
with this process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omnigraph.base.errors import MachineError, UsageError
from omnigraph.pipeline.spark import jvm
from omnigraph.pipeline.spark.class_archive import archive_path, flags_to_use, flags_to_write
from omnigraph.pipeline.spark.connect import connect_session, is_connect, is_connect_address
from omnigraph.pipeline.spark.java import Java, find_java
from omnigraph.pipeline.spark.jvm import START_FLAGS
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
    # Spark's own words, and those of the keys of embedding providers: `spark.executorEnv.OPENAI_API_KEY` is hidden too.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|credential|api[._-]?key|executorEnv[.].*key",
}
ON_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# Tasks contain the storage settings of the caller, so Spark must encrypt its temporary files.
ENCRYPTED: Final = {"spark.io.encryption.enabled": "true"}
# As in the property files of Java, a value may contain the separator.
_SETTING: Final = re.compile(r"(?P<name>[^=:\s]+)\s*[=:\s]\s*(?P<value>.+)")
LOCAL_MASTER: Final = "local[*]"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The Spark settings of the caller. `master` may also be a Connect address, `sc://host:port`."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    session: SparkSession | None = None
    """A session to use unchanged."""


def session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return a session: the active one, that of `master` or of Spark's settings, the warm one, or a new local one.

    Example:
        >>> og.spark.session().range(3).count()
        3
    """
    return spark_session(SparkSettings(master, conf or {}), shared=False)


def spark_settings(spark: str | SparkSession | None) -> SparkSettings:
    """Return the settings for a master, a Connect address or a session; None is the configured Spark."""
    return SparkSettings(master=spark) if isinstance(spark, str | None) else SparkSettings(session=spark)


def spark_session(settings: SparkSettings | None = None, *, shared: bool = True) -> SparkSession:
    """Return a session. With `shared`, the session on the warm server is the one that all commands use.

    A program needs its own session for what it registers, above all the data source with its storage settings.
    """
    settings = settings or SparkSettings()
    if settings.session is not None:
        return settings.session
    requested = settings.master or settings.conf.get("spark.master")
    active = active_session()
    if active is not None:
        return _require_agreement(active, requested)
    address = requested or configured_master()
    if address is None:
        return warm_session(settings.conf, shared=shared) or _local_session(LOCAL_MASTER, settings.conf)
    if is_connect_address(address):
        return connect_session(address, settings.conf)
    if address.startswith("local") and not address.startswith("local-cluster"):
        return _local_session(address, settings.conf)
    return start_classic_session(address, settings.conf, find_java(), START_FLAGS)


def start_classic_session(master: str, conf: Mapping[str, str], java: Java, flags: tuple[str, ...]) -> SparkSession:
    """Start a session. This process must have no other session."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    on_loopback = master.startswith(("local", "spark://127.0.0.1:", "spark://localhost:"))
    is_local = master.partition("[")[0] == "local"
    our_settings = {**QUIET, **(ON_LOOPBACK if on_loopback else {}), **(ENCRYPTED if is_local else {})}
    for name in read_spark_defaults():
        our_settings.pop(name, None)
    chosen = SparkConf(loadDefaults=False)
    chosen.setAll(list({**our_settings, **conf}.items()))
    chosen.setMaster(master)
    environ = jvm.jvm_environment(java, flags, on_loopback)
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)  # a Connect session that ended may have set it
    with jvm.preserved_signal_handlers():
        gateway = None if SparkContext._gateway else jvm.launch_jvm(chosen, environ)
        with jvm.replaced_environment(environ):
            try:
                context: Any = SparkContext(conf=chosen, gateway=gateway)
                # It would print a traceback if the JVM is killed; `run_job` raises a better error.
                context._accumulatorServer.handle_error = lambda *_: None
                return SparkSession.builder.getOrCreate()
            except Py4JJavaError as error:
                java_error = error.java_exception
                reason = str(java_error.getMessage() or java_error).strip().partition("\n")[0][:400]
                log = jvm.spark_log()
                raise MachineError(
                    f"Spark did not start on {master}: {reason}",
                    code="spark_not_started",
                    hint=f"Check the address of the master. Read {log} for details.",
                    facts={"master": master, "log": str(log)},
                ) from error


def read_spark_defaults(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings in the user's `spark-defaults.conf`."""
    folder = environ.get("SPARK_CONF_DIR") or (f"{environ['SPARK_HOME']}/conf" if environ.get("SPARK_HOME") else "")
    path = Path(folder, "spark-defaults.conf")
    if not folder or not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    matches = (_SETTING.fullmatch(line) for line in lines if not line.startswith("#"))
    return {setting["name"]: setting["value"] for setting in matches if setting}


def configured_master(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the master or the Connect address of Spark's own settings."""
    return read_spark_defaults(environ).get("spark.master") or environ.get("MASTER") or environ.get("SPARK_REMOTE")


def active_session() -> SparkSession | None:
    """Return the active session of this process; None if there is none."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _require_agreement(active: SparkSession, requested: str | None) -> SparkSession:
    """Return the active session; raise if the caller requires another master, because a process has one session."""
    running = "a Spark Connect server" if is_connect(active) else active.sparkContext.master
    if requested is None or requested == running or (is_connect(active) and is_connect_address(requested)):
        return active
    raise UsageError(
        f"this process already has a Spark session on {running}: expected {requested}",
        code="spark_session_exists",
        hint="Stop that session first, or omit the master.",
    )


def _local_session(master: str, conf: Mapping[str, str]) -> SparkSession:
    """Start a session in one JVM on this machine, with the class-data archive if it exists."""
    java = find_java()
    archive = archive_path(java)
    archive_flags = flags_to_use(archive)
    if not archive_flags:
        return start_classic_session(master, conf, java, (*START_FLAGS, *flags_to_write(archive)))
    try:
        return start_classic_session(master, conf, java, (*START_FLAGS, *archive_flags))
    except MachineError:
        archive.unlink(missing_ok=True)  # it may be damaged
        return start_classic_session(master, conf, java, START_FLAGS)
