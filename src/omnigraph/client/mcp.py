"""The Model Context Protocol for agents: JSON-RPC messages in and out, over the client of a graph. No transport.

In: one message, and a function that calls a tool. Out: one message, or None for a notification. The result of a tool
carries `structuredContent`, which is the document of the same call over HTTP. A tool that fails returns `isError` with
the document of the error, so that an agent can correct its call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from omnigraph import __version__
from omnigraph.base.decoding import convert, decode_json
from omnigraph.base.errors import OmnigraphError
from omnigraph.wire import requests as wr
from omnigraph.wire.errors import error_document

if TYPE_CHECKING:
    from omnigraph.client.protocol import GraphClient

PROTOCOL_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The versions of the protocol, newest first."""
_PARSE_ERROR: Final = -32_700
_INVALID_REQUEST: Final = -32_600
_METHOD_NOT_FOUND: Final = -32_601
_INVALID_PARAMS: Final = -32_602
INVOKE_QUERY: Final = "invoke_query"
"""The action of the tool that runs stored queries, which may read or change the graph."""
_SCHEMA: Final = "omnigraph://schema"
_BRANCHES: Final = "omnigraph://branches"


class CommitArguments(wr.WireRequest, frozen=True, kw_only=True):
    """A commit by its id, or a unique part of it."""

    commit: str


class CommitChangesArguments(wr.ChangeFilter, frozen=True, kw_only=True):
    """A commit, and which of its changes to list."""

    commit: str


class BranchArguments(wr.WireRequest, frozen=True, kw_only=True):
    """A branch by its name."""

    name: str


class StoredQueryArguments(wr.InvokeStoredQueryRequest, frozen=True, kw_only=True):
    """A stored query by its name, and its parameters."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool for agents. `operation` is the operation of the HTTP interface that does the same."""

    name: str
    description: str
    operation: str
    action: str
    arguments: type[wr.WireRequest]
    run: Callable[[GraphClient, Any], Any]

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return self.action == "read"


def _without_name(request: StoredQueryArguments) -> wr.InvokeStoredQueryRequest:
    return wr.InvokeStoredQueryRequest(
        params=request.params, branch=request.branch, snapshot=request.snapshot, expect_mutation=request.expect_mutation
    )


TOOLS: Final = (
    Tool(
        name="query",
        description="Run a read query in the language .gq and return its rows.",
        operation="query",
        action="read",
        arguments=wr.QueryRequest,
        run=lambda client, request: client.query(request),
    ),
    Tool(
        name="schema_get",
        description="Return the schema: the types of nodes and edges with their properties.",
        operation="getSchema",
        action="read",
        arguments=wr.StateParameters,
        run=lambda client, request: client.schema(request),
    ),
    Tool(
        name="snapshot",
        description="Return the tables of a state, with the number of their entities.",
        operation="getSnapshot",
        action="read",
        arguments=wr.StateParameters,
        run=lambda client, request: client.snapshot(request),
    ),
    Tool(
        name="branches_list",
        description="List the branches with their newest commits.",
        operation="listBranches",
        action="read",
        arguments=wr.NoParameters,
        run=lambda client, _: client.list_branches(),
    ),
    Tool(
        name="commits_list",
        description="List the newest commits of a branch.",
        operation="listCommits",
        action="read",
        arguments=wr.CommitListParameters,
        run=lambda client, request: client.list_commits(request),
    ),
    Tool(
        name="commits_get",
        description="Return a commit.",
        operation="getCommit",
        action="read",
        arguments=CommitArguments,
        run=lambda client, request: client.get_commit(request.commit),
    ),
    Tool(
        name="commits_changes",
        description="List the nodes and edges that a commit changed.",
        operation="getCommitChanges",
        action="read",
        arguments=CommitChangesArguments,
        run=lambda client, request: client.commit_changes(request.commit, request),
    ),
    Tool(
        name="changes_poll",
        description="List the commits of a branch after a cursor, with what they changed.",
        operation="pollChanges",
        action="read",
        arguments=wr.FeedParameters,
        run=lambda client, request: client.poll_changes(request),
    ),
    Tool(
        name="graphs_list",
        description="List the graphs of the server.",
        operation="listGraphs",
        action="read",
        arguments=wr.NoParameters,
        run=lambda client, _: client.list_graphs(),
    ),
    Tool(
        name="health",
        description="Return that the server runs, and its release.",
        operation="health",
        action="read",
        arguments=wr.NoParameters,
        run=lambda client, _: client.service_health(),
    ),
    Tool(
        name="queries_list",
        description="List the stored queries with their parameters.",
        operation="list_queries",
        action="read",
        arguments=wr.NoParameters,
        run=lambda client, _: client.list_queries(),
    ),
    Tool(
        name="queries_invoke",
        description="Run a stored query; one that changes the graph is one commit.",
        operation="invoke_query",
        action=INVOKE_QUERY,
        arguments=StoredQueryArguments,
        run=lambda client, request: client.invoke_query(request.name, _without_name(request)),
    ),
    Tool(
        name="mutate",
        description="Run a query that inserts, updates or deletes, as one commit.",
        operation="mutate",
        action="change",
        arguments=wr.ChangeRequest,
        run=lambda client, request: client.mutate(request),
    ),
    Tool(
        name="load",
        description="Load lines of graph data, as one commit.",
        operation="load",
        action="change",
        arguments=wr.IngestRequest,
        run=lambda client, request: client.load(request, request.data.encode()),
    ),
    Tool(
        name="branches_create",
        description="Create a branch from a branch or a commit.",
        operation="createBranch",
        action="branch_create",
        arguments=wr.BranchCreateRequest,
        run=lambda client, request: client.create_branch(request),
    ),
    Tool(
        name="branches_delete",
        description="Delete a branch.",
        operation="deleteBranch",
        action="branch_delete",
        arguments=BranchArguments,
        run=lambda client, request: client.delete_branch(request.name),
    ),
    Tool(
        name="branches_merge",
        description="Merge a branch into another; with dry_run, only show the conflicts.",
        operation="mergeBranches",
        action="branch_merge",
        arguments=wr.BranchMergeRequest,
        run=lambda client, request: client.merge(request),
    ),
)
TOOLS_BY_NAME: Final = {tool.name: tool for tool in TOOLS}

CallTool = Callable[[Tool, Any], Any]
"""Runs a tool with its arguments and returns its document."""

DescribeError = Callable[[OmnigraphError], Any]
"""Returns the document of an error."""


class _Message(msgspec.Struct, kw_only=True):
    """A request or a notification, which has no id."""

    jsonrpc: str
    method: str
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    params: dict[str, Any] = {}


class _RpcError(Exception):
    """A message that cannot be answered."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _document(error: OmnigraphError) -> Any:
    return error_document(error, error.hint)


def answer(
    message: bytes, call_tool: CallTool, allowed_actions: frozenset[str], describe: DescribeError = _document
) -> bytes | None:
    """Return the answer to a message; None if it needs none. `describe` returns the document of a failed tool."""
    request = read_message(message, lambda: allowed_actions)
    if not isinstance(request, ToolCall):
        return request
    return request.answer(lambda: call_tool(request.tool, request.arguments), describe)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A message that calls a tool, or reads the resource that a tool returns."""

    request_id: int | str | None
    tool: Tool
    arguments: Any
    resource: str | None = None
    """The URI of the resource."""

    def answer(self, run: Callable[[], Any], describe: DescribeError = _document) -> bytes:
        """Return the answer with the document that `run` returns, or with its error."""
        try:
            document = msgspec.to_builtins(run())
        except OmnigraphError as error:
            return self.answer_error(describe(error))
        if self.resource is None:
            return _reply(self.request_id, _content(document))
        text = msgspec.json.encode(document).decode()
        contents = [{"uri": self.resource, "mimeType": "application/json", "text": text}]
        return _reply(self.request_id, {"contents": contents})

    def answer_error(self, document: Any) -> bytes:
        """Return the answer of a tool that failed. A resource that cannot be read is an error of the message."""
        if self.resource is None:
            return _reply(self.request_id, {**_content(document), "isError": True})
        return _reply_error(self.request_id, _RpcError(_INVALID_PARAMS, document["error"]))


def read_message(message: bytes, list_actions: Callable[[], frozenset[str]]) -> ToolCall | bytes | None:
    """Return the tool that a message calls, the answer to any other message, or None if it needs no answer.

    Args:
        message: One message.
        list_actions: Returns what the caller may do; the tools for it are listed.
    """
    request_id: int | str | None = None
    try:
        request = _decode(message)
        if request.id is msgspec.UNSET:
            return None
        assert not isinstance(request.id, msgspec.UnsetType)
        request_id = request.id
        match request.method:
            case "tools/call":
                return _read_call(request_id, request.params)
            case "resources/read":
                return _read_resource(request_id, str(request.params.get("uri")))
            case _:
                return _reply(request_id, _result(request, list_actions))
    except _RpcError as error:
        return _reply_error(request_id, error)


def _decode(message: bytes) -> _Message:
    try:
        request = decode_json(message, _Message)
    except msgspec.ValidationError as error:
        raise _RpcError(_INVALID_REQUEST, f"invalid request: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _RpcError(_PARSE_ERROR, f"invalid JSON: {error}") from error
    if request.jsonrpc != "2.0":
        raise _RpcError(_INVALID_REQUEST, f"invalid request: expected jsonrpc 2.0, got '{request.jsonrpc}'")
    return request


def _result(request: _Message, list_actions: Callable[[], frozenset[str]]) -> dict[str, Any]:
    match request.method:
        case "initialize":
            return _initialize(request.params)
        case "ping":
            return {}
        case "tools/list":
            actions = list_actions()
            return {"tools": [_describe(tool, actions) for tool in TOOLS if tool.action in actions]}
        case "resources/list":
            return {"resources": [_resource(_SCHEMA, "The schema"), _resource(_BRANCHES, "The branches")]}
        case _:
            raise _RpcError(_METHOD_NOT_FOUND, f"unknown method '{request.method}'")


def _initialize(params: dict[str, Any]) -> dict[str, Any]:
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}, "resources": {"listChanged": False, "subscribe": False}},
        "serverInfo": {"name": "omnigraph", "version": __version__},
    }


def _describe(tool: Tool, allowed_actions: frozenset[str]) -> dict[str, Any]:
    # The body of a stored query needs `change` too: without it, only stored reads run.
    is_read = tool.is_read or (tool.action == INVOKE_QUERY and "change" not in allowed_actions)
    schema, components = msgspec.json.schema_components([tool.arguments])
    (reference,) = schema
    arguments = components[str(reference["$ref"]).rpartition("/")[2]]
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {**arguments, **({"$defs": components} if len(components) > 1 else {})},
        "annotations": {"readOnlyHint": is_read, "destructiveHint": not is_read, "openWorldHint": False},
    }


def _read_call(request_id: int | str | None, params: dict[str, Any]) -> ToolCall:
    tool = TOOLS_BY_NAME.get(str(params.get("name")))
    if tool is None:
        raise _RpcError(_INVALID_PARAMS, f"unknown tool '{params.get('name')}'")
    try:
        arguments = convert(params.get("arguments") or {}, tool.arguments)
    except msgspec.ValidationError as error:
        raise _RpcError(_INVALID_PARAMS, f"invalid arguments of {tool.name}: {error}") from error
    return ToolCall(request_id=request_id, tool=tool, arguments=arguments)


def _read_resource(request_id: int | str | None, uri: str) -> ToolCall:
    names = {_SCHEMA: "schema_get", _BRANCHES: "branches_list"}
    if uri not in names:
        raise _RpcError(_INVALID_PARAMS, f"unknown resource '{uri}'")
    tool = TOOLS_BY_NAME[names[uri]]
    return ToolCall(request_id=request_id, tool=tool, arguments=tool.arguments(), resource=uri)


def _content(document: Any) -> dict[str, Any]:
    text = msgspec.json.encode(document).decode()
    return {"content": [{"type": "text", "text": text}], "structuredContent": document}


def _resource(uri: str, name: str) -> dict[str, Any]:
    return {"uri": uri, "name": name, "mimeType": "application/json"}


def _reply(request_id: int | str | None, result: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def _reply_error(request_id: int | str | None, error: _RpcError) -> bytes:
    failure = {"code": error.code, "message": str(error)}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": failure})
