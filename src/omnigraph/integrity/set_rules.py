"""The rules about rows together: ids, ends of edges, unique values, numbers of edges.

Pure functions over columns of text that are in the order of the input: the columns may be those of a whole small input
or those of one hash bucket of a large one (bucketed by the key that the rule compares), the answer is the same. What
the graph has comes in as columns too. A null key (a part of it was refused, or a member of a `@unique` has no value)
takes part in nothing. Of rows with the same key the first is right and the others break the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import NO_ROWS, Column, Rows, bools, rows_where, taken_array
from omnigraph.arrow.hashing import hash_texts
from omnigraph.integrity.identity import key_text
from omnigraph.integrity.raw import ID, taken
from omnigraph.integrity.rules import NO_ROW, Rule, RuleViolations
from omnigraph.schema.catalog import Cardinality, Entity
from omnigraph.schema.tables import system_columns


def key_columns(entity: Entity) -> list[str]:
    """The columns of a type's table that these rules compare."""
    uniques = (name for names in entity.rules.uniques for name in names)
    return list(dict.fromkeys((*system_columns(entity), *uniques)))


def duplicate_ids(ids: Column) -> tuple[RuleViolations, ...]:
    """Rows with the id of an earlier row."""
    message = "an earlier row of the input has this id"
    return _breaches(Rule.DUPLICATE_ID, ID, message, repeated_rows(ids), ids)


def taken_ids(alias: str, ids: Column, present: Column) -> tuple[RuleViolations, ...]:
    """Return the rows to insert into a table that already has their id; `present` says which."""
    violations = _breaches(Rule.KEY_CONFLICT, ID, "the graph has this id already", rows_where(present), ids)
    return tuple(replace(violation, table=alias) for violation in violations)


def dangling_ends(ends: Column, known: Column, end: str, node: str) -> tuple[RuleViolations, ...]:
    """Edges of which one end (`from` or `to`) is no known node of its type."""
    rows = rows_where(pc.and_not(ends.is_valid(), known.fill_null(False)))
    message = f"there is no {node} with this id, neither in the input nor in the graph"
    return _breaches(Rule.DANGLING_END, end, message, rows, ends)


def unique_keys(columns: Sequence[Column]) -> Column:
    """What a `@unique` compares; null when a member is null, because such rows never collide."""
    return key_text(columns)


def repeated_keys(keys: Column, names: Sequence[str]) -> tuple[RuleViolations, ...]:
    """Rows with the values of an earlier row."""
    message = f"an earlier row of the input has the same {_named(names)}"
    return _breaches(Rule.UNIQUE, _named(names), message, repeated_rows(keys), keys)


def taken_keys(
    keys: Column, holders: Column, replaced: Column, names: Sequence[str]
) -> tuple[RuleViolations, ...]:
    """Rows whose values a row of the graph has that stays as it is.

    `holders` is for each row the id of the row of the graph with the same values, or null. The rows of the graph that
    the commit replaces or removes, `replaced` by their ids, give their values free, a row's own old ones included.
    """
    held = holders.is_valid()
    if len(replaced):
        held = pc.and_not(held, pc.is_in(holders, value_set=replaced, skip_nulls=True))
    message = f"a row of the graph has the same {_named(names)}"
    return _breaches(Rule.UNIQUE, _named(names), message, rows_where(pc.and_(held, keys.is_valid())), keys)


@dataclass(frozen=True, slots=True, eq=False)
class SourceCounts:
    """The sources whose edges of one type a commit changes, each once, and how many edges the graph has of each."""

    sources: Column
    before: Column


def changed_sources(added: Column, removed: Column) -> Column:
    """The sources of the edges that a commit adds, and of those that it removes or replaces, each once."""
    both: Column = pa.concat_arrays([added, removed])
    distinct: Column = pc.unique(both.drop_null())
    return distinct


def cardinality_breaches(
    cardinality: Cardinality, added: Column, removed: Column, counts: SourceCounts
) -> tuple[RuleViolations, ...]:
    """Sources with too many or too few edges after the commit; to blame is the last row that adds one, if any does.

    `added` is the source of each row of the input; `removed` the source of each edge that the commit takes away or
    replaces. The minimum holds only for the sources in `counts`, so nodes can be loaded before their edges.
    """
    size = len(counts.sources)
    after = counts.before.to_numpy(zero_copy_only=False).astype(np.int64)
    last = np.full(size, NO_ROW, dtype=np.int64)
    owner, rows = _owners(added, counts.sources)
    after += np.bincount(owner, minlength=size)
    last[owner] = rows
    after -= np.bincount(_owners(removed, counts.sources)[0], minlength=size)
    breaches: tuple[RuleViolations, ...] = ()
    if cardinality.high is not None:
        many = np.flatnonzero(after > cardinality.high)
        message = f"has more than {edges_of_type(cardinality.high)}"
        breaches = _source_breaches(
            Rule.CARDINALITY_MAX, message, last[many], taken_array(counts.sources, many)
        )
    few = np.flatnonzero(after < cardinality.low)
    message = f"has fewer than {edges_of_type(cardinality.low)}"
    return breaches + _source_breaches(
        Rule.CARDINALITY_MIN, message, last[few], taken_array(counts.sources, few)
    )


def edges_of_type(count: int) -> str:
    """So many edges, in words."""
    return f"{count:,} edge{'' if count == 1 else 's'} of this type"


def repeated_rows(keys: Column) -> Rows:
    """The rows with the key of an earlier row. Hashes find the few keys that are worth comparing."""
    hashes = hash_texts(keys)
    ordered = np.sort(hashes)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(twice):
        return NO_ROWS
    rows = np.flatnonzero(np.isin(hashes, twice)).astype(np.int64)
    rows = rows[bools(taken_array(keys, rows).is_valid())]
    encoded = pc.dictionary_encode(taken_array(keys, rows)).indices.to_numpy(zero_copy_only=False)
    _, first = np.unique(encoded, return_index=True)
    repeated = np.ones(len(rows), dtype=np.bool_)
    repeated[first] = False
    later: Rows = rows[repeated]
    return later


def _owners(column: Column, sources: Column) -> tuple[Rows, Rows]:
    """For each row with a counted source: the position of that source, and the row."""
    at = pc.index_in(column, value_set=sources, skip_nulls=True)
    rows = rows_where(at.is_valid())
    positions: Rows = at.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    return positions, rows


def _source_breaches(rule: Rule, message: str, rows: Rows, sources: Column) -> tuple[RuleViolations, ...]:
    return (RuleViolations(rule, "from", message, rows, sources),) if len(rows) else ()


def _breaches(rule: Rule, name: str, message: str, rows: Rows, column: Column) -> tuple[RuleViolations, ...]:
    return (RuleViolations(rule, name, message, rows, taken(column, rows)),) if len(rows) else ()


def _named(names: Sequence[str]) -> str:
    return ", ".join(names)
