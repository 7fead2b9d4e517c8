"""Fixtures of all tests: Hypothesis' settings, and locations for graphs.

`store_location` runs a test once per kind of store, each time at a new and empty location. S3 is a real server process
on loopback, one per test process.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from omnigraph.pipeline.spark.session import active_session
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.settings import DURABILITY_VARIABLE
from tests.shares import leave_to_soak
from tests.together import GroupScheduling, group_of
from tests.waiting import SECONDS_MAX, wait_until

# A busy machine or chance must not fail a test: a commit passes or fails the same way in every run. `make soak` tries
# new cases, with `--hypothesis-profile=soak`, and prints how to run a failed one again.
settings.register_profile("omnigraph", deadline=None, derandomize=True, database=None)
settings.register_profile("soak", deadline=None, print_blob=True)
settings.load_profile("omnigraph")

# Syncs take most of the time of a small write; the tests of durability enable them.
os.environ.setdefault(DURABILITY_VARIABLE, "process")

# A shell that starts the tests in the background makes them ignore Ctrl-C, and the programs that they start inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ENDPOINT = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")
_BUCKET = "graphs"


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running S3 server with one bucket."""

    endpoint: str
    bucket: str

    @property
    def options(self) -> dict[str, str]:
        """The settings to access it, with Lance's names."""
        return {
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "aws_region": "us-east-1",
            "aws_endpoint": self.endpoint,
            # A busy machine is slow: only a test about timeouts sets limits that it reaches.
            "connect_timeout": f"{SECONDS_MAX:.0f}s",
            "timeout": f"{SECONDS_MAX:.0f}s",
        }

    def location(self, prefix: str) -> Location:
        return parse_location(f"s3://{self.bucket}/{prefix}", self.options)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests for `make soak` before pytest reads the marks."""
    leave_to_soak(items)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the Spark session of a group of tests at its end: the small jobs of later tests would run on it."""
    if nextitem is not None and group_of(nextitem.nodeid) == group_of(item.nodeid):
        return
    session = active_session() if "pyspark" in sys.modules else None
    if session is not None:
        session.stop()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Run tests that share a resource in one process."""
    return GroupScheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many cells of the crash matrix were run, and how many violations they found."""
    notes = [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for key, value in getattr(report, "user_properties", [])
        if key == "crash_cell"
    ]
    if notes:
        terminalreporter.write_line(f"crash matrix: {len(notes)} cells run, {sum(notes)} violations")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether to write the golden files."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server process on loopback, with an empty bucket."""
    with running_s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@contextmanager
def running_s3_server(directory: Path) -> Iterator[S3Server]:
    """Run a new S3 server process with an empty bucket; its log is in the directory."""
    log = directory / "server.log"
    # The server chooses its port: a port that was free before may be in use now.
    command = [str(Path(sys.executable).parent / "moto_server"), "-H", "127.0.0.1", "-p", "0"]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            wait_until(lambda: _ENDPOINT.search(log.read_text()) or process.poll() is not None)
            match = _ENDPOINT.search(log.read_text())
            assert match, f"the S3 server did not start: {log.read_text()}"
            server = S3Server(match[1], _BUCKET)
            request = urllib.request.Request(f"{server.endpoint}/{server.bucket}", method="PUT")
            with urllib.request.urlopen(request, timeout=SECONDS_MAX):
                yield server
        finally:
            process.kill()


@pytest.fixture(scope="session")
def warm_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables with which commands run on a warm Spark server, so that they need not start Spark."""
    command = str(Path(sys.executable).parent / "omnigraph")
    home = str(tmp_path_factory.mktemp("warm-spark"))
    variables = {"OMNIGRAPH_HOME": home, "OMNIGRAPH_CLASS_ARCHIVE": "off", "OMNIGRAPH_RUNNER": "spark"}
    environ = {**os.environ, **variables}
    subprocess.run([command, "spark", "start", "--quiet"], env=environ, check=True)
    try:
        yield variables
    finally:
        subprocess.run([command, "spark", "stop", "--quiet"], env=environ, check=True)


@pytest.fixture
def local_location(tmp_path: Path) -> Location:
    """An empty location on the local disk."""
    return parse_location(str(tmp_path / "graph.omni"))


@pytest.fixture
def s3_location(s3_server: S3Server) -> Location:
    """An empty prefix on S3."""
    return s3_server.location(f"{uuid.uuid4().hex}/graph.omni")


@pytest.fixture
def memory_location() -> Location:
    """An empty location in this process's memory."""
    return parse_location(f"memory://{uuid.uuid4().hex}/graph.omni")


@pytest.fixture(params=["local", "s3", "memory"])
def store_location(request: pytest.FixtureRequest) -> Location:
    """An empty location in each kind of store."""
    location = request.getfixturevalue(f"{request.param}_location")
    assert isinstance(location, Location)
    return location


@pytest.fixture(params=["local", "s3"])
def durable_location(request: pytest.FixtureRequest) -> Location:
    """An empty location in each kind of store that outlives a process."""
    location = request.getfixturevalue(f"{request.param}_location")
    assert isinstance(location, Location)
    return location


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
