"""What a request sends: the version of the interface, parameters, the condition of a write, and the body.

In: a request and its route. Out: values of `wire`, or an error that names what is wrong. Nothing here reads a graph.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from omnigraph.base import limits
from omnigraph.base.decoding import convert, decode_json
from omnigraph.base.errors import ErrorKind
from omnigraph.base.ids import as_commit_id, is_ulid
from omnigraph.server.errors import RequestError
from omnigraph.server.routes import CONDITION, Route

if TYPE_CHECKING:
    from starlette.requests import Request as WebRequest

    from omnigraph.wire.requests import WireRequest

CONTRACT: Final = "Omnigraph-Http-Api"
CONTRACT_VERSION: Final = "0.13"
_CONTRACT_VERSIONS: Final = frozenset({"0.10", "0.11", "0.12", "0.13"})


def check_contract(request: WebRequest) -> None:
    """Raise if a request asks for another version of the interface."""
    version = request.headers.get(CONTRACT)
    if version is not None and version not in _CONTRACT_VERSIONS:
        raise RequestError(
            f"unknown version of the HTTP interface: expected one of {', '.join(sorted(_CONTRACT_VERSIONS))}, "
            f"got '{version}'",
            code="api_contract_mismatch",
            hint=f"Send `{CONTRACT}: {CONTRACT_VERSION}`, or no such header.",
        )


def check_length(request: WebRequest, size_max: int) -> None:
    """Raise if the declared length of the body is above a limit."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > size_max:
        raise _body_too_long(size_max, int(length))


def _body_too_long(size_max: int, size: int | None = None) -> RequestError:
    limit: dict[str, Any] = {"resource": "body", "limit": size_max, "unit": "bytes"}
    if size is not None:
        limit["actual"] = size
    return RequestError(
        f"the body is too long: expected at most {size_max:,} bytes" + (f", got {size:,}" if size is not None else ""),
        code="body_too_long",
        kind=ErrorKind.LIMIT_EXCEEDED,
        hint="Nothing was written. Send smaller requests, or load the data on a machine that can access the storage.",
        facts={"resource_limit": limit},
    )


def decode_parameters(request: WebRequest, kind: type[WireRequest]) -> Any:
    """Return the parameters of the URL. Values that may repeat are lists."""
    fields = _fields(kind)
    values: dict[str, Any] = {}
    for name in request.query_params:
        if name not in fields:
            expected = f"expected one of {', '.join(sorted(fields))}" if fields else "expected none"
            raise _bad_request(f"unknown parameter '{name}': {expected}", "parameter_unknown")
        texts = request.query_params.getlist(name)
        if "list" in str(fields[name].type):
            values[name] = texts
        elif len(texts) > 1:
            raise _bad_request(f"duplicate parameter '{name}': expected one value, got {len(texts)}", "parameter_twice")
        else:
            values[name] = texts[0]
    try:
        return convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _bad_request(f"invalid parameters: {error}", "parameter_invalid") from error


@cache
def _fields(kind: type[WireRequest]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def read_condition(request: WebRequest, route: Route) -> str | None:
    """Return the commit of the header of a conditional write; raise if another route has it."""
    values = request.headers.getlist(CONDITION)
    if not route.is_conditional:
        if values:
            raise _bad_request(
                f"`{route.path}` does not take the header `{CONDITION}`: it would be ignored", "condition_unexpected"
            )
        return None
    if len(values) != 1:
        raise _bad_request(
            f"expected exactly one header `{CONDITION}` with a commit id, got {len(values)}", "condition_missing"
        )
    commit = str(as_commit_id(values[0].strip()))
    if not is_ulid(commit):
        raise _bad_request(f"the header `{CONDITION}` expects one full commit id, got '{commit}'", "condition_missing")
    return commit


def require_content_type(request: WebRequest, expected: str) -> None:
    """Raise unless the body has this type."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != expected:
        raise _bad_request(f"expected the content type {expected}, got '{kind}'", "content_type")


async def read_body(request: WebRequest, route: Route) -> Any:
    """Return the decoded body of a request to a route."""
    kind: Any = route.body
    if route.is_body_optional and request.headers.get("content-type") is None:
        data = await receive(request, route.body_bytes_max)
        if not data:
            return convert({}, kind)
        raise _bad_request("expected the content type application/json, got ''", "content_type")
    require_content_type(request, "application/x-ndjson" if route.body is bytes else "application/json")
    data = await receive(request, route.body_bytes_max)
    if route.body is bytes:
        return data
    if route.is_body_optional and data.strip() in (b"", b"null"):
        data = b"{}"
    try:
        return decode_json(data, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad_request(f"invalid body: {error}", "body_invalid") from error


async def receive(request: WebRequest, size_max: int) -> bytes:
    """Return the body of a request; raise if it is too long or too slow."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.SERVER_BODY_SECONDS_MAX):
            async for part in request.stream():
                size += len(part)
                if size > size_max:
                    raise _body_too_long(size_max)
                parts.append(part)
    except TimeoutError as error:
        raise RequestError(
            f"the body did not arrive within {limits.SERVER_BODY_SECONDS_MAX:g} s",
            code="body_timeout",
            kind=ErrorKind.LIMIT_EXCEEDED,
        ) from error
    return b"".join(parts)


def _bad_request(message: str, code: str) -> RequestError:
    return RequestError(
        message,
        code=code,
        hint="Read `GET /openapi.json`: it describes the parameters, headers and body of each route.",
    )
