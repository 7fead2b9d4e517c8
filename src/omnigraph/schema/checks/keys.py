"""A type has at most one key, made of properties that always have a value that can be written into an id."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.schema.annotations import find_annotation
from omnigraph.schema.checks.scope import EDGE_ENDS, Member, Scope, column_names
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.problems import ProblemList, quoted
from omnigraph.schema.property_types import has_single_value, type_text
from omnigraph.schema.syntax import Annotation, EdgeSyntax, PropertySyntax, Span


@dataclass(frozen=True, slots=True)
class _Key:
    columns: tuple[tuple[str, Span], ...]
    span: Span

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


def check_keys(scope: Scope, problems: ProblemList) -> None:
    """Report S305 to S307 and S505."""
    for member in scope.members:
        body = member.declaration.body
        own = _keys(body.properties, body.constraints)
        inherited = _keys(member.expansion.inherited, member.expansion.inherited_constraints)
        _check_count(member, own, inherited, problems)
        for key in own:
            _check_columns(member, key, problems)
            if isinstance(member.declaration, EdgeSyntax):
                _check_edge_key(member, key, problems)


def _keys(properties: tuple[PropertySyntax, ...], constraints: tuple[Annotation, ...]) -> list[_Key]:
    keys = []
    for found in properties:
        annotation = find_annotation(found.annotations, "key")
        if annotation:
            keys.append(_Key(((found.name.text, annotation.span),), annotation.span))
    for constraint in constraints:
        if constraint.name.text == "key":
            columns = tuple((name.text, name.span) for name in column_names(constraint))
            keys.append(_Key(columns, constraint.span))
    return keys


def _check_count(member: Member, own: list[_Key], inherited: list[_Key], problems: ProblemList) -> None:
    """Two keys are one too many, also when one of them comes from an interface and says something else."""
    hint = "write one composite key in the body: `@key(a, b)`"
    for key in own[1:]:
        message = f"{member.label}: has more than one key"
        problems.add(SchemaCode.KEY_TWICE, key.span, message, hint)
    different = {key.names for key in inherited}
    if own and different - {own[0].names}:
        message = f"{member.label}: has a key, and its interface gives it another one"
        problems.add(SchemaCode.KEY_TWICE, own[0].span, message, "remove one of the two")
    elif not own and len(different) > 1:
        message = f"{member.label}: its interfaces give it more than one key"
        problems.add(SchemaCode.KEY_TWICE, member.declaration.name.span, message, "remove one of them")


def _check_columns(member: Member, key: _Key, problems: ProblemList) -> None:
    for name, span in key.columns:
        found = member.properties.get(name)
        if found is None:
            continue
        where = f"{member.label}: property {quoted(name)}"
        if found.type.nullable:
            message = f"{where} is nullable and cannot be part of a key"
            problems.add(SchemaCode.KEY_NULLABLE, span, message, "remove the `?` of its type")
        resolved = member.type_of(name)
        if resolved is not None and not has_single_value(resolved):
            message = f"{where} of type `{type_text(resolved)}` cannot be part of a key"
            hint = "keys are made of strings, enums, numbers, booleans, dates and datetimes"
            problems.add(SchemaCode.KEY_TYPE, span, message, hint)


def _check_edge_key(member: Member, key: _Key, problems: ProblemList) -> None:
    """An edge's id is made of its ends and its key, so that a key that leaves them out would say less than it does."""
    if key.names[:2] == EDGE_ENDS:
        return
    rest = ", ".join(name for name in key.names if name not in EDGE_ENDS)
    problems.add(
        SchemaCode.EDGE_KEY,
        key.span,
        f"{member.label}: the key of an edge begins with `src, dst`",
        f"write in its body: `@key(src, dst{', ' if rest else ''}{rest[:60]})`",
    )
