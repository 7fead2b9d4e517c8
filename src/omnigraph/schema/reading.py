"""Reads a text of either language into the parser's tree, and goes on after a mistake to find more of them.

Comes in: a parser, a text, and where a declaration of the language begins. Goes out: the first tree that could be read;
whoever calls raises what was reported on the way. Never takes more than time linear in the text and its mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from omnigraph.schema.problems import ProblemList
from omnigraph.schema.syntax import Span

if TYPE_CHECKING:
    from lark import Lark, Tree, UnexpectedInput
    from lark.lexer import Token

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def find_surrogate(text: str) -> Span | None:
    """Where a text has a lone surrogate, which no UTF-8 file can hold."""
    found = _SURROGATE.search(text)
    return None if found is None else Span.at(found.start(), text)


def read_tree(
    parser: Lark,
    declaration: re.Pattern[str],
    report: Callable[[UnexpectedInput], int],
    problems: ProblemList,
) -> Tree[Token]:
    """The first tree of the text of `problems`. `report` adds a mistake to them and says at which offset it is."""
    from lark import UnexpectedInput
    from lark.utils import TextSlice

    text, start = problems.text, 0
    while True:
        try:
            return parser.parse(TextSlice(text, start, len(text)))
        except UnexpectedInput as error:
            position = report(error)
        # The line of the mistake may itself be the next declaration: that is how a missing `}` shows.
        line_start = text.rfind("\n", 0, position) + 1
        following = declaration.search(text, max(start + 1, line_start))
        if following is None or problems.is_full:
            problems.raise_if_any()
            raise AssertionError("a syntax error was found and not reported")
        start = following.start()
