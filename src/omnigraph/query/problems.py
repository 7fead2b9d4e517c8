"""Collects the problems of one query text and raises them together as a `QueryTextError`.

The same machinery as for schemas: one problem per code and place, at most a fixed number of them, long lines and names
shortened. Only the codes and the error class differ.
"""

from __future__ import annotations

from omnigraph.base.errors import QueryTextError
from omnigraph.schema.problems import Code, ProblemList
from omnigraph.schema.syntax import Span


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
