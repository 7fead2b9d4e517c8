"""How much a query may hold: a plan is a deep tree, and what walks it must not run out of room."""

from __future__ import annotations

from omnigraph.base import limits
from omnigraph.query.codes import QueryCode
from omnigraph.query.problems import QueryProblems
from omnigraph.query.syntax import Clause, NotBlock, OptionalBlock, Query, ReadBody


def check_size(query: Query, problems: QueryProblems) -> None:
    """Report a query with more clauses or statements than it may have."""
    body = query.body
    if isinstance(body, ReadBody):
        count, count_max, what = _clauses(body.clauses), limits.QUERY_CLAUSES_MAX, "clauses"
    else:
        count, count_max, what = len(body.statements), limits.QUERY_STATEMENTS_MAX, "statements"
    if count > count_max:
        message = f"query {query.name.text}: it has {count} {what}, more than {count_max}"
        hint = "split the query" if what == "clauses" else "split the query, or load the rows"
        problems.report(QueryCode.TOO_MANY_CLAUSES, query.name.span, message, hint)


def _clauses(clauses: tuple[Clause, ...]) -> int:
    return sum(
        1 + (_clauses(found.clauses) if isinstance(found, NotBlock | OptionalBlock) else 0)
        for found in clauses
    )
