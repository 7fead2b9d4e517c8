"""Concurrency on S3: faults between client and server, paused writers, late requests, and a short torture test.

For every answer of the store, a write is applied exactly once, or fails and reports that it was not applied, or reports
that the outcome is unknown; then the next open recovers it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import Applied, OmnigraphError
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import LeaseTerms, acquire_lease
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.recovery.run import recover_on_open
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.conftest import S3Server
from tests.graph.concurrency import jobs
from tests.graph.concurrency.actors import Actor, short_lease
from tests.graph.concurrency.checks import (
    EMPTY,
    check_final_state,
    is_in_history,
    linear_history,
    pending,
    read_drifted_tables,
)
from tests.graph.concurrency.torturers import read_logs, read_until, replay, write_until
from tests.graph.writers import Contents, apply, create, read_contents, run, triple
from tests.s3_proxy import Fault, Mode, S3Proxy
from tests.waiting import SECONDS_MAX, wait_until

TORTURE_SECONDS: Final = 15.0
TIMEOUTS: Final = ("1s", "2s", "4s", "8s", "16s", "32s")
WITHOUT_RETRIES: Final = {"client_max_retries": "0", "client_retry_timeout": "0"}
MINE: Final = triple(["mine"])


@pytest.fixture(scope="module")
def proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server).running() as running:
        yield running


@pytest.fixture
def graph(s3_location: Location) -> Location:
    create(s3_location)
    run(s3_location, triple(["first"]))
    return s3_location


def _through(proxy: S3Proxy, location: Location, **settings: str) -> Location:
    """Return the same location with the proxy as endpoint."""
    return proxy.location(location.uri.removeprefix(f"s3://{proxy.server.bucket}/"), **settings)


FAULTS: Final = {
    "lock": ("PUT", r"__locks/.*/\d{20}\.json"),
    "listing of the locks": ("GET", r"list-type=2.*__locks"),
    "staged rows": ("PUT", r"nodes/.*/data/"),
    "intent": ("PUT", r"__recovery/"),
    "version of a table": ("PUT", r"nodes/.*_versions/"),
    "version of the last table": ("PUT", r"edges/.*_versions/"),
    "version of the manifest": ("PUT", r"__manifest/_versions/"),
    "listing of the manifest": ("GET", r"list-type=2.*__manifest"),
    "end of the intent": ("POST", r"[?&]delete"),
    "release": ("PUT", r"__locks/.*release"),
}


COLLECTED: Final = pytest.mark.parametrize(
    "collected", [pytest.param(False, marks=pytest.mark.soak), True], ids=["kept", "collected"]
)


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(Mode.FAIL, marks=pytest.mark.soak),
        Mode.FAIL_APPLIED,
        pytest.param(Mode.DROP_RESPONSE, marks=pytest.mark.soak),
    ],
    ids=lambda mode: mode.name,
)
@pytest.mark.parametrize("what", FAULTS)
def test_one_fault(proxy: S3Proxy, graph: Location, what: str, mode: Mode) -> None:
    """The write gets the error, because the client does not retry."""
    before = read_contents(graph)
    method, path = FAULTS[what]
    with proxy.fault(Fault(mode, path, method)) as fault:
        answer = _attempt(_through(proxy, graph, **WITHOUT_RETRIES))
    assert fault.acted, "the fault was not used"
    _check_answer(graph, before, answer)


@pytest.mark.parametrize("what", ["version of a table", "version of the manifest", "intent"])
def test_store_fails_until_the_writer_gives_up(proxy: S3Proxy, graph: Location, what: str) -> None:
    before = read_contents(graph)
    method, path = FAULTS[what]
    with proxy.fault(Fault(Mode.FAIL_APPLIED, path, method, times=1_000)):
        answer = _attempt(_through(proxy, graph, **WITHOUT_RETRIES))
    _check_answer(graph, before, answer)


@pytest.mark.parametrize("what", ["intent", "version of a table", "version of the manifest"])
def test_request_arrives_after_the_timeout_of_the_client(proxy: S3Proxy, graph: Location, what: str) -> None:
    """The client gives up after its timeout and recovers what it can; then its request arrives.

    On a busy machine an earlier request may take longer than the timeout. Then the write fails earlier, which must be
    correct too, and the next attempt has a longer timeout.
    """
    method, path = FAULTS[what]
    for number, timeout in enumerate(TIMEOUTS):
        name, before = f"mine-{number}", read_contents(graph)
        with proxy.fault(Fault(Mode.HOLD, path, method)) as fault:
            answer = _attempt(_through(proxy, graph, timeout=timeout, **WITHOUT_RETRIES), name)
            fault.gate.set()
            wait_until(partial(_has_passed, fault), "the request arrives")
        _check_answer(graph, before, answer, name)
        if fault.acted:
            return
    pytest.fail("every attempt failed before the request that should arrive late")


def _has_passed(fault: Fault) -> bool:
    return len(fault.passed) == len(fault.acted)


def _attempt(location: Location, name: str = "mine") -> str | Applied:
    """Return the acknowledged commit, or the `applied` value of the error."""
    try:
        commit = run(location, triple([name]), environment=short_lease())
    except OmnigraphError as error:
        return error.applied or pytest.fail(f"{error.code} does not report whether it was applied")
    assert commit is not None
    return commit.id


def _check_answer(location: Location, before: Contents, answer: str | Applied, name: str = "mine") -> None:
    # The release of the lease may have failed too. This process still runs, so an open would not break its lease.
    acquire_lease(ObjectStore(location), read_snapshot(location).branch.id, "recover", short_lease().terms).release()
    recover_on_open(location, MAIN, short_lease())
    happened = name in read_contents(location)["node:Person"]
    match answer:
        case Applied.NO:
            assert not happened
        case Applied.UNKNOWN:
            pass
        case commit:
            assert happened
            assert is_in_history(location, str(commit))
    check_final_state(location, apply(before, triple([name])) if happened else before)


@pytest.mark.parametrize("step", ["arm.before", "commit.before@2", "publish.before"])
def test_writer_paused_past_its_lease(graph: Location, step: str) -> None:
    before = read_contents(graph)
    with Actor(jobs.write_changes, graph, MINE, points=f"{step}=stop") as paused:
        paused.wait_until_stopped()
        for name in ("next", "second"):
            run(graph, triple([name]), environment=short_lease())
        jobs.delete_old_manifests(graph)
        answer = paused.resume().answer()
    assert answer.applied is Applied.UNKNOWN
    others = [*triple(["next"]), *triple(["second"])]
    check_final_state(graph, apply(before, [*MINE, *others] if step == "publish.before" else others))


@COLLECTED
@pytest.mark.parametrize("what", ["version of a table", "version of the last table", "version of the manifest"])
def test_version_arrives_late(proxy: S3Proxy, graph: Location, what: str, collected: bool) -> None:
    """The request is delayed while successors write and delete old versions, so that its number is free again.

    The store accepts it and reports success to the writer, which must not rely on it.
    """
    before = read_contents(graph)
    method, path = FAULTS[what]
    with (
        proxy.fault(Fault(Mode.HOLD, path, method)) as held,
        Actor(jobs.write_changes, _through(proxy, graph, timeout=f"{SECONDS_MAX:.0f}s"), MINE) as late,
    ):
        wait_until(lambda: held.acted, "the request is held")
        for name in ("next", "second", "third"):
            run(graph, triple([name]), environment=short_lease())
        if collected:
            jobs.delete_old_manifests(graph)
            jobs.delete_old_table_versions(graph)
        held.gate.set()
        answer = late.answer()
    happened = "mine" in read_contents(graph)["node:Person"]
    assert happened is (what == "version of the manifest"), "the write is applied if all its tables have moved"
    assert answer.error is not None or is_in_history(graph, answer.value)
    others = [change for name in ("next", "second", "third") for change in triple([name])]
    check_final_state(graph, apply(before, [*MINE, *others] if happened else others))


@COLLECTED
def test_branch_row_arrives_late(proxy: S3Proxy, graph: Location, collected: bool) -> None:
    """No other process finishes it, so only the newest version shows whether the branch exists."""
    before = read_contents(graph)
    method, path = FAULTS["version of the manifest"]
    with (
        proxy.fault(Fault(Mode.HOLD, path, method)) as held,
        Actor(jobs.create_from_main, _through(proxy, graph, timeout=f"{SECONDS_MAX:.0f}s"), "late") as maker,
    ):
        wait_until(lambda: held.acted, "the request is held")
        for name in ("next", "second", "third"):
            run(graph, triple([name]), environment=short_lease())
        if collected:
            jobs.delete_old_manifests(graph)
        held.gate.set()
        answer = maker.answer()
    branches = read_snapshot(graph).state.branches
    assert answer.value == (branches["late"].id if "late" in branches else None), answer
    check_final_state(
        graph, apply(before, [change for name in ("next", "second", "third") for change in triple([name])])
    )


@pytest.mark.soak
def test_four_writers_of_which_one_is_killed(s3_server: S3Server, tmp_path: Path) -> None:
    location = s3_server.location(f"{uuid.uuid4().hex}/graph.omni")
    create(location)
    deadline = SYSTEM_CLOCK.monotonic() + TORTURE_SECONDS
    logs = [tmp_path / f"w{index}.log" for index in range(4)]
    with ExitStack() as stack:
        reader = stack.enter_context(Actor(read_until, location, deadline))
        writers = [stack.enter_context(Actor(write_until, location, log, log.stem, deadline)) for log in logs]
        while SYSTEM_CLOCK.monotonic() < deadline - 3:
            victim = tmp_path / f"v{len(logs)}.log"
            logs.append(victim)
            with Actor(write_until, location, victim, victim.stem, deadline):
                SYSTEM_CLOCK.sleep(2.0)
        for writer in writers:
            writer.answer()
        _, partial_reads = reader.answer().value
    assert partial_reads == []
    outcome = read_logs(log for log in logs if log.exists())
    recover_on_open(location, MAIN, WriteEnvironment(terms=LeaseTerms(wait_seconds=SECONDS_MAX)))
    history = linear_history(location)
    assert outcome.acknowledged - {commit.id for commit in history} == set()
    assert read_contents(location) == replay(history, outcome.tried, EMPTY)
    run(location, triple(["last"]))
    assert read_drifted_tables(location) == set()
    assert pending(location) == ()
