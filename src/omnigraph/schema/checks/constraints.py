"""Checks of `@key`, `@unique`, `@index`, `@range` and `@check`: the properties that they name, once, and their types.

In: the schema scope. Out: problems. `check_annotations` reports a constraint that a declaration cannot have.
"""

from __future__ import annotations

from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import Annotation, RangeArgument, StringLiteral, WordLiteral
from omnigraph.schema import resolve
from omnigraph.schema.checks.scope import EDGE_ENDPOINTS, DeclaredType, SchemaScope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.patterns import pattern_problem
from omnigraph.schema.property_types import PLAIN_TEXT, TextOptions
from omnigraph.schema.syntax import EdgeSyntax
from omnigraph.schema.values import RangeBounds, range_bounds


def check_constraints(scope: SchemaScope) -> None:
    """Report constraints with unknown, repeated or unsuitable properties, options or patterns (S306 to S325)."""
    for member in scope.members:
        allowed = resolve.EDGE_CONSTRAINTS if isinstance(member.declaration, EdgeSyntax) else resolve.CONSTRAINTS
        for constraint in member.declaration.body.constraints:
            if constraint.name.text in allowed:
                _check_names(member, constraint)
        _check_duplicates(member)
        _check_types(member)
        _check_text_options(member)
        if "check" in allowed:
            for constraint in member.constraints("check"):
                _check_pattern(member, constraint)


def _check_names(member: DeclaredType, constraint: Annotation) -> None:
    kind = constraint.name.text
    names = resolve.column_names(constraint)
    system = member.system_columns
    if kind in {"range", "check"}:
        # Only the first argument is a property; a word after it is an invalid argument.
        names, system = names[:1], ()
    seen: set[str] = set()
    for name in names:
        if name.text not in member.properties and name.text not in system:
            message = f"`@{kind}` names the unknown property {quoted(name.text)}"
            member.report(SchemaCode.UNKNOWN_PROPERTY, name.span, message, _unknown_hint(member, name.text))
        if name.text in seen:
            message = f"`@{kind}` has the duplicate property {quoted(name.text)}"
            member.report(SchemaCode.DUPLICATE_COLUMN, name.span, message, "remove one")
        seen.add(name.text)


def _unknown_hint(member: DeclaredType, name: str) -> str:
    if isinstance(member.declaration, EdgeSyntax) and name in {"from", "to"}:
        return "write `src` and `dst` for the endpoints of an edge"
    if name == "id":
        return "`id` is always unique and indexed"
    return member.problems.did_you_mean(name, (*member.system_columns, *member.properties))


def _check_duplicates(member: DeclaredType) -> None:
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
            meanings = {(kind, frozenset({name})) for name in resolve.column_names(constraint)}
        # `check_keys` reports a second key, even if it is the same.
        if meanings & seen and kind != "key":
            message = f"duplicate `@{kind}` of the same properties"
            member.report(SchemaCode.DUPLICATE_CONSTRAINT, constraint.span, message, "remove one")
        seen |= meanings
    for declared in member.declaration.body.properties:
        name = WordLiteral(declared.name.text)
        for kind in ("unique", "index"):
            annotation = resolve.find_annotation(declared.annotations, kind)
            if annotation and (kind, frozenset({name})) in seen:
                message = f"property {quoted(name.text)} has `@{kind}` here and in the body"
                member.report(SchemaCode.DUPLICATE_CONSTRAINT, annotation.span, message, "remove one")


def _own_column_lists(member: DeclaredType, kind: str) -> list[resolve.ColumnList]:
    body = member.declaration.body
    return list(resolve.column_lists(body.properties, body.constraints, kind))


def _check_types(member: DeclaredType) -> None:
    for kind in ("key", "unique", "index"):
        for name in (name for columns in _own_column_lists(member, kind) for name in columns.columns):
            if kind == "index" and name.text in member.system_columns and member.type_of(name.text) is None:
                message = f"{quoted(name.text)} is always indexed"
                member.report(SchemaCode.INDEX_SYSTEM, name.span, message, "remove it")
            member.supported_type(kind, name.text, name.span)


def _check_text_options(member: DeclaredType) -> None:
    """Report invalid options, options of properties that are not Strings, and two different ones of a property."""
    for group in _own_column_lists(member, "index"):
        options, invalid = resolve.text_options(group.annotation)
        for problem in invalid:
            member.report(SchemaCode.INDEX_OPTION, problem.span, f"`@index`: {problem.message}", problem.hint)
        for name in group.columns if options != PLAIN_TEXT else ():
            member.supported_type("text options", name.text, name.span)
    options_of: dict[str, TextOptions] = {}
    expansion = member.expansion
    for group in resolve.column_lists(expansion.properties, expansion.constraints, "index"):
        options, _ = resolve.text_options(group.annotation)
        for name in group.columns:
            if options_of.setdefault(name.text, options) != options:
                message = f"property {quoted(name.text)} has `@index` with different options"
                member.report(SchemaCode.INDEX_OPTION, member.declaration.name.span, message, "remove one of them")


def _check_pattern(member: DeclaredType, constraint: Annotation) -> None:
    match constraint.arguments:
        case [WordLiteral() as name, StringLiteral() as pattern]:
            member.supported_type("check", name.text, name.span)
            problem = pattern_problem(pattern.value)
            if problem:
                message = f"invalid pattern for {quoted(name.text)}: {problem}"
                hint = "write a pattern that matches the whole value, without back-references and look-around"
                member.report(SchemaCode.CHECK_PATTERN, pattern.span, message, hint)


def check_keys(scope: SchemaScope) -> None:
    """Report second keys, nullable keys, and keys of edges without the endpoints (S305, S307, S505)."""
    for member in scope.members:
        keys = _own_column_lists(member, "key")
        _check_count(member, keys)
        for key in keys:
            for name in key.columns:
                declared = member.properties.get(name.text)
                if declared is not None and declared.type.nullable:
                    message = f"property {quoted(name.text)} is nullable and cannot be part of a key"
                    member.report(SchemaCode.KEY_NULLABLE, name.span, message, "remove the `?` of its type")
            if isinstance(member.declaration, EdgeSyntax):
                _check_edge_key(member, key)


def _check_count(member: DeclaredType, keys: list[resolve.ColumnList]) -> None:
    """Report a second key, also if one of them is from an interface and is different."""
    for key in keys[1:]:
        hint = "write one composite key in the body: `@key(a, b)`"
        member.report(SchemaCode.SEVERAL_KEYS, key.annotation.span, "has more than one key", hint)
    expansion = member.expansion
    inherited = {key.names for key in resolve.column_lists(expansion.inherited, expansion.inherited_constraints, "key")}
    if keys and inherited - {keys[0].names}:
        message = "has a key that differs from the key of its interface"
        member.report(SchemaCode.SEVERAL_KEYS, keys[0].annotation.span, message, "remove one of the two")
    elif not keys and len(inherited) > 1:
        message = "its interfaces have different keys"
        member.report(SchemaCode.SEVERAL_KEYS, member.declaration.name.span, message, "remove one of them")


def _check_edge_key(member: DeclaredType, key: resolve.ColumnList) -> None:
    """Report a key without the endpoints: the id of an edge always contains them."""
    if key.names[:2] != EDGE_ENDPOINTS:
        rest = ", ".join(name for name in key.names if name not in EDGE_ENDPOINTS)
        hint = f"write in its body: `@key(src, dst{', ' if rest else ''}{rest[:60]})`"
        message = "the key of an edge must start with `src, dst`"
        member.report(SchemaCode.EDGE_KEY, key.annotation.span, message, hint)


def check_ranges(scope: SchemaScope) -> None:
    """Report ranges without a value, and bounds that are not values of the property (S314 to S316)."""
    for member in scope.members:
        if not isinstance(member.declaration, EdgeSyntax):
            for constraint in member.constraints("range"):
                _check_range(member, constraint)


def _check_range(member: DeclaredType, constraint: Annotation) -> None:
    match constraint.arguments:
        case [WordLiteral() as name, RangeArgument() as bounds]:
            where = f"property {quoted(name.text)}"
            if bounds.low is None and bounds.high is None:
                message = f"{where} has a range without bounds"
                member.report(SchemaCode.RANGE_EMPTY, bounds.span, message, "add a bound, or remove the range")
            property_type = member.supported_type("range", name.text, name.span)
            if property_type is None:
                return
            parsed = range_bounds(bounds, property_type)
            if not isinstance(parsed, RangeBounds):
                for literal, invalid in parsed:
                    message = f"{where} has an invalid bound in its range: {invalid.message}"
                    member.report(SchemaCode.RANGE_BOUND, literal.span, message, invalid.hint)
            elif parsed.is_empty:
                message = f"{where} has a range with the lower bound above the upper bound"
                member.report(SchemaCode.RANGE_EMPTY, bounds.span, message, "swap the bounds")
