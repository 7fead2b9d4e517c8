"""The process of a server: it opens the graph, listens, and ends after a signal.

In: settings. Out: an exit code. Once it listens, the only line on stdout is the address. SIGTERM and SIGINT close the
listener, let running requests finish and end with 0. After the grace period the process ends with 1: an unfinished
write is recovered by the next writer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from omnigraph.api.graph import Graph
from omnigraph.base import limits
from omnigraph.base.errors import OmnigraphError, UsageError
from omnigraph.base.hints import Argument, Hint, hint
from omnigraph.client.local import LocalGraph
from omnigraph.cluster.ledger import LedgerStore
from omnigraph.embedding.settings import read_settings
from omnigraph.engine.options import QueryLimits
from omnigraph.graph.managed import require_unmanaged
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.recovery.run import recover_every_branch
from omnigraph.policy.bundle import BundleKind
from omnigraph.policy.cedar import CompiledPolicy
from omnigraph.policy.files import read_policy
from omnigraph.server.admission import Admission, end_threads
from omnigraph.server.app import DEFAULT_GRAPH, Serving, make_app
from omnigraph.server.auth import TokenTable
from omnigraph.server.bodies import CONTRACT, CONTRACT_VERSION
from omnigraph.server.boot import UNAUTHENTICATED, AccessState, decide_state, read_flag, read_tokens
from omnigraph.server.deployment import Deployment, DeploymentSettings
from omnigraph.server.errors import RequestError, error_answer
from omnigraph.server.gate import AccessGate, ActionGate, PolicyActionGate
from omnigraph.server.health import HealthCache
from omnigraph.server.logs import log_event, start_log
from omnigraph.server.metrics import Metrics
from omnigraph.server.served import ServedGraph, ServedRevision
from omnigraph.server.waiting import Waiting
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What a server serves, and where it listens."""

    store: Location | None
    """The graph; None: the graphs of a cluster."""
    cluster: Location | None = None
    """The root of the cluster."""
    requires_all_graphs: bool = False
    reload_seconds: float = 5.0
    bind: str
    access: AccessState
    is_unauthenticated: bool
    policies: tuple[Path, ...]
    """The files of the policy of a graph; without one, `access` decides."""
    tls_certificate: Path | None
    tls_key: Path | None
    root_path: str
    cors_origins: tuple[str, ...]
    has_pages: bool
    has_public_metrics: bool
    logs_json: bool
    grace_seconds: int
    render_hint: Callable[[Hint], str] = str
    """Returns the commands that fix the findings of `/health`."""


def run_server(settings: ServerSettings, environment: Mapping[str, str] = os.environ) -> int:
    """Serve until a signal ends the process; return the exit code."""
    tokens = read_tokens(environment)
    read_settings(environment)  # a malformed embedding provider ends the process now, not the first query with a text
    is_unauthenticated = settings.is_unauthenticated or read_flag(environment, UNAUTHENTICATED)

    def choose_state(has_policy: bool) -> AccessState:
        return decide_state(
            has_tokens=bool(tokens),
            has_policy=has_policy,
            is_unauthenticated=is_unauthenticated,
            access=settings.access,
        )

    host, port = parse_bind(settings.bind)
    start_log(as_json=settings.logs_json)
    if not is_loopback(host) and settings.tls_certificate is None:
        log_event("warning: tokens and data are sent unencrypted; use a certificate, or a proxy with TLS")
    current = _Current(environment, settings.policies)
    admission, waiting = Admission(), Waiting()
    source: _OneGraph | Deployment
    if settings.store is not None:
        state = choose_state(bool(settings.policies))
        source = _OneGraph(_serve_graph(settings, settings.store, state, current, admission))
    else:
        assert settings.cluster is not None, "a server has a graph or a cluster"
        source = Deployment(_deployment_settings(settings, settings.cluster, choose_state, admission, environment))
        source.follow(settings.reload_seconds)
    _handle_hangup(current, source)
    metrics = Metrics(admission, waiting, lambda: source.current().revision)
    serving = Serving(
        current=source.current,
        applied_revision=source.applied_revision,
        admission=admission,
        tokens=current.tokens,
        metrics=metrics,
        waiting=waiting,
        root_path=settings.root_path.rstrip("/"),
        has_public_metrics=settings.has_public_metrics,
        cors_origins=settings.cors_origins,
        has_pages=settings.has_pages,
    )
    config = uvicorn.Config(
        make_app(serving),
        host=host,
        port=port,
        http=_HttpProtocol,
        ws="none",
        loop="auto",
        lifespan="off",
        timeout_keep_alive=limits.SERVER_KEEP_ALIVE_SECONDS,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # only the token decides who the caller is
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
    server = _Server(config, waiting, settings.grace_seconds)
    server.run()
    return 0 if server.started else 1


@dataclass(frozen=True, slots=True)
class _OneGraph:
    """A server of one graph serves the same for as long as it runs."""

    served: ServedRevision

    def current(self) -> ServedRevision:
        return self.served

    def applied_revision(self) -> int:
        return 0

    def notice(self) -> None:
        """Do nothing: there is no ledger."""


def _handle_hangup(current: _Current, source: _OneGraph | Deployment) -> None:
    """Read tokens, policy and ledger again when the process gets SIGHUP."""

    def handle(*_: object) -> None:
        current.read_again()
        source.notice()

    signal.signal(signal.SIGHUP, handle)


def _serve_graph(
    settings: ServerSettings, location: Location, state: AccessState, current: _Current, admission: Admission
) -> ServedRevision:
    require_unmanaged(location)
    graph = _open_graph(admission, location, DEFAULT_GRAPH)
    served = ServedGraph(
        graph=graph,
        gate=_make_gate(state, current, graph),
        health=HealthCache(partial(graph.health, settings.render_hint)),
    )
    return ServedRevision(graphs={DEFAULT_GRAPH: served}, state=state)


def _deployment_settings(
    settings: ServerSettings,
    root: Location,
    choose_state: Callable[[bool], AccessState],
    admission: Admission,
    environment: Mapping[str, str],
) -> DeploymentSettings:
    return DeploymentSettings(
        store=LedgerStore(root),
        open_graph=partial(_open_graph, admission),
        decide_state=choose_state,
        access=settings.access,
        check_health=lambda graph: HealthCache(partial(graph.health, settings.render_hint)),
        environment=environment,
        requires_all_graphs=settings.requires_all_graphs,
    )


def _open_graph(admission: Admission, location: Location, graph_id: str) -> LocalGraph:
    """Open a graph, and finish or undo the interrupted writes of every branch."""
    read_snapshot(location, MAIN)
    recover_every_branch(location)
    memory = max(4 * limits.ENGINE_MEMORY_BYTES // admission.read_threads, limits.SERVER_QUERY_MEMORY_BYTES_MIN)
    allowed = QueryLimits(memory_bytes=memory, seconds=limits.SERVER_QUERY_SECONDS_MAX)
    return LocalGraph(
        graph=Graph(location), uri=f"graphs/{graph_id}", limits=allowed, result_bytes_max=limits.SERVER_RESULT_BYTES_MAX
    )


def _make_gate(state: AccessState, current: _Current, graph: LocalGraph) -> ActionGate:
    if state is not AccessState.POLICY:
        return AccessGate(state)
    return PolicyActionGate(current.policy, lambda: graph.list_branches().branches)


class _Current:
    """The tokens of the environment and the policy of files. SIGHUP reads both; invalid ones change nothing."""

    def __init__(self, environment: Mapping[str, str], policy_files: tuple[Path, ...]) -> None:
        self._environment = environment
        self._policy_files = policy_files
        self._tokens = TokenTable.make(read_tokens(environment))
        self._policy = _read_policy(policy_files) if policy_files else None

    def tokens(self) -> TokenTable:
        """Return the current tokens."""
        return self._tokens

    def policy(self) -> CompiledPolicy:
        """Return the current policy."""
        assert self._policy is not None
        return self._policy

    def read_again(self, *_: object) -> None:
        """Read the tokens and the policy again."""
        try:
            tokens = TokenTable.make(read_tokens(self._environment))
            policy = _read_policy(self._policy_files) if self._policy_files else None
        except OmnigraphError as error:
            log_event("tokens not read", reason=error.render())
        else:
            self._tokens, self._policy = tokens, policy
            log_event("tokens read", actors=len(tokens.actors), rules=0 if policy is None else len(policy.bundle.rules))


def _read_policy(paths: tuple[Path, ...]) -> CompiledPolicy:
    policy = read_policy(paths, DEFAULT_GRAPH)
    if policy.bundle.kind is BundleKind.SERVER:
        raise UsageError(
            f"the policy '{policy.bundle.source}' is about the server: expected rules about a graph",
            code="policy_kind",
            hint="Pass a file with rules about a graph. A server of one graph lists that graph to every token.",
        )
    return policy


class _HttpProtocol(HttpToolsProtocol):
    """The protocol of uvicorn, whose response to bytes that are not a request is an error document too."""

    def send_400_response(self, msg: str) -> None:
        error = RequestError(f"malformed request: {msg.rstrip('.').lower()}", code="request_malformed")
        body = msgspec.json.encode(error_answer(error).document)
        head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        head += f"{CONTRACT}: {CONTRACT_VERSION}\r\nConnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()


class _Server(uvicorn.Server):
    """A uvicorn server that prints its address and ends with 0 after a signal."""

    def __init__(self, config: uvicorn.Config, waiting: Waiting, grace_seconds: int) -> None:
        super().__init__(config)
        self._waiting = waiting
        self._grace_seconds = grace_seconds

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for listener in server.sockets:
                host, port = listener.getsockname()[:2]
                sys.stdout.write(f"OMNIGRAPH_LISTEN_ADDR={f'[{host}]' if ':' in host else host}:{port}\n")
        sys.stdout.flush()

    async def shutdown(self, sockets: Any = None) -> None:
        """Answer waiting requests at once and let the others finish, for as long as the grace period."""
        log_event("shutdown", running=len(self.server_state.tasks))
        watchdog = threading.Timer(self._grace_seconds, self._give_up)
        watchdog.daemon = True
        watchdog.start()
        self._waiting.end()
        await super().shutdown(sockets)
        end_threads()
        watchdog.cancel()

    def _give_up(self) -> None:
        log_event("shutdown incomplete", running=len(self.server_state.tasks))
        os._exit(1)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals as uvicorn does, but do not raise them again after the shutdown."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()


def parse_bind(text: str) -> tuple[str, int]:
    """Return the host and the port of `HOST:PORT`."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(
            f"invalid address: expected HOST:PORT, got '{text}'",
            code="bind_invalid",
            hint=hint("Pass {}, or port 0 for a free port.", Argument("bind", "127.0.0.1:8080")),
        )
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
