"""Compares a server with the same graph in the process, and with an empty route of the same framework.

Point lookup and two hops over HTTP, the reads per second of 16 clients, the commits per second of 8 clients next to 8
processes, and the memory of the server after many requests. Clients, server and baseline share the cores. As a
program, `python -m bench.server` serves the empty route.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import local
from time import perf_counter
from typing import Any, Final

import omnigraph
from bench.harness import Ratio, compare, median_seconds, sized
from bench.social import make_social, write_social
from bench.writers import COMMITS, INSERT, SCHEMA, WRITERS, measure_writers

ROUNDS: Final = sized(300, 60)
READERS: Final = 16
READS: Final = sized(20_000, 2_000)
READ_ROUNDS: Final = 10
REQUESTS: Final = sized(100_000, 3_000)
OVERHEAD_SECONDS_MAX: Final = 0.003
"""How much longer than the empty route a point lookup may take."""
MEMORY_GROWTH_MAX: Final = 1.1
"""The memory after all requests over that after a tenth of them."""
LOOKUP: Final = "query q($s: String) { match { $p: Person { slug: $s } } return { $p.name, $p.age } }"
TWO_HOPS: Final = "query q($s: String) { match { $p: Person { slug: $s } $p knows{1,2} $f } return { $f.name } }"
PARAMETERS: Final = {"s": "p77"}
_RESPONSE: Final = re.compile(rb"(?is).*?\r\ncontent-length: (\d+)\r\n.*?\r\n\r\n(.*)")
"""A response, as far as it was received: the length of its body, and its body."""
_ROOT: Final = Path(__file__).parents[1]
_QUERY: Final = "/graphs/default/query"
_MUTATE: Final = "/graphs/default/mutate"


def run(folder: Path) -> list[Ratio]:
    """Return the ratios of reads, of writes and of memory."""
    graph = write_social(folder / "social.omni", make_social())
    with _serve(folder / "social.omni") as server, _start([sys.executable, "-m", "bench.server"]) as empty:
        ratios = [*_compare_latency(graph, server, empty), *_compare_readers(graph, server)]
        ratios.append(_measure_memory(server))
    return [*ratios, _compare_writers(folder)]


class Server:
    """A server process, and one connection to it per thread."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.pid = process.pid
        self._address = address
        self._connections = local()

    def post(self, path: str, document: Any) -> bytes:
        """Send a document on the connection of this thread and return the body of the response.

        The client is a socket, not a library, so that it takes little of the cores that it shares with the server.
        """
        body = json.dumps(document).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self._address}\r\nContent-Type: application/json\r\n"
        connection = getattr(self._connections, "open", None)
        if connection is None:
            host, _, port = self._address.partition(":")
            connection = self._connections.open = socket.create_connection((host, int(port)))
        connection.sendall(b"%sContent-Length: %d\r\n\r\n%s" % (head.encode(), len(body), body))
        answer = b""
        while (parts := _RESPONSE.match(answer)) is None or len(parts[2]) < int(parts[1]):
            received = connection.recv(65_536)
            assert received, "the server closed the connection"
            answer += received
            assert answer.startswith(b"HTTP/1.1 200 "[: len(answer)]), answer
        return parts[2]

    def memory_bytes(self) -> int:
        """Return the resident memory of the server."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def _serve(graph: Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "omnigraph.cli.main", "serve", str(graph), "--unauthenticated"]
    with _start([*command, "--bind", "127.0.0.1:0"]) as server:
        yield server


@contextmanager
def _start(command: list[str]) -> Iterator[Server]:
    """Start a server that prints its address, and stop it at the end. Its log is not read."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=_ROOT)
    try:
        assert process.stdout is not None
        yield Server(process, process.stdout.readline().strip().partition("=")[2])
    finally:
        process.terminate()
        process.wait()


def _compare_latency(graph: omnigraph.Graph, server: Server, empty: Server) -> list[Ratio]:
    lookup, hops = ({"query": text, "params": PARAMETERS} for text in (LOOKUP, TWO_HOPS))
    actions: dict[str, Callable[[], object]] = {
        "lookup over HTTP": lambda: server.post(_QUERY, lookup),
        "lookup in the process": lambda: graph.query(LOOKUP, PARAMETERS).to_arrow(),
        "two hops over HTTP": lambda: server.post(_QUERY, hops),
        "two hops in the process": lambda: graph.query(TWO_HOPS, PARAMETERS).to_arrow(),
        "empty route": lambda: empty.post("/", lookup),
    }
    times = median_seconds(actions, ROUNDS)
    above = times["lookup over HTTP"] - times["empty route"]
    detail = f"lookup {times['lookup over HTTP'] * 1e3:.2f} ms, empty route {times['empty route'] * 1e3:.2f} ms"
    return [
        Ratio("point lookup above the empty route, over 3 ms", above / OVERHEAD_SECONDS_MAX, 1.0, detail),
        compare("point lookup over HTTP", times, ("lookup over HTTP", "lookup in the process"), None),
        compare("two hops over HTTP", times, ("two hops over HTTP", "two hops in the process"), None),
    ]


def _compare_readers(graph: omnigraph.Graph, server: Server) -> list[Ratio]:
    """Return how many reads the process alone makes for each read of the clients: as many threads, and one thread.

    The limit is for the same number of readers.
    """
    lookup = {"query": LOOKUP, "params": PARAMETERS}

    def request() -> object:
        return server.post(_QUERY, lookup)

    def read() -> object:
        return graph.query(LOOKUP, PARAMETERS).to_arrow()

    sides: dict[str, tuple[Callable[[], object], int]] = {
        f"{READERS} clients": (request, READERS),
        "1 thread": (read, 1),
        f"{READERS} threads": (read, READERS),
    }
    rounds = [
        {side: _rate(action, threads, READS // READ_ROUNDS) for side, (action, threads) in sides.items()}
        for _ in range(READ_ROUNDS)
    ]
    rates = {side: median(round_rates[side] for round_rates in rounds) for side in sides}
    clients = f"{READERS} clients"

    def compare_with(alone: str, limit: float | None) -> Ratio:
        pair = {side: rates[side] for side in (clients, alone)}
        detail = ", ".join(f"{side} {rate:.0f} reads/s" for side, rate in pair.items())
        name = f"{alone} of the process alone over {clients}, reads per second"
        return Ratio(name, rates[alone] / rates[clients], limit, detail, pair, unit="reads/s")

    return [compare_with(f"{READERS} threads", 2.0), compare_with("1 thread", None)]


def _rate(read: Callable[[], object], threads: int, count: int) -> float:
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: read(), range(threads)))
        started = perf_counter()
        list(pool.map(lambda _: read(), range(count)))
        return count / (perf_counter() - started)


def _measure_memory(server: Server) -> Ratio:
    """Return the memory after all requests over that after a tenth of them."""
    lookup = {"query": LOOKUP, "params": PARAMETERS}
    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(lambda _: server.post(_QUERY, lookup), range(REQUESTS // 10)))
        before = server.memory_bytes()
        list(pool.map(lambda _: server.post(_QUERY, lookup), range(REQUESTS)))
        after = server.memory_bytes()
    sides = {"after": after / 1e6, "before": before / 1e6}
    detail = f"{before / 1e6:.0f} MB, then {after / 1e6:.0f} MB"
    return Ratio(f"memory after {REQUESTS:,} requests", after / before, MEMORY_GROWTH_MAX, detail, sides, unit="MB")


def _compare_writers(folder: Path) -> Ratio:
    """Return the commits of 8 processes for each commit of 8 clients, in the same time."""
    by_processes = omnigraph.init(str(folder / "processes.omni"), SCHEMA)
    omnigraph.init(str(folder / "clients.omni"), SCHEMA)
    seconds = measure_writers(by_processes.uri, "sync", WRITERS, 1)
    with _serve(folder / "clients.omni") as server:
        rate = _rate(_insert_into(server), WRITERS, WRITERS * COMMITS)
    rates = {"processes": WRITERS * COMMITS / seconds, "clients": rate}
    detail = ", ".join(f"{side} {value:.0f} commits/s" for side, value in rates.items())
    name = f"{WRITERS} processes over {WRITERS} clients, commits per second"
    return Ratio(name, rates["processes"] / rates["clients"], 0.5, detail, rates, unit="commits/s")


def _insert_into(server: Server) -> Callable[[], object]:
    numbers = iter(range(1_000_000))
    return lambda: server.post(_MUTATE, {"query": INSERT, "params": {"slug": f"c{next(numbers)}"}})


def main() -> None:
    """Serve a route that reads a body and returns an empty document, as the server does before any work."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def empty(request: Request) -> JSONResponse:
        await request.body()
        return JSONResponse({})

    # With the protocol named, asyncio turns off Nagle's algorithm, which adds 40 ms to each response.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"OMNIGRAPH_LISTEN_ADDR=127.0.0.1:{listener.getsockname()[1]}", flush=True)
    app = Starlette(routes=[Route("/", empty, methods=["POST"])])
    uvicorn.Server(uvicorn.Config(app, http="httptools", lifespan="off", log_config=None)).run([listener])


if __name__ == "__main__":
    main()
