"""Names: their case, their length, no two alike, none that a system column has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from omnigraph.base import limits
from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.lang.syntax import Annotation, Name, WordLiteral
from omnigraph.schema.checks.scope import DeclaredType, SchemaScope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.resolve import find_annotation
from omnigraph.schema.syntax import Declaration, EdgeSyntax

_NODE_RESERVED: Final = frozenset({"id"})
_EDGE_RESERVED: Final = frozenset({"id", "src", "dst", "from", "to"})
# `_distance`, `_score` and `_relevance_score` are the columns a search adds to its result.
_LANCE_RESERVED: Final = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
        "_distance",
        "_score",
        "_relevance_score",
    }
)


def check_names(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S101 to S107."""
    edges: dict[str, Declaration] = {}
    for member in scope.members:
        declaration = member.declaration
        _check_type_name(declaration, scope, problems)
        if isinstance(declaration, EdgeSyntax):
            _check_first_letter(declaration, edges, problems)
        _check_property_names(declaration, problems)


def _check_type_name(declaration: Declaration, scope: SchemaScope, problems: ProblemList) -> None:
    name = declaration.name
    _check_length(name, declaration.label, problems)
    if not name.text[0].isupper():
        better = name.text.lstrip("_")[:1].upper() + name.text.lstrip("_")[1:]
        problems.add(
            SchemaCode.TYPE_NAME_CASE,
            name.span,
            f"{declaration.label}: the name of a type starts with an upper-case letter",
            f"write {quoted(better)}" if better[:1].isalpha() else "",
        )
    first = scope.by_name[name.text]
    if first is not declaration:
        problems.add(
            SchemaCode.TYPE_TWICE,
            name.span,
            f"{declaration.label}: the name is taken by {first.label} in line {first.name.span.line}",
            "nodes, edges and interfaces share their names; rename or remove one",
        )


def _check_first_letter(edge: EdgeSyntax, edges: dict[str, Declaration], problems: ProblemList) -> None:
    """A query may write an edge with a lower-case first letter, so that letter cannot tell two edges apart."""
    text = edge.name.text
    other = edges.setdefault(text[0].lower() + text[1:], edge)
    if other.name.text != text:
        problems.add(
            SchemaCode.EDGE_FIRST_LETTER,
            edge.name.span,
            f"{edge.label}: differs from {other.label} only in the case of the first letter",
            "queries do not see that difference; rename one",
        )


def _check_property_names(declaration: Declaration, problems: ProblemList) -> None:
    reserved = _EDGE_RESERVED if isinstance(declaration, EdgeSyntax) else _NODE_RESERVED
    lines: dict[str, int] = {}
    for found in declaration.body.properties:
        name = found.name
        where = f"{declaration.label}: property {quoted(name.text)}"
        _check_length(name, declaration.label, problems)
        if not (name.text[0].islower() or name.text[0] == "_"):
            problems.add(
                SchemaCode.PROPERTY_NAME_CASE,
                name.span,
                f"{where} must start with a lower-case letter or `_`",
                f"write {quoted(name.text[0].lower() + name.text[1:])}",
            )
        if name.text in reserved | _LANCE_RESERVED:
            problems.add(
                SchemaCode.RESERVED_NAME,
                name.span,
                f"{where} has the name of a system column",
                f"choose another name, such as {quoted(declaration.name.text.lower() + '_' + name.text.strip('_'))}",
            )
        if name.text in lines:
            message = f"{where} is already declared in line {lines[name.text]}"
            problems.add(SchemaCode.PROPERTY_TWICE, name.span, message, "remove or rename one")
        lines.setdefault(name.text, name.span.line)


def _check_length(name: Name, label: str, problems: ProblemList) -> None:
    if len(name.text) > limits.SCHEMA_NAME_LENGTH_MAX:
        start = label[: limits.SCHEMA_NAME_LENGTH_MAX // 2]
        problems.add(
            SchemaCode.NAME_TOO_LONG,
            name.span,
            f"{start}: a name has {len(name.text)} characters, more than {limits.SCHEMA_NAME_LENGTH_MAX}",
        )


def check_renames(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S108 and S109, for types and for the properties of each type."""
    types = ((member.label, member.declaration.annotations) for member in scope.members)
    _check_group(types, scope.by_name, problems)
    for member in scope.members:
        _check_group(_properties(member), member.properties, problems)


def _properties(member: DeclaredType) -> Iterable[tuple[str, tuple[Annotation, ...]]]:
    for found in member.declaration.body.properties:
        yield f"{member.label}: property {quoted(found.name.text)}", found.annotations


def _check_group(
    renamed: Iterable[tuple[str, tuple[Annotation, ...]]], existing: Iterable[str], problems: ProblemList
) -> None:
    taken: dict[str, str] = {}
    names = set(existing)
    for where, given in renamed:
        annotation = find_annotation(given, "rename_from")
        if annotation is None or len(annotation.arguments) != 1:
            continue
        old = annotation.arguments[0]
        if not isinstance(old, WordLiteral):
            continue
        if old.text in names:
            problems.add(
                SchemaCode.RENAME_SOURCE_EXISTS,
                old.span,
                f"{where} is renamed from {quoted(old.text)}, which is still declared",
                "a rename moves a name; remove the old declaration or this annotation",
            )
        if old.text in taken:
            problems.add(
                SchemaCode.RENAME_TWICE,
                old.span,
                f"{where} is renamed from {quoted(old.text)}, and so is {taken[old.text]}",
                "only one of them can be the old one",
            )
        taken.setdefault(old.text, where)
