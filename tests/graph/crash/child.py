"""The processes that die: `python -m tests.graph.crash.child` forks one for every request line on its input.

Only this server imports; it never opens a dataset, so that its forks start without Lance's threads. A fork takes a
third of the time of a new interpreter. Each answers with a line: its exit code, negative for the signal that ended it.
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
    """Which write and which sync below the graph fails, counted from 1, or where files end.

    With `stays` all writes after it fail as well.
    """

    write: int = 0
    sync: int = 0
    file_bytes: int = 0
    stays: bool = False


class Outcome(msgspec.Struct, frozen=True):
    """How a victim with failing files ended: without an error, or with its code and whether the write was applied."""

    code: str = ""
    applied: str = ""
    message: str = ""
    writes: int = 0
    syncs: int = 0


class Request(msgspec.Struct, frozen=True):
    """One victim. `failpoints` as in the environment; `effect` is the durable call to die at, `late_ms` after it began.

    `report` is a file that gets every failpoint hit and every durable call, when the victim lives. `faults` lets writes
    and syncs fail; how that ended goes to the file `outcome`. `syncs` is a file that gets every sync.
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
    """Stands where the actions are, does nothing, and keeps every hit."""

    def __init__(self) -> None:
        super().__init__(on=failpoints._Action("", "", 0))
        self.hits: list[str] = []

    def get(self, point: str, default: object = None) -> None:  # type: ignore[override]
        self.hits.append(f"{point}@{1 + sum(hit.startswith(f'{point}@') for hit in self.hits)}")


def serve() -> None:
    """Fork for every request, wait, answer."""
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
    """Run it with failing files, and write down how it ended."""
    faults = request.faults or Faults()
    if faults.file_bytes:
        limit_file_size(faults.file_bytes)
    else:
        arm(request.uri, write=faults.write, sync=faults.sync, stays=faults.stays)
    code = applied = message = ""
    try:
        SCENARIOS[request.scenario].act(location)
    except OmnigraphError as error:
        code, message = error.code, error.message
        applied = "" if error.applied is None else error.applied.value
    except AssertionError:
        code, applied = "refused", "unknown"  # a repair keeps the error of a table to its report
    writes, syncs = (0, 0) if faults.file_bytes else counted()
    if faults.file_bytes:
        limit_file_size(resource.RLIM_INFINITY)
    else:
        arm("")
    Path(request.outcome).write_bytes(msgspec.json.encode(Outcome(code, applied, message, writes, syncs)))


def _die(late_ms: float) -> None:
    """SIGKILL now, or a moment later from another thread, in the middle of what comes next."""
    if not late_ms:
        os.kill(os.getpid(), signal.SIGKILL)
    timer = threading.Timer(late_ms / 1000, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    serve()
