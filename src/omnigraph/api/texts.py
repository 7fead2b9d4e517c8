"""Schema and query texts: read from files, checked, and their parameters from a command line.

In: texts and file names. Out: texts with the names that messages use for them, catalogs, and reports. Errors of a text
are raised here before a command imports Lance, which takes longer than the check. Nothing here reads a graph.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.engine.options import QueryLimits
    from omnigraph.lang.syntax import TypeExpression
    from omnigraph.query.lint import LintReport
    from omnigraph.schema.catalog import Catalog


def lint(text: str | Iterable[str], schema: str | PathLike[str], *, limits: QueryLimits | None = None) -> LintReport:
    """Check query text against a schema without running it.

    Args:
        text: One query text, or several.
        schema: As for `init`. `graph.schema` is the schema of a graph.
        limits: `QueryLimits(hops=…)` allows traversals without an upper bound.

    Example:
        >>> og.lint("query q() { match { $p: Persn } return { $p.slug } }", graph.schema).is_valid
        False
    """
    from omnigraph.query.lint import lint_queries

    catalog = build_schema(read_schema(schema))
    texts = [text] if isinstance(text, str) else list(text)
    named = [(source_name(part, "<query>"), str(part)) for part in texts]
    return lint_queries(named, catalog, None if limits is None else limits.hops)


class NamedText(str):
    """Schema or query text, with the name that messages use for it, such as its file."""

    __slots__ = ("source_name",)
    source_name: str

    @classmethod
    def make(cls, text: str, source_name: str) -> NamedText:
        """Return the text with its name."""
        named = cls(text)
        named.source_name = source_name
        return named


def read_schema(schema: str | PathLike[str]) -> NamedText:
    """Return schema text. A path object, or a string that ends in `.pg` and is one line, names a file."""
    if isinstance(schema, NamedText):
        return schema
    if isinstance(schema, str) and ("\n" in schema or not schema.endswith(".pg")):
        return NamedText.make(schema, "<schema>")
    from omnigraph.base.text_files import read_schema_file

    path = Path(schema)
    return NamedText.make(read_schema_file(path), str(path))


def build_schema(text: NamedText) -> Catalog:
    """Return the catalog of schema text; raise with every error in it."""
    from omnigraph.schema.build import build_catalog
    from omnigraph.schema.parser import parse_schema

    return build_catalog(parse_schema(text, text.source_name))


def source_name(text: str, default: str) -> str:
    """Return the name that messages use for a text."""
    return text.source_name if isinstance(text, NamedText) else default


def check_syntax(text: NamedText) -> None:
    """Raise with every syntax error of query text."""
    from omnigraph.query.parser import parse_queries

    parse_queries(str(text), text.source_name)


def read_text_params(text: str, name: str | None, values: Mapping[str, str]) -> dict[str, object]:
    """Return parameters from text, as a command line has them.

    A parameter whose declared type is text in JSON (String, Date, DateTime, Blob) keeps its text. Any other is read as
    JSON. A value that is not JSON keeps its text too, so that the query reports the type that it expects.
    """
    from omnigraph.query.parser import parse_queries

    queries = parse_queries(str(text), source_name(text, "<query>")).queries
    declared = {
        parameter.variable.name: parameter.type
        for query in queries
        if query.name.text == name or len(queries) == 1
        for parameter in query.parameters
    }
    return {
        parameter: value if parameter not in declared or _is_text_in_json(declared[parameter]) else _json_value(value)
        for parameter, value in values.items()
    }


def _is_text_in_json(declared: TypeExpression) -> bool:
    return not declared.is_list and declared.name.text in ("String", "Date", "DateTime", "Blob")


def _json_value(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
