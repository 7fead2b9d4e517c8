"""The web pages: files of the wheel below `/ui/`, and the document at `/`, served with an ETag and compressed.

In: the directory `static`. Out: routes. The files are public and contain no data. Only files that were listed when the
server started are served, so no path leaves the directory.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route as WebRoute

if TYPE_CHECKING:
    from starlette.requests import Request as WebRequest

STATIC: Final = Path(__file__).parent / "static"
SECURITY_HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; "
        b"base-uri 'none'; form-action 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
"""The headers of every response."""
_INDEX: Final = "index.html"
_MEDIA_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".toml": "text/plain",
    ".txt": "text/plain",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFile:
    """A file of the pages."""

    content: bytes
    compressed: bytes
    media_type: str
    etag: str


def page_routes() -> list[WebRoute]:
    """Return the routes of the pages."""
    files = {path.relative_to(STATIC).as_posix(): _read_file(path) for path in STATIC.rglob("*") if path.is_file()}

    async def index(request: WebRequest) -> Response:
        request.scope["omnigraph.route"] = "/"
        return _send(files[_INDEX], request)

    async def file(request: WebRequest) -> Response:
        request.scope["omnigraph.route"] = "/ui"
        name = request.path_params["name"]
        if name not in files:
            raise HTTPException(404)
        return _send(files[name], request)

    return [WebRoute("/", index), WebRoute("/ui/{name:path}", file)]


def _read_file(path: Path) -> PageFile:
    content = path.read_bytes()
    return PageFile(
        content=content,
        compressed=gzip.compress(content, 6, mtime=0),
        media_type=_MEDIA_TYPES[path.suffix],
        etag=f'"{hashlib.sha256(content).hexdigest()[:32]}"',
    )


def _send(file: PageFile, request: WebRequest) -> Response:
    """Return a file, or nothing if the browser has this version. It asks again each time, so an upgrade is complete."""
    headers = {"ETag": file.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.content, headers=headers, media_type=file.media_type)
    headers["Content-Encoding"] = "gzip"
    return Response(file.compressed, headers=headers, media_type=file.media_type)
