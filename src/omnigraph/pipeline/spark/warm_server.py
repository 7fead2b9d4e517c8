"""Starts, stops and describes the warm local server: a Spark that later commands of this user need not wait for.

Starting is safe to repeat and to race: whoever comes second finds the server of the first. A server that is gone, or
that an older installation started, is replaced. Stopping returns when nothing of it runs any more.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import MachineError
from omnigraph.pipeline.spark.connect import connect_session, trust
from omnigraph.pipeline.spark.executors import assume_ready
from omnigraph.pipeline.spark.java import find_java
from omnigraph.pipeline.spark.jvm import spark_log
from omnigraph.pipeline.spark.warm_state import (
    ServerHealth,
    WarmServer,
    check_health,
    forget_server,
    has_stopped,
    read_server,
    starting_or_stopping,
    unused_server,
    use_server,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_held: Final[list[IO[bytes]]] = []


def warm_session(conf: Mapping[str, str], *, shared: bool = True) -> SparkSession | None:
    """A session on the warm server, the shared one or a new one; None when this installation can use none."""
    if read_server() is None:
        return None
    hold = use_server()
    server = read_server()  # again: it may have ended before we held it
    if server is not None and check_health(server) is ServerHealth.RUNNING:
        for address in (server.shared_address, server.address) if shared else (server.address,):
            with suppress(MachineError):
                session = connect_session(address, conf)
                if shared:
                    _keep_open(session)
                assume_ready(session)
                trust(session)
                _held.append(hold)
                return session
    hold.close()
    return None


def _keep_open(session: Any) -> None:
    """Stopping it here must not close the session that other commands share."""
    session.release_session_on_close = False


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The server, if there is one, and what can be said of it."""

    health: ServerHealth
    server: WarmServer | None
    in_use: bool


@dataclass(frozen=True, slots=True)
class StartedServer:
    """A server that runs. `is_new`: it was started just now."""

    server: WarmServer
    is_new: bool


def start_server(idle_minutes: float = limits.WARM_SERVER_IDLE_MINUTES) -> StartedServer:
    """A server that runs, started if need be. One that runs already keeps its own idle time."""
    with starting_or_stopping():
        existing = read_server()
        health = check_health(existing)
        if existing is not None and health is ServerHealth.RUNNING:
            return StartedServer(existing, is_new=False)
        if existing is not None:
            _end(existing)
        with use_server():  # or it might end for lack of work before the first job
            server = _start(idle_minutes * 60)
            _warm_up(server)
        return StartedServer(server, is_new=True)


def stop_server() -> bool:
    """End the server and wait for it; False when there was none."""
    with starting_or_stopping():
        server = read_server()
        if server is None:
            return False
        was_running = not has_stopped(server.process)
        _end(server)
        return was_running


def server_status() -> ServerStatus:
    """What there is now. One that has died is told as stopped."""
    server = read_server()
    health = check_health(server)
    if health is ServerHealth.STOPPED:
        return ServerStatus(health, None, in_use=False)
    with unused_server() as is_unused:
        return ServerStatus(health, server, in_use=not is_unused)


def _start(idle_seconds: float) -> WarmServer:
    find_java()  # says what is missing here, where somebody reads it
    log = spark_log()
    with log.open("ab") as words:
        process = subprocess.Popen(
            [sys.executable, "-m", "omnigraph.pipeline.spark.warm_process", str(idle_seconds)],
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            cwd=log.parent,
            start_new_session=True,
        )
    try:
        _wait(
            lambda: read_server() is not None or process.poll() is not None,
            limits.WARM_SERVER_START_SECONDS_MAX,
        )
        server = read_server()
    except BaseException:
        process.terminate()
        raise
    if server is None or process.poll() is not None:
        process.terminate()
        raise _not_started()
    return server


def _warm_up(server: WarmServer) -> None:
    """Let a process of its own run the first job: this one must not become a client of the server."""
    command = [sys.executable, "-m", "omnigraph.pipeline.spark.warm_up"]
    try:
        with spark_log().open("ab") as words:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                timeout=limits.WARM_SERVER_START_SECONDS_MAX,
                check=True,
            )
    except subprocess.SubprocessError as error:
        _end(server)
        raise _not_started() from error
    except BaseException:
        _end(server)
        raise


def _not_started() -> MachineError:
    log = spark_log()
    return MachineError(
        "the warm Spark server did not start",
        code="spark_not_started",
        hint=f"{log} says why",
        facts={"log": str(log)},
    )


def _end(server: WarmServer) -> None:
    """Ask the server's process to end, and make it if it does not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if has_stopped(server.process):
            break
        with suppress(ProcessLookupError):
            os.kill(server.process.pid, number)
        _wait(lambda: has_stopped(server.process), limits.WARM_SERVER_STOP_SECONDS_MAX)
    forget_server(server.process)


def _wait(is_done: Callable[[], bool], seconds_max: float) -> None:
    deadline = SYSTEM_CLOCK.monotonic() + seconds_max
    while not is_done() and SYSTEM_CLOCK.monotonic() < deadline:
        SYSTEM_CLOCK.sleep(limits.WARM_SERVER_POLL_SECONDS / 10)
