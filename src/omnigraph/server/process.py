"""The process of a server: it opens the graph, listens, and ends when it is told to.

In: settings. Out: an exit code. Once it listens, the only line on stdout is the address. SIGTERM and SIGINT close the
listener, let running requests finish and end with 0.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import uvicorn

from omnigraph.api.graph import open as open_graph
from omnigraph.base import limits
from omnigraph.base.errors import OmnigraphError, UsageError
from omnigraph.client.local import LocalGraph
from omnigraph.engine.options import QueryLimits
from omnigraph.server.admission import Admission
from omnigraph.server.app import DEFAULT_GRAPH, Serving, make_app
from omnigraph.server.auth import TokenTable
from omnigraph.server.boot import UNAUTHENTICATED, AccessState, decide_state, read_flag, read_tokens
from omnigraph.server.gate import AccessGate
from omnigraph.server.logs import log_event, start_log
from omnigraph.server.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What a server serves, and where it listens."""

    store: str
    bind: str = "127.0.0.1:8080"
    access: AccessState = AccessState.READ
    is_unauthenticated: bool = False
    tls_certificate: str | None = None
    tls_key: str | None = None
    root_path: str = ""
    cors_origins: tuple[str, ...] = ()
    has_public_metrics: bool = False
    logs_json: bool = False
    grace_seconds: int = 25


def run_server(settings: ServerSettings, environment: Mapping[str, str] = os.environ) -> int:
    """Serve until a signal ends the process; return the exit code."""
    tokens = read_tokens(environment)
    state = decide_state(
        has_tokens=bool(tokens),
        has_policy=False,
        is_unauthenticated=settings.is_unauthenticated or read_flag(environment, UNAUTHENTICATED),
        access=settings.access,
    )
    host, port = parse_bind(settings.bind)
    start_log(as_json=settings.logs_json)
    graph = open_graph(settings.store)
    admission = Admission()
    memory = max(4 * limits.ENGINE_MEMORY_BYTES // admission.read_threads, limits.SERVER_QUERY_MEMORY_BYTES_MIN)
    allowed = QueryLimits(memory_bytes=memory, seconds=limits.SERVER_QUERY_SECONDS_MAX)
    tokens_file = _Tokens(environment, TokenTable.make(tokens))
    signal.signal(signal.SIGHUP, tokens_file.read_again)
    serving = Serving(
        graphs={DEFAULT_GRAPH: LocalGraph(graph=graph, uri=f"graphs/{DEFAULT_GRAPH}", limits=allowed)},
        gate=AccessGate(state),
        state=state,
        admission=admission,
        tokens=tokens_file.table,
        metrics=Metrics(admission),
        root_path=settings.root_path,
        has_public_metrics=settings.has_public_metrics,
    )
    config = uvicorn.Config(
        make_app(serving),
        host=host,
        port=port,
        http="httptools",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        root_path=settings.root_path,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        timeout_graceful_shutdown=settings.grace_seconds,
    )
    _Server(config).run()
    return 0


class _Tokens:
    """The tokens of the environment. SIGHUP reads them again; a file that is invalid then changes nothing."""

    def __init__(self, environment: Mapping[str, str], table: TokenTable) -> None:
        self._environment = environment
        self._table = table

    def table(self) -> TokenTable:
        """Return the current tokens."""
        return self._table

    def read_again(self, *_: object) -> None:
        """Read the tokens again."""
        try:
            self._table = TokenTable.make(read_tokens(self._environment))
        except OmnigraphError as error:
            log_event("tokens not read", reason=error.message)
        else:
            log_event("tokens read", actors=len(self._table.actors))


class _Server(uvicorn.Server):
    """A uvicorn server that prints its address and ends with 0 after a signal."""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for listener in server.sockets:
                host, port = listener.getsockname()[:2]
                sys.stdout.write(f"OMNIGRAPH_LISTEN_ADDR={host}:{port}\n")
        sys.stdout.flush()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals as uvicorn does, but do not raise them again after the shutdown."""
        with contextlib.suppress(KeyboardInterrupt), super().capture_signals():
            yield
            self._captured_signals.clear()


def parse_bind(text: str) -> tuple[str, int]:
    """Return the host and the port of `HOST:PORT`."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(
            f"invalid address: expected HOST:PORT, got '{text}'",
            code="bind_invalid",
            hint="Pass `--bind 127.0.0.1:8080`, or port 0 for a free port.",
        )
    return host.strip("[]"), int(port)
