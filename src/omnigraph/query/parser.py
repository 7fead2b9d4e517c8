"""Parses a `.gq` text into its syntax tree.

Input: a text and its name for messages. Output: a `QueryFile`, or one `QueryTextError` with the first syntax error of
each query. Never resolves names, never raises another error. The size of the text and the depth of its tree have
limits: the parser does not recurse, and a tree that is too deep for the recursive code after it is rejected first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.base import limits
from omnigraph.base.errors import ResourceLimit
from omnigraph.lang.parsing import parse_text, require_readable
from omnigraph.lang.problems import QueryProblems
from omnigraph.lang.syntax import NO_POSITION, Span
from omnigraph.query import syntax
from omnigraph.query.codes import QueryCode

if TYPE_CHECKING:
    from lark import Tree
    from lark.lexer import Token

GRAMMAR: Final = Path(__file__).with_name("query.lark")


def parse_queries(text: str, source: str = "<query>") -> syntax.QueryFile:
    """Return the syntax tree of a text, or raise `QueryTextError`."""
    problems = QueryProblems(source, text)
    codes = (QueryCode.TEXT_TOO_LARGE, QueryCode.NOT_UNICODE)
    require_readable(
        problems, "query_text", limits.QUERY_TEXT_BYTES_MAX, codes, "Pass long lists and vectors as parameters."
    )

    # Imported here, because it imports lark, which only this function and its callees need.
    from omnigraph.query.transform import HEADER, build_tree, report_syntax_error

    tree = parse_text(GRAMMAR, HEADER, report_syntax_error, problems)
    _check_depth(tree, problems)
    problems.raise_if_any()
    queries = build_tree(tree, problems)
    for query in queries:
        _check_size(query, problems)
    problems.raise_if_any()
    return syntax.QueryFile(queries, source, text)


def _check_depth(tree: Tree[Token], problems: QueryProblems) -> None:
    """Report a tree that is too deep, without recursion, so that any tree of the parser can be checked."""
    from lark import Tree as LarkTree

    pending = [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > limits.QUERY_DEPTH_MAX:
            meta = node.meta
            span = NO_POSITION if meta.empty else Span(meta.line, meta.column, 1)
            message = f"nesting is too deep: expected at most {limits.QUERY_DEPTH_MAX} levels"
            hint = "Split the query, or remove parentheses between conditions joined with `and` and `or`."
            limit = ResourceLimit("query_depth", limits.QUERY_DEPTH_MAX, "levels")
            problems.report(QueryCode.TOO_DEEP, span, message, hint, limit)
            return
        pending.extend((child, depth + 1) for child in node.children if isinstance(child, LarkTree))


def _check_size(query: syntax.Query, problems: QueryProblems) -> None:
    """Report a query with too many clauses or statements."""
    body = query.body
    if isinstance(body, syntax.ReadBody):
        count, count_max, kind = _count_clauses(body.clauses), limits.QUERY_CLAUSES_MAX, "clauses"
    else:
        count, count_max, kind = len(body.statements), limits.QUERY_STATEMENTS_MAX, "statements"
        if isinstance(body.statements[0], syntax.Matched):
            count, count_max, kind = _count_clauses(body.statements[0].clauses), limits.QUERY_CLAUSES_MAX, "clauses"
    if count > count_max:
        message = f"query {query.name.text}: too many {kind}: expected at most {count_max:,}, got {count:,}"
        hint = "Split the query." if kind == "clauses" else "Split the query, or load the rows from a file."
        limit = ResourceLimit(f"query_{kind}", count_max, kind, count)
        problems.report(QueryCode.TOO_MANY_CLAUSES, query.name.span, message, hint, limit)


def _count_clauses(clauses: tuple[syntax.Clause, ...]) -> int:
    return sum(
        1 + (_count_clauses(clause.clauses) if isinstance(clause, syntax.NotBlock | syntax.OptionalBlock) else 0)
        for clause in clauses
    )
