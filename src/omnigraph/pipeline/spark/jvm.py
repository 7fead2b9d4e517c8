"""Starts the Java process of a classic session: which flags, which environment, and where its words go.

In: the configuration. Out: a gateway to a running JVM. Everything the JVM and the Python workers below it print goes to
one log file, from the first line to what is said at shutdown, and never to this process's streams. The environment
of this process is changed only while the JVM is started. The JVM ends when this process does, however it ends.
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
from omnigraph.base.paths import cache_directory, cache_not_writable
from omnigraph.pipeline.spark.java import Java

if TYPE_CHECKING:
    from pyspark import SparkConf

# Rows stay out of the JVM, so it mostly starts up and schedules. Measured with one compiler instead of two: a start
# takes six tenths of the CPU time, a job of a hundred tasks half of it, and a long shuffle of Spark's own half as much
# again.
START_FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xlog:disable")
_CONNECT_VARIABLES: Final = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


def launch_jvm(conf: SparkConf, environ: Mapping[str, str]) -> Any:
    """The gateway to a new JVM with the configuration, started in the environment given."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    log = spark_log()
    with (
        log.open("ab") as words,
        exchanged_environment(environ),
        warnings.catch_warnings(),
        _ended_when_interrupted(),
    ):
        # The child becomes the JVM at once, so it does not matter that Lance would not survive in a fork.
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        try:
            launch: Any = launch_gateway  # without types
            return launch(conf, {"stdout": words, "stderr": words})
        except PySparkRuntimeError as error:
            raise MachineError(
                "Spark's Java process ended before it was ready",
                code="spark_not_started",
                hint=f"{log} says why",
                facts={"log": str(log)},
            ) from error


@contextmanager
def _ended_when_interrupted() -> Iterator[None]:
    """End the process that pyspark starts when it is not waited for, as after Ctrl-C.

    It would stay for good: pyspark deletes the folder that the JVM is about to write to, which ends only the thread
    that watches for our end. Only `launch_gateway` knows the process, so what makes it is exchanged for a while.
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
    """The variables of this process, and what Spark needs besides: what the user has set stays."""
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
    """The file that Spark's words go to; an old long one is set aside first."""
    path = cache_directory() / "spark" / "spark.log"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > limits.SPARK_LOG_BYTES_MAX:
            path.replace(path.with_suffix(".log.old"))
    except OSError as error:
        raise cache_not_writable(path.parent, error) from error
    return path


@contextmanager
def exchanged_environment(environ: Mapping[str, str]) -> Iterator[None]:
    """Put another environment in the place of this process's own, for a while."""
    before = dict(os.environ)
    _change_environment(before, environ)
    try:
        yield
    finally:
        _change_environment(environ, before)


def _change_environment(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Only what differs, because other threads may be reading."""
    os.environ.update({name: value for name, value in after.items() if before.get(name) != value})
    for name in before.keys() - after.keys():
        os.environ.pop(name, None)


@contextmanager
def kept_signal_handlers() -> Iterator[None]:
    """Spark takes over Ctrl-C when a session starts; give it back to whoever had it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
