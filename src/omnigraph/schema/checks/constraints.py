"""Checks of `@key`, `@unique`, `@index`, `@range` and `@check`: the properties that they name, once, and their types.

In: the schema scope. Out: problems. A constraint that is not allowed in a declaration is reported by `annotations`.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.lang.syntax import Annotation, RangeArgument, Span, StringLiteral, WordLiteral
from omnigraph.schema.checks.scope import EDGE_ENDPOINTS, DeclaredType, SchemaScope, column_names
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.patterns import pattern_problem
from omnigraph.schema.property_types import (
    PropertyType,
    has_index,
    has_range,
    has_single_value,
    is_free_text,
    type_text,
)
from omnigraph.schema.resolve import CONSTRAINTS, EDGE_CONSTRAINTS, find_annotation
from omnigraph.schema.syntax import EdgeSyntax, PropertySyntax
from omnigraph.schema.values import InvalidValue, RangeBounds, range_bounds


def check_constraints(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S308 to S313, S317 and S318."""
    for member in scope.members:
        for constraint in member.declaration.body.constraints:
            if _is_allowed(member, constraint):
                _check_names(member, constraint, problems)
        _check_duplicates(member, problems)
        _check_unique_types(member, problems)
        _check_index_types(member, problems)
        for constraint in member.constraints("check"):
            if _is_allowed(member, constraint):
                _check_pattern(member, constraint, problems)


def _is_allowed(member: DeclaredType, constraint: Annotation) -> bool:
    """Return whether the declaration can have this constraint. `annotations` reports the others."""
    allowed = EDGE_CONSTRAINTS if isinstance(member.declaration, EdgeSyntax) else CONSTRAINTS
    return constraint.name.text in allowed


def _check_names(member: DeclaredType, constraint: Annotation, problems: ProblemList) -> None:
    kind = constraint.name.text
    names = column_names(constraint)
    system = member.system_columns
    if kind in {"range", "check"}:
        # Only the first argument is a property; a word after it is an invalid argument.
        names, system = names[:1], ()
    seen: set[str] = set()
    for name in names:
        if name.text not in member.properties and name.text not in system:
            problems.report(
                SchemaCode.UNKNOWN_PROPERTY,
                name.span,
                f"{member.label}: `@{kind}` names the unknown property {quoted(name.text)}",
                _unknown_hint(member, name.text, problems),
            )
        if name.text in seen:
            message = f"{member.label}: `@{kind}` has the duplicate property {quoted(name.text)}"
            problems.report(SchemaCode.DUPLICATE_COLUMN, name.span, message, "remove one")
        seen.add(name.text)


def _unknown_hint(member: DeclaredType, name: str, problems: ProblemList) -> str:
    if isinstance(member.declaration, EdgeSyntax) and name in {"from", "to"}:
        return "write `src` and `dst` for the endpoints of an edge"
    if name == "id":
        return "`id` is always unique and indexed"
    return problems.did_you_mean(name, (*member.system_columns, *member.properties))


def _check_duplicates(member: DeclaredType, problems: ProblemList) -> None:
    """Report a repeated constraint; for a range, two ranges of one property."""
    seen: set[object] = set()
    for constraint in member.declaration.body.constraints:
        kind = constraint.name.text
        meanings: set[object] = {(kind, constraint.arguments)}
        if kind == "range" and constraint.arguments:
            meanings = {(kind, constraint.arguments[0])}
        elif kind == "unique":
            meanings = {(kind, frozenset(constraint.arguments))}
        elif kind == "index":
            # `@index(a, b)` is an index on each.
            meanings = {(kind, (name,)) for name in constraint.arguments}
        # `check_keys` reports a second key, even if it is the same.
        if meanings & seen and kind != "key":
            message = f"{member.label}: duplicate `@{kind}` of the same properties"
            problems.report(SchemaCode.DUPLICATE_CONSTRAINT, constraint.span, message, "remove one")
        seen |= meanings
    for declared in member.declaration.body.properties:
        name = WordLiteral(declared.name.text)
        for kind in ("unique", "index"):
            annotation = find_annotation(declared.annotations, kind)
            own = (kind, frozenset({name}) if kind == "unique" else (name,))
            if annotation and own in seen:
                message = f"{member.label}: property {quoted(name.text)} has `@{kind}` here and in the body"
                problems.report(SchemaCode.DUPLICATE_CONSTRAINT, annotation.span, message, "remove one")


def _constrained_properties(member: DeclaredType, kind: str) -> list[tuple[str, Span]]:
    """Return the properties with a constraint of the declaration itself, by annotation or in its body."""
    properties = [(name.text, name.span) for body in member.constraints(kind) for name in column_names(body)]
    for own in member.declaration.body.properties:
        annotation = find_annotation(own.annotations, kind)
        if annotation:
            properties.append((own.name.text, annotation.span))
    return properties


def _check_unique_types(member: DeclaredType, problems: ProblemList) -> None:
    for name, span in _constrained_properties(member, "unique"):
        property_type = member.type_of(name)
        if property_type is not None and not has_single_value(property_type):
            problems.report(
                SchemaCode.UNIQUE_TYPE,
                span,
                f"{member.label}: property {quoted(name)} of type `{type_text(property_type)}` cannot be unique",
                "lists, vectors and blobs cannot be compared",
            )


def _check_index_types(member: DeclaredType, problems: ProblemList) -> None:
    for name, span in _constrained_properties(member, "index"):
        property_type = member.type_of(name)
        if name in member.system_columns and property_type is None:
            message = f"{member.label}: {quoted(name)} is always indexed"
            problems.report(SchemaCode.INDEX_SYSTEM, span, message, "remove it")
        elif property_type is not None and not has_index(property_type):
            problems.report(
                SchemaCode.INDEX_TYPE,
                span,
                f"{member.label}: property {quoted(name)} of type `{type_text(property_type)}` cannot be indexed",
                "lists and blobs cannot be indexed",
            )


def _check_pattern(member: DeclaredType, constraint: Annotation, problems: ProblemList) -> None:
    match constraint.arguments:
        case [WordLiteral() as name, StringLiteral() as pattern]:
            property_type = member.type_of(name.text)
            if property_type is not None and not is_free_text(property_type):
                where = f"{member.label}: property {quoted(name.text)}"
                message = f"{where} of type `{type_text(property_type)}` cannot have a `@check`"
                problems.report(SchemaCode.CHECK_TYPE, name.span, message, "`@check` applies to Strings")
            problem = pattern_problem(pattern.value)
            if problem:
                message = f"{member.label}: invalid pattern for {quoted(name.text)}: {problem}"
                hint = "write a pattern that matches the whole value, without back-references and look-around"
                problems.report(SchemaCode.CHECK_PATTERN, pattern.span, message, hint)


@dataclass(frozen=True, slots=True)
class _Key:
    columns: tuple[tuple[str, Span], ...]
    span: Span

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


def check_keys(scope: SchemaScope, problems: ProblemList) -> None:
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
    for declared in properties:
        annotation = find_annotation(declared.annotations, "key")
        if annotation:
            keys.append(_Key(((declared.name.text, annotation.span),), annotation.span))
    for constraint in constraints:
        if constraint.name.text == "key":
            columns = tuple((name.text, name.span) for name in column_names(constraint))
            keys.append(_Key(columns, constraint.span))
    return keys


def _check_count(member: DeclaredType, own: list[_Key], inherited: list[_Key], problems: ProblemList) -> None:
    """Report a second key, also if one of them is from an interface and is different."""
    hint = "write one composite key in the body: `@key(a, b)`"
    for key in own[1:]:
        message = f"{member.label}: has more than one key"
        problems.report(SchemaCode.SEVERAL_KEYS, key.span, message, hint)
    different = {key.names for key in inherited}
    if own and different - {own[0].names}:
        message = f"{member.label}: has a key that differs from the key of its interface"
        problems.report(SchemaCode.SEVERAL_KEYS, own[0].span, message, "remove one of the two")
    elif not own and len(different) > 1:
        message = f"{member.label}: its interfaces have different keys"
        problems.report(SchemaCode.SEVERAL_KEYS, member.declaration.name.span, message, "remove one of them")


def _check_columns(member: DeclaredType, key: _Key, problems: ProblemList) -> None:
    for name, span in key.columns:
        declared = member.properties.get(name)
        if declared is None:
            continue
        where = f"{member.label}: property {quoted(name)}"
        if declared.type.nullable:
            message = f"{where} is nullable and cannot be part of a key"
            problems.report(SchemaCode.KEY_NULLABLE, span, message, "remove the `?` of its type")
        resolved = member.type_of(name)
        if resolved is not None and not has_single_value(resolved):
            message = f"{where} of type `{type_text(resolved)}` cannot be part of a key"
            hint = "use strings, enums, numbers, booleans, dates and datetimes in keys"
            problems.report(SchemaCode.KEY_TYPE, span, message, hint)


def _check_edge_key(member: DeclaredType, key: _Key, problems: ProblemList) -> None:
    """Report a key without the endpoints: the id of an edge always contains them."""
    if key.names[:2] == EDGE_ENDPOINTS:
        return
    rest = ", ".join(name for name in key.names if name not in EDGE_ENDPOINTS)
    problems.report(
        SchemaCode.EDGE_KEY,
        key.span,
        f"{member.label}: the key of an edge must start with `src, dst`",
        f"write in its body: `@key(src, dst{', ' if rest else ''}{rest[:60]})`",
    )


def check_ranges(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S314 to S316."""
    for member in scope.members:
        if isinstance(member.declaration, EdgeSyntax):
            continue
        for constraint in member.constraints("range"):
            _check_range(member, constraint, problems)


def _check_range(member: DeclaredType, constraint: Annotation, problems: ProblemList) -> None:
    match constraint.arguments:
        case [WordLiteral() as name, RangeArgument() as bounds]:
            where = f"{member.label}: property {quoted(name.text)}"
            if bounds.low is None and bounds.high is None:
                message = f"{where} has a range without bounds"
                problems.report(SchemaCode.RANGE_EMPTY, bounds.span, message, "add a bound, or remove the range")
            property_type = member.type_of(name.text)
            if property_type is None:
                return
            if not has_range(property_type):
                message = f"{where} of type `{type_text(property_type)}` cannot have a range"
                hint = "use `@range` on numbers, dates and datetimes"
                problems.report(SchemaCode.RANGE_TYPE, name.span, message, hint)
                return
            _check_bounds(where, bounds, property_type, problems)


def _check_bounds(where: str, bounds: RangeArgument, property_type: PropertyType, problems: ProblemList) -> None:
    parsed = range_bounds(bounds, property_type)
    if isinstance(parsed, RangeBounds):
        if parsed.is_empty:
            message = f"{where} has a range with the lower bound above the upper bound"
            problems.report(SchemaCode.RANGE_EMPTY, bounds.span, message, "swap the bounds")
        return
    for literal, invalid in parsed:
        assert isinstance(invalid, InvalidValue)
        message = f"{where} has an invalid bound in its range: {invalid.message}"
        problems.report(SchemaCode.RANGE_BOUND, literal.span, message, invalid.hint)
