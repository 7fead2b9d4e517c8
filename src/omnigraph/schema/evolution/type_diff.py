"""The steps within one type, from its accepted to its desired form, and the changes that are rejected. Pure.

The steps are in an order in which they can be applied: rules and indexes are dropped first, under the old names of
columns; then columns are dropped, renamed, made nullable and added; then notes, indexes and rules are added, under the
new names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from msgspec.structs import replace

from omnigraph.base.display import format_count
from omnigraph.base.ids import PropertyId
from omnigraph.schema.catalog import Cardinality, CheckRule, EdgeType, Entity, NodeType, Property, RangeRule, Rules
from omnigraph.schema.evolution import steps as step
from omnigraph.schema.evolution.codes import EvolutionCode
from omnigraph.schema.property_types import EnumType, PropertyType, Scalar, ScalarType, is_free_text, type_text
from omnigraph.schema.values import Value

_WIDER = {
    Scalar.I32: frozenset({Scalar.I64, Scalar.F64}),
    Scalar.U32: frozenset({Scalar.U64, Scalar.I64, Scalar.F64}),
    Scalar.F32: frozenset({Scalar.F64}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypePair:
    """The accepted and the desired form of one type.

    `is_hard_drop`: data of dropped properties is deleted permanently. `match_by_id`: both forms are of one graph, so
    properties are matched by id and not by name.
    """

    old: Entity
    new: Entity
    row_count: int = 0
    is_hard_drop: bool = False
    match_by_id: bool = False

    def origin(self, after: Property) -> Property | None:
        """Return the property of the old form that a property of the new form was."""
        if self.match_by_id:
            return self.old.property_with_id(after.id)
        same_name = self.old.property_named(after.name)
        if same_name is not None or after.renamed_from is None:
            return same_name
        return self.old.property_named(after.renamed_from)

    def properties_set_to_default(self) -> tuple[str, ...]:
        """Return the properties whose default rows get: all rows if it is new, null rows if it becomes required."""
        if not self.row_count:
            return ()
        names: list[str] = []
        for after in self.new.properties:
            before = self.origin(after)
            if before is None:
                is_set = after.value_of_older_rows is not None
            else:
                is_set = bool(self.null_replacements(before, after))
            if is_set:
                names.append(after.name)
        return tuple(names)

    def null_replacements(self, before: Property, after: Property) -> tuple[Value, ...]:
        """Return the values that replaced null, in order, from one form of a property to the other."""
        if self.match_by_id:
            return after.null_fills[len(before.null_fills) :]
        becomes_required = before.nullable and not after.nullable
        return (after.default,) if becomes_required and after.default is not None else ()


@dataclass(slots=True, kw_only=True)
class TypeDifference:
    """The steps of one type, by the phase in which they can be applied."""

    removing: list[step.EvolutionStep] = field(default_factory=list)
    columns: list[step.EvolutionStep] = field(default_factory=list)
    property_notes: list[step.EvolutionStep] = field(default_factory=list)
    adding: list[step.EvolutionStep] = field(default_factory=list)
    unsupported: list[step.Unsupported] = field(default_factory=list)

    @property
    def steps(self) -> tuple[step.EvolutionStep, ...]:
        return (*self.removing, *self.columns, *self.property_notes, *self.adding)

    @property
    def supported_steps(self) -> tuple[step.EvolutionStep, ...]:
        """The steps without those of rejected properties."""
        rejected = {change.property for change in self.unsupported}
        return tuple(change for change in self.steps if rejected.isdisjoint(change.column_names()))

    def reject(self, code: EvolutionCode, pair: TypePair, name: str | None, detail: str) -> None:
        """Add a change that is not supported."""
        self.unsupported.append(step.Unsupported(code, pair.new.alias, name, detail))


def compare_type(pair: TypePair) -> TypeDifference:
    """Return everything that changes within a type, apart from its name and its endpoints."""
    old, new = pair.old, pair.new
    difference = TypeDifference()
    matched, added = _match_properties(pair, difference)
    names = {before.name: after.name for before, after in matched}
    if old.rules.renamed(names).key != new.rules.key:
        old_key, new_key = (f"({', '.join(key)})" if key else "(no key)" for key in (old.key, new.key))
        difference.reject(EvolutionCode.KEY_CHANGED, pair, None, f"the key {old_key} would become {new_key}")
    difference.removing += _dropped_rules(old, new, names)
    difference.removing += [
        step.DropIndex(old.id, new.alias, before.name)
        for before, after in matched
        if before.indexed and not after.indexed
    ]
    retained_names = set(names)
    if not pair.match_by_id:
        retained_names |= {after.renamed_from for _, after in matched if after.renamed_from is not None}
    dropped = [property_ for property_ in old.properties if property_.name not in retained_names]
    difference.columns += [
        step.DropProperty(old.id, new.alias, property_.name, pair.is_hard_drop) for property_ in dropped
    ]
    if dropped:
        _reject_hard_drop_with_blob(pair, [after for _, after in matched], difference)
    difference.columns += [
        step.RenameProperty(old.id, new.alias, before.name, after.name)
        for before, after in matched
        if before.name != after.name
    ]
    for before, after in matched:
        _compare_property(pair, before, after, names, difference)
    _add_properties(pair, added, difference)
    notes = _type_notes(new)
    if notes != _type_notes(old):
        difference.adding.append(step.UpdateMetadata(old.id, new.alias, None, notes))
    difference.adding += _added_rules(old, new, names, {property_.name: property_ for property_ in added})
    return difference


def find_null_replacements(old: Entity, new: Entity) -> dict[str, tuple[str, Value]]:
    """Return the properties in which null gets a value: by the new name, the old name and the value."""
    replacements: dict[str, tuple[str, Value]] = {}
    for after in new.properties:
        before = old.property_with_id(after.id)
        if before is None:
            continue
        value = after.null_replacement(len(before.null_fills))
        if value is not None:
            replacements[after.name] = before.name, value
    return replacements


def _match_properties(
    pair: TypePair, difference: TypeDifference
) -> tuple[list[tuple[Property, Property]], list[Property]]:
    """Return the properties of both forms, accepted and desired, and the new ones. Reject invalid renames.

    A property that is renamed to an existing name counts as matched, one that is renamed from an unknown name as new.
    """
    matched: list[tuple[Property, Property]] = []
    added: list[Property] = []
    for after in pair.new.properties:
        if not pair.match_by_id and after.renamed_from is not None:
            _check_rename(pair, after, after.renamed_from, difference)
        before = pair.origin(after)
        if before is None:
            added.append(after)
        else:
            matched.append((before, after))
    return matched, added


def _check_rename(pair: TypePair, after: Property, old_name: str, difference: TypeDifference) -> None:
    has_same_name = pair.old.property_named(after.name) is not None
    has_source = pair.old.property_named(old_name) is not None
    if has_same_name and has_source:
        detail = f"{old_name} would become {after.name}, which already exists"
        difference.reject(EvolutionCode.RENAME_TO_EXISTING, pair, after.name, detail)
    if not has_same_name and not has_source:
        detail = f"property {old_name} does not exist"
        difference.reject(EvolutionCode.RENAME_UNKNOWN, pair, after.name, detail)


def _reject_hard_drop_with_blob(pair: TypePair, remaining: list[Property], difference: TypeDifference) -> None:
    blob = next((property_ for property_ in remaining if property_.type == ScalarType(Scalar.BLOB)), None)
    if pair.is_hard_drop and pair.row_count and blob is not None:
        detail = f"{blob.name} is a Blob and is not dropped"
        difference.reject(EvolutionCode.BLOB_WITH_HARD_DROP, pair, blob.name, detail)


def _add_properties(pair: TypePair, added: list[Property], difference: TypeDifference) -> None:
    """Add the steps for new properties; reject a required property without a default if there are rows."""
    for number, property_ in enumerate(added, start=pair.old.next_property_id):
        if pair.row_count and not property_.nullable and property_.value_of_older_rows is None:
            detail = f"the type has {format_count(pair.row_count, 'row')}"
            difference.reject(EvolutionCode.REQUIRED_WITHOUT_DEFAULT, pair, property_.name, detail)
        property_id = property_.id if pair.match_by_id else PropertyId(number)
        stored = Property.from_shape(property_, property_id)
        difference.columns.append(step.AddProperty(pair.old.id, pair.new.alias, stored))


def _compare_property(
    pair: TypePair, before: Property, after: Property, names: dict[str, str], difference: TypeDifference
) -> None:
    if not pair.match_by_id:
        after = _keep_required_vector_column(before, after)
    type_id, alias, name = pair.old.id, pair.new.alias, after.name
    if before.type != after.type:
        change = _type_change(before.type, after.type)
        if isinstance(change, EvolutionCode):
            detail = f"{type_text(before.type)} would become {type_text(after.type)}"
            difference.reject(change, pair, name, detail)
        else:
            difference.columns.append(step.ExtendEnum(type_id, alias, name, change))
    _compare_nullability(pair, before, after, difference)
    if before.nullable != after.nullable and after.type == ScalarType(Scalar.BLOB):
        set_to_default = pair.properties_set_to_default()
        if set_to_default:
            detail = f"{set_to_default[0]} is filled with its default"
            difference.reject(EvolutionCode.BLOB_WITH_DEFAULT, pair, name, detail)
    if after.indexed and not before.indexed:
        difference.adding.append(step.AddIndex(type_id, alias, name, after.text_options))
    elif after.indexed and after.text_options != before.text_options:
        difference.adding.append(step.ChangeIndex(type_id, alias, name, after.text_options))
    embedding = before.embedding and before.embedding.renamed(names)
    if pair.row_count and embedding and after.embedding and not embedding.has_same_vectors(after.embedding):
        detail = f"{format_count(pair.row_count, 'row')} may have vectors computed from {embedding.source}"
        difference.reject(EvolutionCode.EMBEDDING_CHANGED, pair, name, detail)
    notes = step.Notes(
        description=after.description,
        metadata=after.metadata,
        implements=(),
        default=after.default,
        embedding=after.embedding,
    )
    if notes != step.Notes(
        description=before.description,
        metadata=before.metadata,
        implements=(),
        default=before.default,
        embedding=embedding,
    ):
        difference.property_notes.append(step.UpdateMetadata(type_id, alias, name, notes))


def _keep_required_vector_column(before: Property, after: Property) -> Property:
    """Return the desired property; a required vector of an earlier release keeps its column and its rule."""
    if before.nullable or before.embedding is None or after.embedding is None or not after.embedding.required:
        return after
    return replace(after, nullable=False, embedding=replace(after.embedding, required=False))


def _type_change(before: PropertyType, after: PropertyType) -> EvolutionCode | tuple[str, ...]:
    """Return the new values of an enum that only grows, or why the change is rejected."""
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


def _compare_nullability(pair: TypePair, before: Property, after: Property, difference: TypeDifference) -> None:
    """Add the steps for a property that became nullable or required, one for each time that it did."""
    type_id, alias, name = pair.old.id, pair.new.alias, after.name
    replacements = pair.null_replacements(before, after)
    relax = step.RelaxNullability(type_id, alias, name)
    if not before.nullable and (after.nullable or replacements):
        difference.columns.append(relax)
    for number, value in enumerate(replacements):
        if number > 0:
            difference.adding.append(relax)
        difference.adding.append(step.AddConstraint(type_id, alias, step.RequiredRule(name, value)))
    if replacements and after.nullable:
        difference.adding.append(relax)
    if before.nullable and not after.nullable and not replacements:
        difference.adding.append(step.AddConstraint(type_id, alias, step.RequiredRule(name)))


def _type_notes(entity: Entity) -> step.Notes:
    implements = entity.implements if isinstance(entity, NodeType) else ()
    return step.Notes(description=entity.description, metadata=entity.metadata, implements=implements)


def _rules(entity: Entity, rules: Rules) -> list[step.TypeRule]:
    """Return the rules of a type other than its key. The default cardinality does not count."""
    type_rules: list[step.TypeRule] = [*map(step.UniqueRule, rules.uniques), *rules.ranges, *rules.checks]
    if isinstance(entity, EdgeType) and entity.cardinality != Cardinality():
        type_rules.append(step.CardRule(entity.cardinality))
    return type_rules


def _comparison_key(rule: step.TypeRule) -> object:
    """Return a value that is equal for equal rules: the order of columns has no meaning in `@unique`."""
    return frozenset(rule.columns) if isinstance(rule, step.UniqueRule) else rule


def _old_rules(old: Entity, names: Mapping[str, str]) -> Iterator[tuple[step.TypeRule, step.TypeRule | None]]:
    """Return each old rule, and the same under the new names of its columns; None if one of them is dropped."""
    for rule, renamed in zip(_rules(old, old.rules), _rules(old, old.rules.renamed(names)), strict=True):
        is_dropped = any(
            name not in names and old.property_named(name) is not None for name in step.constrained_columns(rule)
        )
        yield rule, None if is_dropped else renamed


def _dropped_rules(old: Entity, new: Entity, names: Mapping[str, str]) -> Iterator[step.DropConstraint]:
    """Return the rules that are dropped, under the old names of their columns."""
    desired = {_comparison_key(rule) for rule in _rules(new, new.rules)}
    for rule, renamed in _old_rules(old, names):
        if renamed is None or _comparison_key(renamed) not in desired:
            yield step.DropConstraint(old.id, new.alias, rule)


def _added_rules(
    old: Entity, new: Entity, names: Mapping[str, str], added: Mapping[str, Property]
) -> Iterator[step.AddConstraint]:
    """Return the rules that are added, under the new names of their columns."""
    remaining = [renamed for _, renamed in _old_rules(old, names) if renamed is not None]
    remaining_keys = {_comparison_key(rule) for rule in remaining}
    for rule in _rules(new, new.rules):
        if _comparison_key(rule) not in remaining_keys:
            yield step.AddConstraint(old.id, new.alias, rule, _is_implied(rule, remaining, added))


def _is_implied(rule: step.TypeRule, remaining: list[step.TypeRule], added: Mapping[str, Property]) -> bool:
    """Return whether the existing rows certainly obey a new rule, because of the old rules or of new columns."""
    match rule:
        case step.UniqueRule(columns):
            # Nulls are never duplicates, and a column that was added without a default is null in every row.
            return any(name in added and added[name].value_of_older_rows is None for name in columns)
        case RangeRule(name, bounds):
            old_bounds = [old.bounds for old in remaining if isinstance(old, RangeRule) and old.property == name]
            return _is_obeyed_when_added(name, added) or any(old.is_within(bounds) for old in old_bounds)
        case CheckRule(name):
            return _is_obeyed_when_added(name, added)
        case step.CardRule(cardinality):
            old_cards = (old.cardinality for old in remaining if isinstance(old, step.CardRule))
            return _is_within(next(old_cards, Cardinality()), cardinality)
        case _:
            assert_never(rule)


def _is_obeyed_when_added(name: str, added: Mapping[str, Property]) -> bool:
    """Return whether rows obey the rules of a new column: null does, and so does the current default."""
    return name in added and (added[name].value_of_older_rows is None or added[name].filled is None)


def _is_within(inner: Cardinality, outer: Cardinality) -> bool:
    high_fits = outer.high is None or (inner.high is not None and inner.high <= outer.high)
    return outer.low <= inner.low and high_fits
