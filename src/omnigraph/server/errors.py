"""Errors over HTTP: the status of an error, its document, and the errors that only a server has. Pure.

In: an error. Out: a status, headers and a document. The document of a defect contains no path and no traceback: the
request id identifies the line of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.base.errors import ErrorKind, Fact, OmnigraphError, fact_rows
from omnigraph.base.hints import Action, Argument, hint_to_json
from omnigraph.wire.errors import error_document, http_status


class RequestError(OmnigraphError):
    """A request that the server rejects before any work: its address, its token, its headers, its size."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        kind: ErrorKind = ErrorKind.BAD_REQUEST,
        hint: str = "",
        facts: Mapping[str, Fact] | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint, facts=facts)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """What a failed request gets."""

    status: int
    headers: dict[str, str]
    document: dict[str, Fact]


def error_answer(error: OmnigraphError) -> ErrorAnswer:
    """Return the answer for an error."""
    status = http_status(error)
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        headers["Retry-After"] = "1" if error.code == "server_busy" else "5"
    if status == 500:
        return ErrorAnswer(status=status, headers=headers, document=_internal_document(error))
    document = error_document(error, error.advice.render(_part_text))
    if error.advice.parts:
        document["advice"] = hint_to_json(error.advice)
    document.pop("recorded", None)  # the location at which a moved graph was created
    return ErrorAnswer(status=status, headers=headers, document=_without_files(document))


def _without_files(document: dict[str, Fact]) -> dict[str, Fact]:
    """Return a document without the names of files of the server: a load over HTTP has only lines."""
    rows = fact_rows(document, "validation_errors")
    if not rows:
        return document
    message = str(document["error"])
    for file in {str(row.get("file")) for row in rows}:
        message = message.replace(f"{file}:", "line ")
    violations: list[Fact] = [
        {name: value for name, value in row.items() if name not in ("file", "earlier_file")} for row in rows
    ]
    return {**document, "error": message, "validation_errors": violations}


def hide_locations(value: Fact, addresses: Mapping[str, str]) -> Fact:
    """Return a document in which each location of a graph is replaced by its address on the server."""
    if isinstance(value, str):
        for location, address in addresses.items():
            value = value.replace(location, address)
        return value
    if isinstance(value, list):
        return [hide_locations(item, addresses) for item in value]
    if isinstance(value, dict):
        return {name: hide_locations(item, addresses) for name, item in value.items()}
    return value


def _internal_document(error: OmnigraphError) -> dict[str, Fact]:
    message = "the server failed" if error.kind is ErrorKind.INTERNAL else "the stored graph cannot be read"
    return {
        "error": message,
        "code": "internal",
        "kind": error.kind.value,
        "error_code": error.code,
        "hint": "The log of the server has the details under the id of this request.",
    }


def _part_text(part: Argument | Action) -> str:
    """Return an argument as the member of a request, and a call as the command that an operator runs."""
    return f"`{part.name}`" if isinstance(part, Argument) else f"`omnigraph {part.name}`"
