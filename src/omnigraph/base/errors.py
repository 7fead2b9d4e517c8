"""`OmnigraphError` and one class for each way in which a call can fail.

An error has a kind (a closed set, which decides the exit code and the HTTP status), a stable code, a message, a hint
that says what to do, and facts for programs. User errors raise one of these classes; a broken invariant raises
`InvariantError`. `wire/errors.py` makes the JSON document of an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from omnigraph.base.hints import Hint

_UNPRINTABLE: Final = "\N{REPLACEMENT CHARACTER}"
"""The replacement for characters that could control a terminal. It is one column wide, as the caret expects."""

_LISTED_MAX: Final = 20

Fact = str | int | float | bool | None | list["Fact"] | dict[str, "Fact"]


class ErrorKind(Enum):
    """What went wrong. The value is the `kind` of the JSON document."""

    BAD_REQUEST = "bad_request"
    INVALID_CONTENT = "invalid_content"
    LIMIT_EXCEEDED = "limit_exceeded"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    PRECONDITION_FAILED = "precondition_failed"
    REFUSED = "refused"
    TOO_MANY_REQUESTS = "too_many_requests"
    UNAVAILABLE = "unavailable"
    UNREADABLE = "unreadable"
    INTERNAL = "internal"


class Applied(Enum):
    """Whether a failed write took effect."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class OmnigraphError(Exception):
    """Base class of all errors of Omnigraph. `applied` is set by errors of a write."""

    kind: ErrorKind = ErrorKind.INTERNAL
    applied: Applied | None = None

    def __init__(
        self, message: str, *, code: str, hint: str | Hint = "", facts: Mapping[str, Fact] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.advice = hint if isinstance(hint, Hint) else Hint(hint)
        self.facts: Mapping[str, Fact] = MappingProxyType(dict(facts or {}))

    @property
    def hint(self) -> str:
        """Return what to do, with the arguments of Python. `advice` is the same as a value, for other surfaces."""
        return str(self.advice)

    def __str__(self) -> str:
        """Return everything that a traceback should show: what happened, and what to do."""
        return f"{self.render()}\nhint: {self.hint}" if self.advice else self.render()

    def render(self) -> str:
        """Return what happened, as text for people. An error about many things lists them, one per line."""
        return self.message


def fact_rows(facts: Mapping[str, Fact], name: str) -> list[dict[str, Fact]]:
    """Return the objects of a fact that is a list of objects."""
    rows = facts.get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def list_all(head: str, lines: Sequence[str]) -> str:
    """Return a heading and at most 20 lines below it."""
    more = len(lines) - _LISTED_MAX
    tail = [f"  and {more} more; the facts of the error list all of them"] if more > 0 else []
    return "\n".join([head, *(f"  {line}" for line in lines[:_LISTED_MAX]), *tail])


class UsageError(OmnigraphError):
    """An argument of the call is invalid: a flag, a URI, a name."""

    kind = ErrorKind.BAD_REQUEST


class RefusedError(OmnigraphError):
    """The call is valid, but the caller must confirm it or repair something first."""

    kind = ErrorKind.REFUSED


class ConfirmationRequiredError(RefusedError):
    """The call would destroy data, and the caller did not confirm it."""


class NotFoundError(OmnigraphError):
    """The call names something that does not exist."""

    kind = ErrorKind.NOT_FOUND


class StorageError(OmnigraphError):
    """The disk or the object store failed."""

    kind = ErrorKind.UNAVAILABLE


class MachineError(OmnigraphError):
    """The machine lacks a requirement of the call: Java, a writable directory."""

    kind = ErrorKind.UNAVAILABLE


class FormatError(OmnigraphError):
    """This release cannot read the stored data: damaged, written by another tool, too new or too old."""

    kind = ErrorKind.UNREADABLE


class ConflictError(OmnigraphError):
    """Another writer was first: read again and retry. Or the branch or graph to create already exists."""

    kind = ErrorKind.CONFLICT


class InvariantError(OmnigraphError):
    """An invariant is broken: a bug in Omnigraph, not a user error."""


@dataclass(frozen=True, slots=True)
class ResourceLimit:
    """A limit that was exceeded: the resource, such as `memory`, its limit and unit, and the amount if it is known."""

    resource: str
    limit: float
    unit: str
    actual: float | None = None

    def facts(self) -> dict[str, Fact]:
        """Return the fact that every error about a limit has."""
        document: dict[str, Fact] = {"resource": self.resource, "limit": self.limit, "unit": self.unit}
        return {"resource_limit": document if self.actual is None else {**document, "actual": self.actual}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error at a position of schema or query text: a stable code, line and column from 1, and that line.

    `limit` is the limit that the text exceeds, if that is the problem.
    """

    code: str
    message: str
    hint: str
    source: str
    line: int
    column: int
    length: int
    text: str
    limit: ResourceLimit | None = None

    def render(self) -> str:
        """Return `file:line:column: code message`, the line, and a caret below the position."""
        line = "".join(ch if ch == "\t" or ch.isprintable() else _UNPRINTABLE for ch in self.text)
        pad = "".join("\t" if ch == "\t" else " " for ch in line[: self.column - 1])
        caret = "^" * max(1, min(self.length, len(self.text) - self.column + 2))
        head = f"{self.source}:{self.line}:{self.column}: {self.code} {self.message}"
        return f"{head}\n  {line}\n  {pad}{caret}" + (f"\n  hint: {self.hint}" if self.hint else "")

    def to_json(self) -> dict[str, Fact]:
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "source": self.source,
            "line": self.line,
            "column": self.column,
            "length": self.length,
        }


class ContentError(OmnigraphError):
    """The content of a text, a file or rows is invalid; the arguments of the call are valid."""

    kind = ErrorKind.INVALID_CONTENT


class TextError(ContentError):
    """A schema or query text has errors. All of them are listed, in the order of the text.

    If the first one is an exceeded limit, so is the error.
    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(
            f"{first.source}:{first.line}:{first.column}: {first.message}{more}",
            code=first.code,
            hint=first.hint,
            facts={
                "problems": [problem.to_json() for problem in problems],
                **({} if first.limit is None else first.limit.facts()),
            },
        )
        if first.limit is not None:
            self.kind = ErrorKind.LIMIT_EXCEEDED
        self.problems = problems

    def __str__(self) -> str:
        """Return the problems. Each has its own hint."""
        return self.render()

    def render(self) -> str:
        return "\n".join(problem.render() for problem in self.problems)


class SchemaTextError(TextError):
    """The `.pg` text is not a valid schema."""


class QueryTextError(TextError):
    """The `.gq` text is not a valid query, or does not fit the schema."""


class ParameterError(OmnigraphError):
    """The parameters of a query do not match its declaration. All errors are listed."""

    kind = ErrorKind.BAD_REQUEST

    def render(self) -> str:
        errors = fact_rows(self.facts, "parameters")
        lines = [f"`{error['parameter']}`: {error['message']}" for error in errors]
        return list_all(f"{len(lines)} parameters do not fit", lines) if len(lines) > 1 else self.message


class RunError(ContentError):
    """A query failed while it ran, for example because a number was outside of the range of its type."""


class LimitExceededError(RunError):
    """A query reached its limit of memory or time."""

    kind = ErrorKind.LIMIT_EXCEEDED
