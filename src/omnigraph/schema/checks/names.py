"""Checks of names: their case and length, no duplicates, no name of a system column, and valid renames."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from omnigraph.base import limits
from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.lang.syntax import Annotation, Name, WordLiteral
from omnigraph.schema.catalog import edge_lookup_name
from omnigraph.schema.checks.scope import DeclaredType, SchemaScope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.resolve import arguments_of
from omnigraph.schema.syntax import EdgeSyntax

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


def check_names(scope: SchemaScope) -> None:
    """Report names that are duplicate, reserved, too long, or start with a wrong letter (S101 to S107)."""
    edges: dict[str, EdgeSyntax] = {}
    for member in scope.members:
        _check_type_name(member, scope)
        if isinstance(member.declaration, EdgeSyntax):
            _check_first_letter(member, member.declaration, edges)
        _check_property_names(member)


def _check_type_name(member: DeclaredType, scope: SchemaScope) -> None:
    name = member.declaration.name
    _check_length(member, name)
    if not name.text[0].isupper():
        stripped = name.text.lstrip("_")
        better = stripped[:1].upper() + stripped[1:]
        hint = f"write {quoted(better)}" if better[:1].isalpha() else ""
        message = "the name of a type must start with an upper-case letter"
        member.report(SchemaCode.TYPE_NAME_CASE, name.span, message, hint)
    first = scope.by_name[name.text]
    if first is not member.declaration:
        message = f"the name is already used by {first.label} in line {first.name.span.line}"
        hint = "nodes, edges and interfaces need different names; rename or remove one"
        member.report(SchemaCode.DUPLICATE_TYPE, name.span, message, hint)


def _check_first_letter(member: DeclaredType, edge: EdgeSyntax, edges: dict[str, EdgeSyntax]) -> None:
    """Report two edges with names that queries do not distinguish: a query may start an edge in lower case."""
    other = edges.setdefault(edge_lookup_name(edge.name.text), edge)
    if other.name.text != edge.name.text:
        message = f"differs from {other.label} only in the case of the first letter"
        hint = "rename one; queries ignore the case of the first letter"
        member.report(SchemaCode.EDGE_FIRST_LETTER, edge.name.span, message, hint)


def _check_property_names(member: DeclaredType) -> None:
    declaration = member.declaration
    reserved = _LANCE_RESERVED | (_EDGE_RESERVED if isinstance(declaration, EdgeSyntax) else _NODE_RESERVED)
    lines: dict[str, int] = {}
    for declared in declaration.body.properties:
        name = declared.name
        where = f"property {quoted(name.text)}"
        _check_length(member, name)
        if not (name.text[0].islower() or name.text[0] == "_"):
            message = f"{where} must start with a lower-case letter or `_`"
            hint = f"write {quoted(name.text[0].lower() + name.text[1:])}"
            member.report(SchemaCode.PROPERTY_NAME_CASE, name.span, message, hint)
        if name.text in reserved:
            better = f"{declaration.name.text.lower()}_{name.text.strip('_')}"
            hint = f"choose another name, such as {quoted(better)}"
            member.report(SchemaCode.RESERVED_NAME, name.span, f"{where} has the name of a system column", hint)
        if name.text in lines:
            message = f"{where} is already declared in line {lines[name.text]}"
            member.report(SchemaCode.DUPLICATE_PROPERTY, name.span, message, "remove or rename one")
        lines.setdefault(name.text, name.span.line)


def _check_length(member: DeclaredType, name: Name) -> None:
    maximum = limits.SCHEMA_NAME_LENGTH_MAX
    if len(name.text) > maximum:
        # Not `member.report`: the name of the declaration itself may be too long.
        start = member.declaration.label[: maximum // 2]
        message = f"{start}: name too long: expected at most {maximum} characters, got {len(name.text)}"
        member.problems.report(SchemaCode.NAME_TOO_LONG, name.span, message)


def check_renames(scope: SchemaScope) -> None:
    """Report `@rename_from` with a name that still exists or that is used twice (S108, S109)."""
    types = ((member.declaration.label, member.declaration.annotations) for member in scope.members)
    _check_group(types, scope.by_name, scope.problems)
    for member in scope.members:
        properties = (
            (f"{member.declaration.label}: property {quoted(declared.name.text)}", declared.annotations)
            for declared in member.declaration.body.properties
        )
        _check_group(properties, member.properties, scope.problems)


def _check_group(
    renamed: Iterable[tuple[str, tuple[Annotation, ...]]], existing: Container[str], problems: ProblemList
) -> None:
    first_uses: dict[str, str] = {}
    for where, own_annotations in renamed:
        match arguments_of(own_annotations, "rename_from"):
            case [WordLiteral(old_name, span)]:
                rename = f"{where} is renamed from {quoted(old_name)}"
                if old_name in existing:
                    hint = "remove the old declaration or this annotation"
                    problems.report(SchemaCode.RENAME_SOURCE_EXISTS, span, f"{rename}, which is still declared", hint)
                if old_name in first_uses:
                    message = f"{rename}, and so is {first_uses[old_name]}"
                    problems.report(SchemaCode.DUPLICATE_RENAME, span, message, "remove one of the two annotations")
                first_uses.setdefault(old_name, where)
