"""The rules that look at one value of one row: required, enum, range and pattern.

In: typed columns, as conversion or a table gives them, by name. Out: breaches. Null passes every rule but `required`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Rows, rows_where, taken_array
from omnigraph.integrity.identity import canonical_text
from omnigraph.integrity.raw import RawColumn, null_rows
from omnigraph.integrity.rules import Rule, RuleViolations
from omnigraph.schema.catalog import CheckRule, Entity, Property, RangeRule
from omnigraph.schema.property_types import EnumType
from omnigraph.schema.values import RangeBounds, value_text

_ENUM_VALUES_SHOWN_MAX = 20


def row_breaches(entity: Entity, columns: Mapping[str, Column]) -> Iterator[RuleViolations]:
    """What typed rows break: for rows that come from a table and not through conversion, `required` too."""
    for found in entity.properties:
        if not found.nullable:
            yield from required_breaches(found.name, columns[found.name])
    yield from value_breaches(entity, columns)


def value_breaches(entity: Entity, columns: Mapping[str, Column]) -> Iterator[RuleViolations]:
    """The constraints on values: enum, range and pattern."""
    for found in entity.properties:
        if isinstance(found.type, EnumType):
            yield from _enum_breaches(found, found.type, columns[found.name])
    for bounded in entity.rules.ranges:
        yield from _range_breaches(entity, bounded, columns[bounded.property])
    for checked in entity.rules.checks:
        yield from _check_breaches(checked, columns[checked.property])


def required_breaches(name: str, column: RawColumn) -> Iterator[RuleViolations]:
    """The rows without a value."""
    rows = null_rows(column)
    if len(rows):
        yield RuleViolations(Rule.REQUIRED, name, "needs a value", rows)


def _enum_breaches(found: Property, enum: EnumType, column: Column) -> Iterator[RuleViolations]:
    known = pc.is_in(column, value_set=pa.array([*enum.values, None], pa.utf8()))
    if pc.all(known).as_py() is False:
        shown = ", ".join(enum.values[:_ENUM_VALUES_SHOWN_MAX])
        more = ", …" if len(enum.values) > _ENUM_VALUES_SHOWN_MAX else ""
        yield from _breach(Rule.ENUM, found.name, f"is not one of {shown}{more}", column, pc.invert(known))


def _range_breaches(entity: Entity, rule: RangeRule, column: Column) -> Iterator[RuleViolations]:
    bounds = rule.bounds
    make: Any = pa.scalar
    low, high = (None if bound is None else make(bound, column.type) for bound in (bounds.low, bounds.high))
    extremes = pc.min_max(column)
    outside = None
    if low is not None and pc.less(extremes["min"], low).as_py():
        outside = pc.less(column, low)
    if high is not None and pc.greater(extremes["max"], high).as_py():
        above = pc.greater(column, high)
        outside = above if outside is None else pc.or_(outside, above)
    if outside is not None:
        message = f"is outside of {_range_text(entity, rule.property, bounds)}"
        yield from _breach(Rule.RANGE, rule.property, message, column, outside)


def _range_text(entity: Entity, name: str, bounds: RangeBounds) -> str:
    found = entity.property_named(name)
    assert found is not None, "a range names a property of its type"
    ends = ("" if bound is None else value_text(bound, found.type) for bound in (bounds.low, bounds.high))
    return "..".join(ends)


def _check_breaches(rule: CheckRule, column: Column) -> Iterator[RuleViolations]:
    passes = pc.match_substring_regex(column, f"\\A(?:{rule.pattern})\\z")
    if pc.all(passes).as_py() is False:
        message = f"does not match {rule.pattern}"
        yield from _breach(Rule.CHECK, rule.property, message, column, pc.invert(passes))


def _breach(rule: Rule, name: str, message: str, column: Column, bad: Column) -> Iterator[RuleViolations]:
    rows: Rows = rows_where(bad)
    yield RuleViolations(rule, name, message, rows, canonical_text(taken_array(column, rows)))
