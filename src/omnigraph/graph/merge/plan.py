"""Plan a whole merge: what happens to every table, and every conflict.

In: our snapshot, the tables of theirs, the base, and choices. Out: a `MergePlan`. It is the same for merging a branch
and for reverting a commit, where theirs is the state before the commit. The cost grows with what theirs changed since
the base. Nothing here writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.graph.manifest.records import TableId, TableRecord
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot
from omnigraph.graph.merge import schema_rows
from omnigraph.graph.merge.bases import Base, base_commits
from omnigraph.graph.merge.candidates import Candidates, TableSides
from omnigraph.graph.merge.conflicts import Conflict, ConflictKind, EntityName, EntityStates, Side
from omnigraph.graph.merge.rules import rule_conflicts
from omnigraph.graph.merge.schemas import MergedSchema
from omnigraph.graph.merge.table_plan import Choices, TableMerge, plan_table
from omnigraph.graph.rows.entity_rows import digest_of, entity_lines, row_ranges


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GraphSides:
    """The sides of a merge. `schema` is the merged schema, or the conflict about it.

    `ours_is_base`: our side did not change since the base, so the result is theirs and needs no check.
    """

    schema: MergedSchema | Conflict
    theirs: Mapping[TableId, TableRecord]
    base: Base
    ours_is_base: bool = False
    choices: Choices = field(default_factory=dict)

    @property
    def ours(self) -> Snapshot:
        """Our side, with the merged schema."""
        assert isinstance(self.schema, MergedSchema), "the schemas can be merged"
        return self.schema.ours


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MergePlan:
    """What a merge does. `adopted` are tables of which our branch uses a version of main unchanged.

    `added` are the tables of types that only theirs has.
    """

    tables: tuple[TableMerge, ...] = ()
    adopted: tuple[TableRecord, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    reads: frozenset[TableId] = frozenset()
    schema: MergedSchema | None = None
    added: tuple[schema_rows.AddedTable, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.tables or self.adopted or self.conflicts or (self.schema and self.schema.is_changed))


def plan_merge(sides: GraphSides) -> MergePlan:
    """Plan a merge, with all conflicts."""
    schema = sides.schema
    if isinstance(schema, Conflict):
        return MergePlan(conflicts=(schema,))
    chosen: dict[str, dict[str, Side]] = defaultdict(dict)
    for name, side in sides.choices.items():
        chosen[name.table][name.id] = side
    table_plans: list[TableMerge] = []
    adopted: list[TableRecord] = []
    for entity in sides.ours.schema.catalog.types:
        ours = sides.ours.tables.get(entity.alias)
        theirs = None if ours is None else sides.theirs.get(ours.id)
        if ours is None or theirs is None:
            continue  # only one side has the type
        choices = chosen.get(entity.alias, {})
        is_adopted = not choices and schema.has_columns_of(entity) and _can_adopt(sides, ours, theirs)
        if not is_adopted and ours.row_count:
            schema_rows.reject_blob_next_to_fill(schema, entity)
        if is_adopted:
            adopted.append(replace(theirs, alias=entity.alias))
        if not (is_adopted and sides.ours_is_base) and (choices or _can_differ(sides, ours, theirs)):
            root = sides.ours.root
            extra_ids = schema_rows.find_differing_ids(
                root.child(ours.path), entity, schema.new_properties(entity), theirs.pin
            )
            table_plans.append(
                plan_table(
                    TableSides(
                        root=root,
                        entity=entity,
                        table=ours,
                        theirs=theirs.pin,
                        base=sides.base,
                        choices=choices,
                        extra_ids=extra_ids,
                    )
                )
            )
    changed = [plan for plan in table_plans if not plan.is_empty]
    conflicts = [conflict for plan in changed for conflict in plan.conflicts]
    added = schema_rows.added_tables(schema, chosen)
    if not sides.ours_is_base or sides.choices:
        plans_to_check, broken_rules = schema_rows.plans_to_check(schema, changed, added, sides.theirs, sides.base)
        conflicts += [*broken_rules, *rule_conflicts(sides.ours, plans_to_check)]
    adopted_ids = {table.id for table in adopted}
    written = tuple(plan for plan in changed if plan.table.id not in adopted_ids)
    if schema.is_changed:
        reads = frozenset(table.id for table in sides.ours.tables.values()) | schema.dropped
    else:
        reads = _reads(sides.ours, table_plans, adopted_ids)
    return MergePlan(
        tables=written, adopted=tuple(adopted), conflicts=tuple(conflicts), reads=reads, schema=schema, added=added
    )


def _can_differ(sides: GraphSides, ours: TableRecord, theirs: TableRecord) -> bool:
    pins = {base.pins.get(ours.id) for base in base_commits(sides.base)}
    return ours.pin != theirs.pin and pins != {theirs.pin}


def _can_adopt(sides: GraphSides, ours: TableRecord, theirs: TableRecord) -> bool:
    """Return whether our branch can use their version: one of main, of a table that we did not change since the base.

    A version of our own dataset would be older than its head, and a head must be a pin of its branch. So its rows are
    written.
    """
    pins = {base.pins.get(ours.id) for base in base_commits(sides.base)}
    return (
        sides.ours.branch.name != MAIN
        and theirs.pin.branch is None
        and theirs.owner != sides.ours.branch.id
        and pins == {ours.pin}
        and ours.pin != theirs.pin
    )


def _reads(ours: Snapshot, plans: Sequence[TableMerge], adopted: set[TableId]) -> frozenset[TableId]:
    """Return every table that the plan depends on: changed ones, endpoints of edges, and edges of removed nodes."""
    by_type = {table.type_id: table.id for table in ours.tables.values()}
    catalog = ours.schema.catalog
    read_ids = {plan.table.id for plan in plans} | adopted
    changed_types = {table.type_id for table in ours.tables.values() if table.id in read_ids}
    for edge in catalog.edges:
        if edge.id in changed_types:
            read_ids |= {by_type[edge.source], by_type[edge.target]}
        elif changed_types & {edge.source, edge.target}:
            read_ids.add(by_type[edge.id])
    return frozenset(read_ids)


@dataclass(frozen=True, slots=True)
class Resolution:
    """How to resolve conflicts: a side for single entities, and a side for each kind of conflict."""

    entities: Mapping[EntityName, Side] = field(default_factory=dict)
    kinds: Mapping[ConflictKind, Side] = field(default_factory=dict)


def plan_resolved(sides: GraphSides, resolution: Resolution) -> MergePlan:
    """Plan a merge with choices. The choice for an entity has priority over the choice for a kind.

    A choice for an entity also resolves its other conflicts: the nodes of a taken edge are taken too.
    """
    choices: dict[EntityName, Side] = dict(resolution.entities)
    if not isinstance(sides.schema, Conflict):
        _require_tables(choices, {*sides.ours.tables, *(table.alias for table in sides.schema.added)})
    plan = plan_merge(replace(sides, choices=choices))
    for _ in range(limits.MERGE_ROUNDS_MAX):
        added: dict[EntityName, Side] = {}
        for conflict in plan.conflicts:
            chosen = None if conflict.entity is None else resolution.entities.get(conflict.entity)
            side = chosen or resolution.kinds.get(conflict.kind)
            names = () if side is None else conflict.ours if side is Side.OURS else conflict.theirs
            added.update({name: side for name in names if side is not None and name not in choices})
        if not added:
            break
        choices |= added
        plan = plan_merge(replace(sides, choices=choices))
    return plan


def _require_tables(choices: Mapping[EntityName, Side], aliases: set[str]) -> None:
    for name in choices:
        if name.table not in aliases:
            raise UsageError(
                f"unknown table '{name.table}' in the decisions about conflicts",
                code="merge_decisions",
                hint=f"Nothing was written. Use one of the tables: {', '.join(sorted(aliases))}.",
                facts={"table": name.table},
            )


def read_conflict_states(sides: GraphSides, conflicts: Sequence[Conflict]) -> tuple[Conflict, ...]:
    """Return the conflicts with the states of their entities."""
    ids_by_table: dict[str, dict[str, None]] = defaultdict(dict)
    for conflict in conflicts:
        if conflict.entity is not None:
            ids_by_table[conflict.entity.table][conflict.entity.id] = None
    states: dict[EntityName, EntityStates] = {}
    for table, ids in ids_by_table.items():
        states |= _read_states(sides, table, list(ids))
    return tuple(
        conflict if conflict.entity is None else replace(conflict, states=states[conflict.entity])
        for conflict in conflicts
    )


def _read_states(sides: GraphSides, alias: str, ids: list[str]) -> dict[EntityName, EntityStates]:
    """Read the states of entities. A type that only one side has does not exist on the other."""
    entity = sides.ours.schema.catalog.require_type(alias)
    by_type = {table.type_id: table for table in sides.theirs.values()}
    ours, theirs = sides.ours.tables.get(alias), by_type.get(entity.id)
    table = ours or theirs
    assert table is not None, "at least one side has the table"
    candidates = Candidates(
        TableSides(root=sides.ours.root, entity=entity, table=table, theirs=(theirs or table).pin, base=sides.base),
        pa.array(ids, pa.utf8()),
    )
    states = {}
    for start, rows in row_ranges(entity, len(ids)):
        sides_rows = (
            candidates.base_rows(start, rows),
            candidates.rows_at(None if ours is None else ours.pin, start, rows),
            candidates.rows_at(None if theirs is None else theirs.pin, start, rows),
        )
        lines = zip(*(entity_lines(entity, side_rows, digest_of) for side_rows in sides_rows), strict=True)
        for name, lines_of_row in zip(ids[start : start + rows], lines, strict=True):
            states[EntityName(alias, name)] = EntityStates(*lines_of_row)
    return states
