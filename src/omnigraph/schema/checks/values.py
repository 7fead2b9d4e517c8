"""`@default`: a value of the property's type that its own type's constraints would let in."""

from __future__ import annotations

from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.lang.syntax import (
    Annotation,
    NumberLiteral,
    RangeArgument,
    StringLiteral,
    TimeLiteral,
    WordLiteral,
)
from omnigraph.schema.checks.scope import DeclaredType, SchemaScope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.patterns import matches_whole, pattern_mistake
from omnigraph.schema.property_types import (
    PropertyType,
    VectorType,
    has_single_value,
    is_free_text,
    type_text,
)
from omnigraph.schema.resolve import find_annotation
from omnigraph.schema.syntax import PropertySyntax
from omnigraph.schema.values import RangeBounds, Value, ValueMistake, range_bounds, value_from_literal


def check_defaults(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S319 to S321."""
    for member in scope.members:
        for found in member.declaration.body.properties:
            default = find_annotation(found.annotations, "default")
            if default:
                _check_default(member, found, default, problems)
        inherited = {found.name.text: found for found in member.expansion.inherited}
        for constraint in member.declaration.body.constraints:
            _check_inherited(member, constraint, inherited, problems)


def _check_default(
    member: DeclaredType, found: PropertySyntax, default: Annotation, problems: ProblemList
) -> None:
    where = f"{member.label}: property {quoted(found.name.text)}"
    resolved = member.type_of(found.name.text)
    if resolved is None:
        return
    if not has_single_value(resolved):
        message = f"{where} of type `{type_text(resolved)}` cannot have a default"
        problems.add(SchemaCode.DEFAULT_TYPE, default.span, message, "make it nullable instead")
        return
    value = _default_value(default, resolved)
    if isinstance(value, ValueMistake):
        message = f"{where} has a wrong default: {value.message}"
        problems.add(SchemaCode.DEFAULT_VALUE, default.arguments[0].span, message, value.hint)
    elif value is not None:
        for constraint in member.value_rules.get(found.name.text, ()):
            if _refuses(constraint, found.name.text, value, resolved):
                message = f"{where} has a default that its own `@{constraint.name.text}` refuses"
                hint = "change the default or the constraint"
                problems.add(SchemaCode.DEFAULT_REFUSED, default.arguments[0].span, message, hint)


def _default_value(default: Annotation, resolved: PropertyType) -> Value | ValueMistake | None:
    """The default's value; None when its arguments are wrong, which is reported elsewhere."""
    match default.arguments:
        case [StringLiteral() | NumberLiteral() | WordLiteral() | TimeLiteral() as literal]:
            return value_from_literal(literal, resolved)
        case _:
            return None


def _refuses(constraint: Annotation, name: str, value: Value, resolved: PropertyType) -> bool:
    match constraint.name.text, constraint.arguments:
        case "range", [WordLiteral(column), RangeArgument() as bounds] if column == name:
            read = range_bounds(bounds, resolved)
            return isinstance(read, RangeBounds) and not read.is_empty and not read.contains(value)
        case "check", [WordLiteral(column), StringLiteral(pattern)] if column == name:
            if not is_free_text(resolved) or pattern_mistake(pattern):
                return False
            return not matches_whole(pattern, str(value))
        case _:
            return False


def _check_inherited(
    member: DeclaredType, constraint: Annotation, inherited: dict[str, PropertySyntax], problems: ProblemList
) -> None:
    """A constraint of the node may refuse the default that an interface gave."""
    match constraint.arguments:
        case [WordLiteral(column), *_] if column in inherited:
            default = find_annotation(inherited[column].annotations, "default")
            resolved = member.type_of(column)
            if default is None or resolved is None or not has_single_value(resolved):
                return
            value = _default_value(default, resolved)
            if value is None or isinstance(value, ValueMistake):
                return
            if _refuses(constraint, column, value, resolved):
                message = (
                    f"{member.label}: this refuses the default that {quoted(column)} has from its interface"
                )
                hint = "change the default or the constraint"
                problems.add(SchemaCode.DEFAULT_REFUSED, constraint.span, message, hint)


def check_embeds(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S322 and S323."""
    for member in scope.members:
        for found in member.declaration.body.properties:
            embed = find_annotation(found.annotations, "embed")
            if embed is None:
                continue
            where = f"{member.label}: property {quoted(found.name.text)}"
            resolved = member.type_of(found.name.text)
            if resolved is not None and not isinstance(resolved, VectorType):
                message = f"{where} of type `{type_text(resolved)}` cannot hold an embedding"
                problems.add(SchemaCode.EMBED_TYPE, embed.span, message, "its type must be `Vector(n)`")
            if embed.arguments and isinstance(embed.arguments[0], StringLiteral):
                _check_source(member, where, embed.arguments[0], problems)


def _check_source(member: DeclaredType, where: str, source: StringLiteral, problems: ProblemList) -> None:
    name = source.value
    resolved = member.type_of(name)
    if name not in member.properties:
        message = f"{where} is embedded from the unknown property {quoted(name)}"
        hint = problems.did_you_mean(name, member.properties) or "name a String property of the same type"
        problems.add(SchemaCode.EMBED_SOURCE, source.span, message, hint)
    elif resolved is not None and not is_free_text(resolved):
        message = f"{where} is embedded from {quoted(name)}, which is no String"
        problems.add(SchemaCode.EMBED_SOURCE, source.span, message, "name a String property of the same type")
