"""Checks of `@default` and `@embed`: a valid value that obeys the constraints of its type, and a String as source."""

from __future__ import annotations

from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import Annotation, NumberLiteral, RangeArgument, StringLiteral, TimeLiteral, WordLiteral
from omnigraph.schema.checks.scope import DeclaredType, SchemaScope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.patterns import matches_whole, pattern_problem
from omnigraph.schema.property_types import PropertyType, has_single_value, is_free_text
from omnigraph.schema.resolve import find_annotation
from omnigraph.schema.syntax import PropertySyntax
from omnigraph.schema.values import InvalidValue, RangeBounds, Value, range_bounds, value_from_literal

_VIOLATION_HINT = "change the default or the constraint"


def check_defaults(scope: SchemaScope) -> None:
    """Report defaults that are not values of their property, or that a constraint rejects (S319 to S321)."""
    for member in scope.members:
        for declared in member.declaration.body.properties:
            default = find_annotation(declared.annotations, "default")
            if default:
                _check_default(member, declared.name.text, default)
        inherited = {declared.name.text: declared for declared in member.expansion.inherited}
        for constraint in member.declaration.body.constraints:
            _check_inherited(member, constraint, inherited)


def _check_default(member: DeclaredType, name: str, default: Annotation) -> None:
    where = f"property {quoted(name)}"
    resolved = member.supported_type("default", name, default.span)
    if resolved is None:
        return
    value = _default_value(default, resolved)
    if isinstance(value, InvalidValue):
        message = f"{where} has an invalid default: {value.message}"
        member.report(SchemaCode.DEFAULT_VALUE, default.arguments[0].span, message, value.hint)
    elif value is not None:
        for constraint in member.value_rules.get(name, ()):
            if _rejects(constraint, name, value, resolved):
                message = f"{where} has a default that violates its own `@{constraint.name.text}`"
                span = default.arguments[0].span
                member.report(SchemaCode.DEFAULT_VIOLATES_RULE, span, message, _VIOLATION_HINT)


def _default_value(default: Annotation, resolved: PropertyType) -> Value | InvalidValue | None:
    """Return the value of the default; None if its arguments are invalid, which `check_annotations` reports."""
    match default.arguments:
        case [StringLiteral() | NumberLiteral() | WordLiteral() | TimeLiteral() as literal]:
            return value_from_literal(literal, resolved)
        case _:
            return None


def _rejects(constraint: Annotation, name: str, value: Value, resolved: PropertyType) -> bool:
    match constraint.name.text, constraint.arguments:
        case "range", [WordLiteral(column), RangeArgument() as bounds] if column == name:
            parsed = range_bounds(bounds, resolved)
            return isinstance(parsed, RangeBounds) and not parsed.is_empty and not parsed.contains(value)
        case "check", [WordLiteral(column), StringLiteral(pattern)] if column == name:
            is_checked = is_free_text(resolved) and not pattern_problem(pattern)
            return is_checked and not matches_whole(pattern, str(value))
        case _:
            return False


def _check_inherited(member: DeclaredType, constraint: Annotation, inherited: dict[str, PropertySyntax]) -> None:
    """Report a constraint of a node that rejects the default of an interface."""
    match constraint.arguments:
        case [WordLiteral(column), *_] if column in inherited:
            default = find_annotation(inherited[column].annotations, "default")
            resolved = member.type_of(column)
            if default is None or resolved is None or not has_single_value(resolved):
                return
            value = _default_value(default, resolved)
            if value is None or isinstance(value, InvalidValue):
                return
            if _rejects(constraint, column, value, resolved):
                message = f"this rejects the default of {quoted(column)} from its interface"
                member.report(SchemaCode.DEFAULT_VIOLATES_RULE, constraint.span, message, _VIOLATION_HINT)


def check_embeds(scope: SchemaScope) -> None:
    """Report `@embed` on a property that is not a vector, or with an unsuitable source (S322, S323)."""
    for member in scope.members:
        for declared in member.declaration.body.properties:
            embed = find_annotation(declared.annotations, "embed")
            if embed is None:
                continue
            where = f"property {quoted(declared.name.text)}"
            member.supported_type("embed", declared.name.text, embed.span)
            if embed.arguments and isinstance(embed.arguments[0], StringLiteral):
                _check_source(member, where, embed.arguments[0])


def _check_source(member: DeclaredType, where: str, source: StringLiteral) -> None:
    name = source.value
    resolved = member.type_of(name)
    hint = "name a String property of the same type"
    if name not in member.properties:
        message = f"{where} is embedded from the unknown property {quoted(name)}"
        hint = member.problems.did_you_mean(name, member.properties) or hint
        member.report(SchemaCode.EMBED_SOURCE, source.span, message, hint)
    elif resolved is not None and not is_free_text(resolved):
        message = f"{where} is embedded from {quoted(name)}, which is not a String"
        member.report(SchemaCode.EMBED_SOURCE, source.span, message, hint)
