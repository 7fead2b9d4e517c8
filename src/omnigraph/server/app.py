"""The web application: the steps of each request, in one order for all routes.

In: the graph, the tokens and the gate. Out: an ASGI application. A request is authenticated, authorized and decoded
here; a thread of `admission` runs the function of its route. No route optimizes, repairs or cleans up.
"""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route as WebRoute

from omnigraph.base import limits
from omnigraph.base.errors import ErrorKind, InvariantError, OmnigraphError
from omnigraph.client.mcp import ToolCall, read_message
from omnigraph.client.paging import plan_wait
from omnigraph.server.admission import Admission, Work, run_in_thread
from omnigraph.server.auth import ANONYMOUS
from omnigraph.server.blobs import blob_response
from omnigraph.server.bodies import (
    CONTRACT,
    CONTRACT_VERSION,
    check_contract,
    check_length,
    decode_parameters,
    read_body,
    read_condition,
    receive,
    require_content_type,
)
from omnigraph.server.boot import AccessState
from omnigraph.server.errors import ErrorAnswer, RequestError, error_answer, hide_locations
from omnigraph.server.gate import ActionGate, GraphAction, Subject, hide_branches, require_access
from omnigraph.server.logs import log_event
from omnigraph.server.metrics import CONTENT_TYPE as METRICS_TYPE
from omnigraph.server.metrics import Metrics
from omnigraph.server.openapi import openapi_document
from omnigraph.server.pages import SECURITY_HEADERS, page_routes
from omnigraph.server.routes import CONDITION, ROUTES, SERVER_ROUTES, LaneName, Route, RouteCall, ServerRoute
from omnigraph.server.served import ServedGraph, ServedRevision
from omnigraph.server.streams import NdjsonStream, run_until_disconnect
from omnigraph.server.waiting import Waiting
from omnigraph.wire.changes import ChangeFeedOutput
from omnigraph.wire.requests import FeedParameters, NoParameters
from omnigraph.wire.service import (
    GraphActionsOutput,
    GraphEntryOutput,
    GraphListResponse,
    HealthOutput,
    QuarantinedGraphOutput,
    ReadinessOutput,
    WhoamiOutput,
    health_output,
)

if TYPE_CHECKING:
    from starlette.requests import Request as WebRequest
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from omnigraph.server.auth import TokenTable

_GRAPH_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_WIDE_AS_TEXT: Final = re.compile(r"application/json\s*;[^,]*\bbigint\s*=\s*\"?string\b", re.IGNORECASE)
"""The request header `Accept` of clients whose numbers have fewer than 64 bits."""
_COMPRESSED_BYTES_MIN: Final = 1_024
_NO_GZIP: Final = re.compile(r"gzip\s*;\s*q\s*=\s*0(\.0*)?\s*(,|$)", re.IGNORECASE)
"""The request header `Accept-Encoding` of clients that reject gzip."""
_DISCONNECTED: Final = 499
"""The status in the log of a request whose client disconnected; no client gets it."""
DEFAULT_GRAPH: Final = "default"


_ROUTES_BY_OPERATION: Final = {route.operation: route for route in ROUTES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a server serves, who may use it, and how many requests run."""

    current: Callable[[], ServedRevision]
    """Returns what is served; a cluster replaces it when a new revision was applied."""
    applied_revision: Callable[[], int]
    """Returns the newest revision of the ledger, which is not served if it is invalid."""
    admission: Admission
    tokens: Callable[[], TokenTable]
    """The current tokens; they change when the file is read again."""
    metrics: Metrics
    waiting: Waiting
    root_path: str = ""
    """The prefix that a proxy removes."""
    has_public_metrics: bool = False
    cors_origins: tuple[str, ...] = ()
    """The origins whose pages may use the server."""
    has_pages: bool = True
    """Whether the server has web pages."""


def make_app(serving: Serving) -> ASGIApp:
    """Return the application."""
    answers: dict[str, Callable[[Serving, str], Any]] = {
        "health": _health,
        "ready": _ready,
        "listGraphs": _list_graphs,
        "whoami": _whoami,
        "openapi": lambda serving, _: openapi_document(serving.root_path),
        "metrics": lambda serving, _: serving.metrics.render(),
    }
    routes = [
        WebRoute(f"/graphs/{{graph_id}}{route.path}", _endpoint(serving, route), methods=[route.method])
        for route in ROUTES
    ]
    routes += [
        WebRoute(route.path, _server_endpoint(serving, route, answers[route.operation])) for route in SERVER_ROUTES
    ]
    handlers: Any = {
        404: _unknown_address,
        405: _unknown_method,
        OmnigraphError: _failed,
        ClientDisconnect: _disconnected,
        Exception: _defect,
    }
    routes.append(WebRoute("/graphs/{graph_id}/mcp", _mcp_endpoint(serving), methods=["POST"]))
    if serving.has_pages:
        routes += page_routes()
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state.current = serving.current
    return RequestLog(_with_cors(app, serving.cors_origins), serving.metrics)


def _with_cors(app: ASGIApp, origins: tuple[str, ...]) -> ASGIApp:
    """Return the application that pages of these origins may use."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["authorization", "content-type", CONTRACT, CONDITION, "x-request-id"],
        expose_headers=[CONTRACT, "x-request-id", "retry-after"],
    )


def _server_endpoint(
    serving: Serving, route: ServerRoute, answer: Callable[[Serving, str], Any]
) -> Callable[[WebRequest], Awaitable[Response]]:
    """Return the function that answers requests to a route of the server."""
    is_public = route.is_public or (route.operation == "metrics" and serving.has_public_metrics)

    async def handle(request: WebRequest) -> Response:
        request.scope["omnigraph.route"] = route.path
        actor = ANONYMOUS if is_public else _authenticate(serving, request)
        check_contract(request)
        decode_parameters(request, NoParameters)
        document = await run_in_thread(partial(answer, serving, actor))
        if isinstance(document, bytes):
            return Response(document, media_type=METRICS_TYPE)
        is_unready = isinstance(document, ReadinessOutput) and not document.ready
        return json_response(document, request, 503 if is_unready else 200)

    return handle


def _endpoint(serving: Serving, route: Route) -> Callable[[WebRequest], Awaitable[Response]]:
    """Return the function that answers requests to a route of a graph."""

    async def handle(request: WebRequest) -> Response:
        request.scope["omnigraph.route"] = f"/graphs/{{graph_id}}{route.path}"
        actor = _authenticate(serving, request)
        check_contract(request)
        served = _find_graph(serving, request, actor)
        cancelled = Event()
        wide_as_text = _WIDE_AS_TEXT.search(request.headers.get("accept", "")) is not None
        check_length(request, route.body_bytes_max)
        call = RouteCall(
            graph=served.graph.for_request(actor, cancelled, wide_as_text=wide_as_text),
            cancelled=cancelled,
            path=request.path_params,
            parameters=decode_parameters(request, route.parameters),
            condition=read_condition(request, route),
            may_delete=_may_delete(served.gate, actor),
            health=served.health.read,
            protects=served.gate.protects,
            queries=served.queries,
        )
        if route.is_subject_in_url:
            await _require_allowed(served.gate, route, call, actor)
        if route.body is not None:
            call = replace(call, body=await read_body(request, route))
        if not route.is_subject_in_url:
            await _require_allowed(served.gate, route, call, actor)
        await _authorize_effect(served.gate, route, call, actor)
        return await _run(serving, route, call, request)

    return handle


def _mcp_endpoint(serving: Serving) -> Callable[[WebRequest], Awaitable[Response]]:
    """Return the function that answers messages of agents: each tool is a route, behind the same gate."""

    async def handle(request: WebRequest) -> Response:
        request.scope["omnigraph.route"] = "/graphs/{graph_id}/mcp"
        actor = _authenticate(serving, request)
        check_contract(request)
        origin = request.headers.get("origin")
        if origin is not None and origin not in serving.cors_origins:
            raise RequestError(
                f"pages of {origin} may not use this server", code="origin_denied", kind=ErrorKind.FORBIDDEN
            )
        served = _find_graph(serving, request, actor)
        decode_parameters(request, NoParameters)
        check_length(request, limits.SERVER_BODY_BYTES_MAX)
        require_content_type(request, "application/json")
        message = await receive(request, limits.SERVER_BODY_BYTES_MAX)
        list_actions = partial(_allowed_actions, served.gate, actor)
        called = await run_in_thread(partial(read_message, message, list_actions))
        if isinstance(called, ToolCall):
            called = await _call_tool(serving, served, called, request)
        return Response(status_code=202) if called is None else Response(called, media_type="application/json")

    return handle


async def _call_tool(serving: Serving, served: ServedGraph, called: ToolCall, request: WebRequest) -> bytes:
    """Return the answer of a tool. A denied call uses no slot, like a denied request to its route."""
    actor = request.scope["omnigraph.actor"]

    def describe(error: OmnigraphError) -> Any:
        return _error_document(request, error).document

    if called.tool.operation in _SERVER_TOOLS:
        answer_server = partial(_SERVER_TOOLS[called.tool.operation], serving, actor)
        return await run_in_thread(partial(called.answer, answer_server, describe))
    route = _ROUTES_BY_OPERATION[called.tool.operation]
    arguments = called.arguments
    name = getattr(arguments, "name", "")
    cancelled = Event()
    call = RouteCall(
        graph=served.graph.for_request(actor, cancelled),
        cancelled=cancelled,
        path={"commit": getattr(arguments, "commit", ""), "branch": name, "name": name},
        parameters=arguments,
        body=arguments,
        may_delete=_may_delete(served.gate, actor),
        health=served.health.read,
        protects=served.gate.protects,
        queries=served.queries,
    )
    try:
        await run_in_thread(partial(_authorize, served.gate, route, call, actor))
        await _authorize_effect(served.gate, route, call, actor)
        if isinstance(arguments, FeedParameters):
            page = await _poll(serving, route, call, request)
            return await run_in_thread(partial(called.answer, lambda: page, describe))
    except OmnigraphError as error:
        return called.answer_error(describe(error))
    is_read = _is_read(route, call)
    work = route.run if is_read else partial(_run_change, serving, route)
    tool_route = replace(route, run=lambda call: called.answer(lambda: work(call), describe))
    reply = await (_read if is_read else _change)(serving, tool_route, call, request)
    assert isinstance(reply, bytes)
    return reply


def _allowed_actions(gate: ActionGate, actor: str) -> frozenset[str]:
    return frozenset(action for action, extent in gate.allowed(actor).items() if extent != "none")


async def _run(serving: Serving, route: Route, call: RouteCall, request: WebRequest) -> Response:
    admission = serving.admission
    if route.lane is LaneName.STREAM:
        return NdjsonStream(admission.streams, route.run(call))
    if isinstance(call.parameters, FeedParameters):
        return json_response(await _poll(serving, route, call, request), request)
    if _is_read(route, call):
        respond = blob_response if route.is_blob else json_response
        return await _read(serving, route, call, request, partial(respond, request=request))
    counted = replace(route, run=partial(_run_change, serving, route))
    return json_response(await _change(serving, counted, call, request), request)


def _is_read(route: Route, call: RouteCall) -> bool:
    lane = route.lane if route.choose_lane is None else route.choose_lane(call)
    return lane is LaneName.READ or route.is_preview(call)


def _run_change(serving: Serving, route: Route, call: RouteCall) -> Any:
    """Return the document of a change, and count its commit."""
    document = route.run(call)
    if getattr(document, "commit", None) is not None:
        serving.metrics.count_commit()
    return document


async def _change(serving: Serving, route: Route, call: RouteCall, request: WebRequest) -> Any:
    """Return the document of a change. It completes also if the client disconnects."""
    async with serving.admission.change(request.scope["omnigraph.actor"]):
        return await serving.admission.writes.run(lambda: route.run(call))


async def _read(
    serving: Serving,
    route: Route,
    call: RouteCall,
    request: WebRequest,
    finish: Callable[[Any], Work] = lambda document: document,
) -> Work:
    """Return what `finish` makes of the document. It runs in the same thread, because a document can be long."""

    work = serving.admission.reads.run(lambda: finish(route.run(call)))
    return await run_until_disconnect(request, call.cancelled, work)


async def _poll(serving: Serving, route: Route, call: RouteCall, request: WebRequest) -> Any:
    """Return a page of a feed. An empty one waits for the next commit if the request asks for it."""
    page: ChangeFeedOutput = await _read(serving, route, call, request)
    wait = plan_wait(call.parameters, page)
    if wait is None:
        return page
    await run_until_disconnect(request, call.cancelled, serving.waiting.wait(call.graph, wait))
    return await _read(serving, route, replace(call, parameters=wait.following), request)


async def _require_allowed(gate: ActionGate, route: Route, call: RouteCall, actor: str) -> None:
    """Raise unless the actor may do what a request asks for. Only a policy needs a thread: it reads branches."""
    if gate.depends_on_subject:
        await run_in_thread(partial(_authorize, gate, route, call, actor))
    else:
        gate.require(actor, GraphAction.READ if route.is_preview(call) else route.action, Subject())


def _authorize(gate: ActionGate, route: Route, call: RouteCall, actor: str) -> None:
    """Raise unless the actor may do what a request asks for."""
    subject = route.subject(call)
    if route.is_preview(call):
        gate.require(actor, GraphAction.READ, Subject(branch=subject.branch))
        gate.require(actor, GraphAction.READ, Subject(branch=subject.target))
        return
    try:
        require_access(gate, actor, route.action, subject, call.graph.branch_of)
    except OmnigraphError as denied:
        if route.missing is None or denied.kind is not ErrorKind.FORBIDDEN:
            raise
        raise route.missing(call) from denied
    created = route.creates(call)
    if created is not None:
        gate.require(actor, GraphAction.BRANCH_CREATE, created)


async def _authorize_effect(gate: ActionGate, route: Route, call: RouteCall, actor: str) -> None:
    """Raise unless the actor may also do what the action leads to."""
    if route.then is not None:
        await run_in_thread(partial(require_access, gate, actor, *route.then(call), call.graph.branch_of))


def _may_delete(gate: ActionGate, actor: str) -> Callable[[str], None]:
    """Return a function that raises if an actor must not delete a branch."""
    return lambda branch: gate.require(actor, GraphAction.BRANCH_DELETE, Subject(target=branch))


def _authenticate(serving: Serving, request: WebRequest) -> str:
    actor = ANONYMOUS
    if serving.current().state is not AccessState.OPEN:
        actor = serving.tokens().authenticate(request.headers.get("authorization"))
    request.scope["omnigraph.actor"] = actor
    return actor


def _find_graph(serving: Serving, request: WebRequest, actor: str) -> ServedGraph:
    graph_id = request.path_params["graph_id"]
    if _GRAPH_ID.fullmatch(graph_id) is None:
        raise RequestError(
            "invalid graph id: expected 1 to 64 letters, digits and '-'",
            code="graph_id_invalid",
            hint="Send `GET /graphs` for the graphs of the server.",
        )
    served = serving.current().find(graph_id, actor)
    request.scope["omnigraph.gate"] = served.gate
    return served


def json_response(document: Any, request: WebRequest, status: int = 200) -> Response:
    """Return a JSON document, compressed if it is long and the client accepts that."""
    body = msgspec.json.encode(document)
    headers = {"Vary": "Accept-Encoding"}
    encodings = request.headers.get("accept-encoding", "")
    if len(body) >= _COMPRESSED_BYTES_MIN and "gzip" in encodings and not _NO_GZIP.search(encodings):
        body = gzip.compress(body, 5)
        headers["Content-Encoding"] = "gzip"
    return Response(body, status, headers, "application/json")


# Routes of the server


def _health(_: Serving, __: str) -> HealthOutput:
    return health_output()


def _ready(serving: Serving, _: str) -> ReadinessOutput:
    current, applied = serving.current(), serving.applied_revision()
    is_complete = not current.quarantined and applied == current.revision
    return ReadinessOutput(
        ready=bool(current.graphs) or not current.quarantined,
        status="serving" if is_complete else "degraded",
        served_graph_count=len(current.graphs),
        quarantined_graph_count=len(current.quarantined),
        applied_revision=applied,
        serving_revision=current.revision,
    )


def _list_graphs(serving: Serving, actor: str) -> GraphListResponse:
    current = serving.current()
    if current.server_gate is not None:
        current.server_gate.require_listing(actor)
    quarantined = [
        QuarantinedGraphOutput(graph_id, graph.code, graph.message.replace(graph.location, f"graphs/{graph_id}"))
        for graph_id, graph in sorted(current.quarantined.items())
    ]
    graphs = [GraphEntryOutput(graph_id, served.graph.uri) for graph_id, served in sorted(current.graphs.items())]
    return GraphListResponse(graphs, quarantined or None)


def _whoami(serving: Serving, actor: str) -> WhoamiOutput:
    current = serving.current()
    graphs = []
    for graph_id, served in sorted(current.graphs.items()):
        actions = {action.value: amount for action, amount in served.gate.allowed(actor).items()}
        if any(amount != "none" for amount in actions.values()):
            graphs.append(GraphActionsOutput(graph_id, actions))
    actor_id = None if current.state is AccessState.OPEN else actor
    return WhoamiOutput(actor_id=actor_id, state=current.state.value, graphs=graphs)


_SERVER_TOOLS: Final[dict[str, Callable[[Serving, str], Any]]] = {"listGraphs": _list_graphs, "health": _health}
"""The routes of the server that are tools for agents, by operation."""


# Errors


async def _failed(request: WebRequest, error: Exception) -> Response:
    assert isinstance(error, OmnigraphError)
    answer = _error_document(request, error)
    response = json_response(answer.document, request, answer.status)
    response.headers.update(answer.headers)
    return response


def _error_document(request: WebRequest, error: OmnigraphError) -> ErrorAnswer:
    """Return the answer for an error, without what the actor must not know. The log has what the answer hides."""
    gate = request.scope.get("omnigraph.gate")
    if gate is not None:
        error = hide_branches(gate, request.scope["omnigraph.actor"], error)
    answer = error_answer(error)
    if answer.status == 500:
        log_event("request failed", error=error, id=request.scope["omnigraph.request_id"])
    document = hide_locations(answer.document, request.app.state.current().addresses())
    assert isinstance(document, dict)
    return replace(answer, document=document)


async def _disconnected(_: WebRequest, __: Exception) -> Response:
    return Response(status_code=_DISCONNECTED)


async def _defect(request: WebRequest, error: Exception) -> Response:
    defect = InvariantError(f"{type(error).__name__}: {error}", code="defect")
    defect.__cause__ = error
    return await _failed(request, defect)


async def _unknown_address(request: WebRequest, _: Exception) -> Response:
    error = RequestError(
        f"the server has no address {request.url.path}",
        code="address_unknown",
        kind=ErrorKind.NOT_FOUND,
        hint="Send `GET /openapi.json` for the routes.",
    )
    return await _failed(request, error)


async def _unknown_method(request: WebRequest, error: Exception) -> Response:
    allowed = getattr(error, "headers", None) or {}
    response = await _failed(
        request,
        RequestError(
            f"{request.url.path} does not take {request.method}: expected {allowed.get('Allow', 'another method')}",
            code="method_not_allowed",
        ),
    )
    response.headers.update(allowed)
    return response


class RequestLog:
    """Gives each request an id, logs one line for it, and adds the headers of every response."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope["omnigraph.request_id"] = request_id
        started = time.monotonic()
        status, size = 500, 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [(CONTRACT.lower().encode(), CONTRACT_VERSION.encode()), *SECURITY_HEADERS]
                message["headers"] = [*message["headers"], *headers, (b"x-request-id", request_id.encode())]
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            seconds = time.monotonic() - started
            self._metrics.count_request(scope["method"], scope.get("omnigraph.route", "unknown"), status, seconds)
            log_event(
                "request",
                id=request_id,
                actor=scope.get("omnigraph.actor", "-"),
                graph=scope.get("path_params", {}).get("graph_id", "-"),
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round(seconds * 1_000, 1),
                bytes=size,
            )


def _request_id(scope: Scope) -> str:
    """Return the id that the client sent, if it is short and printable, or a new one."""
    sent = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"").decode("latin-1")
    return sent if _REQUEST_ID.fullmatch(sent) else uuid4().hex
