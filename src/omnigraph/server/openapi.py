"""The OpenAPI 3.1 document, made from the table of routes. Pure."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from omnigraph import __version__
from omnigraph.base.errors import Applied, ErrorKind
from omnigraph.server.routes import CONDITION, ROUTES, SERVER_ROUTES, LaneName, Route, ServerRoute

_REFERENCE: Final = "#/components/schemas/{name}"
_ALWAYS: Final = (400, 401, 403, 404, 409, 500, 503)
_ALWAYS_OF_SERVER: Final = (400, 500)
_WITH_BODY: Final = (408, 413, 415)
HEAD_BLOB: Final = "cluster_headBlob"
_TEXT: Final = {"type": "string"}
_ERROR_SCHEMA: Final = {
    "title": "ErrorOutput",
    "description": "Why a request failed. An error has further members, by its `error_code`.",
    "type": "object",
    "properties": {
        "error": _TEXT,
        "code": _TEXT,
        "kind": {"enum": [kind.value for kind in ErrorKind]},
        "error_code": _TEXT,
        "hint": _TEXT,
        "applied": {"enum": [applied.value for applied in Applied]},
    },
    "required": ["error", "kind", "error_code"],
}
_ERROR: Final = {
    "description": "The request failed",
    "content": {"application/json": {"schema": {"$ref": _REFERENCE.format(name="ErrorOutput")}}},
}


@cache
def openapi_document(root_path: str = "") -> dict[str, Any]:
    """Return the document. `root_path` is the prefix that a proxy removes."""
    paths: dict[str, dict[str, Any]] = {}
    for server_route in SERVER_ROUTES:
        paths[server_route.path] = {"get": _server_operation(server_route)}
    for route in ROUTES:
        path = "/graphs/{graph_id}" + route.path.replace(":path}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route)
        if route.is_blob:
            paths[path]["head"] = _head_operation(route)
    paths["/graphs/{graph_id}/mcp"] = {"post": _mcp_operation()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Omnigraph", "version": __version__},
        "servers": [{"url": root_path or "/"}],
        "paths": paths,
        "components": {
            "schemas": {**_components(), "ErrorOutput": _ERROR_SCHEMA},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }


def _components() -> dict[str, Any]:
    responses = [*(route.response for route in ROUTES), *(route.response for route in SERVER_ROUTES)]
    kinds: list[Any] = [*responses, *(route.other_response for route in ROUTES)]
    kinds += [kind for route in ROUTES for kind in (route.body, route.parameters) if kind is not bytes]
    structs = {kind.__name__: kind for kind in kinds if kind is not None}
    components = msgspec.json.schema_components(structs.values(), ref_template=_REFERENCE)[1]
    return {name: _with_open_objects(schema) for name, schema in components.items()}


def _with_open_objects(schema: Any) -> Any:
    """Return a schema that says of objects without declared members that they have any: generators assume none."""
    if isinstance(schema, list):
        return [_with_open_objects(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    is_open = schema.get("type") == "object" and not {"properties", "additionalProperties"} & schema.keys()
    opened = {"additionalProperties": True} if is_open else {}
    return {**{name: _with_open_objects(value) for name, value in schema.items()}, **opened}


def _server_operation(route: ServerRoute) -> dict[str, Any]:
    responses = {"200": _answer(route.response, route.media_type), **_errors(*_ALWAYS_OF_SERVER)}
    if not route.is_public:
        responses |= _errors(401, 403)
    if route.operation == "ready":
        responses["503"] = {**responses["200"], "description": "It cannot answer requests"}
    operation = {"operationId": route.operation, "summary": route.summary, "responses": responses}
    return {**operation, "security": []} if route.is_public else operation


def _operation(route: Route) -> dict[str, Any]:
    statuses = (*_ALWAYS, *route.statuses, *(_WITH_BODY if route.body is not None else ()))
    media_type = "application/x-ndjson" if route.lane is LaneName.STREAM else "application/json"
    if route.is_blob:
        media_type = "application/octet-stream"
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_url_parameters(route), *_condition(route)],
        "responses": {"200": _answer(route.response, media_type), **_errors(*statuses)},
    }
    if route.other_response is not None:
        names = [kind.__name__ for kind in (route.response, route.other_response) if kind is not None]
        schema = {"anyOf": [{"$ref": _REFERENCE.format(name=name)} for name in names]}
        operation["responses"]["200"]["content"][media_type]["schema"] = schema
    if route.is_blob:
        operation["responses"]["206"] = {**_answer(None, media_type), "description": "A range"}
        operation["responses"]["304"] = {"description": "The client has these bytes"}
    if route.body is bytes:
        operation["requestBody"] = {"required": True, "content": {"application/x-ndjson": {"schema": _TEXT}}}
    elif route.body is not None:
        content = {"application/json": {"schema": {"$ref": _REFERENCE.format(name=route.body.__name__)}}}
        operation["requestBody"] = {"required": not route.is_body_optional, "content": content}
    return operation


def _head_operation(route: Route) -> dict[str, Any]:
    """Return the operation that sends only the headers of a blob. Its responses have no body."""
    operation = _operation(route)
    statuses = [status for status in operation["responses"] if status not in ("206", "416")]
    responses = {status: {"description": operation["responses"][status]["description"]} for status in statuses}
    summary = "The length and the version of a Blob property"
    return {**operation, "operationId": HEAD_BLOB, "summary": summary, "responses": responses}


def _mcp_operation() -> dict[str, Any]:
    message = {"application/json": {"schema": {"type": "object", "additionalProperties": True}}}
    return {
        "operationId": "mcp",
        "summary": "A message of the Model Context Protocol",
        "parameters": [{"name": "graph_id", "in": "path", "required": True, "schema": _TEXT}],
        "requestBody": {"required": True, "content": message},
        "responses": {
            "200": {"description": "The answer", "content": message},
            "202": {"description": "A notification was accepted"},
            **_errors(*_ALWAYS, *_WITH_BODY, 429),
        },
    }


def _answer(response: type[msgspec.Struct] | None, media_type: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"$ref": _REFERENCE.format(name=response.__name__)} if response is not None else {}
    if response is None and media_type != "application/json":
        schema = _TEXT
    return {"description": "Success", "content": {media_type: {"schema": schema}}}


def _errors(*statuses: int) -> dict[str, Any]:
    return {str(status): _ERROR for status in sorted(set(statuses))}


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    names = ["graph_id", *(part[1:-1].removesuffix(":path") for part in route.path.split("/") if part.startswith("{"))]
    return [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names]


def _url_parameters(route: Route) -> list[dict[str, Any]]:
    schema = _components()[route.parameters.__name__]
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": property_schema}
        for name, property_schema in schema["properties"].items()
    ]


def _condition(route: Route) -> list[dict[str, Any]]:
    return [{"name": CONDITION, "in": "header", "required": True, "schema": _TEXT}] if route.is_conditional else []
