"""The process of a warm server: starts its JVM, stops it when it is idle for a while, and ends with it.

`python -m omnigraph.pipeline.spark.warm_process IDLE_SECONDS`, run by the package itself. It does not import Spark, so
it is small. The server listens on loopback and requires a token, which is in a file that only its user can read. When
this process ends, also by a signal, the JVM ends and the file is deleted; after a kill, readers of the file notice.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Final
from uuid import uuid4

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.process import current_process
from omnigraph.pipeline.spark import warm_state
from omnigraph.pipeline.spark.class_archive import archive_path, flags_to_use
from omnigraph.pipeline.spark.connect import is_listening
from omnigraph.pipeline.spark.java import find_java
from omnigraph.pipeline.spark.jvm import START_FLAGS, jvm_environment
from omnigraph.pipeline.spark.session import ENCRYPTED, ON_LOOPBACK, QUIET
from omnigraph.pipeline.spark.warm_state import WarmServer

_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SIGNAL_AT_END_OF_PARENT: Final = 1  # PR_SET_PDEATHSIG


class _StopRequest(BaseException):
    """This process was asked to end."""


def main() -> None:
    """Serve until the server is idle or is stopped."""
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    idle_seconds = float(sys.argv[1])
    jvm: subprocess.Popen[bytes] | None = None
    try:
        token = secrets.token_urlsafe(32)
        jvm, port = _start(token)
        warm_state.write_server(
            WarmServer(
                process=current_process(),
                port=port,
                token=token,
                session_id=str(uuid4()),
                installation=warm_state.installation(),
                idle_seconds=idle_seconds,
                started_us=SYSTEM_CLOCK.now_us(),
            )
        )
        _serve(jvm, idle_seconds)
    except _StopRequest:
        pass
    finally:
        warm_state.forget_server(current_process())
        if jvm is not None:
            _stop(jvm)


def _end(_: int, __: FrameType | None) -> None:
    raise _StopRequest


def _serve(jvm: subprocess.Popen[bytes], idle_seconds: float) -> None:
    """Wait until the JVM ends or is idle for long enough."""
    busy_us = SYSTEM_CLOCK.now_us()
    while jvm.poll() is None:
        with warm_state.unused_server() as is_unused:
            now_us = SYSTEM_CLOCK.now_us()
            busy_us = max(busy_us, warm_state.last_use_us()) if is_unused else now_us
            if now_us - busy_us > idle_seconds * 1e6:
                warm_state.forget_server(current_process())
                return
        SYSTEM_CLOCK.sleep(limits.WARM_SERVER_POLL_SECONDS)


def _start(token: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start a JVM and wait until it listens; try again if another process takes the free port first."""
    java = find_java()
    flags = (*START_FLAGS, *flags_to_use(archive_path(java)))
    environ = {**jvm_environment(java, flags, on_loopback=True), "SPARK_CONNECT_AUTHENTICATE_TOKEN": token}
    for _ in range(limits.WARM_SERVER_PORT_ATTEMPTS_MAX):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        jvm = subprocess.Popen(
            _command(port),
            env=environ,
            stdin=subprocess.DEVNULL,
            preexec_fn=_terminate_with(os.getpid()),  # noqa: PLW1509  # this process has one thread
        )
        deadline = SYSTEM_CLOCK.monotonic() + limits.WARM_SERVER_START_SECONDS_MAX
        try:
            while jvm.poll() is None and SYSTEM_CLOCK.monotonic() < deadline:
                if is_listening("127.0.0.1", port):
                    return jvm, port
                SYSTEM_CLOCK.sleep(limits.WARM_SERVER_POLL_SECONDS)
        except _StopRequest:
            _stop(jvm)
            raise
        _stop(jvm)
    raise SystemExit("the Spark Connect server did not start")


def _command(port: int) -> list[str]:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    settings = {
        **QUIET,
        **ON_LOOPBACK,
        **ENCRYPTED,
        "spark.app.name": "omnigraph warm server",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.session.manager.defaultSessionTimeout": "365d",  # commands share one: see WarmServer
    }
    arguments = [f"--conf={name}={value}" for name, value in settings.items()]
    submit = Path(os.environ.get("SPARK_HOME") or Path(spec.origin).parent, "bin", "spark-submit")
    return [str(submit), "--master", "local[*]", "--class", _SERVER, *arguments]


def _terminate_with(parent: int) -> Callable[[], None] | None:
    """Return a function for a new process, which then ends when its parent is killed. Only Linux supports it."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)

    def end_with_parent() -> None:
        library.prctl(_SIGNAL_AT_END_OF_PARENT, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return end_with_parent


def _stop(jvm: subprocess.Popen[bytes]) -> None:
    jvm.terminate()
    try:
        jvm.wait(limits.WARM_SERVER_STOP_SECONDS_MAX / 2)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


if __name__ == "__main__":
    main()
