"""`.pg` text → syntax tree.

In: a text and its name in messages. Out: a `Schema`, or one `SchemaTextError` with the first syntax error of every
declaration. Never checks the meaning and never raises anything else. The time is linear in the text: its size is
limited, the grammar does not nest, and after an error the parser continues at the next declaration.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from omnigraph.base import limits
from omnigraph.lang.parsing import parse_text, require_readable
from omnigraph.lang.problems import ProblemList
from omnigraph.lang.syntax import NO_POSITION
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.syntax import Schema

GRAMMAR: Final = Path(__file__).with_name("schema.lark")


def parse_schema(text: str, source: str = "<schema>") -> Schema:
    """Return the syntax tree of a text, or raise `SchemaTextError`."""
    problems = ProblemList(source, text)
    if text.endswith(".pg") and not any(map(str.isspace, text)):
        hint = "pass the text of the file, such as `Path('schema.pg').read_text()`"
        problems.report(SchemaCode.SYNTAX, NO_POSITION, "expected the text of a schema, got the name of a file", hint)
    codes = (SchemaCode.TEXT_TOO_LARGE, SchemaCode.NOT_UNICODE)
    require_readable(problems, "schema_text", limits.SCHEMA_TEXT_BYTES_MAX, codes, "check that this is the right file")

    from omnigraph.schema.transform import HEADER, build_tree, report_syntax_error

    declarations = build_tree(parse_text(GRAMMAR, HEADER, report_syntax_error, problems), problems)
    problems.raise_if_any()
    return Schema(declarations, source, text)
