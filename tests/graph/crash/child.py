"""The processes that die: `python -m tests.graph.crash.child` forks one for every request line on its input.

Only this server imports; it never opens a dataset, so that its forks start without Lance's threads. A fork takes a
third of the time of a new interpreter. Each answers with a line: its exit code, negative for the signal that ended it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from pathlib import Path

import msgspec

from omnigraph.base import failpoints
from omnigraph.base.effects import observed
from omnigraph.storage.location import parse_location
from tests.graph.crash.scenarios import SCENARIOS
from tests.waiting import SECONDS_MAX


class Request(msgspec.Struct, frozen=True):
    """One victim. `failpoints` as in the environment; `effect` is the durable call to die at, `late_ms` after it began.

    `report` is a file that gets every failpoint hit and every durable call, when the victim lives.
    """

    scenario: str
    uri: str
    options: dict[str, str]
    failpoints: str = ""
    effect: int = 0
    late_ms: float = 0.0
    report: str = ""


class Recording(dict[str, failpoints._Action]):
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
    recording = Recording()
    os.environ[failpoints.ENVIRONMENT_VARIABLE] = request.failpoints
    failpoints._actions = (
        recording if request.report else failpoints._parse(os.environ[failpoints.ENVIRONMENT_VARIABLE])
    )
    effects: list[str] = []

    def observe(effect: str, target: str) -> None:
        effects.append(effect)
        if len(effects) == request.effect:
            _die(request.late_ms)

    with observed(observe):
        SCENARIOS[request.scenario].act(parse_location(request.uri, request.options))
    if request.report:
        Path(request.report).write_text("\n".join(recording.hits) + "\n\n" + "\n".join(effects) + "\n")
    if request.effect == len(effects) + 1:
        _die(0)


def _die(late_ms: float) -> None:
    """SIGKILL now, or a moment later from another thread, in the middle of what comes next."""
    if not late_ms:
        os.kill(os.getpid(), signal.SIGKILL)
    timer = threading.Timer(late_ms / 1000, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    serve()
