"""The identity of a process, and whether the process that holds a lease or a marker is known to have ended.

In: identities as they are stored in control objects. Out: running, ended or unknown, by one pure function,
`check_process`. *Ended* is certain: host name, machine id, boot id and PID namespace are this process's own, `/proc`
shows the processes of that user, and no process has that pid and start time. Everything else is unknown, because
containers share host names and `/proc` may hide processes. Never writes.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

_PROC: Final = Path("/proc")
_MACHINE_ID_FILES: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_PID_MAX: Final = 2**31 - 1
_VISIBLE: Final = frozenset({"hidepid=0", "hidepid=off"})
_PROC_OPTION_HIDEPID: Final = "hidepid="
_ENDED_STATES: Final = ("Z", "X")


class ProcessIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A process that another one on the same machine can look up. Locks and markers store these members.

    An empty `boot_id` or `pid_namespace`: the system does not report it. `machine_id` and `uid` are None in objects
    that an earlier release wrote; an empty `machine_id` means that the machine has none.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    started: str
    machine_id: str | None = None
    uid: int | None = None


class ProcessState(Enum):
    """What is known about a process."""

    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PidView:
    """What this system reports about one pid.

    `state` is ENDED when no process has the pid (a zombie counts as none), and UNKNOWN when that cannot be read.
    `started` is the start time of a running process. `shows_other_users`: `/proc` hides no process of another user.
    """

    state: ProcessState
    started: str
    shows_other_users: bool


def check_process(holder: ProcessIdentity, observer: ProcessIdentity, view: PidView) -> ProcessState:
    """Return whether the holder runs, has ended, or may be either. `view` is the observer's of the holder's pid."""
    if not _is_same_system(holder, observer):
        return ProcessState.UNKNOWN
    if view.state is ProcessState.RUNNING and view.started == holder.started:
        return ProcessState.RUNNING
    is_visible = view.shows_other_users or (holder.uid is not None and holder.uid == observer.uid)
    if not is_visible or view.state is ProcessState.UNKNOWN:
        return ProcessState.UNKNOWN
    if view.state is ProcessState.RUNNING and not holder.started:
        return ProcessState.UNKNOWN
    return ProcessState.ENDED


def current_process() -> ProcessIdentity:
    """Return the identity of this process."""
    pid = os.getpid()
    host, machine_id, boot_id, namespace = _read_system(pid)
    started = _read_pid(pid)[1]
    return ProcessIdentity(
        host=host,
        boot_id=boot_id,
        pid_namespace=namespace,
        pid=pid,
        started=started,
        machine_id=machine_id,
        uid=os.geteuid(),
    )


def has_certainly_ended(process: ProcessIdentity, observer: ProcessIdentity | None = None) -> bool:
    """Return True only if the process certainly ended, as seen from this process (`observer`: its identity)."""
    state, started = _read_pid(process.pid)
    view = PidView(state, started, _read_shows_other_users())
    return check_process(process, observer or current_process(), view) is ProcessState.ENDED


def shows_other_users(mountinfo: str) -> bool:
    """Return whether `/proc` shows every user's processes, from the text of `/proc/self/mountinfo`."""
    options = [_super_options(line) for line in mountinfo.splitlines() if _mount_point(line) == str(_PROC)]
    return bool(options) and all(mount is not None and _hides_nothing(mount) for mount in options)


def _is_same_system(holder: ProcessIdentity, observer: ProcessIdentity) -> bool:
    """Return whether both are in one PID namespace of one boot of one machine, as far as both report it."""
    if holder.machine_id is None or not holder.boot_id or not holder.pid_namespace:
        return False
    return (holder.host, holder.machine_id, holder.boot_id, holder.pid_namespace) == (
        observer.host,
        observer.machine_id,
        observer.boot_id,
        observer.pid_namespace,
    )


@cache
def _read_system(pid: int) -> tuple[str, str, str, str]:
    """Return host name, machine id, boot id and PID namespace of this process, whose pid is `pid`.

    A `/proc` of another PID namespace shows other processes under the same pids. Its namespace is then empty.
    """
    host, machine_id = socket.gethostname(), _read_machine_id()
    try:
        boot_id = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str((_PROC / "self/ns/pid").readlink())
        is_own = str((_PROC / "self").readlink()) == str(pid)
    except OSError:
        return host, machine_id, "", ""
    return host, machine_id, boot_id, namespace if is_own else ""


def _read_machine_id() -> str:
    for path in _MACHINE_ID_FILES:
        try:
            return path.read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            continue
    return ""


def _read_pid(pid: int) -> tuple[ProcessState, str]:
    """Return whether a process has this pid, and its start time in ticks of the kernel."""
    if not 0 < pid <= _PID_MAX:
        return ProcessState.UNKNOWN, ""
    try:
        stat = (_PROC / f"{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        is_missing = error.errno in (errno.ENOENT, errno.ESRCH) and not _accepts_signals(pid)
        return ProcessState.ENDED if is_missing else ProcessState.UNKNOWN, ""
    fields = stat.rpartition(")")[2].split()
    return (ProcessState.ENDED, "") if fields[0] in _ENDED_STATES else (ProcessState.RUNNING, fields[19])


def _accepts_signals(pid: int) -> bool:
    """Return whether the kernel has a process with this pid. `hidepid` hides it from `/proc`, not from signals."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _read_shows_other_users() -> bool:
    try:
        return shows_other_users((_PROC / "self/mountinfo").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return False


def _mount_point(line: str) -> str:
    fields = line.split(" ")
    return fields[4] if len(fields) > 4 else ""


def _super_options(line: str) -> list[str] | None:
    """Return the options of a mount of a whole proc file system; None for any other mount."""
    fields = line.partition(" - ")[2].split(" ")
    is_whole = line.split(" ")[3] == "/"
    return fields[2].split(",") if len(fields) > 2 and fields[0] == "proc" and is_whole else None


def _hides_nothing(options: list[str]) -> bool:
    return all(option in _VISIBLE for option in options if option.startswith(_PROC_OPTION_HIDEPID))


def change_environment(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Change only the variables that differ, because other threads may read the environment."""
    os.environ.update({name: value for name, value in after.items() if before.get(name) != value})
    for name in before.keys() - after.keys():
        os.environ.pop(name, None)
