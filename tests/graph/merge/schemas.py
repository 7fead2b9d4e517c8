"""The model of schemas that change: a schema is one more table of a graph, whose facts merge as entities do.

A fact is the current name of `Person.age`, a property of `Person` with the value that earlier rows got, a default
that was added later, the value that null got in a property that became required, that a property is nullable again,
or a type. A `Person` is its numbers by the names of properties, `age` whatever its current name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from omnigraph.graph.manifest.snapshot import Snapshot
from tests.graph.merge.model import UNDECIDED, ConflictSet, merge_states
from tests.graph.writers import KNOWS, PERSON, Change, Contents, apply
from tests.maintenance.evolving import opened

FACTS: Final = "schema"
FIRST: Final[dict[str, Any]] = {"age": "age"}
DIVERGED: Final[ConflictSet] = {("schema_diverged", "", "")}
_DEFAULT: Final = " default"
_REQUIRED: Final = " required"
_RELAXED: Final = " relaxed"


def schema_text(facts: Mapping[str, Any], old: Mapping[str, Any]) -> str:
    """Return the schema with these facts, as a change of the schema with the old facts."""
    renamed = "" if facts["age"] == old["age"] else f" @rename_from({old['age']})"
    own = [f"{facts['age']}: I64?{renamed}"]
    for name, fill in _properties(facts).items():
        is_required = name + _REQUIRED in facts and name + _RELAXED not in facts
        default = facts[name + _REQUIRED] if is_required else facts.get(name + _DEFAULT, fill)
        mark = "" if is_required else "?"
        own.append(f"{name}: I64{mark}" + ("" if default is None else f" @default({default})"))
    types = [f"node {name.partition(':')[2]} {{ name: String @key }}" for name in _types(facts)]
    lines = [
        f"node Person {{ slug: String @key  {'  '.join(own)} }}",
        "node Company { name: String @key @index }",
        "edge Knows: Person -> Person { since: I64? }",
        *types,
    ]
    return "\n".join(lines) + "\n"


def next_facts(facts: Mapping[str, Any], kind: str, number: int) -> dict[str, Any]:
    """Return the facts after a change of some kind. A number is used once, so no two names are the same."""
    defaults = [name for name, fill in _properties(facts).items() if fill is not None]
    nullable = [name for name in _properties(facts) if name not in defaults and name + _REQUIRED not in facts]
    required = [name[: -len(_REQUIRED)] for name in facts if name.endswith(_REQUIRED)]
    relaxable = [name for name in required if name + _RELAXED not in facts]
    match kind:
        case "require" if nullable:
            return {**facts, nullable[0] + _REQUIRED: number}
        case "require":
            return {**facts, f"n{number}": None}
        case "relax" if relaxable:
            return {**facts, relaxable[0] + _RELAXED: True}
        case "property":
            return {**facts, f"n{number}": None}
        case "default":
            return {**facts, f"d{number}": number}
        case "later default" if defaults:
            return {**facts, defaults[0] + _DEFAULT: number}
        case "type":
            return {**facts, f"node:T{number}": "type"}
        case _:
            return {**facts, "age": f"age{number}"}


def with_facts(state: Contents, facts: Mapping[str, Any]) -> Contents:
    """Return a graph under more facts: its rows have the values that earlier rows get in a new property."""
    people = {name: _with_defaults(value, facts) for name, value in state[PERSON].items()}
    tables: Contents = {table: {} for table in _types(facts)}
    return {**tables, **{table: dict(rows) for table, rows in state.items()}, PERSON: people, FACTS: dict(facts)}


def apply_graph(state: Contents, changes: Sequence[Change]) -> Contents:
    """Return a graph after `changes`: every number of a written row has the one value."""
    after = apply(state, changes)
    for change in changes:
        if change.alias == PERSON:
            names = ("age", *_properties(state[FACTS]))
            after[PERSON] |= {name: tuple((property_, value) for property_ in names) for name, value in change.upsert}
    return after


def merge_graphs(base: Contents, ours: Contents, theirs: Contents) -> tuple[Contents, ConflictSet]:
    """Merge as `merge_states`, with every side under the facts of all sides."""
    sides = (base, ours, theirs)
    every = {name: value for side in (theirs, base, ours) for name, value in side[FACTS].items()}
    lifted = [{**with_facts(side, every), FACTS: side[FACTS]} for side in sides]
    merged, conflicts = merge_states(*lifted)
    return merged, conflicts


def reported_conflicts(conflicts: ConflictSet) -> ConflictSet:
    """Return the conflicts that a merge reports: a conflict about the schema is the only one."""
    return DIVERGED if any(table == FACTS for _, table, _ in conflicts) else conflicts


def read_graph(snapshot: Snapshot, facts: Mapping[str, Any]) -> Contents:
    """Return what a reader sees, under the facts of the model."""
    contents: Contents = {FACTS: dict(facts)}
    for alias, table in snapshot.tables.items():
        rows = opened(snapshot, alias).read()
        if alias == PERSON:
            numbers = {field.name for field in rows.schema if field.type == pa.int64()}
            assert numbers == {facts["age"], *_properties(facts)}
        ids = rows.column("id").to_pylist()
        assert table.row_count == len(ids) == len(set(ids)), alias
        contents[alias] = {row["id"]: entity_value(alias, row, facts) for row in rows.to_pylist()}
    return contents


def entity_value(alias: str, row: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:
    """Return the value of an entity in the model, from its columns."""
    if alias == PERSON:
        return (("age", row.get(facts["age"])), *((name, row.get(name)) for name in _properties(facts)))
    return row.get("since") if alias == KNOWS else None


def expected_changes(before: Contents, after: Contents) -> dict[tuple[str, str], tuple[str, Any, Any]] | None:
    """Return the changes between two graphs, by the properties of the second; None if values were dropped."""
    names = ("age", *_properties(after[FACTS]))
    dropped = _properties(before[FACTS]).keys() - set(names)
    if any(value is not None for row in before[PERSON].values() for name, value in row if name in dropped):
        return None
    people = {key: tuple((name, dict(row).get(name)) for name in names) for key, row in before[PERSON].items()}
    sides = ({**before, PERSON: people}, after)
    changes = {}
    for table in (before.keys() | after.keys()) - {FACTS}:
        for name in {name for side in sides for name in side.get(table, {})}:
            old, new = (side.get(table, {}).get(name, "absent") for side in sides)
            if old != new:
                kind = "inserted" if old == "absent" else "deleted" if new == "absent" else "updated"
                changes[table, name] = (kind, old, new)
    return changes


def own_types(state: Contents) -> list[str]:
    """Return the types that were added later."""
    return list(_types(state[FACTS]))


def _properties(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: facts[name] for name in sorted(facts) if name[0] in "nd" and name.isalnum()}


def _types(facts: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in facts if name.startswith("node:"))


def _with_defaults(value: Any, facts: Mapping[str, Any]) -> Any:
    if value is UNDECIDED:
        return value
    has = dict(value)
    numbers = {name: has.get(name, fill) for name, fill in _properties(facts).items()}
    filled = {name: facts.get(name + _REQUIRED) if number is None else number for name, number in numbers.items()}
    return (("age", has["age"]), *filled.items())
