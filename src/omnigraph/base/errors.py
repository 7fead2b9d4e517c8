"""The one error root, one class per stage, and the shape every surface shows.

An error carries a kind (the closed set that decides the exit code and the HTTP status), a stable code, a
sentence, a hint that says what to do, and facts for programs. User mistakes raise one of these; a broken
invariant of our own raises `InvariantError`, which no surface turns into advice.
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
    """What went wrong, coarsely. The value is the `code` of the JSON error body."""

    BAD_REQUEST = "bad_request"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    PRECONDITION_FAILED = "precondition_failed"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    UNREADABLE = "unreadable"
    INTERNAL = "internal"


class Applied(Enum):
    """Whether a failed write took effect."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class OmnigraphError(Exception):
    """Root of every error this package raises on purpose. `applied` is set by errors of a write."""

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
        """All of it, so that a traceback tells every mistake."""
        return self.render()

    def render(self) -> str:
        """What happened, for people; an error over many things lists them, one after another."""
        return self.message

    def to_json(self, hint: str | None = None) -> dict[str, Fact]:
        """Return the JSON error body. `hint` is the hint as the surface renders it."""
        return {
            "error": self.message,
            "code": self.kind.value,
            "error_code": self.code,
            "hint": self.hint if hint is None else hint,
            **({} if self.applied is None else {"applied": self.applied.value}),
            **self.facts,
        }


def fact_rows(facts: Mapping[str, Fact], name: str) -> list[dict[str, Fact]]:
    """The objects of a fact that lists some."""
    found = facts.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def list_all(head: str, lines: Sequence[str]) -> str:
    """A sentence, and each thing it is about on a line of its own, as many as people read."""
    more = len(lines) - _LISTED_MAX
    tail = (
        [f"  and {more} more; --json lists all of them, and so do the facts of the error"] if more > 0 else []
    )
    return "\n".join([head, *(f"  {line}" for line in lines[:_LISTED_MAX]), *tail])


class UsageError(OmnigraphError):
    """The call's words are off: a flag, a URI, a name."""

    kind = ErrorKind.BAD_REQUEST


class RefusedError(OmnigraphError):
    """The call is understood and refused until the caller confirms it or repairs something."""

    kind = ErrorKind.REFUSED


class NotFoundError(OmnigraphError):
    """Something that was named does not exist."""

    kind = ErrorKind.NOT_FOUND


class StorageError(OmnigraphError):
    """The disk or object store did not do what was asked."""

    kind = ErrorKind.UNAVAILABLE


class MachineError(OmnigraphError):
    """The machine lacks something this work needs: Java, a directory to write in."""

    kind = ErrorKind.UNAVAILABLE


class FormatError(OmnigraphError):
    """What is stored cannot be read by this release: corrupt, foreign, too new or too old."""

    kind = ErrorKind.UNREADABLE


class ConflictError(OmnigraphError):
    """Another writer was first; the caller may read again and retry."""

    kind = ErrorKind.CONFLICT


class InvariantError(OmnigraphError):
    """A promise of this package was broken: a defect, never a user's mistake."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake at one place of a text: a stable code, a position from 1, and the line it stands in."""

    code: str
    message: str
    hint: str
    source: str
    line: int
    column: int
    length: int
    text: str

    def render(self) -> str:
        """`file:line:column: code message`, the line, and a caret under the place."""
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
        }


class ContentError(OmnigraphError):
    """A file that was given has mistakes in it, unlike the words of the call."""

    kind = ErrorKind.BAD_REQUEST


class TextError(ContentError):
    """A schema or query text has problems; all of them are listed, in the order of the text."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(
            f"{first.source}:{first.line}:{first.column}: {first.message}{more}",
            code=first.code,
            hint=first.hint,
            facts={"problems": [problem.to_json() for problem in problems]},
        )
        self.problems = problems

    def render(self) -> str:
        return "\n".join(problem.render() for problem in self.problems)


class SchemaTextError(TextError):
    """The `.pg` text is not a valid schema."""


class QueryTextError(TextError):
    """The `.gq` text is not a valid query, or does not fit the schema."""


class ParameterError(OmnigraphError):
    """The parameters given to a query do not fit its declaration; all mistakes are listed."""

    kind = ErrorKind.BAD_REQUEST

    def render(self) -> str:
        mistakes = fact_rows(self.facts, "parameters")
        lines = [f"`{found['parameter']}`: {found['message']}" for found in mistakes]
        return list_all(f"{len(lines)} parameters do not fit", lines) if len(lines) > 1 else self.message


class RunError(ContentError):
    """A query was stopped while it ran: it hit a budget, or a number left the range of its type."""
