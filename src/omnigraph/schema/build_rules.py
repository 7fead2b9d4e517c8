"""The constraints of an expanded declaration, written as annotations or in the body, to one `Rules` value.

The same said twice, by a node and by its interface, becomes one rule. Relies on the checks having passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from omnigraph.schema.annotations import find_annotation
from omnigraph.schema.catalog import CheckRule, RangeRule, Rules
from omnigraph.schema.expand import Expansion
from omnigraph.schema.property_types import PropertyType
from omnigraph.schema.range_bounds import RangeBounds, range_bounds
from omnigraph.schema.syntax import Annotation, RangeArgument, StringLiteral, WordLiteral


def build_rules(expansion: Expansion, types: Mapping[str, PropertyType]) -> Rules:
    """Every rule once, properties' own annotations before the body's constraints."""
    keys = list(_column_lists(expansion, "key"))
    uniques: dict[frozenset[str], tuple[str, ...]] = {}
    for columns in _column_lists(expansion, "unique"):
        uniques.setdefault(frozenset(columns), columns)
    return Rules(
        key=keys[0] if keys else (),
        uniques=tuple(uniques.values()),
        ranges=tuple(dict.fromkeys(_ranges(expansion.constraints, types))),
        checks=tuple(dict.fromkeys(_checks(expansion.constraints))),
    )


def _column_lists(expansion: Expansion, kind: str) -> Iterator[tuple[str, ...]]:
    for found in expansion.properties:
        if find_annotation(found.annotations, kind):
            yield (found.name.text,)
    for constraint in expansion.constraints:
        if constraint.name.text == kind:
            names = (argument.text for argument in constraint.arguments if isinstance(argument, WordLiteral))
            yield tuple(names)


def _ranges(constraints: tuple[Annotation, ...], types: Mapping[str, PropertyType]) -> Iterator[RangeRule]:
    for constraint in constraints:
        match constraint.name.text, constraint.arguments:
            case "range", [WordLiteral(name), RangeArgument() as bounds]:
                read = range_bounds(bounds, types[name])
                assert isinstance(read, RangeBounds), "the checks ran before"
                yield RangeRule(name, read)


def _checks(constraints: tuple[Annotation, ...]) -> Iterator[CheckRule]:
    for constraint in constraints:
        match constraint.name.text, constraint.arguments:
            case "check", [WordLiteral(name), StringLiteral(pattern)]:
                yield CheckRule(name, pattern)
