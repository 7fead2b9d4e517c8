"""The steps that a schema can take from one state to the next, as values.

A step carries what it needs to be followed: `next_catalog` makes the next catalog from steps alone. Types are named by
their id, and by the alias that they have when the step's turn comes, for people.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, assert_never

from omnigraph.base.ids import PropertyId, TypeId
from omnigraph.lang.syntax import Annotation
from omnigraph.schema.catalog import Cardinality, CheckRule, Embedding, Entity, Interface, Property, RangeRule
from omnigraph.schema.evolution.codes import EvolutionCode
from omnigraph.schema.property_types import type_text
from omnigraph.schema.values import Value


@dataclass(frozen=True, slots=True)
class UniqueRule:
    """No two rows have the same values in these columns."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CardRule:
    """How many edges a source has."""

    cardinality: Cardinality


@dataclass(frozen=True, slots=True)
class RequiredRule:
    """Every row has a value. `fill` is what null becomes; without one there must be no null."""

    property: str
    fill: Value | None = None


Constraint = UniqueRule | RangeRule | CheckRule | CardRule | RequiredRule


@dataclass(frozen=True, slots=True)
class Notes:
    """What is known of a type or a property and changes no row that is there. Each applies where it has a meaning."""

    description: str | None = None
    metadata: tuple[Annotation, ...] = ()
    implements: tuple[str, ...] = ()
    default: Value | None = None
    embedding: Embedding | None = None


@dataclass(frozen=True, slots=True)
class AddType:
    """A new type with an empty table."""

    entity: Entity

    @property
    def type_id(self) -> TypeId:
        return self.entity.id

    @property
    def alias(self) -> str:
        return self.entity.alias


@dataclass(frozen=True, slots=True)
class RenameType:
    """The same type under another name; its table stays where it is."""

    type_id: TypeId
    alias: str
    name: str


@dataclass(frozen=True, slots=True)
class AddProperty:
    """A new column: null in every row there is, or the default where the property has one."""

    type_id: TypeId
    alias: str
    property: Property


@dataclass(frozen=True, slots=True)
class RenameProperty:
    """The same column under another name."""

    type_id: TypeId
    alias: str
    property_id: PropertyId
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class AddIndex:
    """The intent that a column has an index; `ensure indices` builds it."""

    type_id: TypeId
    alias: str
    property: str


@dataclass(frozen=True, slots=True)
class DropIndex:
    """The intent goes."""

    type_id: TypeId
    alias: str
    property: str


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """A rule that the rows must already obey. `implied`: they do for certain, so nothing need be read."""

    type_id: TypeId
    alias: str
    constraint: Constraint
    implied: bool = False


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """A rule that holds no longer."""

    type_id: TypeId
    alias: str
    constraint: UniqueRule | RangeRule | CheckRule | CardRule


@dataclass(frozen=True, slots=True)
class ExtendEnum:
    """More values for an enum. `values` are the new ones."""

    type_id: TypeId
    alias: str
    property: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RelaxNullability:
    """A property need not have a value any more."""

    type_id: TypeId
    alias: str
    property: str


@dataclass(frozen=True, slots=True)
class UpdateMetadata:
    """Descriptions, unknown annotations, defaults for later rows. `property` None: of the type itself."""

    type_id: TypeId
    alias: str
    property: str | None
    notes: Notes


@dataclass(frozen=True, slots=True)
class UpdateInterfaces:
    """The interfaces that the schema shows; what they give to nodes is in steps of its own."""

    interfaces: tuple[Interface, ...]


@dataclass(frozen=True, slots=True)
class UpdateText:
    """Another text for the same schema: comments, order, spaces, a `@rename_from` that is done."""


@dataclass(frozen=True, slots=True)
class DropProperty:
    """A column that later commits do not have.

    Hard: no file of theirs has its values, and the next cleanup lets the earlier commits go.
    """

    type_id: TypeId
    alias: str
    property_id: PropertyId
    property: str
    hard: bool = False


@dataclass(frozen=True, slots=True)
class DropType:
    """A type that later commits do not have. Hard: the next cleanup lets the earlier commits and its table go."""

    type_id: TypeId
    alias: str
    hard: bool = False


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A change of the schema that is refused."""

    code: EvolutionCode
    """Why, and what to do instead."""
    alias: str
    """The type, such as `node:Person`."""
    property: str | None
    """The property; None when it is about the type itself."""
    detail: str
    """What is wrong, in words."""


Step = (
    AddType
    | RenameType
    | AddProperty
    | RenameProperty
    | AddIndex
    | DropIndex
    | AddConstraint
    | DropConstraint
    | ExtendEnum
    | RelaxNullability
    | UpdateMetadata
    | UpdateInterfaces
    | UpdateText
    | DropProperty
    | DropType
)


class Cost(Enum):
    """How a step's time grows."""

    METADATA = "metadata_only"
    """It takes the same time whatever the number of rows."""
    READS = "reads_data"
    """Every row of the type is read."""
    REWRITES = "rewrites_data"
    """Every row of the type is written again, at least in part."""


def cost_of(step: Step, rows: int, filled_rows: int = 0) -> Cost:
    """The cost of a step on a type with that many rows, of which so many get a default for null."""
    match step:
        case AddConstraint(constraint=RequiredRule()) if filled_rows:
            return Cost.REWRITES
        case AddConstraint(implied=False) if rows:
            return Cost.READS
        case AddProperty(property=added) if rows and added.fill is not None:
            return Cost.REWRITES
        case DropProperty(hard=True) if rows:
            return Cost.REWRITES
        case _:
            return Cost.METADATA


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
