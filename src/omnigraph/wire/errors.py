"""The JSON document of an error: what a command prints with `--json` and what HTTP sends. Pure.

In: an error, and its hint as the surface renders it. Out: the document with the members of every error, followed by the
facts of this one. `code` is the word of the public HTTP API for the status; some statuses have none.
"""

from __future__ import annotations

from typing import Final

from omnigraph.base.errors import ErrorKind, Fact, OmnigraphError

_STATUSES: Final = {
    ErrorKind.BAD_REQUEST: 400,
    ErrorKind.INVALID_CONTENT: 400,
    ErrorKind.LIMIT_EXCEEDED: 413,
    ErrorKind.UNAUTHORIZED: 401,
    ErrorKind.FORBIDDEN: 403,
    ErrorKind.NOT_FOUND: 404,
    ErrorKind.CONFLICT: 409,
    ErrorKind.PRECONDITION_FAILED: 412,
    ErrorKind.REFUSED: 409,
    ErrorKind.TOO_MANY_REQUESTS: 429,
    ErrorKind.UNAVAILABLE: 503,
    ErrorKind.UNREADABLE: 500,
    ErrorKind.INTERNAL: 500,
}
_STATUSES_OF_CODES: Final = {
    "body_timeout": 408,
    "change_feed_gap": 410,
    "content_type": 415,
    "embedding_failed": 502,
    "embedding_malformed": 502,
    "graph_moved": 409,
    "method_not_allowed": 405,
    "query_time": 504,
    "range_invalid": 416,
}
_CODES: Final = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "bad_request",
    415: "bad_request",
    416: "bad_request",
    429: "too_many_requests",
    500: "internal",
    503: "service_unavailable",
}
_WITHOUT_CODE: Final = frozenset({"recovery_required", "publish_unknown"})


def http_status(error: OmnigraphError) -> int:
    """Return the HTTP status of a response with this error."""
    return _STATUSES_OF_CODES.get(error.code, _STATUSES[error.kind])


def error_document(error: OmnigraphError, hint: str) -> dict[str, Fact]:
    """Return the document of an error. An empty hint, and `applied` of an error that is not of a write, are omitted."""
    document: dict[str, Fact] = {"error": error.message, "kind": error.kind.value, "error_code": error.code}
    code = "api_contract_mismatch" if error.code == "api_contract_mismatch" else _CODES.get(http_status(error))
    if code is not None and error.code not in _WITHOUT_CODE:
        document["code"] = code
    if hint:
        document["hint"] = hint
    if error.applied is not None:
        document["applied"] = error.applied.value
    return {**document, **{name: fact for name, fact in error.facts.items() if name not in document}}
