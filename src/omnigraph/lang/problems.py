"""Collects the problems of one schema text and raises them together.

Comes in: a code, a place, a sentence that names the declaration, and a hint. Goes out: one `SchemaTextError` with the
problems in the order of the text. At most `SCHEMA_PROBLEMS_MAX` are kept, and no name or line is shown at full length
if it is absurdly long, so that a hostile text cannot make a huge answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from omnigraph.base import limits
from omnigraph.base.errors import Problem, QueryTextError, SchemaTextError
from omnigraph.lang.syntax import Span


class Code(Protocol):
    """A stable code of one language, as its enum defines it."""

    @property
    def code(self) -> str: ...


@dataclass(slots=True)
class ProblemList:
    """The problems found so far in one text."""

    source: str
    text: str
    _found: dict[tuple[int, int, str], Problem] = field(default_factory=dict)
    _lines: list[str] | None = None

    def add(self, code: Code, span: Span, message: str, hint: str = "") -> None:
        """Keep a problem; the same code at the same place is kept once."""
        key = (span.line, span.column, code.code)
        if self.is_full or key in self._found:
            return
        self._found[key] = Problem(
            code=code.code,
            message=message,
            hint=hint,
            source=self.source,
            line=span.line,
            column=span.column,
            length=span.length,
            text=self._line(span),
        )

    @property
    def is_full(self) -> bool:
        return len(self._found) >= limits.SCHEMA_PROBLEMS_MAX

    def did_you_mean(self, word: str, candidates: Iterable[str]) -> str:
        """A hint with the nearest known word, or nothing. Never compares more than is quick."""
        if self.is_full or len(word) > limits.SCHEMA_NAME_LENGTH_MAX:
            return ""
        from difflib import get_close_matches

        known = {name.lower(): name for name in islice(candidates, limits.SCHEMA_SUGGESTION_CANDIDATES_MAX)}
        near = get_close_matches(word.lower(), known, n=1, cutoff=0.6)
        return f"did you mean {quoted(known[near[0]])}?" if near else ""

    def sorted(self) -> tuple[Problem, ...]:
        return tuple(self._found[key] for key in sorted(self._found))

    def raise_if_any(self) -> None:
        """Raise all problems at once, in the order of the text."""
        if self._found:
            raise SchemaTextError(self.sorted())

    def _line(self, span: Span) -> str:
        if self._lines is None:
            self._lines = self.text.split("\n")
        line = self._lines[span.line - 1] if span.line <= len(self._lines) else ""
        if span.column > limits.PROBLEM_LINE_LENGTH_MAX:
            return ""
        return line[: limits.PROBLEM_LINE_LENGTH_MAX].rstrip("\r")


def quoted(word: str) -> str:
    """A word of the text in backquotes, shortened when it is absurdly long."""
    if len(word) > limits.PROBLEM_WORD_LENGTH_MAX:
        word = word[: limits.PROBLEM_WORD_LENGTH_MAX] + "…"
    return f"`{word}`"


class QueryProblems(ProblemList):
    """The problems found so far in one query text."""

    __slots__ = ()

    def report(self, code: Code, span: Span, message: str, hint: str = "") -> None:
        """Keep a problem; the same code at the same place is kept once."""
        self.add(code, span, message, hint)

    def include(self, others: QueryProblems) -> None:
        """Take over the problems of another list on the same text."""
        for key, problem in others._found.items():
            if not self.is_full:
                self._found.setdefault(key, problem)

    def raise_if_any(self) -> None:
        """Raise all problems at once, in the order of the text."""
        if found := self.sorted():
            raise QueryTextError(found)
