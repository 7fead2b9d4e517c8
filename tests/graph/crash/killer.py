"""Kill writers: send requests to the server of `child.py`, one per test process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from omnigraph.base.failpoints import Failpoint
from omnigraph.storage.location import Location, parse_location
from tests.graph.crash.child import Request
from tests.graph.crash.scenarios import SCENARIOS
from tests.style.source import ROOT


class SurvivedError(AssertionError):
    """The process was not killed at the requested call or failpoint."""


@dataclass(slots=True)
class Killer:
    """Runs scenarios in processes that are killed. Prepared graphs are kept and copied where that is possible."""

    server: subprocess.Popen[str]
    folder: Path
    location_count: int = 0
    templates: dict[str, Path] = field(default_factory=dict)

    def prepare_graph(self, scenario: str) -> Location:
        """Return a new graph that is ready for the `act` of the scenario."""
        definition = SCENARIOS[scenario]
        if definition.in_place:
            location = self.new_location()
            definition.prepare(location, self.kill)
            return location
        if scenario not in self.templates:
            template = self.new_location()
            definition.prepare(template, self.kill)
            self.templates[scenario] = Path(template.uri)
        location = self.new_location()
        shutil.copytree(self.templates[scenario], location.uri)
        return location

    def new_location(self) -> Location:
        """Return a location that does not exist yet."""
        self.location_count += 1
        return parse_location(str(self.folder / f"{self.location_count:04d}.omni"))

    def kill(self, scenario: str, location: Location, point: Failpoint | str, hit: int = 1) -> None:
        """Run `act` and kill it at a hit of a failpoint; raise if it was not killed."""
        self.require_kill(self._request(scenario, location, failpoints=f"{point}@{hit}=kill"))

    def kill_at_effect(
        self, scenario: str, location: Location, effect: int, late_ms: float = 0.0, *, may_live: bool = False
    ) -> None:
        """Run `act` and kill it at a durable call, counted from 1."""
        request = self._request(scenario, location, effect=effect, late_ms=late_ms)
        if may_live:
            assert self.run(request) in (0, -signal.SIGKILL)
        else:
            self.require_kill(request)

    def trace(self, scenario: str, location: Location) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Run `act` to its end; return every failpoint hit, as `name@number`, and every durable call, in order."""
        report = self.folder / "report.txt"
        code = self.run(self._request(scenario, location, report=str(report)))
        assert code == 0, f"{scenario} ended with {code}"
        hits, effects = report.read_text().split("\n\n")
        return tuple(hits.split()), tuple(effects.split())

    def require_kill(self, request: Request) -> None:
        """Run the request; raise if it did not end by SIGKILL."""
        code = self.run(request)
        if code != -signal.SIGKILL:
            raise SurvivedError(f"{request.scenario} was not killed at {request}: {code}")

    def run(self, request: Request) -> int:
        """Run the request; return its exit code."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(msgspec.json.encode(request).decode() + "\n")
        self.server.stdin.flush()
        return int(self.server.stdout.readline())

    def _request(
        self,
        scenario: str,
        location: Location,
        *,
        failpoints: str = "",
        effect: int = 0,
        late_ms: float = 0.0,
        report: str = "",
    ) -> Request:
        options = dict(location.options)
        return Request(scenario, location.uri, options, failpoints, effect, late_ms, report)


@contextmanager
def start_killer(folder: Path, library: Path | None = None) -> Iterator[Killer]:
    """Start a killer whose graphs are below `folder`; `library` is loaded into its processes."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.graph.crash.child"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    if library is not None:
        environment["LD_PRELOAD"] = str(library)
    with (
        (folder / "stderr.txt").open("w") as errors,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as server,
    ):
        yield Killer(server, folder)
        assert server.stdin is not None
        server.stdin.close()
