"""The steps that a schema can take from one state to the next, as values.

A step carries what it needs to be followed: `next_catalog` makes the next catalog from steps alone. Types are named by
their id, and by the alias that they have when the step's turn comes, for people.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.base.ids import PropertyId, TypeId
from omnigraph.schema.catalog import (
    Cardinality,
    CheckRule,
    Embedding,
    Entity,
    Interface,
    Property,
    RangeRule,
)
from omnigraph.schema.evolution.codes import EvolutionCode
from omnigraph.schema.syntax import Annotation
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
