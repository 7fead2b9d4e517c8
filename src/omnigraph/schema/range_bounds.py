"""The two ends of a `@range` as values of a property's type. Both ends belong to the range; None is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from omnigraph.schema.property_types import PropertyType
from omnigraph.schema.syntax import Literal, RangeArgument
from omnigraph.schema.values import Value, ValueMistake, value_from_literal


@dataclass(frozen=True, slots=True)
class RangeBounds:
    """Bounds of one type; that they are of one type is what makes comparing them safe."""

    low: Value | None
    high: Value | None

    @property
    def is_empty(self) -> bool:
        return self.low is not None and self.high is not None and not _not_above(self.low, self.high)

    def contains(self, value: Value) -> bool:
        if self.low is not None and not _not_above(self.low, value):
            return False
        return self.high is None or _not_above(value, self.high)

    def is_within(self, outer: RangeBounds) -> bool:
        """Whether every value within these bounds is within the outer ones; never for bounds of another type."""
        low_fits = outer.low is None or (_same_type(self.low, outer.low) and _not_above(outer.low, self.low))
        high_fits = outer.high is None or (
            _same_type(self.high, outer.high) and _not_above(self.high, outer.high)
        )
        return low_fits and high_fits


def range_bounds(
    bounds: RangeArgument, property_type: PropertyType
) -> RangeBounds | list[tuple[Literal, ValueMistake]]:
    """The bounds, or each literal that is no value of the type."""
    mistakes: list[tuple[Literal, ValueMistake]] = []
    values: list[Value | None] = []
    for literal in (bounds.low, bounds.high):
        value = None if literal is None else value_from_literal(literal, property_type)
        if literal is not None and isinstance(value, ValueMistake):
            mistakes.append((literal, value))
        elif not isinstance(value, ValueMistake):
            values.append(value)
    return mistakes or RangeBounds(values[0], values[1])


def _same_type(mine: Value | None, other: Value) -> TypeGuard[Value]:
    return type(mine) is type(other)


def _not_above(low: Value, high: Value) -> bool:
    """`low <= high` for two values of one type, which the type checker cannot know."""
    return low <= high  # type: ignore[operator]
