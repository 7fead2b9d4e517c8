"""`.pg` text to syntax tree.

Comes in: a text and the name to show for it. Goes out: a `Schema`, or one `SchemaTextError` with every declaration's
first syntax error. Never looks at meaning, never raises anything else, never takes more than time linear in the text:
its size is bounded, the grammar does not nest, and reading again after an error starts at the next declaration.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from omnigraph.base import limits
from omnigraph.lang.parsing import Grammar, find_surrogate, load_parser, read_tree
from omnigraph.lang.problems import ProblemList
from omnigraph.lang.syntax import NOWHERE
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.syntax import Schema

if TYPE_CHECKING:
    from lark import Lark, Tree, UnexpectedInput
    from lark.lexer import Token

GRAMMAR: Final = Grammar("omnigraph.schema", "schema", has_positions=False)
_DECLARATION: Final = re.compile(r"^[ \t]*(?:node|edge|interface)[ \t]+[A-Za-z_]", re.MULTILINE)


def parse_schema(text: str, source: str = "<schema>") -> Schema:
    """Read a text into its syntax tree, or raise `SchemaTextError`."""
    problems = ProblemList(source, text)
    _check_text(text, problems)
    tree = _parse(text, problems)
    problems.raise_if_any()

    from omnigraph.schema.transform import build_tree

    declarations = build_tree(tree, problems)
    problems.raise_if_any()
    return Schema(declarations, source, text)


def _check_text(text: str, problems: ProblemList) -> None:
    """Refuse what cannot be a file of acceptable size before anything reads it."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.SCHEMA_TEXT_BYTES_MAX:
        message = f"the schema has {size} bytes, more than {limits.SCHEMA_TEXT_BYTES_MAX}"
        problems.add(SchemaCode.TEXT_TOO_LARGE, NOWHERE, message, "is this the right file?")
    if text.endswith(".pg") and not any(map(str.isspace, text)):
        hint = "pass the text of the file, such as Path('schema.pg').read_text()"
        problems.add(SchemaCode.SYNTAX, NOWHERE, "this is the name of a file, not a schema", hint)
    if (surrogate := find_surrogate(text)) is not None:
        problems.add(
            SchemaCode.NOT_UNICODE,
            surrogate,
            "the schema has a lone surrogate, which is not a character",
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
    """The parser, made once per process when the first text is read."""
    return load_parser(GRAMMAR)
