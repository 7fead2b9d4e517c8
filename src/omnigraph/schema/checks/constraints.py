"""`@unique`, `@index` and `@check`: they name properties that exist, once, and that can bear them."""

from __future__ import annotations

from omnigraph.schema.annotations import CONSTRAINTS, EDGE_CONSTRAINTS, find_annotation
from omnigraph.schema.checks.scope import Member, Scope, column_names
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.indexable import has_index
from omnigraph.schema.patterns import pattern_mistake
from omnigraph.schema.problems import ProblemList, quoted
from omnigraph.schema.property_types import has_single_value, is_free_text, type_text
from omnigraph.schema.syntax import Annotation, EdgeSyntax, Span, StringLiteral, WordLiteral


def check_constraints(scope: Scope, problems: ProblemList) -> None:
    """Report S308 to S313, S317 and S318."""
    for member in scope.members:
        for constraint in member.declaration.body.constraints:
            if _is_allowed(member, constraint):
                _check_names(member, constraint, problems)
        _check_twice(member, problems)
        _check_unique_types(member, problems)
        _check_index_types(member, problems)
        for constraint in member.constraints("check"):
            if _is_allowed(member, constraint):
                _check_pattern(member, constraint, problems)


def _is_allowed(member: Member, constraint: Annotation) -> bool:
    """A constraint that does not belong here at all is reported as that and not looked into."""
    allowed = EDGE_CONSTRAINTS if isinstance(member.declaration, EdgeSyntax) else CONSTRAINTS
    return constraint.name.text in allowed


def _check_names(member: Member, constraint: Annotation, problems: ProblemList) -> None:
    kind = constraint.name.text
    names = column_names(constraint)
    system = member.system_columns
    if kind in {"range", "check"}:
        # Only the first argument is a property; a word after it is a wrong argument.
        names, system = names[:1], ()
    seen: set[str] = set()
    for name in names:
        if name.text not in member.properties and name.text not in system:
            problems.add(
                SchemaCode.UNKNOWN_PROPERTY,
                name.span,
                f"{member.label}: `@{kind}` names the unknown property {quoted(name.text)}",
                _unknown_hint(member, name.text, problems),
            )
        if name.text in seen:
            message = f"{member.label}: `@{kind}` names {quoted(name.text)} twice"
            problems.add(SchemaCode.COLUMN_TWICE, name.span, message, "remove one")
        seen.add(name.text)


def _unknown_hint(member: Member, name: str, problems: ProblemList) -> str:
    if isinstance(member.declaration, EdgeSyntax) and name in {"from", "to"}:
        return "the ends of an edge are called `src` and `dst` here"
    if name == "id":
        return "`id` is always unique and indexed"
    return problems.did_you_mean(name, (*member.system_columns, *member.properties))


def _check_twice(member: Member, problems: ProblemList) -> None:
    """The same said again; for a range, two ranges for one property."""
    seen: set[object] = set()
    for constraint in member.declaration.body.constraints:
        kind = constraint.name.text
        said: set[object] = {(kind, constraint.arguments)}
        if kind == "range" and constraint.arguments:
            said = {(kind, constraint.arguments[0])}
        elif kind == "unique":
            said = {(kind, frozenset(constraint.arguments))}
        elif kind == "index":
            # `@index(a, b)` is an index on each.
            said = {(kind, (name,)) for name in constraint.arguments}
        # A second key is reported by the check of keys, also when it is the same.
        if said & seen and kind != "key":
            message = f"{member.label}: `@{kind}` is given twice for the same properties"
            problems.add(SchemaCode.CONSTRAINT_TWICE, constraint.span, message, "remove one")
        seen |= said
    for found in member.declaration.body.properties:
        name = WordLiteral(found.name.text)
        for kind in ("unique", "index"):
            annotation = find_annotation(found.annotations, kind)
            own = (kind, frozenset({name}) if kind == "unique" else (name,))
            if annotation and own in seen:
                message = f"{member.label}: property {quoted(name.text)} has `@{kind}` here and in the body"
                problems.add(SchemaCode.CONSTRAINT_TWICE, annotation.span, message, "remove one")


def _bearers(member: Member, kind: str) -> list[tuple[str, Span]]:
    """The properties that the declaration itself gives a constraint, by annotation or in its body."""
    found = [(name.text, name.span) for body in member.constraints(kind) for name in column_names(body)]
    for own in member.declaration.body.properties:
        annotation = find_annotation(own.annotations, kind)
        if annotation:
            found.append((own.name.text, annotation.span))
    return found


def _check_unique_types(member: Member, problems: ProblemList) -> None:
    for name, span in _bearers(member, "unique"):
        found = member.type_of(name)
        if found is not None and not has_single_value(found):
            problems.add(
                SchemaCode.UNIQUE_TYPE,
                span,
                f"{member.label}: property {quoted(name)} of type `{type_text(found)}` cannot be unique",
                "lists, vectors and blobs are not compared",
            )


def _check_index_types(member: Member, problems: ProblemList) -> None:
    for name, span in _bearers(member, "index"):
        found = member.type_of(name)
        if name in member.system_columns and found is None:
            message = f"{member.label}: {quoted(name)} is always indexed"
            problems.add(SchemaCode.INDEX_SYSTEM, span, message, "remove it")
        elif found is not None and not has_index(found):
            problems.add(
                SchemaCode.INDEX_TYPE,
                span,
                f"{member.label}: property {quoted(name)} of type `{type_text(found)}` cannot be indexed",
                "lists and blobs have no index",
            )


def _check_pattern(member: Member, constraint: Annotation, problems: ProblemList) -> None:
    match constraint.arguments:
        case [WordLiteral() as name, StringLiteral() as pattern]:
            found = member.type_of(name.text)
            if found is not None and not is_free_text(found):
                message = (
                    f"{member.label}: property {quoted(name.text)} of type `{type_text(found)}` is no String"
                )
                problems.add(SchemaCode.CHECK_TYPE, name.span, message, "`@check` looks at Strings")
            mistake = pattern_mistake(pattern.value)
            if mistake:
                message = f"{member.label}: the pattern for {quoted(name.text)} is refused: {mistake}"
                hint = "a pattern must match the whole value; back-references and look-around do not exist"
                problems.add(SchemaCode.CHECK_PATTERN, pattern.span, message, hint)
