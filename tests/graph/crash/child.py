"""Run the writers that are killed: `python -m tests.graph.crash.child` forks a process for every line of its input.

This server imports all modules but never opens a dataset, so its forks start without threads of Lance. A fork takes a
third of the time of a new interpreter. For each request the server prints the exit code of the process, or the negative
number of the signal that ended it.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
import traceback
from pathlib import Path

import msgspec

from omnigraph.base import failpoints
from omnigraph.base.errors import OmnigraphError
from omnigraph.base.failpoints import observed
from omnigraph.storage.location import Location, parse_location
from tests.file_faults import arm, counted, limit_file_size
from tests.graph.crash.power_cut import record_syncs
from tests.graph.crash.scenarios import SCENARIOS
from tests.waiting import SECONDS_MAX


class Faults(msgspec.Struct, frozen=True):
    """The write and the sync of files of the graph that fail, counted from 1, or the largest size of a file.

    With `is_permanent`, all later writes fail too.
    """

    write: int = 0
    sync: int = 0
    file_bytes: int = 0
    is_permanent: bool = False


class WriteOutcome(msgspec.Struct, frozen=True):
    """The result of a write with failing files: no error, or its code and whether the write was applied."""

    code: str = ""
    applied: str = ""
    message: str = ""
    writes: int = 0
    syncs: int = 0


class Request(msgspec.Struct, frozen=True):
    """A writer to run. `failpoints` has the syntax of the environment variable.

    The process is killed at the durable call number `effect`, `late_ms` after the call began. A process that is not
    killed writes every failpoint hit and every durable call to the file `report`. `faults` makes writes and syncs fail;
    the result is written to the file `outcome`. Every sync is written to the file `syncs`.
    """

    scenario: str
    uri: str
    options: dict[str, str]
    failpoints: str = ""
    effect: int = 0
    late_ms: float = 0.0
    report: str = ""
    faults: Faults | None = None
    outcome: str = ""
    syncs: str = ""
    durability: str | None = None


class HitRecorder(dict[str, failpoints._Action]):
    """Replace the actions of the failpoints: do nothing, and record every hit."""

    def __init__(self) -> None:
        super().__init__(on=failpoints._Action("", "", 0))
        self.hits: list[str] = []

    def get(self, point: str, default: object = None) -> None:  # type: ignore[override]
        self.hits.append(f"{point}@{1 + sum(hit.startswith(f'{point}@') for hit in self.hits)}")


def serve() -> None:
    """Fork a process for every request, wait for it and print its exit code."""
    for line in sys.stdin:
        request = msgspec.json.decode(line, type=Request)
        child = os.fork()
        if child == 0:
            _run(request)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _run(request: Request) -> None:
    code = 1
    try:
        signal.alarm(int(SECONDS_MAX))
        _act(request)
        code = 0
    except Exception:
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        os._exit(code)


def _act(request: Request) -> None:
    recording = HitRecorder()
    os.environ[failpoints.ENVIRONMENT_VARIABLE] = request.failpoints
    failpoints._actions = (
        recording if request.report else failpoints._parse(os.environ[failpoints.ENVIRONMENT_VARIABLE])
    )
    effects: list[str] = []

    def observe(effect: str, target: str) -> None:
        effects.append(effect)
        if len(effects) == request.effect:
            _die(request.late_ms)

    location = parse_location(request.uri, request.options, request.durability)
    if request.outcome:
        _act_with_faults(request, location)
        return
    if request.syncs:
        with record_syncs(Path(request.uri), Path(request.syncs)):
            SCENARIOS[request.scenario].act(location)
        return
    with observed(observe):
        SCENARIOS[request.scenario].act(location)
    if request.report:
        Path(request.report).write_text("\n".join(recording.hits) + "\n\n" + "\n".join(effects) + "\n")
    if request.effect == len(effects) + 1:
        _die(0)


def _act_with_faults(request: Request, location: Location) -> None:
    """Run the writer with failing files, and write its outcome to a file."""
    faults = request.faults or Faults()
    if faults.file_bytes:
        limit_file_size(faults.file_bytes)
    else:
        arm(request.uri, write=faults.write, sync=faults.sync, is_permanent=faults.is_permanent)
    code = applied = message = ""
    try:
        SCENARIOS[request.scenario].act(location)
    except OmnigraphError as error:
        code, message = error.code, error.message
        applied = "" if error.applied is None else error.applied.value
    except AssertionError:
        code, applied = "refused", "unknown"  # a repair reports the error of a table in its result
    writes, syncs = (0, 0) if faults.file_bytes else counted()
    if faults.file_bytes:
        limit_file_size(resource.RLIM_INFINITY)
    else:
        arm("")
    Path(request.outcome).write_bytes(msgspec.json.encode(WriteOutcome(code, applied, message, writes, syncs)))


def _die(late_ms: float) -> None:
    """Send SIGKILL now, or after `late_ms` from another thread, while the call runs."""
    if not late_ms:
        os.kill(os.getpid(), signal.SIGKILL)
    timer = threading.Timer(late_ms / 1000, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    serve()
