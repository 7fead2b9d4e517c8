"""Processes that a test starts, pauses at a failpoint, resumes, kills and reads the result of.

An actor runs one top-level function. It is forked from a server that has imported all modules, so a start takes
milliseconds. It reads its failpoints from its environment before it calls the function.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

from omnigraph.base import failpoints
from omnigraph.base.errors import Applied, OmnigraphError
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import LeaseTerms
from tests.waiting import SECONDS_MAX, wait_until

SHORT_LEASE_SECONDS: Final = 0.4
_PRELOADED: Final = ("tests.graph.concurrency.jobs", "tests.graph.concurrency.torturers")

_context: Final = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(_PRELOADED))


def short_lease(wait_seconds: float = SECONDS_MAX) -> WriteEnvironment:
    """Return an environment in which the lease of another writer is over after a short time without renewal."""
    return WriteEnvironment(terms=LeaseTerms(lease_seconds=SHORT_LEASE_SECONDS, wait_seconds=wait_seconds))


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of the function of an actor: its value, or the error that it raised."""

    value: Any = None
    error: str | None = None
    applied: Applied | None = None
    message: str = ""
    hint: str = ""


class Actor:
    """A process. Use it in a `with` block, which kills it if it still runs."""

    def __init__(self, job: Callable[..., Any], *arguments: Any, points: str = "") -> None:
        self._answers, theirs = _context.Pipe(duplex=False)
        self.process: ForkServerProcess = _context.Process(
            target=_perform, args=(points, theirs, job, arguments), daemon=True
        )
        self.process.start()
        theirs.close()

    def __enter__(self) -> Actor:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def wait_until_stopped(self) -> Actor:
        """Wait until the actor has stopped itself at a failpoint."""
        wait_until(lambda: _state(self.pid) in ("T", "") or self._answers.poll(), "the actor stops")
        assert _state(self.pid) == "T", f"it did not stop: {self.answer()}"
        return self

    def wait_until_killed(self) -> Actor:
        """Wait until the actor has killed itself at a failpoint."""
        self.process.join(SECONDS_MAX)
        assert self.process.exitcode == -signal.SIGKILL, f"it did not die: {self.process.exitcode}"
        return self

    def resume(self) -> Actor:
        os.kill(self.pid, signal.SIGCONT)
        return self

    def kill(self) -> None:
        if self.process.is_alive():
            os.kill(self.pid, signal.SIGKILL)
        self.process.join(SECONDS_MAX)

    def answer(self) -> Answer:
        """Wait for the result of the function and return it."""
        assert self._answers.poll(SECONDS_MAX), "the actor returned no answer"
        answer = self._answers.recv()
        assert isinstance(answer, Answer), f"the actor failed:\n{answer}"
        self.process.join(SECONDS_MAX)
        return answer


def _perform(points: str, answers: Connection, job: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.environ[failpoints.ENVIRONMENT_VARIABLE] = points
    importlib.reload(failpoints)
    try:
        answers.send(Answer(value=job(*arguments)))
    except OmnigraphError as error:
        answers.send(Answer(None, error.code, error.applied, error.message, error.hint))
    except BaseException:
        answers.send(traceback.format_exc())
        raise


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return ""
