"""When a process certainly ended: the whole rule as a table, and real processes with a `/proc` that hides them."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import asdict, replace

from omnigraph.base.process import (
    PidView,
    ProcessIdentity,
    ProcessState,
    check_process,
    current_process,
    has_certainly_ended,
    shows_other_users,
)
from tests.style.source import ROOT

ME: Final = ProcessIdentity(
    host="host", boot_id="boot", pid_namespace="pid:[1]", pid=100, started="5000", machine_id="machine", uid=1000
)
HOLDER: Final = replace(ME, pid=200, started="6000", uid=2000)
ABSENT: Final = PidView(ProcessState.ENDED, "", shows_other_users=True)
RUNS: Final = PidView(ProcessState.RUNNING, "6000", shows_other_users=True)
REUSED: Final = PidView(ProcessState.RUNNING, "7000", shows_other_users=True)
UNREADABLE: Final = PidView(ProcessState.UNKNOWN, "", shows_other_users=True)
OTHER_USER: Final = 65_534
SECONDS_MAX: Final = 60


def _hidden(view: PidView) -> PidView:
    return dataclasses.replace(view, shows_other_users=False)


@pytest.mark.parametrize(
    ("changes", "view", "state"),
    [
        ({}, ABSENT, ProcessState.ENDED),
        ({}, REUSED, ProcessState.ENDED),
        ({}, RUNS, ProcessState.RUNNING),
        ({}, UNREADABLE, ProcessState.UNKNOWN),
        ({"host": "other"}, ABSENT, ProcessState.UNKNOWN),
        ({"machine_id": "other"}, ABSENT, ProcessState.UNKNOWN),
        ({"machine_id": ""}, ABSENT, ProcessState.UNKNOWN),
        ({"machine_id": None}, ABSENT, ProcessState.UNKNOWN),
        ({"boot_id": "other"}, ABSENT, ProcessState.UNKNOWN),
        ({"boot_id": ""}, ABSENT, ProcessState.UNKNOWN),
        ({"pid_namespace": "pid:[2]"}, ABSENT, ProcessState.UNKNOWN),
        ({"pid_namespace": ""}, ABSENT, ProcessState.UNKNOWN),
        ({"boot_id": "other"}, RUNS, ProcessState.UNKNOWN),
        ({}, _hidden(ABSENT), ProcessState.UNKNOWN),
        ({}, _hidden(REUSED), ProcessState.UNKNOWN),
        ({}, _hidden(RUNS), ProcessState.RUNNING),
        ({"uid": 1000}, _hidden(ABSENT), ProcessState.ENDED),
        ({"uid": 1000}, _hidden(REUSED), ProcessState.ENDED),
        ({"uid": 1000}, _hidden(UNREADABLE), ProcessState.UNKNOWN),
        ({"uid": None}, _hidden(ABSENT), ProcessState.UNKNOWN),
        ({"uid": None}, ABSENT, ProcessState.ENDED),
        ({"started": ""}, RUNS, ProcessState.UNKNOWN),
        ({"started": ""}, ABSENT, ProcessState.ENDED),
    ],
)
def test_check_process(changes: dict[str, Any], view: PidView, state: ProcessState) -> None:
    assert check_process(replace(HOLDER, **changes), ME, view) is state


def test_machines_without_an_id_are_compared_by_boot_id() -> None:
    observer, holder = replace(ME, machine_id=""), replace(HOLDER, machine_id="")
    assert check_process(holder, observer, ABSENT) is ProcessState.ENDED
    assert check_process(replace(holder, boot_id="other"), observer, ABSENT) is ProcessState.UNKNOWN


@pytest.mark.parametrize("field", ["boot_id", "pid_namespace"])
def test_a_missing_boot_id_or_namespace_means_unknown(field: str) -> None:
    observer, holder = replace(ME, **{field: ""}), replace(HOLDER, **{field: ""})
    assert check_process(holder, observer, ABSENT) is ProcessState.UNKNOWN


ROOTFS: Final = "27 1 0:26 / / rw - ext4 /dev/vda rw\n"
PLAIN: Final = "22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw\n"
SYS: Final = "30 22 0:21 /sys /proc/sys ro - proc proc rw\n"


@pytest.mark.parametrize(
    ("mountinfo", "shown"),
    [
        (ROOTFS + PLAIN, True),
        (ROOTFS + PLAIN + SYS, True),
        (PLAIN.replace("proc rw", "proc rw,hidepid=0"), True),
        (PLAIN.replace("proc rw", "proc rw,hidepid=off,gid=4"), True),
        (PLAIN.replace("proc rw", "proc rw,hidepid=1"), False),
        (PLAIN.replace("proc rw", "proc rw,gid=4,hidepid=2"), False),
        (PLAIN.replace("proc rw", "proc rw,hidepid=invisible"), False),
        (PLAIN.replace("proc rw", "proc rw,hidepid=noaccess"), False),
        (PLAIN.replace("proc rw", "proc rw,hidepid=ptraceable"), False),
        (PLAIN + PLAIN.replace("proc rw", "proc rw,hidepid=2"), False),
        (PLAIN.replace("- proc proc", "- fuse.lxcfs lxcfs"), False),
        (PLAIN.replace(" / /proc", " /sub /proc"), False),
        (ROOTFS, False),
        ("", False),
        ("garbage\n", False),
    ],
)
def test_shows_other_users(mountinfo: str, shown: bool) -> None:
    assert shows_other_users(mountinfo) is shown


def test_this_process_and_its_children() -> None:
    me = current_process()
    assert not has_certainly_ended(me)
    with _sleeper() as child:
        identity = _identify(child)
        assert not has_certainly_ended(identity)
    assert has_certainly_ended(identity)
    assert not has_certainly_ended(replace(identity, boot_id="other"))
    assert not has_certainly_ended(identity, replace(me, machine_id="other"))


OBSERVER: Final = """\
import encodings.ascii, json, os, subprocess, sys
hidepid, uid, *identities = sys.argv[1:]
from omnigraph.base.process import ProcessIdentity, has_certainly_ended
if hidepid:
    subprocess.run(["mount", "-t", "proc", "-o", f"hidepid={hidepid}", "proc", "/proc"], check=True)
os.setgroups([])
os.setresgid(int(uid), int(uid), int(uid))
os.setresuid(int(uid), int(uid), int(uid))
print(json.dumps([has_certainly_ended(ProcessIdentity(**json.loads(identity))) for identity in identities]))
"""


@pytest.mark.parametrize("hidepid", ["", "1", "2"])
def test_a_hidden_process_is_not_reported_as_ended(hidepid: str) -> None:
    """Another user's running process is unknown. An ended one is known only if `/proc` shows other users' processes."""
    _require_mounts()
    with _sleeper() as child:
        live = _identify(child)
        with _sleeper() as other:
            dead = _identify(other)
        answers = _observe(hidepid, OTHER_USER, live, dead)
    assert answers == [False, not hidepid]


@pytest.mark.parametrize("hidepid", ["1", "2"])
def test_an_ended_process_of_this_user_is_reported_with_a_hiding_proc(hidepid: str) -> None:
    _require_mounts()
    with _sleeper(OTHER_USER) as child:
        live = replace(_identify(child), uid=OTHER_USER)
        with _sleeper(OTHER_USER) as other:
            dead = replace(_identify(other), uid=OTHER_USER)
        answers = _observe(hidepid, OTHER_USER, live, dead)
    assert answers == [False, True]


def _require_mounts() -> None:
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0:
        pytest.skip("needs root and mount namespaces (unshare -m)")


def _observe(hidepid: str, uid: int, *identities: ProcessIdentity) -> list[bool]:
    texts = [json.dumps(asdict(identity)) for identity in identities]
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", OBSERVER, hidepid, str(uid), *texts],
        cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    if "mount failed" in done.stderr or "permission denied" in done.stderr:
        pytest.skip(f"cannot mount a second proc: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    answers: list[bool] = json.loads(done.stdout)
    return answers


@contextmanager
def _sleeper(uid: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process until the end of the block."""
    child = subprocess.Popen(["sleep", "600"], user=uid)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def _identify(child: subprocess.Popen[bytes]) -> ProcessIdentity:
    stat = Path(f"/proc/{child.pid}/stat").read_text(encoding="utf-8")
    started = stat.rpartition(")")[2].split()[19]
    return replace(current_process(), pid=child.pid, started=started)
