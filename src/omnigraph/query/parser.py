"""`.gq` text to syntax tree.

Comes in: a text and the name to show for it. Goes out: a `QueryFile`, or one `QueryTextError` with every query's first
syntax error. Never looks at meaning, never raises anything else. The size of the text and the depth of its tree are
bounded: the parser itself does not recurse, and a tree too deep for what follows is refused before it is walked.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from omnigraph.base import limits
from omnigraph.lang.parsing import Grammar, find_surrogate, load_parser, read_tree
from omnigraph.lang.problems import QueryProblems
from omnigraph.lang.syntax import NOWHERE, Span
from omnigraph.query.codes import QueryCode
from omnigraph.query.syntax import Clause, NotBlock, OptionalBlock, Query, QueryFile, ReadBody

if TYPE_CHECKING:
    from lark import Lark, Tree, UnexpectedInput
    from lark.lexer import Token


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
        1 + (_clauses(clause.clauses) if isinstance(clause, NotBlock | OptionalBlock) else 0)
        for clause in clauses
    )


GRAMMAR: Final = Grammar("omnigraph.query", "query", has_positions=True)
_DECLARATION: Final = re.compile(r"^[ \t]*query[ \t]+[A-Za-z_]", re.MULTILINE)


def parse_queries(text: str, source: str = "<query>") -> QueryFile:
    """Read a text into its syntax tree, or raise `QueryTextError`."""
    problems = QueryProblems(source, text)
    _check_text(text, problems)
    tree = _parse(text, problems)
    problems.raise_if_any()
    _check_depth(tree, problems)
    problems.raise_if_any()

    from omnigraph.query.transform import build_tree

    queries = build_tree(tree, problems)
    for query in queries:
        check_size(query, problems)
    problems.raise_if_any()
    return QueryFile(queries, source, text)


def _check_text(text: str, problems: QueryProblems) -> None:
    """Refuse what cannot be a file of acceptable size before anything reads it."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.QUERY_TEXT_BYTES_MAX:
        message = f"the text has {size} bytes, more than {limits.QUERY_TEXT_BYTES_MAX}"
        problems.report(
            QueryCode.TEXT_TOO_LARGE, NOWHERE, message, "give long lists and vectors as parameters"
        )
    if (surrogate := find_surrogate(text)) is not None:
        problems.report(
            QueryCode.NOT_UNICODE,
            surrogate,
            "the text has a lone surrogate, which is not a character",
            "save the file as UTF-8",
        )
    problems.raise_if_any()


def _parse(text: str, problems: QueryProblems) -> Tree[Token]:
    def report(error: UnexpectedInput) -> int:
        from omnigraph.query.transform import report_syntax_error

        return report_syntax_error(error, text, problems)

    return read_tree(_parser(), _DECLARATION, report, problems)


def _check_depth(tree: Tree[Token], problems: QueryProblems) -> None:
    """Walks without recursion, so that it can look at any tree the parser makes."""
    from lark import Tree as LarkTree

    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > limits.QUERY_DEPTH_MAX:
            meta = node.meta
            span = NOWHERE if meta.empty else Span(meta.line, meta.column, 1)
            message = f"the text is nested more than {limits.QUERY_DEPTH_MAX} levels deep here"
            hint = "split the query, or join conditions with `and` and `or` without so many parentheses"
            problems.report(QueryCode.TOO_DEEP, span, message, hint)
            return
        waiting.extend((child, depth + 1) for child in node.children if isinstance(child, LarkTree))


@cache
def _parser() -> Lark:
    """The parser, made once per process when the first text is read."""
    return load_parser(GRAMMAR)
