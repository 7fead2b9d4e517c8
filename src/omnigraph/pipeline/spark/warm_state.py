"""The state of the warm local server: one file in the cache directory that only its user can read.

The process of the server writes it when it is ready and deletes it when it ends. There are two locks next to it: one is
held while a process starts or stops a server, the other is shared by all processes that use one. The system releases
both when their holder dies. Only the installation that started a server uses it: same Python, same code.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO

import msgspec
from msgspec.structs import replace

from omnigraph.base.decoding import decode_json
from omnigraph.base.paths import cache_directory, cache_not_writable_error, package_directory
from omnigraph.base.process import ProcessIdentity, current_process, has_certainly_ended
from omnigraph.pipeline.spark.connect import is_listening


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmServer:
    """A server that was ready at `started_us`. `process` supervises the JVM and ends with it.

    Commands share the session `session_id`, because Spark has separate Python workers for every session.
    """

    process: ProcessIdentity
    port: int = 0
    token: str = ""
    session_id: str = ""
    installation: str = ""
    idle_seconds: float = 0.0
    started_us: int = 0

    @property
    def address(self) -> str:
        return f"sc://localhost:{self.port}/;token={self.token}"

    @property
    def shared_address(self) -> str:
        return f"{self.address};session_id={self.session_id}"


class ServerHealth(Enum):
    """The state of a server."""

    RUNNING = "running"
    OUTDATED = "outdated"
    STOPPED = "stopped"


def read_server() -> WarmServer | None:
    """Read the file, also that of a server that ended or that another release started; None if it is not valid."""
    try:
        return decode_json(_directory().joinpath("server.json").read_bytes(), WarmServer)
    except (OSError, msgspec.MsgspecError):
        return None


def write_server(server: WarmServer) -> None:
    """Write the file, atomically and readable by its user only."""
    path = _directory() / "server.json"
    draft = path.with_name(f"server.json.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(server))
    draft.replace(path)


def forget_server(process: ProcessIdentity) -> None:
    """Delete the file if it is about the server of this process, and not about another that replaced it."""
    server = read_server()
    if server is None or server.process == process:
        _directory().joinpath("server.json").unlink(missing_ok=True)


def check_health(server: WarmServer | None) -> ServerHealth:
    """Return whether the server runs, and whether this installation may use it."""
    if server is None or has_stopped(server.process) or not is_listening("127.0.0.1", server.port):
        return ServerHealth.STOPPED
    return ServerHealth.RUNNING if server.installation == installation() else ServerHealth.OUTDATED


def has_stopped(process: ProcessIdentity) -> bool:
    """Return whether the server's process ended, or belongs to an earlier boot of this machine.

    The file of servers belongs to this user. So a process that an earlier release recorded has this user's id too.
    """
    current = current_process()
    if process.boot_id and current.boot_id and process.host == current.host and process.boot_id != current.boot_id:
        return True
    machine_id = current.machine_id if process.machine_id is None else process.machine_id
    return has_certainly_ended(replace(process, machine_id=machine_id, uid=current.uid), current)


@cache
def installation() -> str:
    """Return a hash of the Python, the Spark and all files of this package: workers keep what they have loaded."""
    root = package_directory()
    files = sorted(root.rglob("*.py"))
    described = [f"{path.relative_to(root)} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files]
    parts = [sys.prefix, sys.version, version("pyspark"), *described]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@contextmanager
def starting_or_stopping() -> Iterator[None]:
    """Lock the state, so that one process at a time starts or stops a server."""
    with _open_lock("server.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def use_server() -> IO[bytes]:
    """Return a lock file; while it is open, the server does not end as idle."""
    lock = _open_lock("server.use")
    fcntl.flock(lock, fcntl.LOCK_SH)
    os.utime(lock.fileno())
    return lock


@contextmanager
def unused_server() -> Iterator[bool]:
    """Return whether no process uses the server; until the end of the block no process can start to use it."""
    with _open_lock("server.use") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def last_use_us() -> int:
    """Return when a process last started to use the server; 0 if never."""
    try:
        return _directory().joinpath("server.use").stat().st_mtime_ns // 1000
    except OSError:
        return 0


def _open_lock(name: str) -> IO[bytes]:
    return os.fdopen(os.open(_directory() / name, os.O_RDWR | os.O_CREAT, 0o600), "r+b")


def _directory() -> Path:
    directory = cache_directory() / "spark"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise cache_not_writable_error(directory, error) from error
    return directory
