"""`.pg` text → syntax tree.

In: a text and its name in messages. Out: a `Schema`, or one `SchemaTextError` with the first syntax error of every
declaration. Never checks the meaning and never raises anything else. The time is linear in the text: its size is
limited, the grammar does not nest, and after an error the parser continues at the next declaration.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import ResourceLimit
from omnigraph.lang.parsing import find_surrogate, parse_text
from omnigraph.lang.problems import ProblemList
from omnigraph.lang.syntax import NO_POSITION
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.syntax import Schema

GRAMMAR: Final = Path(__file__).with_name("schema.lark")
_DECLARATION: Final = re.compile(r"^[ \t]*(?:node|edge|interface)[ \t]+[A-Za-z_]", re.MULTILINE)


def parse_schema(text: str, source: str = "<schema>") -> Schema:
    """Return the syntax tree of a text, or raise `SchemaTextError`."""
    problems = ProblemList(source, text)
    _check_text(text, problems)

    from omnigraph.schema.transform import build_tree, report_syntax_error

    declarations = build_tree(parse_text(GRAMMAR, _DECLARATION, report_syntax_error, problems), problems)
    problems.raise_if_any()
    return Schema(declarations, source, text)


def _check_text(text: str, problems: ProblemList) -> None:
    """Reject a text that is too large, not Unicode or only the name of a file, before it is parsed."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.SCHEMA_TEXT_BYTES_MAX:
        message = f"the schema is too large: expected at most {limits.SCHEMA_TEXT_BYTES_MAX:,} bytes, got {size:,}"
        limit = ResourceLimit("schema_text", limits.SCHEMA_TEXT_BYTES_MAX, "bytes", size)
        problems.report(SchemaCode.TEXT_TOO_LARGE, NO_POSITION, message, "check that this is the right file", limit)
    if text.endswith(".pg") and not any(map(str.isspace, text)):
        hint = "pass the text of the file, such as `Path('schema.pg').read_text()`"
        problems.report(SchemaCode.SYNTAX, NO_POSITION, "expected the text of a schema, got the name of a file", hint)
    if (surrogate := find_surrogate(text)) is not None:
        problems.report(
            SchemaCode.NOT_UNICODE,
            surrogate,
            "the schema contains an unpaired surrogate, which is not a character",
            "save the file as UTF-8",
        )
    problems.raise_if_any()
