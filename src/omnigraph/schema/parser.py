"""`.pg` text → syntax tree.

In: a text and its name in messages. Out: a `Schema`, or one `SchemaTextError` with the first syntax error of every
declaration. Never checks the meaning and never raises anything else. The time is linear in the text: its size is
limited, the grammar does not nest, and after an error the parser continues at the next declaration.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from omnigraph.base import limits
from omnigraph.lang.parsing import Grammar, find_surrogate, load_parser, read_tree
from omnigraph.lang.problems import ProblemList
from omnigraph.lang.syntax import NO_POSITION
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.syntax import Schema

if TYPE_CHECKING:
    from lark import Lark, Tree, UnexpectedInput
    from lark.lexer import Token

GRAMMAR: Final = Grammar("omnigraph.schema", "schema", has_positions=False)
_DECLARATION: Final = re.compile(r"^[ \t]*(?:node|edge|interface)[ \t]+[A-Za-z_]", re.MULTILINE)


def parse_schema(text: str, source: str = "<schema>") -> Schema:
    """Return the syntax tree of a text, or raise `SchemaTextError`."""
    problems = ProblemList(source, text)
    _check_text(text, problems)
    tree = _parse(text, problems)
    problems.raise_if_any()

    from omnigraph.schema.transform import build_tree

    declarations = build_tree(tree, problems)
    problems.raise_if_any()
    return Schema(declarations, source, text)


def _check_text(text: str, problems: ProblemList) -> None:
    """Reject a text that is too large, not Unicode or only the name of a file, before it is parsed."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.SCHEMA_TEXT_BYTES_MAX:
        message = f"the schema is too large: expected at most {limits.SCHEMA_TEXT_BYTES_MAX:,} bytes, got {size:,}"
        problems.report(SchemaCode.TEXT_TOO_LARGE, NO_POSITION, message, "check that this is the right file")
    if text.endswith(".pg") and not any(map(str.isspace, text)):
        hint = "pass the text of the file, such as `Path('schema.pg').read_text()`"
        problems.report(SchemaCode.SYNTAX, NO_POSITION, "expected the text of a schema, got the name of a file", hint)
    if (surrogate := find_surrogate(text)) is not None:
        problems.report(
            SchemaCode.NOT_UNICODE,
            surrogate,
            "the schema contains a lone surrogate, which is not a character",
            "save the file as UTF-8",
        )
    problems.raise_if_any()


def _parse(text: str, problems: ProblemList) -> Tree[Token]:
    def report(error: UnexpectedInput) -> int:
        from omnigraph.schema.transform import report_syntax_error

        return report_syntax_error(error, text, problems)

    return read_tree(_parser(), _DECLARATION, report, problems)


@cache
def _parser() -> Lark:
    """Load the parser, once per process."""
    return load_parser(GRAMMAR)
