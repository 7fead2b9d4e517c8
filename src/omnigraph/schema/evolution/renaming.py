"""What names columns, under their new names. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.schema.catalog import CheckRule, RangeRule, Rules


def renamed_rules(rules: Rules, names: Mapping[str, str]) -> Rules:
    """The same rules; columns that the mapping does not have keep their names."""
    return Rules(
        key=_renamed(rules.key, names),
        uniques=tuple(_renamed(columns, names) for columns in rules.uniques),
        ranges=tuple(
            RangeRule(names.get(rule.property, rule.property), rule.bounds) for rule in rules.ranges
        ),
        checks=tuple(
            CheckRule(names.get(rule.property, rule.property), rule.pattern) for rule in rules.checks
        ),
    )


def _renamed(columns: tuple[str, ...], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(name, name) for name in columns)
