"""Starts the Java process of a classic session, with its flags, its environment and its log.

In: the configuration. Out: a gateway to a running JVM. All output of the JVM and of its Python workers is written to
one log file, never to the streams of this process. The environment of this process is changed only while the JVM
starts. The JVM ends when this process ends, also when it is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omnigraph.base import limits
from omnigraph.base.errors import MachineError
from omnigraph.base.paths import cache_directory, cache_not_writable_error
from omnigraph.base.process import change_environment
from omnigraph.pipeline.spark.java import Java

if TYPE_CHECKING:
    from pyspark import SparkConf

# Rows never pass through the JVM, so it mostly starts and schedules. Measured with one compiler instead of two: a start
# takes 60 % of the CPU time, a job of a hundred tasks 50 %, and a long shuffle of Spark 150 %.
START_FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xlog:disable")
_CONNECT_VARIABLES: Final = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


def launch_jvm(conf: SparkConf, environ: Mapping[str, str]) -> Any:
    """Return the gateway to a new JVM with this configuration and environment."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    log = spark_log()
    with log.open("ab") as output, replaced_environment(environ), warnings.catch_warnings(), _ended_when_interrupted():
        # The child process runs `exec` immediately, so it does not matter that Lance does not support forks.
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        try:
            launch: Any = launch_gateway  # it has no types
            return launch(conf, {"stdout": output, "stderr": output})
        except PySparkRuntimeError as error:
            raise MachineError(
                "Spark's Java process ended before it was ready",
                code="spark_not_started",
                hint=f"Read {log} for the reason.",
                facts={"log": str(log)},
            ) from error


@contextmanager
def _ended_when_interrupted() -> Iterator[None]:
    """Kill the process that pyspark starts if the start is interrupted, as by Ctrl-C.

    Otherwise it would run forever: pyspark deletes the directory to which the JVM is about to write. That ends only the
    thread that would stop the JVM when this process ends. Only `launch_gateway` knows the JVM, so `Popen` is replaced.
    """
    from pyspark import java_gateway

    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(*arguments, **options))
        return started[-1]

    module: Any = java_gateway
    before, module.Popen = module.Popen, start
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        module.Popen = before


def jvm_environment(java: Java, flags: tuple[str, ...], on_loopback: bool) -> dict[str, str]:
    """Return the variables of this process and those that Spark needs; variables that the user has set are kept."""
    inherited = {name: value for name, value in os.environ.items() if name not in _CONNECT_VARIABLES}
    submit_options = " ".join(filter(None, (*flags, os.environ.get("SPARK_SUBMIT_OPTS"))))
    launcher = " ".join(filter(None, (*START_FLAGS, os.environ.get("SPARK_LAUNCHER_OPTS"))))
    return {
        "PYSPARK_PYTHON": sys.executable,
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if on_loopback else {}),
        **inherited,
        "JAVA_HOME": str(java.home),
        "SPARK_SUBMIT_OPTS": submit_options,
        "SPARK_LAUNCHER_OPTS": launcher,
    }


def spark_log() -> Path:
    """Return the log file of Spark. A file above the size limit is renamed first."""
    path = cache_directory() / "spark" / "spark.log"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > limits.SPARK_LOG_BYTES_MAX:
            path.replace(path.with_suffix(".log.old"))
    except OSError as error:
        raise cache_not_writable_error(path.parent, error) from error
    return path


@contextmanager
def replaced_environment(environ: Mapping[str, str]) -> Iterator[None]:
    """Replace the environment of this process until the end of the block."""
    before = dict(os.environ)
    change_environment(before, environ)
    try:
        yield
    finally:
        change_environment(environ, before)


@contextmanager
def preserved_signal_handlers() -> Iterator[None]:
    """Restore the signal handlers of the caller, because Spark replaces them when a session starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
