"""What changes within one type, from its accepted to its desired form. Pure.

Steps come in the order in which they can be followed: rules and indexes go first, under the old names of columns; then
columns go, are renamed, loosened and come; then notes, indexes and rules come, under the new names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from omnigraph.base.ids import PropertyId
from omnigraph.schema.catalog import (
    Cardinality,
    CheckRule,
    EdgeType,
    Embedding,
    Entity,
    NodeType,
    Property,
    RangeRule,
    Rules,
)
from omnigraph.schema.evolution.apply import renamed_rules
from omnigraph.schema.evolution.codes import EvolutionCode
from omnigraph.schema.evolution.steps import (
    AddConstraint,
    AddIndex,
    AddProperty,
    CardRule,
    DropConstraint,
    DropIndex,
    DropProperty,
    ExtendEnum,
    Notes,
    RelaxNullability,
    RenameProperty,
    RequiredRule,
    Step,
    UniqueRule,
    Unsupported,
    UpdateMetadata,
)
from omnigraph.schema.property_types import (
    EnumType,
    PropertyType,
    Scalar,
    ScalarType,
    is_free_text,
    type_text,
)
from omnigraph.schema.values import Value


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


_WIDER = {
    Scalar.I32: frozenset({Scalar.I64, Scalar.F64}),
    Scalar.U32: frozenset({Scalar.U64, Scalar.I64, Scalar.F64}),
    Scalar.F32: frozenset({Scalar.F64}),
}


@dataclass(frozen=True, slots=True)
class TypePair:
    """One type as it is and as it shall be, and how many rows it has. `hard`: what is dropped is gone for good.

    `by_id`: both forms are of one graph, so a property is what its id says, whatever its name.
    """

    old: Entity
    new: Entity
    rows: int = 0
    hard: bool = False
    by_id: bool = False

    def origin(self, after: Property) -> Property | None:
        """What a property of the new form was in the old one."""
        if self.by_id:
            return self.old.property_with_id(after.id)
        same = self.old.property_named(after.name)
        return same or (after.renamed_from and self.old.property_named(after.renamed_from)) or None

    @property
    def fills(self) -> tuple[str, ...]:
        """The properties whose default rows get: all rows if it is new, those with null if it becomes required."""
        if not self.rows:
            return ()
        pairs = ((self.origin(after), after) for after in self.new.properties)
        return tuple(
            after.name
            for before, after in pairs
            if (after.fill is not None if before is None else self.null_fills(before, after))
        )

    def null_fills(self, before: Property, after: Property) -> tuple[Value, ...]:
        """What null became, in order, on the way from one form of a property to the other."""
        if self.by_id:
            return after.null_fills[len(before.null_fills) :]
        is_filled = before.nullable and not after.nullable and after.default is not None
        return (after.default,) if is_filled and after.default is not None else ()


@dataclass(slots=True)
class TypeDifference:
    """The steps of one type, by the phase in which they can be followed."""

    removing: list[Step] = field(default_factory=list)
    columns: list[Step] = field(default_factory=list)
    adding: list[Step] = field(default_factory=list)
    unsupported: list[Unsupported] = field(default_factory=list)

    @property
    def steps(self) -> tuple[Step, ...]:
        return (*self.removing, *self.columns, *self.adding)

    @property
    def supported_steps(self) -> tuple[Step, ...]:
        """Without those of properties that are refused: what is not done is no step."""
        refused = {found.property for found in self.unsupported}
        return tuple(step for step in self.steps if refused.isdisjoint(_properties_of(step)))


def compare_type(pair: TypePair) -> TypeDifference:
    """Everything that changes within a type, its name and its ends aside."""
    old, new = pair.old, pair.new
    found = TypeDifference()
    kept, added = _match_properties(pair, found)
    names = {before.name: after.name for before, after in kept}
    rules = renamed_rules(old.rules, names)
    if rules.key != new.rules.key:
        was, will = ("has no key" if not key else f"({', '.join(key)})" for key in (old.key, new.key))
        found.unsupported.append(
            Unsupported(EvolutionCode.KEY_CHANGED, new.alias, None, f"the key {was} would become {will}")
        )
    found.removing += dropped_rules(old, new, names)
    for before, after in kept:
        found.removing += (
            [DropIndex(old.id, new.alias, before.name)] if before.indexed > after.indexed else []
        )
    taken = {after.renamed_from for _, after in kept} if not pair.by_id else set()
    gone = [one for one in old.properties if one.name not in names and one.name not in taken]
    found.columns += [DropProperty(old.id, new.alias, one.id, one.name, pair.hard) for one in gone]
    if gone:
        _refuse_hard_beside_blob(pair, [after for _, after in kept], found)
    found.columns += [
        RenameProperty(old.id, new.alias, before.id, before.name, after.name)
        for before, after in kept
        if before.name != after.name
    ]
    for before, after in kept:
        _compare_property(pair, (before, after), names, found)
    found.columns += _added(pair, added, found)
    notes = Notes(new.description, new.metadata, new.implements if isinstance(new, NodeType) else ())
    if notes != Notes(old.description, old.metadata, old.implements if isinstance(old, NodeType) else ()):
        found.adding.append(UpdateMetadata(old.id, new.alias, None, notes))
    found.adding += added_rules(old, new, names, {one.name: one for one in added})
    return found


def null_filled(old: Entity, new: Entity) -> dict[str, tuple[str, Value]]:
    """The properties of a type in which null gets a value, by their new names: the old name and the value."""
    fills: dict[str, tuple[str, Value]] = {}
    for after in new.properties:
        before = old.property_with_id(after.id)
        fill = None if before is None else after.null_fill(len(before.null_fills))
        if before is not None and fill is not None:
            fills[after.name] = before.name, fill
    return fills


def _properties_of(step: Step) -> tuple[str, ...]:
    """The properties that a step within a type names, each by its new name where it has one."""
    match step:
        case AddProperty(property=added):
            return (added.name,)
        case RenameProperty(new=name):
            return (name,)
        case AddIndex() | DropIndex() | ExtendEnum() | RelaxNullability() | DropProperty():
            return (step.property,)
        case UpdateMetadata(property=str(name)):
            return (name,)
        case AddConstraint(constraint=UniqueRule(columns)) | DropConstraint(constraint=UniqueRule(columns)):
            return columns
        case AddConstraint(constraint=RangeRule() | CheckRule() | RequiredRule() as rule):
            return (rule.property,)
        case DropConstraint(constraint=RangeRule() | CheckRule() as rule):
            return (rule.property,)
        case _:
            return ()


def _refuse_hard_beside_blob(pair: TypePair, kept: list[Property], found: TypeDifference) -> None:
    blob = next((one for one in kept if one.type == ScalarType(Scalar.BLOB)), None)
    if pair.hard and pair.rows and blob is not None:
        detail = f"{blob.name} stays and is a Blob"
        code = EvolutionCode.BLOB_BESIDE_HARD_DROP
        found.unsupported.append(Unsupported(code, pair.new.alias, blob.name, detail))


def _match_properties(
    pair: TypePair, found: TypeDifference
) -> tuple[list[tuple[Property, Property]], list[Property]]:
    """The properties that stay, old and new, and those that are new. What is refused counts as staying."""
    kept: list[tuple[Property, Property]] = []
    added: list[Property] = []
    for after in pair.new.properties:
        if pair.by_id:
            own = pair.origin(after)
            if own is None:
                added.append(after)
            else:
                kept.append((own, after))
            continue
        same = pair.old.property_named(after.name)
        source = None if after.renamed_from is None else pair.old.property_named(after.renamed_from)
        if same is not None and source is not None:
            detail = f"{source.name} would become {after.name}, which is there already"
            found.unsupported.append(
                Unsupported(EvolutionCode.RENAME_TAKEN, pair.new.alias, after.name, detail)
            )
        if same is None and source is None and after.renamed_from is not None:
            detail = f"there is no property {after.renamed_from}"
            found.unsupported.append(
                Unsupported(EvolutionCode.RENAME_UNKNOWN, pair.new.alias, after.name, detail)
            )
        before = pair.origin(after)
        if before is None:
            added.append(after)
        else:
            kept.append((before, after))
    return kept, added


def _added(pair: TypePair, added: list[Property], found: TypeDifference) -> Iterator[Step]:
    for number, one in enumerate(added, start=pair.old.next_property_id):
        if pair.rows and not one.nullable and one.fill is None:
            count = f"{pair.rows:,} row{'' if pair.rows == 1 else 's'}"
            detail = f"the type has {count}"
            code = EvolutionCode.REQUIRED_WITHOUT_DEFAULT
            found.unsupported.append(Unsupported(code, pair.new.alias, one.name, detail))
        own = one.id if pair.by_id else PropertyId(number)
        yield AddProperty(pair.old.id, pair.new.alias, Property.from_shape(one, own))


def _compare_property(
    pair: TypePair, both: tuple[Property, Property], names: dict[str, str], found: TypeDifference
) -> None:
    before, after = both
    if not pair.by_id:
        after = _as_before(before, after)
    type_id, alias, name = pair.old.id, pair.new.alias, after.name
    if before.type != after.type:
        change = _type_change(before.type, after.type)
        if isinstance(change, EvolutionCode):
            detail = f"{type_text(before.type)} would become {type_text(after.type)}"
            found.unsupported.append(Unsupported(change, alias, name, detail))
        else:
            found.columns.append(ExtendEnum(type_id, alias, name, change))
    _compare_nullability(pair, (before, after), found)
    if before.nullable != after.nullable and pair.fills and after.type == ScalarType(Scalar.BLOB):
        detail = f"and {pair.fills[0]} is filled with its default"
        found.unsupported.append(Unsupported(EvolutionCode.BLOB_BESIDE_DEFAULT, alias, name, detail))
    if after.indexed > before.indexed:
        found.adding.append(AddIndex(type_id, alias, name))
    embedding = _renamed_embedding(before.embedding, names)
    is_same = embedding and after.embedding and _maker(embedding) == _maker(after.embedding)
    if pair.rows and embedding and after.embedding and not is_same:
        detail = f"vectors of {pair.rows:,} rows may have been made from {embedding.source}"
        found.unsupported.append(Unsupported(EvolutionCode.EMBEDDING_CHANGED, alias, name, detail))
    notes = Notes(after.description, after.metadata, (), after.default, after.embedding)
    if notes != Notes(before.description, before.metadata, (), before.default, embedding):
        found.adding.insert(0, UpdateMetadata(type_id, alias, name, notes))


def _compare_nullability(pair: TypePair, both: tuple[Property, Property], found: TypeDifference) -> None:
    """A property that became required with a default, nullable and required again says so each time."""
    before, after = both
    type_id, alias, name = pair.old.id, pair.new.alias, after.name
    fills = pair.null_fills(before, after)
    relax = RelaxNullability(type_id, alias, name)
    if not before.nullable and (after.nullable or fills):
        found.columns.append(relax)
    for number, fill in enumerate(fills):
        found.adding += [relax] if number else []
        found.adding.append(AddConstraint(type_id, alias, RequiredRule(name, fill)))
    if fills and after.nullable:
        found.adding.append(relax)
    if before.nullable and not after.nullable and not fills:
        found.adding.append(AddConstraint(type_id, alias, RequiredRule(name)))


def _as_before(before: Property, after: Property) -> Property:
    """The desired property; a required vector of an earlier release keeps the column and the rule that it has."""
    if before.nullable or before.embedding is None or after.embedding is None or not after.embedding.required:
        return after
    return replace(after, nullable=False, embedding=replace(after.embedding, required=False))


def _maker(embedding: Embedding) -> tuple[str, str | None]:
    return embedding.source, embedding.model


def _type_change(before: PropertyType, after: PropertyType) -> EvolutionCode | tuple[str, ...]:
    """The new values of an enum that only grows, or why the change is refused."""
    match before, after:
        case EnumType(old), EnumType(new) if set(old) <= set(new):
            return tuple(sorted(set(new) - set(old)))
        case EnumType(), EnumType():
            return EvolutionCode.ENUM_NARROWED
        case EnumType(), wider if is_free_text(wider):
            return EvolutionCode.TYPE_WIDENED
        case ScalarType(narrow), ScalarType(wide) if wide in _WIDER.get(narrow, ()):
            return EvolutionCode.TYPE_WIDENED
        case _:
            return EvolutionCode.TYPE_CHANGED


def _renamed_embedding(embedding: Embedding | None, names: dict[str, str]) -> Embedding | None:
    return embedding and replace(embedding, source=names.get(embedding.source, embedding.source))
