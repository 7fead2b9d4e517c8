"""Who is writing: an identity of this process that another one can judge, if only on the same machine.

A process is *known to be gone* only when that is certain: same host, boot and pid namespace, and no such process (or a
younger one with its number). Anything else is "unknown", never "gone": containers share host names and boot ids.
"""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from omnigraph.base.errors import UsageError


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Enough to tell whether a process of this machine still runs. Empty texts: the system does not say."""

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    started: str


def current_process() -> ProcessIdentity:
    """This process."""
    host, boot_id, namespace = _machine()
    pid = os.getpid()
    return ProcessIdentity(host, boot_id, namespace, pid, _start_time(pid) or "")


def login_name() -> str:
    """Whom this process runs for."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def refuse_blank_actor(actor: str | None) -> str | None:
    """The actor that was named, if one was; raise for a name that nobody could read in the history."""
    if actor is not None and not actor.strip():
        raise UsageError(
            "the actor has no name",
            code="actor_blank",
            hint="name who writes, or leave --as out for your login name",
        )
    return actor


def is_known_gone(process: ProcessIdentity) -> bool:
    """True only when the process certainly does not run any more."""
    host, boot_id, namespace = _machine()
    if not boot_id or not namespace or process.host != host:
        return False
    if process.boot_id != boot_id:
        return bool(process.boot_id)
    if process.pid_namespace != namespace:
        return False
    started = _start_time(process.pid)
    return started is None or (bool(process.started) and started != process.started)


@cache
def _machine() -> tuple[str, str, str]:
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return socket.gethostname(), "", ""
    return socket.gethostname(), boot_id, namespace


def _start_time(pid: int) -> str | None:
    """When the process started, in the kernel's ticks; None when there is no such process, or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]
