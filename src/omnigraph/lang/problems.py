"""The list of problems of one schema or query text, raised together.

In: codes, positions, messages and hints. Out: one `SchemaTextError` or `QueryTextError` with the problems in the order
of the text. The number of problems is limited, and long names and lines are shortened, so a hostile text cannot cause a
huge answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import ClassVar

from omnigraph.base import limits
from omnigraph.base.errors import Problem, QueryTextError, ResourceLimit, SchemaTextError
from omnigraph.lang.syntax import Span


class Code(Enum):
    """The base class of the codes of a language. Each is stable and has a meaning, in one line."""

    def __init__(self, code: str, meaning: str) -> None:
        self.code = code
        self.meaning = meaning


@dataclass(slots=True)
class ProblemList:
    """The problems of one text; of a schema, unless a subclass sets another error and limit."""

    error_class: ClassVar[type[SchemaTextError] | type[QueryTextError]] = SchemaTextError
    problems_max: ClassVar[int] = limits.SCHEMA_PROBLEMS_MAX
    source: str
    text: str
    _by_position: dict[tuple[int, int, str], Problem] = field(default_factory=dict)
    _lines: list[str] | None = None

    def report(self, code: Code, span: Span, message: str, hint: str = "", limit: ResourceLimit | None = None) -> None:
        """Add a problem, unless the list is full or has the same code at the same position."""
        key = (span.line, span.column, code.code)
        if self.is_full or key in self._by_position:
            return
        self._by_position[key] = Problem(
            code=code.code,
            message=message,
            hint=hint,
            source=self.source,
            line=span.line,
            column=span.column,
            length=span.length,
            text=self._line(span),
            limit=limit,
        )

    @property
    def is_full(self) -> bool:
        return len(self._by_position) >= self.problems_max

    def did_you_mean(self, word: str, candidates: Iterable[str], similarity_min: float = 0.6) -> str:
        """Return a hint with the most similar candidate, or an empty string. Compares few enough to be fast."""
        if self.is_full or len(word) > limits.SCHEMA_NAME_LENGTH_MAX:
            return ""
        from difflib import get_close_matches

        names = {name.lower(): name for name in islice(candidates, limits.SCHEMA_SUGGESTION_CANDIDATES_MAX)}
        near = get_close_matches(word.lower(), names, n=1, cutoff=similarity_min)
        return f"did you mean {quoted(names[near[0]])}?" if near else ""

    def sorted(self) -> tuple[Problem, ...]:
        return tuple(self._by_position[key] for key in sorted(self._by_position))

    def raise_if_any(self) -> None:
        """Raise all problems together, in the order of the text."""
        if self._by_position:
            raise self.error_class(self.sorted())

    def _line(self, span: Span) -> str:
        if self._lines is None:
            self._lines = self.text.split("\n")
        line = self._lines[span.line - 1] if span.line <= len(self._lines) else ""
        if span.column > limits.PROBLEM_LINE_LENGTH_MAX:
            return ""
        return line[: limits.PROBLEM_LINE_LENGTH_MAX].rstrip("\r")


def quoted(word: str) -> str:
    """Return a word of the text in backquotes, shortened if it is long."""
    if len(word) > limits.PROBLEM_WORD_LENGTH_MAX:
        word = word[: limits.PROBLEM_WORD_LENGTH_MAX] + "…"
    return f"`{word}`"


class QueryProblems(ProblemList):
    """The problems of one query text."""

    __slots__ = ()
    error_class = QueryTextError
    problems_max = limits.QUERY_PROBLEMS_MAX

    def include(self, others: QueryProblems) -> None:
        """Add the problems of another list of the same text."""
        for key, problem in others._by_position.items():
            if not self.is_full:
                self._by_position.setdefault(key, problem)
