"""Checks the rules about one value of one row: required, enum, range and pattern.

In: typed columns by name, from conversion or from a table. Out: violations. Null violates only `required`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Rows, rows_where, take_rows
from omnigraph.integrity.identity import canonical_text
from omnigraph.integrity.raw import RawColumn, null_rows
from omnigraph.integrity.rules import Rule, RuleViolations
from omnigraph.schema.catalog import CheckRule, Entity, Property, RangeRule
from omnigraph.schema.property_types import EnumType
from omnigraph.schema.values import value_text

_ENUM_VALUES_SHOWN_MAX = 20


def check_rows(entity: Entity, columns: Mapping[str, Column]) -> Iterator[RuleViolations]:
    """Check typed rows of a table, which were not converted, also for required values."""
    for definition in entity.properties:
        if not definition.nullable:
            yield from check_required(definition.name, columns[definition.name])
    yield from check_property_values(entity, columns)


def check_property_values(entity: Entity, columns: Mapping[str, Column]) -> Iterator[RuleViolations]:
    """Check the constraints on values: enum, range and pattern."""
    for definition in entity.properties:
        if isinstance(definition.type, EnumType):
            yield from _check_enum(definition, definition.type, columns[definition.name])
    for range_rule in entity.rules.ranges:
        yield from _check_range(entity, range_rule, columns[range_rule.property])
    for check_rule in entity.rules.checks:
        yield from _check_pattern(check_rule, columns[check_rule.property])


def check_required(name: str, column: RawColumn, reason: str = "") -> Iterator[RuleViolations]:
    """Check that every row has a value. `reason`: why none has one."""
    if len(rows := null_rows(column)):
        yield RuleViolations(rule=Rule.REQUIRED, property=name, message=f"a value is required{reason}", rows=rows)


def _check_enum(definition: Property, enum: EnumType, column: Column) -> Iterator[RuleViolations]:
    is_valid = pc.is_in(column, value_set=pa.array([*enum.values, None], pa.utf8()))
    if pc.all(is_valid).as_py() is False:
        shown = ", ".join(enum.values[:_ENUM_VALUES_SHOWN_MAX])
        more = ", …" if len(enum.values) > _ENUM_VALUES_SHOWN_MAX else ""
        message = f"expected one of {shown}{more}"
        yield from _violations(Rule.ENUM, definition.name, message, column, pc.invert(is_valid))


def _check_range(entity: Entity, rule: RangeRule, column: Column) -> Iterator[RuleViolations]:
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
        definition = entity.property_named(rule.property)
        assert definition is not None, "a range names a property of its type"
        texts = ("" if bound is None else value_text(bound, definition.type) for bound in (bounds.low, bounds.high))
        yield from _violations(Rule.RANGE, rule.property, f"is outside of {'..'.join(texts)}", column, outside)


def _check_pattern(rule: CheckRule, column: Column) -> Iterator[RuleViolations]:
    matches = pc.match_substring_regex(column, f"\\A(?:{rule.pattern})\\z")
    if pc.all(matches).as_py() is False:
        message = f"does not match {rule.pattern}"
        yield from _violations(Rule.CHECK, rule.property, message, column, pc.invert(matches))


def _violations(rule: Rule, name: str, message: str, column: Column, is_invalid: Column) -> Iterator[RuleViolations]:
    rows: Rows = rows_where(is_invalid)
    yield RuleViolations(
        rule=rule, property=name, message=message, rows=rows, values=canonical_text(take_rows(column, rows))
    )
