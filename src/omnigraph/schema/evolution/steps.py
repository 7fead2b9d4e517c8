"""The steps that change a schema, as values: the name, cost and effect of each. Pure.

A step has everything that it needs to be applied. It names a type by its id, and for people by the alias that the type
has when the step is applied. Applying a step keeps the order and the ids of everything that it does not name; new types
and properties are added at the end, and counters of ids only grow, so no id is reused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, assert_never

from msgspec.structs import replace

from omnigraph.base.ids import PropertyId, TypeId
from omnigraph.lang.syntax import Annotation
from omnigraph.schema.catalog import (
    AnyEntity,
    Cardinality,
    Catalog,
    CheckRule,
    EdgeType,
    Embedding,
    Entity,
    Interface,
    NodeType,
    Property,
    RangeRule,
    Rules,
)
from omnigraph.schema.evolution.codes import EvolutionCode
from omnigraph.schema.property_types import PLAIN_TEXT, EnumType, TextOptions, type_text
from omnigraph.schema.values import Value


class Cost(Enum):
    """How the run time of a step depends on the number of rows."""

    METADATA = "metadata_only"
    """The time does not depend on the number of rows."""
    READS = "reads_data"
    """The step reads every row of the type."""
    REWRITES = "rewrites_data"
    """The step rewrites all or some columns of every row of the type."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A change of the schema that is rejected."""

    code: EvolutionCode
    """Why, and what to do instead."""
    alias: str
    """The type, such as `node:Person`."""
    property: str | None
    """The property; None if the change is about the type itself."""
    detail: str
    """What is wrong, as text."""

    def describe(self) -> str:
        """Return it as a sentence."""
        name = self.alias if self.property is None else f"{self.alias}.{self.property}"
        return f"{name}: {self.detail}"


@dataclass(frozen=True, slots=True)
class UniqueRule:
    """No two rows have the same values in these columns."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CardRule:
    """The number of edges that a source may have (`@card`)."""

    cardinality: Cardinality


@dataclass(frozen=True, slots=True)
class RequiredRule:
    """Every row has a value. `fill` replaces null; without it no row may have null."""

    property: str
    fill: Value | None = None


TypeRule = UniqueRule | RangeRule | CheckRule | CardRule
"""A rule of a type that can be dropped. Keys never change, and a required property is made nullable instead."""
Constraint = TypeRule | RequiredRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """The parts of a type or a property that change no existing row. A part that it cannot have is ignored."""

    description: str | None = None
    metadata: tuple[Annotation, ...] = ()
    implements: tuple[str, ...] = ()
    default: Value | None = None
    embedding: Embedding | None = None


class EvolutionStep(ABC):
    """One change of a schema."""

    __slots__ = ()
    kind: ClassVar[str]
    """The name of the step in JSON."""
    text: ClassVar[str]
    """What the step does, in one phrase; `{0}` is the step."""

    def describe(self) -> str:
        """Return what the step does, in one phrase."""
        return self.text.format(self)

    def column_names(self) -> tuple[str, ...]:
        """Return the properties that the step names, by their new names where they have one."""
        return ()

    def cost(self, rows: int, filled_rows: int = 0) -> Cost:  # noqa: ARG002  # most steps cost the same for any rows
        """Return the cost for a type with `rows` rows, of which `filled_rows` get a default instead of null."""
        return Cost.METADATA

    @abstractmethod
    def apply(self, catalog: Catalog) -> Catalog:
        """Return the catalog after the step."""


@dataclass(frozen=True, slots=True)
class TypeStep(EvolutionStep):
    """A change of one type."""

    type_id: TypeId
    alias: str

    def apply(self, catalog: Catalog) -> Catalog:
        return replace(
            catalog,
            nodes=tuple(self.change(node) if node.id == self.type_id else node for node in catalog.nodes),
            edges=tuple(self.change(edge) if edge.id == self.type_id else edge for edge in catalog.edges),
        )

    def change(self, entity: AnyEntity) -> AnyEntity:
        """Return the type after the step."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class AddType(TypeStep):
    """Add a type with an empty table."""

    kind = "add_type"
    text = "add type {0.alias}"
    entity: Entity

    def apply(self, catalog: Catalog) -> Catalog:
        counter = max(catalog.next_type_id, int(self.entity.id, 16) + 1)
        if isinstance(self.entity, NodeType):
            return replace(catalog, nodes=(*catalog.nodes, self.entity), next_type_id=counter)
        return replace(catalog, edges=(*catalog.edges, self.entity), next_type_id=counter)


@dataclass(frozen=True, slots=True)
class DropType(TypeStep):
    """Drop a type for later commits. If `hard`, the next `cleanup` deletes the earlier commits and its table."""

    kind = "drop_type"
    hard: bool = False

    def describe(self) -> str:
        return f"drop type {self.alias} [{'hard' if self.hard else 'soft'}]"

    def apply(self, catalog: Catalog) -> Catalog:
        return replace(
            catalog,
            nodes=tuple(node for node in catalog.nodes if node.id != self.type_id),
            edges=tuple(edge for edge in catalog.edges if edge.id != self.type_id),
        )


@dataclass(frozen=True, slots=True)
class RenameType(TypeStep):
    """Rename a type; its table keeps its location."""

    kind = "rename_type"
    text = "rename type {0.alias} to {0.name}"
    name: str

    def change(self, entity: AnyEntity) -> AnyEntity:
        return replace(entity, name=self.name)


@dataclass(frozen=True, slots=True)
class AddProperty(TypeStep):
    """Add a column: existing rows have null, or the default if the property has one."""

    kind = "add_property"
    property: Property

    def describe(self) -> str:
        added = self.property
        mark = "?" if added.nullable else ""
        filled = "" if added.value_of_older_rows is None else ", filled with its default"
        return f"add property {self.alias}.{added.name}: {type_text(added.type)}{mark}{filled}"

    def column_names(self) -> tuple[str, ...]:
        return (self.property.name,)

    def cost(self, rows: int, filled_rows: int = 0) -> Cost:  # noqa: ARG002
        return Cost.REWRITES if rows and self.property.value_of_older_rows is not None else Cost.METADATA

    def change(self, entity: AnyEntity) -> AnyEntity:
        counter = PropertyId(max(entity.next_property_id, self.property.id + 1))
        return replace(entity, properties=(*entity.properties, self.property), next_property_id=counter)


@dataclass(frozen=True, slots=True)
class RenameProperty(TypeStep):
    """Rename a column, also in the rules and embeddings that name it."""

    kind = "rename_property"
    text = "rename property {0.alias}.{0.old} to {0.new}"
    old: str
    new: str

    def column_names(self) -> tuple[str, ...]:
        return (self.new,)

    def change(self, entity: AnyEntity) -> AnyEntity:
        names = {self.old: self.new}
        properties = tuple(
            replace(
                property_,
                name=names.get(property_.name, property_.name),
                embedding=property_.embedding and property_.embedding.renamed(names),
            )
            for property_ in entity.properties
        )
        return replace(entity, properties=properties, rules=entity.rules.renamed(names))


@dataclass(frozen=True, slots=True)
class PropertyStep(TypeStep):
    """A change of one property that keeps its name. `values` are the new values of its fields."""

    values: ClassVar[Mapping[str, Any]]
    property: str

    def column_names(self) -> tuple[str, ...]:
        return (self.property,)

    def change(self, entity: AnyEntity) -> AnyEntity:
        return _change_property(entity, self.property, self.change_property)

    def change_property(self, property_: Property) -> Property:
        """Return the property after the step."""
        return replace(property_, **self.values)


@dataclass(frozen=True, slots=True)
class DropProperty(PropertyStep):
    """Drop a column for later commits.

    Hard: no file of the later commits has its values, and the next cleanup deletes the earlier commits.
    """

    kind = "drop_property"
    hard: bool = False

    def describe(self) -> str:
        return f"drop property {self.alias}.{self.property} [{'hard' if self.hard else 'soft'}]"

    def cost(self, rows: int, filled_rows: int = 0) -> Cost:  # noqa: ARG002
        return Cost.REWRITES if rows and self.hard else Cost.METADATA

    def change(self, entity: AnyEntity) -> AnyEntity:
        return replace(entity, properties=tuple(part for part in entity.properties if part.name != self.property))


@dataclass(frozen=True, slots=True)
class AddIndex(PropertyStep):
    """Declare that a column has an index; `optimize` builds it."""

    kind = "add_index"
    options: TextOptions = PLAIN_TEXT

    def describe(self) -> str:
        options = f" with {self.options.text}" if self.options.text else ""
        return f"declare an index on {self.alias}.{self.property}{options}"

    def change_property(self, property_: Property) -> Property:
        return replace(property_, indexed=True, text_options=self.options)


@dataclass(frozen=True, slots=True)
class ChangeIndex(PropertyStep):
    """Change the options of a text index; `optimize` builds it again, and until then searches read every row."""

    kind = "change_index"
    options: TextOptions

    def describe(self) -> str:
        name, options = f"{self.alias}.{self.property}", self.options.text or "no options"
        return f"change the text index on {name} to {options}; `optimize` rebuilds it"

    def change_property(self, property_: Property) -> Property:
        return replace(property_, text_options=self.options)


class DropIndex(PropertyStep):
    """Declare that a column has no index."""

    __slots__ = ()
    kind = "drop_index"
    text = "drop the index on {0.alias}.{0.property}"
    values = MappingProxyType({"indexed": False, "text_options": PLAIN_TEXT})


class RelaxNullability(PropertyStep):
    """Make a required property nullable."""

    __slots__ = ()
    kind = "relax_nullability"
    text = "make {0.alias}.{0.property} nullable"
    values = MappingProxyType({"nullable": True})


@dataclass(frozen=True, slots=True)
class ExtendEnum(PropertyStep):
    """Add values to an enum. `added` has the new values."""

    kind = "extend_enum"
    added: tuple[str, ...]

    def describe(self) -> str:
        return f"extend the enum {self.alias}.{self.property} by {', '.join(self.added)}"

    def change_property(self, property_: Property) -> Property:
        assert isinstance(property_.type, EnumType), "only enums are extended"
        return replace(property_, type=EnumType(tuple(sorted({*property_.type.values, *self.added}))))


@dataclass(frozen=True, slots=True)
class AddConstraint(TypeStep):
    """Add a rule that the existing rows must obey. `implied`: the old rules guarantee this, so no row is read."""

    kind = "add_constraint"
    constraint: Constraint
    implied: bool = False

    def describe(self) -> str:
        if isinstance(self.constraint, RequiredRule):
            filled = "" if self.constraint.fill is None else ", filled with its default where it is null"
            return f"require a value of {self.alias}.{self.constraint.property} in every row{filled}"
        return f"add {_rule_text(self.constraint)} to {self.alias}"

    def column_names(self) -> tuple[str, ...]:
        return constrained_columns(self.constraint)

    def cost(self, rows: int, filled_rows: int = 0) -> Cost:
        if isinstance(self.constraint, RequiredRule) and filled_rows:
            return Cost.REWRITES
        return Cost.READS if rows and not self.implied else Cost.METADATA

    def change(self, entity: AnyEntity) -> AnyEntity:
        match self.constraint:
            case RequiredRule(name, fill):
                fills: tuple[Value, ...] = () if fill is None else (fill,)
                return _change_property(
                    entity,
                    name,
                    lambda property_: replace(property_, nullable=False, null_fills=(*property_.null_fills, *fills)),
                )
            case CardRule(cardinality):
                return _change_cardinality(entity, cardinality)
            case rule:
                return replace(entity, rules=_change_rules(entity.rules, rule, is_added=True))


@dataclass(frozen=True, slots=True)
class DropConstraint(TypeStep):
    """Drop a rule."""

    kind = "drop_constraint"
    constraint: TypeRule

    def describe(self) -> str:
        return f"drop {_rule_text(self.constraint)} of {self.alias}"

    def column_names(self) -> tuple[str, ...]:
        return constrained_columns(self.constraint)

    def change(self, entity: AnyEntity) -> AnyEntity:
        if isinstance(self.constraint, CardRule):
            return _change_cardinality(entity, Cardinality())
        return replace(entity, rules=_change_rules(entity.rules, self.constraint, is_added=False))


@dataclass(frozen=True, slots=True)
class UpdateMetadata(TypeStep):
    """Change descriptions, unknown annotations or defaults for later rows: those of the type if `property` is None."""

    kind = "update_metadata"
    property: str | None
    notes: Notes

    def describe(self) -> str:
        if self.property is None:
            return f"change the annotations or interfaces of {self.alias}"
        return f"change the annotations of {self.alias}.{self.property}"

    def column_names(self) -> tuple[str, ...]:
        return () if self.property is None else (self.property,)

    def change(self, entity: AnyEntity) -> AnyEntity:
        if self.property is not None:
            return _change_property(entity, self.property, self._change_own)
        changed = replace(entity, description=self.notes.description, metadata=self.notes.metadata)
        if isinstance(changed, NodeType):
            return replace(changed, implements=self.notes.implements)
        return changed

    def _change_own(self, property_: Property) -> Property:
        return replace(
            property_.with_default(self.notes.default),
            description=self.notes.description,
            metadata=self.notes.metadata,
            embedding=self.notes.embedding,
        )


@dataclass(frozen=True, slots=True)
class UpdateInterfaces(EvolutionStep):
    """Change the declared interfaces; separate steps change the node types."""

    kind = "update_metadata"
    text = "update the interfaces"
    interfaces: tuple[Interface, ...]

    def apply(self, catalog: Catalog) -> Catalog:
        return replace(catalog, interfaces=self.interfaces)


@dataclass(frozen=True, slots=True)
class UpdateText(EvolutionStep):
    """Store new text with the same meaning: other comments, order or spaces, or no applied `@rename_from`."""

    kind = "update_text"
    text = "store the new text, which has the same meaning"

    def apply(self, catalog: Catalog) -> Catalog:
        return catalog


def _change_rules(rules: Rules, rule: UniqueRule | RangeRule | CheckRule, *, is_added: bool) -> Rules:
    group: str = "ranges" if isinstance(rule, RangeRule) else "checks"
    value: Any = rule
    if isinstance(rule, UniqueRule):
        group, value = "uniques", rule.columns
    others = tuple(other for other in getattr(rules, group) if other != value)
    return replace(rules, **{group: (*others, value) if is_added else others})


def _rule_text(rule: TypeRule) -> str:
    """Return a rule approximately in the syntax of schemas."""
    match rule:
        case UniqueRule(columns):
            return f"@unique({', '.join(columns)})"
        case RangeRule(name, bounds):
            low, high = ("" if bound is None else str(bound) for bound in (bounds.low, bounds.high))
            return f"@range({name}, {low}..{high})"
        case CheckRule(name, pattern):
            return f'@check({name}, "{pattern}")'
        case CardRule(cardinality):
            high = "*" if cardinality.high is None else str(cardinality.high)
            return f"@card({cardinality.low}..{high})"
        case _:
            assert_never(rule)


def constrained_columns(constraint: Constraint) -> tuple[str, ...]:
    """Return the columns that a rule names."""
    match constraint:
        case UniqueRule(columns):
            return columns
        case CardRule():
            return ()
        case _:
            return (constraint.property,)


def _change_property(entity: AnyEntity, name: str, change: Callable[[Property], Property]) -> AnyEntity:
    properties = tuple(change(property_) if property_.name == name else property_ for property_ in entity.properties)
    return replace(entity, properties=properties)


def _change_cardinality(entity: AnyEntity, cardinality: Cardinality) -> AnyEntity:
    assert isinstance(entity, EdgeType), "only edges have a cardinality"
    return replace(entity, cardinality=cardinality)
