"""Compare two snapshots, entity by entity, with the rows before and after. The change feed uses it too.

In: two snapshots of one graph, on any branches. Out: changes, made while they are read, so that a large difference
needs no more memory than a small one. A state is the object of a line of graph data, as `load` reads it. The cost
grows with what changed; a commit that only moved files has no changes. Types and properties are matched by id, and a
property that one side lacks is null there. So a new property shows as changes of the rows that got a value (all rows
if it has a default), and a property that became required with a default as changes of the rows that had null.
Deletions of dropped types come first, because another type may have their name and their ids of rows. A property that
was dropped with its values raises an error. Nothing here writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any, Final, overload

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from omnigraph.base.display import LINES_MAX, Displayed, DisplayedRow, html_table, shorten
from omnigraph.base.errors import RefusedError
from omnigraph.base.hints import Placeholder, action, hint
from omnigraph.graph.manifest.records import TableId, TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot, open_pin
from omnigraph.graph.rows import entity_rows
from omnigraph.graph.rows.changed_rows import compare_pins
from omnigraph.schema.catalog import Entity, Property
from omnigraph.schema.property_types import EnumType, is_wide
from omnigraph.storage.lance.dataset import Dataset, Texts
from omnigraph.storage.lance.read import read_all_ids
from omnigraph.storage.location import Location

_HTML_CHANGES_MAX: Final = 20


class SchemaDiffError(RefusedError):
    """The schemas of two states differ in a way that changes of entities cannot show."""


class ChangeKind(StrEnum):
    """What happened to an entity."""

    INSERTED = "inserted"
    UPDATED = "updated"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EntityChange(DisplayedRow):
    """One node or edge that changed."""

    table: str
    """Its type, such as `node:Person`."""
    table_id: str
    """The id of that table, which does not change when the type is renamed."""
    id: str
    """Its id."""
    kind: ChangeKind
    """What happened to it."""
    before: dict[str, Any] | None
    """Its state before, as an object that `load` reads; None if it did not exist."""
    after: dict[str, Any] | None
    """Its state after, in the same form; None if it was deleted."""
    properties: tuple[str, ...]
    """The properties of its type. A state does not contain those that are null."""
    wide_properties: frozenset[str] = frozenset()
    """Those of them that are 64-bit integers or lists of them."""

    def _summary(self) -> Mapping[str, object]:
        states = {"before": self.before or "", "after": self.after or ""}
        return {"table": self.table, "id": self.id, "kind": self.kind.value, **states}


@dataclass(frozen=True, slots=True, repr=False)
class EntityChanges(Displayed, Sequence[EntityChange]):
    """A sequence of changes of nodes and edges.

    A loop reads them one after the other, again in each loop. `len`, `list`, an index and a slice read all of them once
    and keep them in memory.
    """

    read: Callable[[], Iterator[EntityChange]]
    """Returns the changes from the first one on."""
    _retained: list[EntityChange] = field(default_factory=list, init=False, compare=False)
    """All of them, once `len`, an index or a slice has read them."""

    def __iter__(self) -> Iterator[EntityChange]:
        yield from self._retained or self.read()  # when the first is requested: `list` calls `len` before

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def __len__(self) -> int:
        return len(self._read_all())

    @overload
    def __getitem__(self, index: int) -> EntityChange: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[EntityChange]: ...
    def __getitem__(self, index: int | slice) -> EntityChange | Sequence[EntityChange]:
        return self._read_all()[index]

    def _read_all(self) -> list[EntityChange]:
        if not self._retained:
            self._retained[:] = self.read()
        return self._retained

    def __repr__(self) -> str:
        first = list(islice(self, LINES_MAX - 1))
        lines = [f"  {shorten(change)}" for change in first[: LINES_MAX - 2]]
        return "\n".join([type(self).__name__, *lines, *(["  …"] if len(first) > len(lines) else [])])

    def _repr_html_(self) -> str:
        rows = [tuple(change._summary().values()) for change in islice(self, _HTML_CHANGES_MAX)]
        return html_table("first changes", ("table", "id", "kind", "before", "after"), rows)


def diff_snapshots(before: Snapshot, after: Snapshot) -> Iterator[EntityChange]:
    """Yield every entity that differs, ordered by id within its type.

    The types that the newer schema dropped are first, then the others in its order.
    """
    require_no_lost_values(before, after)
    old, new = _by_id(before), _by_id(after)
    for table in [*(key for key in old if key not in new), *new]:
        yield from _diff_table(before.root, old.get(table), new.get(table))


def require_no_lost_values(before: Snapshot, after: Snapshot) -> None:
    """Raise `SchemaDiffError` if a property with values was dropped. Only such columns are read."""
    old = _by_id(before)
    for table, (entity, record) in _by_id(after).items():
        if table not in old or old[table][1].pin == record.pin:
            continue
        old_entity, pinned = old[table]
        dropped_names = [property_.name for property_ in old_entity.properties if not _has_property(entity, property_)]
        lost_names = _names_with_values(before.root.child(pinned.path), pinned, dropped_names) if dropped_names else []
        if lost_names:
            raise SchemaDiffError(
                f"cannot show the difference as changes of rows: {entity.alias} lost the property "
                f"{', '.join(lost_names)} with its values",
                code="diff_schema_changed",
                hint=hint(
                    "Compare commits on one side of the schema change, or export both. Run {} to see each schema.",
                    action("schema show", commit=Placeholder("ID")),
                ),
                facts={
                    "change_diff_refusal": {
                        "reason": "schema_boundary",
                        "graph_commit_id": after.head,
                        "type_name": entity.alias.partition(":")[2],
                    },
                    "properties": list(lost_names),
                },
            )


def _has_property(entity: Entity, sought: Property) -> bool:
    """Return whether a type has a property. All enums count as one type, because they are stored as text."""
    own = entity.property_with_id(sought.id)
    enums = own is not None and isinstance(own.type, EnumType) and isinstance(sought.type, EnumType)
    return own is not None and (enums or own.type == sought.type)


def _names_with_values(location: Location, table: TableRecord, names: list[str]) -> list[str]:
    dataset = open_pin(location, table.pin)
    names_with_values: set[str] = set()
    for batch in dataset.read_batches(names) if table.row_count else ():
        names_with_values |= {name for name in names if batch.column(name).null_count < batch.num_rows}
    return [name for name in names if name in names_with_values]


_Table = tuple[Entity, TableRecord]


def _by_id(snapshot: Snapshot) -> dict[TableId, _Table]:
    pairs = ((entity, snapshot.tables[entity.alias]) for entity in snapshot.schema.catalog.types)
    return {table.id: (entity, table) for entity, table in pairs}


def _diff_table(root: Location, old: _Table | None, new: _Table | None) -> Iterator[EntityChange]:
    if old is not None and new is not None and old[1].pin == new[1].pin:
        return
    entity, table = _newest(old, new)
    ids, left, right = _candidates(root.child(table.path), old, new)
    entity_without_fills = _without_fills(entity)
    properties = tuple(property_.name for property_ in entity.properties)
    wide_properties = frozenset(property_.name for property_ in entity.properties if is_wide(property_.type))
    for start, rows in entity_rows.row_ranges(entity, len(ids)):
        before, after = (
            entity_rows.read_entity_rows(side.dataset, entity_without_fills, side.located.slice(start, rows))
            for side in (left, right)
        )
        differs = ~entity_rows.same_states(before, after)
        if differs.any():
            mask: Any = pa.array(differs)
            names = ids.slice(start, rows).filter(mask).to_pylist()
            states = (_states(entity, side.only(differs)) for side in (before, after))
            for name, state_before, state_after in zip(names, *states, strict=True):
                kind = ChangeKind.INSERTED if state_before is None else ChangeKind.UPDATED
                kind = ChangeKind.DELETED if state_after is None else kind
                yield EntityChange(
                    table=entity.alias,
                    table_id=table.id,
                    id=str(name),
                    kind=kind,
                    before=state_before,
                    after=state_after,
                    properties=properties,
                    wide_properties=wide_properties,
                )


def _states(entity: Entity, rows: entity_rows.EntityRows) -> Iterator[dict[str, Any] | None]:
    for line in entity_rows.entity_lines(entity, rows):
        yield None if line is None else json.loads(line)


def _newest(old: _Table | None, new: _Table | None) -> _Table:
    table = new or old
    assert table is not None, "at least one side has the table"
    return table


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The locations of the rows that may differ on one side; `dataset` is None if the side has no such table."""

    dataset: Dataset | None
    located: entity_rows.RowLocations


def _candidates(location: Location, old: _Table | None, new: _Table | None) -> tuple[Texts, _Side, _Side]:
    """Return the ids that may differ, in their order, and both sides of them."""
    if old is not None and new is not None:
        compared = compare_pins(location, old[1].pin, new[1].pin, whole=_gets_filled(old[0], new[0]))
        ids = _ordered(compared.ids())
        left, right = compared.locate_left(ids), compared.locate_right(ids)
        return ids, _Side(compared.left, left), _Side(compared.right, right)
    entity, table = _newest(old, new)
    dataset = open_pin(location, table.pin)
    ids = _ordered(read_all_ids(dataset))
    present_side = _Side(dataset, entity_rows.locate(dataset, entity, ids))
    absent_side = _Side(None, entity_rows.RowLocations.absent(ids))
    return (ids, present_side, absent_side) if new is None else (ids, absent_side, present_side)


def _gets_filled(old: Entity, new: Entity) -> bool:
    """Return whether rows got a default without being written: in a new property, or for null in a required one."""
    pairs = ((old.property_with_id(property_after.id), property_after) for property_after in new.properties)
    return any(
        before.null_fills != after.null_fills
        if before is not None and _has_property(old, after)
        else after.value_of_older_rows is not None
        for before, after in pairs
    )


def _without_fills(entity: Entity) -> Entity:
    """Return the type with null for properties that a side lacks: the rows had no value there."""
    bare = tuple(replace(property_, default=None, filled=None, null_fills=()) for property_ in entity.properties)
    return replace(entity, properties=bare)


def _ordered(ids: Texts) -> Texts:
    order: Any = pc.sort_indices(ids)
    return ids.take(order)
