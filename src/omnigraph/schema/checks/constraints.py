"""`@unique`, `@index` and `@check`: they name properties that exist, once, and that can bear them."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.lang.syntax import Annotation, RangeArgument, Span, StringLiteral, WordLiteral
from omnigraph.schema.checks.scope import EDGE_ENDS, DeclaredType, SchemaScope, column_names
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.patterns import pattern_mistake
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
from omnigraph.schema.values import RangeBounds, ValueMistake, range_bounds


def check_constraints(scope: SchemaScope, problems: ProblemList) -> None:
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


def _is_allowed(member: DeclaredType, constraint: Annotation) -> bool:
    """A constraint that does not belong here at all is reported as that and not looked into."""
    allowed = EDGE_CONSTRAINTS if isinstance(member.declaration, EdgeSyntax) else CONSTRAINTS
    return constraint.name.text in allowed


def _check_names(member: DeclaredType, constraint: Annotation, problems: ProblemList) -> None:
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


def _unknown_hint(member: DeclaredType, name: str, problems: ProblemList) -> str:
    if isinstance(member.declaration, EdgeSyntax) and name in {"from", "to"}:
        return "the ends of an edge are called `src` and `dst` here"
    if name == "id":
        return "`id` is always unique and indexed"
    return problems.did_you_mean(name, (*member.system_columns, *member.properties))


def _check_twice(member: DeclaredType, problems: ProblemList) -> None:
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


def _bearers(member: DeclaredType, kind: str) -> list[tuple[str, Span]]:
    """The properties that the declaration itself gives a constraint, by annotation or in its body."""
    found = [(name.text, name.span) for body in member.constraints(kind) for name in column_names(body)]
    for own in member.declaration.body.properties:
        annotation = find_annotation(own.annotations, kind)
        if annotation:
            found.append((own.name.text, annotation.span))
    return found


def _check_unique_types(member: DeclaredType, problems: ProblemList) -> None:
    for name, span in _bearers(member, "unique"):
        found = member.type_of(name)
        if found is not None and not has_single_value(found):
            problems.add(
                SchemaCode.UNIQUE_TYPE,
                span,
                f"{member.label}: property {quoted(name)} of type `{type_text(found)}` cannot be unique",
                "lists, vectors and blobs are not compared",
            )


def _check_index_types(member: DeclaredType, problems: ProblemList) -> None:
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


def _check_pattern(member: DeclaredType, constraint: Annotation, problems: ProblemList) -> None:
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
    for found in properties:
        annotation = find_annotation(found.annotations, "key")
        if annotation:
            keys.append(_Key(((found.name.text, annotation.span),), annotation.span))
    for constraint in constraints:
        if constraint.name.text == "key":
            columns = tuple((name.text, name.span) for name in column_names(constraint))
            keys.append(_Key(columns, constraint.span))
    return keys


def _check_count(member: DeclaredType, own: list[_Key], inherited: list[_Key], problems: ProblemList) -> None:
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


def _check_columns(member: DeclaredType, key: _Key, problems: ProblemList) -> None:
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


def _check_edge_key(member: DeclaredType, key: _Key, problems: ProblemList) -> None:
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
                problems.add(SchemaCode.RANGE_EMPTY, bounds.span, message, "give one, or remove the range")
            found = member.type_of(name.text)
            if found is None:
                return
            if not has_range(found):
                message = f"{where} of type `{type_text(found)}` cannot have a range"
                hint = "numbers, dates and datetimes can"
                problems.add(SchemaCode.RANGE_TYPE, name.span, message, hint)
                return
            _check_bounds(where, bounds, found, problems)


def _check_bounds(where: str, bounds: RangeArgument, found: PropertyType, problems: ProblemList) -> None:
    read = range_bounds(bounds, found)
    if isinstance(read, RangeBounds):
        if read.is_empty:
            message = f"{where} has a range whose lower bound is above the upper one"
            problems.add(SchemaCode.RANGE_EMPTY, bounds.span, message, "swap the bounds")
        return
    for literal, mistake in read:
        assert isinstance(mistake, ValueMistake)
        message = f"{where}: a bound of its range is wrong: {mistake.message}"
        problems.add(SchemaCode.RANGE_BOUND, literal.span, message, mistake.hint)
