"""Which rules of a type go and which come. Pure.

A rule that the rows obey for certain, because a stricter one held until now or because its columns are new, is marked:
nothing need be read for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from omnigraph.schema.catalog import Cardinality, EdgeType, Entity, Property, RangeRule, Rules
from omnigraph.schema.evolution.renaming import renamed_rules
from omnigraph.schema.evolution.steps import AddConstraint, CardRule, DropConstraint, UniqueRule


def dropped_rules(old: Entity, new: Entity, names: Mapping[str, str]) -> Iterator[DropConstraint]:
    """The rules that hold no longer, under the old names of their columns."""
    after = new.rules
    kept = {frozenset(columns) for columns in after.uniques}
    for columns in old.rules.uniques:
        if frozenset(names.get(name, name) for name in columns) not in kept or not _all_kept(
            columns, old, names
        ):
            yield DropConstraint(old.id, new.alias, UniqueRule(columns))
    renamed = renamed_rules(old.rules, names)
    for rule, now in zip(old.rules.ranges, renamed.ranges, strict=True):
        if now not in after.ranges or rule.property not in names:
            yield DropConstraint(old.id, new.alias, rule)
    for check, current in zip(old.rules.checks, renamed.checks, strict=True):
        if current not in after.checks or check.property not in names:
            yield DropConstraint(old.id, new.alias, check)
    was, will = _cardinality(old), _cardinality(new)
    if was != will and was != Cardinality():
        yield DropConstraint(old.id, new.alias, CardRule(was))


def added_rules(
    old: Entity, new: Entity, names: Mapping[str, str], added: Mapping[str, Property]
) -> Iterator[AddConstraint]:
    """The rules that come, under the new names of their columns."""
    before = _kept_rules(old, names)
    held = {frozenset(columns) for columns in before.uniques}
    for columns in new.rules.uniques:
        if frozenset(columns) not in held:
            # A null never collides, and a column that came without a default is null everywhere.
            implied = any(name in added and added[name].fill is None for name in columns)
            yield AddConstraint(old.id, new.alias, UniqueRule(columns), implied)
    for rule in new.rules.ranges:
        if rule not in before.ranges:
            implied = _obeyed(rule.property, added) or any(_is_within(kept, rule) for kept in before.ranges)
            yield AddConstraint(old.id, new.alias, rule, implied)
    for check in new.rules.checks:
        if check not in before.checks:
            yield AddConstraint(old.id, new.alias, check, _obeyed(check.property, added))
    was, will = _cardinality(old), _cardinality(new)
    if was != will and will != Cardinality():
        yield AddConstraint(old.id, new.alias, CardRule(will), _is_looser(was, will))


def _obeyed(name: str, added: Mapping[str, Property]) -> bool:
    """Whether what rows get in a new column obeys its rules: null does, and so does the default of now."""
    return name in added and (added[name].fill is None or added[name].filled is None)


def _all_kept(columns: tuple[str, ...], old: Entity, names: Mapping[str, str]) -> bool:
    """Whether none of the columns is dropped; the ends of an edge always stay."""
    return all(name in names or old.property_named(name) is None for name in columns)


def _kept_rules(old: Entity, names: Mapping[str, str]) -> Rules:
    """The old rules over columns that stay, under their new names."""
    kept = Rules(
        uniques=tuple(columns for columns in old.rules.uniques if _all_kept(columns, old, names)),
        ranges=tuple(rule for rule in old.rules.ranges if rule.property in names),
        checks=tuple(rule for rule in old.rules.checks if rule.property in names),
    )
    return renamed_rules(kept, names)


def _is_within(kept: RangeRule, rule: RangeRule) -> bool:
    """Whether every value that obeyed `kept` obeys `rule`."""
    return kept.property == rule.property and kept.bounds.is_within(rule.bounds)


def _cardinality(entity: Entity) -> Cardinality:
    return entity.cardinality if isinstance(entity, EdgeType) else Cardinality()


def _is_looser(was: Cardinality, will: Cardinality) -> bool:
    high_fits = will.high is None or (was.high is not None and was.high <= will.high)
    return will.low <= was.low and high_fits
