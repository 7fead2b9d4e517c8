"""One request beyond each limit of a server: changes per actor, threads, waiting requests, and slow bodies.

`test_requests` has the length of a body, `test_streams` the number of streams, `tests/client/test_local` the time and
the result of a query.
"""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import omnigraph as og
from omnigraph.base import limits
from omnigraph.client.local import LocalGraph
from omnigraph.client.paging import plan_wait
from omnigraph.server import admission
from omnigraph.server.admission import Admission, Lane
from omnigraph.server.errors import RequestError, error_answer
from omnigraph.server.waiting import Waiting
from omnigraph.wire.requests import FeedParameters
from tests.server.process import serve
from tests.waiting import SECONDS_MAX, wait_until


def test_changes_of_an_actor(graph_path: Path, tmp_path: Path) -> None:
    held = tmp_path / "held"
    tokens = {"ada": "token-ada", "bob": "token-bob"}
    environment = {
        "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(tokens),
        "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "1",
        "OMNIGRAPH_FAILPOINTS": f"publish.before@1=hold:{held}",
    }

    def insert(slug: str, actor: str) -> int:
        body = {"query": f'query a() {{ insert Person {{ slug: "{slug}" }} }}'}
        return server.send("POST", "mutate", body, token=tokens[actor]).status

    with (
        serve(graph_path, tmp_path, "--access", "write", environment=environment) as server,
        ThreadPoolExecutor() as threads,
    ):
        first = threads.submit(insert, "first", "ada")
        wait_until(lambda: held.with_suffix(".reached").exists(), "the first change waits before its commit")
        body = {"query": 'query a() { insert Person { slug: "second" } }'}
        rejected = server.send("POST", "mutate", body, token=tokens["ada"])
        assert rejected.status == 429
        assert rejected.headers["retry-after"] == "5"
        assert rejected.document["error_code"] == "too_many_changes"
        assert rejected.document["resource_limit"]["limit"] == 1
        other = threads.submit(insert, "other", "bob")
        held.touch()
        assert (first.result(), other.result()) == (200, 200)
        assert insert("third", "ada") == 200


def test_requests_that_wait(graph_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They end when there is a commit: the time that they wait at most is longer than the test may take."""
    monkeypatch.setattr(limits, "SERVER_WAIT_SECONDS_MAX", 2 * SECONDS_MAX)
    graph = LocalGraph(graph=og.open(graph_path), uri="graphs/default")

    async def use() -> RequestError:
        waiting = Waiting()
        async with asyncio.timeout(SECONDS_MAX), anyio.create_task_group() as tasks:
            wait = plan_wait(FeedParameters(wait=2 * SECONDS_MAX), graph.poll_changes(FeedParameters()))
            assert wait is not None
            for _ in range(limits.SERVER_WAITING_MAX):
                tasks.start_soon(waiting.wait, graph, wait)
            while waiting.count < limits.SERVER_WAITING_MAX:
                await anyio.lowlevel.checkpoint()
            with pytest.raises(RequestError) as rejected:
                await waiting.wait(graph, wait)
            await anyio.to_thread.run_sync(graph.graph.mutate, 'query a() { insert Person { slug: "awaited" } }')
        assert waiting.count == 0
        return rejected.value

    answer = error_answer(anyio.run(use))
    assert (answer.status, answer.document["error_code"], answer.headers["Retry-After"]) == (503, "server_busy", "1")


def test_queries_run_next_to_requests_that_wait(graph_path: Path, tmp_path: Path) -> None:
    count = max(50, 2 * Admission().read_threads)
    with serve(graph_path, tmp_path) as server, ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(count)]
        for connection in connections:
            connection.sendall(b"GET /graphs/default/changes?wait=60 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        wait_until(lambda: server.runs("wait", count), "they wait")
        assert server.slugs() == ["ada", "bob"]
        assert server.insert("awaited").status == 200
        # On a busy machine some of them get 503, because all of them wake up together.
        assert any(b'"id":"awaited"' in connection.makefile("rb").read() for connection in connections)


def test_exports_at_the_same_time(graph_path: Path, tmp_path: Path) -> None:
    """An export whose client does not read it fills the buffers of its connection, and keeps its place."""
    lines = "".join(f'{{"type":"Team","data":{{"name":"{number}{"x" * 1_000_000}"}}}}\n' for number in range(8))
    with serve(graph_path, tmp_path) as server, ExitStack() as connections:
        assert server.send("POST", "load", {"data": lines}).status == 200
        for _ in range(limits.SERVER_STREAMS):
            connection = connections.enter_context(server.connect())
            head = "POST /graphs/default/export HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: 2\r\n\r\n{{}}".encode())
        wait_until(lambda: server.runs("stream", limits.SERVER_STREAMS), "they run")
        rejected = server.send("POST", "export", {})
        assert (rejected.status, rejected.document["error_code"]) == (503, "server_busy")
        assert rejected.headers["retry-after"] == "1"
        assert server.slugs() == ["ada", "bob"]
        connections.close()
        wait_until(lambda: server.runs("stream", 0), "a closed connection frees its place")
        assert server.send("POST", "export", {}).status == 200


def test_a_request_without_a_thread() -> None:
    async def use() -> list[object]:
        lane, release, outcomes = Lane("read", 1, 0.01), Event(), list[object]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lane.run, release.wait)
            while not lane.running:
                await anyio.lowlevel.checkpoint()
            try:
                await lane.run(lambda: None)
            except RequestError as error:
                outcomes.append(error_answer(error))
            release.set()
        outcomes.append(await lane.run(lambda: "free"))
        return outcomes

    busy, free = anyio.run(use)
    assert (busy.status, busy.headers["Retry-After"]) == (503, "1")  # type: ignore[attr-defined]
    assert free == "free"


def test_a_read_does_not_wait_for_longer_ones() -> None:
    async def use() -> str:
        lane, release = Lane("read", 8, SECONDS_MAX, is_short=True), Event()
        async with asyncio.timeout(SECONDS_MAX), asyncio.TaskGroup() as tasks:
            for _ in range(7):
                tasks.create_task(lane.run(release.wait))
            while lane.running < 7:
                await asyncio.sleep(0)
            try:
                return await lane.run(lambda: "short")
            finally:
                release.set()

    assert asyncio.run(use()) == "short"


def test_a_cancelled_request_holds_its_place_until_its_thread_ends() -> None:
    async def use() -> str:
        lane, release = Lane("read", 1, 0.01), Event()
        request = asyncio.create_task(lane.run(release.wait))
        while not lane.running:
            await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        with pytest.raises(RequestError, match="1 requests of kind 'read' are running"):
            await lane.run(lambda: None)
        release.set()
        async with asyncio.timeout(SECONDS_MAX):
            while lane.running:
                await asyncio.sleep(0)
        return await lane.run(lambda: "free")

    assert asyncio.run(use()) == "free"


def test_a_busy_pool_holds_no_results_of_other_threads() -> None:
    async def use() -> None:
        lane, release = Lane("read", 8, SECONDS_MAX, is_short=True), Event()
        async with asyncio.timeout(SECONDS_MAX), asyncio.TaskGroup() as tasks:
            for _ in range(7):
                tasks.create_task(lane.run(release.wait))
            while lane.running < 7:
                await asyncio.sleep(0)
            try:
                result = weakref.ref(await lane.run(lambda: {"long"}))
                await asyncio.sleep(0)  # the step of the loop that delivers a result holds it
                wait_until(lambda: gc.collect() >= 0 and result() is None, "nothing holds the result")
            finally:
                release.set()

    asyncio.run(use())


@pytest.mark.parametrize("is_short", [True, False])
def test_work_that_raises_stop_iteration_ends(is_short: bool) -> None:
    async def run() -> None:
        lane = Lane("read", 1, SECONDS_MAX, is_short=is_short)
        async with asyncio.timeout(SECONDS_MAX):
            with pytest.raises(RuntimeError, match="StopIteration"):
                await lane.run(lambda: next(iter(())))
        assert lane.running == 0

    asyncio.run(run())


@pytest.mark.parametrize(("pool", "is_short"), [("_READ_THREADS", True), ("_THREADS", False)])
def test_a_thread_that_cannot_start_frees_the_place(monkeypatch: pytest.MonkeyPatch, pool: str, is_short: bool) -> None:
    stopped = ThreadPoolExecutor(1)
    stopped.shutdown()

    async def run() -> None:
        lane = Lane("read", 1, SECONDS_MAX, is_short=is_short)
        async with asyncio.timeout(SECONDS_MAX):
            with monkeypatch.context() as patch:
                patch.setattr(admission, pool, stopped)
                with pytest.raises(RuntimeError, match="shutdown"):
                    await lane.run(lambda: "never")
            assert lane.running == 0
            assert await lane.run(lambda: "next") == "next"

    asyncio.run(run())


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, threads in ((1, 8), (4, 8), (8, 16), (100, 64)):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        assert Admission().read_threads == threads


@pytest.mark.soak
def test_a_body_that_does_not_arrive(graph_path: Path, tmp_path: Path) -> None:
    with serve(graph_path, tmp_path) as server, server.connect() as connection:
        head = "POST /graphs/default/load HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: 10\r\n\r\n".encode() + b"{")
        answer = connection.makefile("rb").readline()
        assert answer.startswith(b"HTTP/1.1 408"), answer
