"""Locations: the directory or object-store prefix of a graph, parsed and validated once.

In: a path or URI as text, and optional object-store settings. Out: a `Location`, whose `uri` is what Lance opens. Local
paths become absolute and links are resolved, because Lance branches record absolute paths. S3 gets bounded retries and
timeouts, so that an endpoint that does not answer is an error within seconds instead of Lance's three minutes; settings
of the caller take precedence. Nothing here reads or writes a store.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from omnigraph.base.errors import UsageError
from omnigraph.storage.settings import DURABILITY_VARIABLE, options_to_send, require_settings, settings_id

_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):")
_PATH_BYTES_MAX: Final = 3500  # systems allow 4096; files below the path need the rest
_NAME_BYTES_MAX: Final = 255
_HINT: Final = "Pass a local path, `file:///path` or `s3://bucket/prefix`."

S3_DEFAULTS: Final[Mapping[str, str]] = {
    "client_max_retries": "3",
    "client_retry_timeout": "5",
    "connect_timeout": "2s",
    "timeout": "30s",
}
_SETTINGS_ID_OPTION: Final = "omnigraph_settings"
_ENDPOINT_OPTIONS: Final = ("aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url")
_ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL")


class Scheme(Enum):
    """The kinds of store that can hold a graph."""

    LOCAL = "file"
    S3 = "s3"
    MEMORY = "memory"


class Durability(StrEnum):
    """What an acknowledged write to local files survives. For object stores, the store decides."""

    SYNC = "sync"
    """A power cut: files are synced before a commit references them."""
    PROCESS = "process"
    """The crash of any process, but not of the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """One directory or object-store prefix.

    `durability` is sent to workers with it. `root` is the location from which `child` derived it; empty: itself.
    """

    scheme: Scheme
    uri: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    durability: Durability = Durability.SYNC
    root: str = field(default="", compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location without the secrets that must not leave this machine."""
        make = partial(
            Location,
            scheme=self.scheme,
            uri=self.uri,
            options=options_to_send(self.options),
            durability=self.durability,
            root=self.root,
        )
        return make, ()

    def child(self, path: str) -> Location:
        """Return the location of a relative path below this one."""
        return replace(self, uri=f"{self.uri}/{path}", root=self.root_uri)

    @property
    def root_uri(self) -> str:
        """The root of the tree that this location belongs to: local deletes follow no symbolic link below it."""
        return self.root or self.uri

    @property
    def is_local(self) -> bool:
        return self.scheme is Scheme.LOCAL

    @property
    def is_synced(self) -> bool:
        """Whether files here must be synced before a commit references them."""
        return self.is_local and self.durability is Durability.SYNC

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The options for Lance; None if it reads only the environment.

        Lance caches open stores by their options and also reads variables, so the id of these variables is an option.
        """
        if self.scheme is not Scheme.S3:
            return dict(self.options) or None
        return {**require_settings(self.options, self.uri), _SETTINGS_ID_OPTION: settings_id()}

    @property
    def lance_uri(self) -> str:
        """The URI in Lance's spelling."""
        return f"shared-{self.uri}" if self.scheme is Scheme.MEMORY else self.uri

    def __str__(self) -> str:
        return self.uri


def parse_location(text: str, options: Mapping[str, str] | None = None, durability: str | None = None) -> Location:
    """Parse a URI or path; raise `UsageError` if it cannot be the location of a graph.

    `durability` is `sync` or `process`; default: the value of `OMNIGRAPH_DURABILITY`, or else `sync`.
    """
    return replace(_parse(text, options), durability=_parse_durability(durability))


def require_shared(location: Location) -> None:
    """Raise if only this process sees the location, so that the executors of Spark can neither read nor write it."""
    if location.scheme is Scheme.MEMORY:
        raise UsageError(
            f"Spark cannot use '{location.uri}': a graph in memory exists only in this process",
            code="uri_is_memory",
            hint="Use a graph on disk or in S3, or the runner `local`.",
        )


def _parse_durability(text: str | None) -> Durability:
    name = text if text is not None else os.environ.get(DURABILITY_VARIABLE) or Durability.SYNC
    try:
        return Durability(name)
    except ValueError:
        source = "durability" if text is not None else DURABILITY_VARIABLE
        raise UsageError(
            f"invalid value of {source}: expected 'sync' or 'process', got '{name}'",
            code="durability_invalid",
            hint="Use `sync` to survive a power cut, or `process` to survive only the crash of processes.",
        ) from None


def _parse(text: str, options: Mapping[str, str] | None) -> Location:
    settings = tuple(sorted((options or {}).items()))
    if not text.strip() or "\0" in text:
        raise UsageError("graph URI is empty: expected a path or URI", code="uri_empty", hint=_HINT)
    match _scheme_of(text):
        case None:
            return Location(scheme=Scheme.LOCAL, uri=_absolute(text), options=settings)
        case "file":
            return Location(scheme=Scheme.LOCAL, uri=_absolute(_file_path(text)), options=settings)
        case "s3":
            return Location(scheme=Scheme.S3, uri=_bucket_uri(text), options=_s3_options(options or {}))
        case "memory":
            return Location(scheme=Scheme.MEMORY, uri=_bucket_uri(text), options=settings)
        case "http" | "https":
            raise UsageError(
                f"invalid graph URI '{text}': expected a storage location, got a server address",
                code="uri_is_server",
                hint=_HINT,
            )
        case scheme:
            raise UsageError(
                f"unsupported URI scheme '{scheme}': expected a local path, 'file' or 's3'",
                code="uri_scheme",
                hint=_HINT,
            )


def _s3_options(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    options = {**S3_DEFAULTS, **{key.lower(): value for key, value in settings.items()}}
    endpoints = [options.get(key, "") for key in _ENDPOINT_OPTIONS]
    endpoints += [os.environ.get(key, "") for key in _ENDPOINT_VARIABLES]
    if next((endpoint for endpoint in endpoints if endpoint), "").startswith("http://"):
        options.setdefault("allow_http", "true")
    return tuple(sorted(options.items()))


def _scheme_of(text: str) -> str | None:
    match = _SCHEME.match(text)
    if match is None or (len(match[1]) == 1 and "//" not in text):
        return None
    scheme = match[1].lower()
    return scheme if text[match.end() :].startswith("/") or scheme == "file" else None


def _absolute(path: str) -> str:
    resolved = os.path.realpath(path)
    if resolved == os.sep:
        raise UsageError("the root directory cannot be a graph", code="uri_root", hint=_HINT)
    problem = _path_problem(resolved)
    if problem is not None:
        raise UsageError(
            f"{resolved!r} cannot be the location of a graph: {problem}",
            code="uri_path",
            hint="Rename the directory or choose another.",
        )
    return resolved


def _path_problem(path: str) -> str | None:
    """Return why Lance cannot use a path: it would read it as a URI, write elsewhere or report damaged files."""
    try:
        size = len(path.encode())
        name_size = max(len(part.encode()) for part in Path(path).parts)
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if size > _PATH_BYTES_MAX or name_size > _NAME_BYTES_MAX:
        return "its name is too long"
    invalid = next((char for char in path if char == "?" or unicodedata.category(char) == "Cc"), None)
    return None if invalid is None else f"its name contains {invalid!r}"


def _file_path(text: str) -> str:
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise UsageError(
            f"invalid file URI '{text}': expected a local path", code="uri_file", hint="Use `file:///absolute/path`."
        )
    return unquote(parts.path)


def _bucket_uri(text: str) -> str:
    parts = urlsplit(text)
    key = parts.path.strip("/")
    if not parts.netloc or not key:
        raise UsageError(
            f"invalid graph URI '{text}': expected a bucket and a prefix",
            code="uri_bucket",
            hint=f"Use `{parts.scheme}://bucket/graph.omni`.",
        )
    if parts.query or parts.fragment or any(part in ("", ".", "..") for part in key.split("/")):
        raise UsageError(
            f"invalid prefix in graph URI '{text}': '.', '..', '?', '#' and '//' are not allowed",
            code="uri_prefix",
            hint="Use a prefix of plain names, such as `team/graph.omni`.",
        )
    return f"{parts.scheme.lower()}://{parts.netloc}/{key}"
