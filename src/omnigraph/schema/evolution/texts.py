"""Steps in words: a stable name for programs, a short sentence for people."""

from __future__ import annotations

import re
from typing import Final, assert_never

from omnigraph.schema.catalog import CheckRule, RangeRule
from omnigraph.schema.evolution.steps import (
    AddConstraint,
    AddIndex,
    AddProperty,
    AddType,
    CardRule,
    Constraint,
    DropConstraint,
    DropIndex,
    DropProperty,
    DropType,
    ExtendEnum,
    RelaxNullability,
    RenameProperty,
    RenameType,
    RequiredRule,
    Step,
    UniqueRule,
    UpdateInterfaces,
    UpdateMetadata,
    UpdateText,
)
from omnigraph.schema.property_types import type_text

_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")


def kind_of(step: Step) -> str:
    """`add_type`, `rename_property`, …: the name of the step in JSON."""
    name = "UpdateMetadata" if isinstance(step, UpdateInterfaces) else type(step).__name__
    return _WORD.sub("_", name).lower()


def text_of(step: Step) -> str:  # noqa: PLR0912  # one sentence for each kind
    """What the step does, in a few words."""
    match step:
        case AddType():
            return f"add type {step.alias}"
        case RenameType(_, alias, name):
            return f"rename type {alias} to {name}"
        case AddProperty(_, alias, added):
            suffix = "?" if added.nullable else ""
            filled = "" if added.fill is None else ", filled with its default"
            return f"add property {alias}.{added.name}: {type_text(added.type)}{suffix}{filled}"
        case RenameProperty(_, alias, _, old, new):
            return f"rename property {alias}.{old} to {new}"
        case AddIndex(_, alias, name):
            return f"declare an index on {alias}.{name}"
        case DropIndex(_, alias, name):
            return f"declare no index on {alias}.{name} any more"
        case AddConstraint(_, alias, RequiredRule(name, fill), _):
            filled = "" if fill is None else ", filled with its default where it is null"
            return f"require a value of {alias}.{name} in every row{filled}"
        case AddConstraint(_, alias, constraint, _):
            return f"add {constraint_text(constraint)} to {alias}"
        case DropConstraint(_, alias, constraint):
            return f"drop {constraint_text(constraint)} of {alias}"
        case ExtendEnum(_, alias, name, values):
            return f"extend the enum {alias}.{name} by {', '.join(values)}"
        case RelaxNullability(_, alias, name):
            return f"make {alias}.{name} nullable"
        case UpdateMetadata(_, alias, None, _):
            return f"change the annotations or interfaces of {alias}"
        case UpdateMetadata(_, alias, name, _):
            return f"change the annotations of {alias}.{name}"
        case UpdateInterfaces():
            return "update the interfaces"
        case UpdateText():
            return "keep the new text, which means the same"
        case DropProperty(_, alias, _, name, hard):
            return f"drop property {alias}.{name} [{'hard' if hard else 'soft'}]"
        case DropType(_, alias, hard):
            return f"drop type {alias} [{'hard' if hard else 'soft'}]"
        case _:
            assert_never(step)


def constraint_text(constraint: Constraint) -> str:
    """A rule about as the schema language writes it."""
    match constraint:
        case UniqueRule(columns):
            return f"@unique({', '.join(columns)})"
        case RangeRule(name, bounds):
            low, high = ("" if end is None else str(end) for end in (bounds.low, bounds.high))
            return f"@range({name}, {low}..{high})"
        case CheckRule(name, pattern):
            return f'@check({name}, "{pattern}")'
        case CardRule(cardinality):
            high = "*" if cardinality.high is None else str(cardinality.high)
            return f"@card({cardinality.low}..{high})"
        case RequiredRule(name):
            return f"a value in every row of {name}"
        case _:
            assert_never(constraint)
