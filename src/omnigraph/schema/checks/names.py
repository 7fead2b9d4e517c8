"""Checks of names: their case and length, no duplicates, no name of a system column, and valid renames."""

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
        problems.report(
            SchemaCode.TYPE_NAME_CASE,
            name.span,
            f"{declaration.label}: the name of a type must start with an upper-case letter",
            f"write {quoted(better)}" if better[:1].isalpha() else "",
        )
    first = scope.by_name[name.text]
    if first is not declaration:
        problems.report(
            SchemaCode.DUPLICATE_TYPE,
            name.span,
            f"{declaration.label}: the name is already used by {first.label} in line {first.name.span.line}",
            "nodes, edges and interfaces need different names; rename or remove one",
        )


def _check_first_letter(edge: EdgeSyntax, edges: dict[str, Declaration], problems: ProblemList) -> None:
    """Report two edges with names that queries do not distinguish: a query may start an edge in lower case."""
    text = edge.name.text
    other = edges.setdefault(text[0].lower() + text[1:], edge)
    if other.name.text != text:
        problems.report(
            SchemaCode.EDGE_FIRST_LETTER,
            edge.name.span,
            f"{edge.label}: differs from {other.label} only in the case of the first letter",
            "rename one; queries ignore the case of the first letter",
        )


def _check_property_names(declaration: Declaration, problems: ProblemList) -> None:
    reserved = _EDGE_RESERVED if isinstance(declaration, EdgeSyntax) else _NODE_RESERVED
    lines: dict[str, int] = {}
    for declared in declaration.body.properties:
        name = declared.name
        where = f"{declaration.label}: property {quoted(name.text)}"
        _check_length(name, declaration.label, problems)
        if not (name.text[0].islower() or name.text[0] == "_"):
            problems.report(
                SchemaCode.PROPERTY_NAME_CASE,
                name.span,
                f"{where} must start with a lower-case letter or `_`",
                f"write {quoted(name.text[0].lower() + name.text[1:])}",
            )
        if name.text in reserved | _LANCE_RESERVED:
            problems.report(
                SchemaCode.RESERVED_NAME,
                name.span,
                f"{where} has the name of a system column",
                f"choose another name, such as {quoted(declaration.name.text.lower() + '_' + name.text.strip('_'))}",
            )
        if name.text in lines:
            message = f"{where} is already declared in line {lines[name.text]}"
            problems.report(SchemaCode.DUPLICATE_PROPERTY, name.span, message, "remove or rename one")
        lines.setdefault(name.text, name.span.line)


def _check_length(name: Name, label: str, problems: ProblemList) -> None:
    if len(name.text) > limits.SCHEMA_NAME_LENGTH_MAX:
        start, maximum = label[: limits.SCHEMA_NAME_LENGTH_MAX // 2], limits.SCHEMA_NAME_LENGTH_MAX
        problems.report(
            SchemaCode.NAME_TOO_LONG,
            name.span,
            f"{start}: name too long: expected at most {maximum} characters, got {len(name.text)}",
        )


def check_renames(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S108 and S109, for types and for the properties of each type."""
    types = ((member.label, member.declaration.annotations) for member in scope.members)
    _check_group(types, scope.by_name, problems)
    for member in scope.members:
        _check_group(_labelled_annotations(member), member.properties, problems)


def _labelled_annotations(member: DeclaredType) -> Iterable[tuple[str, tuple[Annotation, ...]]]:
    for declared in member.declaration.body.properties:
        yield f"{member.label}: property {quoted(declared.name.text)}", declared.annotations


def _check_group(
    renamed: Iterable[tuple[str, tuple[Annotation, ...]]], existing: Iterable[str], problems: ProblemList
) -> None:
    first_uses: dict[str, str] = {}
    names = set(existing)
    for where, own_annotations in renamed:
        annotation = find_annotation(own_annotations, "rename_from")
        if annotation is None or len(annotation.arguments) != 1:
            continue
        old_name = annotation.arguments[0]
        if not isinstance(old_name, WordLiteral):
            continue
        if old_name.text in names:
            problems.report(
                SchemaCode.RENAME_SOURCE_EXISTS,
                old_name.span,
                f"{where} is renamed from {quoted(old_name.text)}, which is still declared",
                "remove the old declaration or this annotation",
            )
        if old_name.text in first_uses:
            problems.report(
                SchemaCode.DUPLICATE_RENAME,
                old_name.span,
                f"{where} is renamed from {quoted(old_name.text)}, and so is {first_uses[old_name.text]}",
                "remove one of the two annotations",
            )
        first_uses.setdefault(old_name.text, where)
