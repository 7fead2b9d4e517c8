"""`@rename_from`: the old name is gone, and only one thing takes its place."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.schema.annotations import find_annotation
from omnigraph.schema.checks.scope import Member, Scope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.problems import ProblemList, quoted
from omnigraph.schema.syntax import Annotation, WordLiteral


def check_renames(scope: Scope, problems: ProblemList) -> None:
    """Report S108 and S109, for types and for the properties of each type."""
    types = ((member.label, member.declaration.annotations) for member in scope.members)
    _check_group(types, scope.by_name, problems)
    for member in scope.members:
        _check_group(_properties(member), member.properties, problems)


def _properties(member: Member) -> Iterable[tuple[str, tuple[Annotation, ...]]]:
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
