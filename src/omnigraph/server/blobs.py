"""The response with a blob: conditions, one range, and HEAD without reading the bytes.

In: a stored blob and the headers of a request. Out: a response with 200, 206 or 304, or an error with 412 or 416.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from omnigraph.base.errors import ErrorKind
from omnigraph.server.errors import RequestError

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.requests import Request as WebRequest

    from omnigraph.graph.rows.blobs import StoredBlob

MEDIA_TYPE: Final = "application/octet-stream"
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")


def blob_response(blob: StoredBlob, request: WebRequest) -> Response:
    """Return the bytes that a request asks for."""
    tag = f'"{blob.tag}"'
    headers = {"ETag": tag, "Accept-Ranges": "bytes"}
    expected = request.headers.get("if-match")
    if expected is not None and not _matches(expected, tag):
        raise RequestError(
            f"the blob changed: expected {expected}, got {tag}",
            code="blob_changed",
            kind=ErrorKind.PRECONDITION_FAILED,
            facts={"precondition_failure": {"expected": expected, "actual": tag}},
        )
    if _matches(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    if request.method == "HEAD":
        return Response(headers={**headers, "Content-Length": str(blob.size)}, media_type=MEDIA_TYPE)
    part = find_range(request.headers, tag, blob.size)
    if part is None:
        return Response(blob.read(), headers=headers, media_type=MEDIA_TYPE)
    start, end = part
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{blob.size}"
    return Response(blob.read(start, end), 206, headers, MEDIA_TYPE)


def find_range(headers: Headers, tag: str, size: int) -> tuple[int, int] | None:
    """Return the start and the end of the requested range; None for the whole blob, also for several ranges."""
    if "if-range" in headers and headers["if-range"].strip() != tag:
        return None
    match = _RANGE.fullmatch(headers.get("range", "").strip())
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    start = max(size - int(last), 0) if not first else int(first)
    end = min(int(last) + 1, size) if first and last else size
    if start >= size or start >= end:
        raise RequestError(
            f"the range is outside of the blob: expected a part of {size:,} bytes, got '{headers['range']}'",
            code="range_invalid",
            facts={"resource_limit": {"resource": "blob", "limit": size, "unit": "bytes"}},
        )
    return start, end


def _matches(header: str, tag: str) -> bool:
    return header.strip() == "*" or tag in [value.strip() for value in header.split(",")]
