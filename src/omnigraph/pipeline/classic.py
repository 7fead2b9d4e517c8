"""Starts a classic Spark session: its driver is a JVM of this process's own, its executors are where the master is.

In: a master, configuration, and the Java to run on. Out: a session that says nothing and whose Ctrl-C is still the
caller's. On a master on this machine it listens on loopback only. What the user's own `spark-defaults.conf` and
variables say goes before what is chosen here, and what the caller says before both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omnigraph.base.errors import MachineError
from omnigraph.base.java import Java
from omnigraph.pipeline.jvm import (
    exchanged_environment,
    jvm_environment,
    kept_signal_handlers,
    launch_jvm,
    spark_log,
)

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
