"""`@range`: on a type with an order, with bounds of that type that leave some value."""

from __future__ import annotations

from omnigraph.schema.checks.scope import Member, Scope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.problems import ProblemList, quoted
from omnigraph.schema.property_types import PropertyType, has_range, type_text
from omnigraph.schema.range_bounds import RangeBounds, range_bounds
from omnigraph.schema.syntax import Annotation, EdgeSyntax, RangeArgument, WordLiteral
from omnigraph.schema.values import ValueMistake


def check_ranges(scope: Scope, problems: ProblemList) -> None:
    """Report S314 to S316."""
    for member in scope.members:
        if isinstance(member.declaration, EdgeSyntax):
            continue
        for constraint in member.constraints("range"):
            _check_range(member, constraint, problems)


def _check_range(member: Member, constraint: Annotation, problems: ProblemList) -> None:
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
