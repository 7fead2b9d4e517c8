"""Starts, stops and describes the warm local server: a running Spark that the commands of this user share.

In: nothing but the state in the cache directory. Out: a session, or the state of the server. Starting is safe to repeat
and to race: the second process uses the server of the first. A server that ended, or that another installation started,
is replaced. Stopping returns when all its processes have ended.
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
from omnigraph.pipeline.spark import warm_state
from omnigraph.pipeline.spark.connect import connect_session, trust
from omnigraph.pipeline.spark.executors import assume_ready
from omnigraph.pipeline.spark.java import find_java
from omnigraph.pipeline.spark.jvm import spark_log
from omnigraph.pipeline.spark.warm_state import ServerHealth, WarmServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_held_locks: Final[list[IO[bytes]]] = []


def warm_session(conf: Mapping[str, str], *, shared: bool = True) -> SparkSession | None:
    """Return a session on the warm server, shared or new; None if this installation cannot use one."""
    if warm_state.read_server() is None:
        return None
    lock = warm_state.use_server()
    server = warm_state.read_server()  # again: it may have ended before we locked it
    if server is not None and warm_state.check_health(server) is ServerHealth.RUNNING:
        for address in (server.shared_address, server.address) if shared else (server.address,):
            with suppress(MachineError):
                session: Any = connect_session(address, conf)
                if shared:
                    session.release_session_on_close = False  # other commands use the session on the server
                assume_ready(session)
                trust(session)
                _held_locks.append(lock)
                return session  # type: ignore[no-any-return]
    lock.close()
    return None


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The server, if there is one, and its state."""

    health: ServerHealth
    server: WarmServer | None
    in_use: bool


@dataclass(frozen=True, slots=True)
class StartedServer:
    """A running server. `is_new`: this call started it."""

    server: WarmServer
    is_new: bool


def start_server(idle_minutes: float = limits.WARM_SERVER_IDLE_MINUTES) -> StartedServer:
    """Return the running server, or start one. A running server keeps its own idle time."""
    with warm_state.starting_or_stopping():
        existing = warm_state.read_server()
        health = warm_state.check_health(existing)
        if existing is not None and health is ServerHealth.RUNNING:
            return StartedServer(existing, is_new=False)
        if existing is not None:
            _end(existing)
        with warm_state.use_server():  # so that it does not end as idle before the first job
            server = _start(idle_minutes * 60)
            _warm_up(server)
        return StartedServer(server, is_new=True)


def stop_server() -> bool:
    """Stop the server and wait for its end; return False if there was none."""
    with warm_state.starting_or_stopping():
        server = warm_state.read_server()
        if server is None:
            return False
        was_running = not warm_state.has_stopped(server.process)
        _end(server)
        return was_running


def server_status() -> ServerStatus:
    """Return the current state. A server that died is reported as stopped."""
    server = warm_state.read_server()
    health = warm_state.check_health(server)
    if health is ServerHealth.STOPPED:
        return ServerStatus(health, None, in_use=False)
    with warm_state.unused_server() as is_unused:
        return ServerStatus(health, server, in_use=not is_unused)


def _start(idle_seconds: float) -> WarmServer:
    find_java()  # raises here, where the user sees it, if Java is missing
    log = spark_log()
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "omnigraph.pipeline.spark.warm_process", str(idle_seconds)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            start_new_session=True,
        )
    try:
        _wait(
            lambda: warm_state.read_server() is not None or process.poll() is not None,
            limits.WARM_SERVER_START_SECONDS_MAX,
        )
        server = warm_state.read_server()
    except BaseException:
        process.terminate()
        raise
    if server is None or process.poll() is not None:
        process.terminate()
        raise _not_started()
    return server


def _warm_up(server: WarmServer) -> None:
    """Run the first job in another process, because this one must not become a client of the server."""
    command = [sys.executable, "-m", "omnigraph.pipeline.spark.warm_up"]
    try:
        with spark_log().open("ab") as output:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
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
        hint=f"Read {log} for the reason.",
        facts={"log": str(log)},
    )


def _end(server: WarmServer) -> None:
    """Stop the server's process, by force if it does not end."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if warm_state.has_stopped(server.process):
            break
        with suppress(ProcessLookupError):
            os.kill(server.process.pid, number)
        _wait(lambda: warm_state.has_stopped(server.process), limits.WARM_SERVER_STOP_SECONDS_MAX)
    warm_state.forget_server(server.process)


def _wait(is_done: Callable[[], bool], seconds_max: float) -> None:
    deadline = SYSTEM_CLOCK.monotonic() + seconds_max
    while not is_done() and SYSTEM_CLOCK.monotonic() < deadline:
        SYSTEM_CLOCK.sleep(limits.WARM_SERVER_POLL_SECONDS / 10)
