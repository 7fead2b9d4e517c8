"""Checks the rules about sets of rows: ids, endpoints of edges, unique values, numbers of edges.

In: columns of text in input order, of a whole small input or of one hash bucket of a large one (bucketed by the key
that the rule compares; the result is the same), and columns with the state of the graph. Out: violations. A null key (a
part of it was rejected, or a member of a `@unique` has no value) is ignored. Of rows with the same key, the first is
valid and the others violate the rule. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import NO_ROWS, Column, Rows, bool_array, rows_where, take_rows
from omnigraph.arrow.hashing import hash_texts
from omnigraph.base.display import format_count
from omnigraph.integrity.identity import key_text
from omnigraph.integrity.raw import FROM, ID
from omnigraph.integrity.rules import NO_ROW, Rule, RuleViolations, violations_in
from omnigraph.schema.catalog import Cardinality, Entity
from omnigraph.schema.tables import system_columns


def key_columns(entity: Entity) -> list[str]:
    """Return the columns of a type's table that these rules compare."""
    uniques = (name for names in entity.rules.uniques for name in names)
    return list(dict.fromkeys((*system_columns(entity), *uniques)))


def check_duplicate_ids(ids: Column) -> tuple[RuleViolations, ...]:
    """Check that no row has the id of an earlier row."""
    rows, earlier = repeated_rows(ids)
    violations = violations_in(Rule.DUPLICATE_ID, ID, "an earlier row of the input has this id", rows, ids)
    return tuple(replace(violation, earlier=earlier) for violation in violations)


def check_new_ids(alias: str, ids: Column, present: Column) -> tuple[RuleViolations, ...]:
    """Check that a table has no id of the rows to insert; `present` has for each row whether it does."""
    rows = rows_where(present)
    violations = violations_in(Rule.KEY_CONFLICT, ID, "the graph already has this id", rows, ids)
    return tuple(replace(violation, table=alias, existing_ids=take_rows(ids, rows)) for violation in violations)


def check_endpoints(endpoints: Column, exists: Column, name: str, node: str) -> tuple[RuleViolations, ...]:
    """Check that one endpoint (`from` or `to`) of each edge is an existing node of its type."""
    rows = rows_where(pc.and_not(endpoints.is_valid(), exists.fill_null(False)))
    message = f"neither the input nor the graph has a {node} with this id"
    return violations_in(Rule.DANGLING_END, name, message, rows, endpoints)


def unique_keys(columns: Sequence[Column]) -> Column:
    """Return the keys that a `@unique` compares; null if a member is null, because such rows never conflict."""
    return key_text(columns)


def check_repeated_keys(keys: Column, names: Sequence[str]) -> tuple[RuleViolations, ...]:
    """Check that no row has the values of an earlier row."""
    name = ", ".join(names)
    rows, earlier = repeated_rows(keys)
    violations = violations_in(Rule.UNIQUE, name, f"an earlier row of the input has the same {name}", rows, keys)
    return tuple(replace(violation, earlier=earlier) for violation in violations)


def check_existing_keys(
    keys: Column, existing_ids: Column, replaced: Column, names: Sequence[str]
) -> tuple[RuleViolations, ...]:
    """Check that no unchanged row of the graph has the values of a row.

    `existing_ids` has for each row the id of the row of the graph with the same values, or null. `replaced` are the ids
    of the rows of the graph that the commit replaces or removes: their values become free, including a row's own old
    ones.
    """
    exists = existing_ids.is_valid()
    if len(replaced):
        exists = pc.and_not(exists, pc.is_in(existing_ids, value_set=replaced, skip_nulls=True))
    name = ", ".join(names)
    rows = rows_where(pc.and_(exists, keys.is_valid()))
    violations = violations_in(Rule.UNIQUE, name, f"a row of the graph has the same {name}", rows, keys)
    return tuple(replace(violation, existing_ids=take_rows(existing_ids, rows)) for violation in violations)


@dataclass(frozen=True, slots=True, eq=False)
class SourceCounts:
    """The distinct sources whose edges of one type a commit changes, and how many edges of each the graph has."""

    sources: Column
    before: Column


def changed_sources(added: Column, removed: Column) -> Column:
    """Return the distinct sources of the edges that a commit adds, removes or replaces."""
    sources: Column = pa.concat_arrays([added, removed])
    distinct: Column = pc.unique(sources.drop_null())
    return distinct


def check_cardinality(
    cardinality: Cardinality, added: Column, removed: Column, counts: SourceCounts
) -> tuple[RuleViolations, ...]:
    """Check the number of edges of each source after the commit; report the last row that adds an edge, if any.

    `added` has the source of each row of the input, `removed` the source of each edge that the commit removes or
    replaces. The minimum is checked only for the sources in `counts`, so that nodes can be loaded before their edges.
    """
    size = len(counts.sources)
    after = counts.before.to_numpy(zero_copy_only=False).astype(np.int64)
    last = np.full(size, NO_ROW, dtype=np.int64)
    owner, rows = _owners(added, counts.sources)
    after += np.bincount(owner, minlength=size)
    last[owner] = rows
    after -= np.bincount(_owners(removed, counts.sources)[0], minlength=size)
    checks = [(Rule.CARDINALITY_MIN, f"has fewer than {edges_of_type(cardinality.low)}", after < cardinality.low)]
    if cardinality.high is not None:
        message = f"has more than {edges_of_type(cardinality.high)}"
        checks.insert(0, (Rule.CARDINALITY_MAX, message, after > cardinality.high))
    return tuple(
        RuleViolations(
            rule=rule,
            property=FROM,
            message=message,
            rows=last[is_invalid],
            values=counts.sources.filter(bool_array(is_invalid)),
        )
        for rule, message, is_invalid in checks
        if is_invalid.any()
    )


def edges_of_type(count: int) -> str:
    """Return the text for a number of edges."""
    return f"{format_count(count, 'edge')} of this type"


def repeated_rows(keys: Column) -> tuple[Rows, Rows]:
    """Return the rows with the key of an earlier row, and for each the first row with this key.

    Only keys with a repeated hash are compared.
    """
    if keys.null_count:
        valid_rows = rows_where(keys.is_valid())
        later, earlier = repeated_rows(keys.drop_null())
        return valid_rows[later], valid_rows[earlier]
    hashes = hash_texts(keys)
    ordered = np.sort(hashes)
    repeated_hashes = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated_hashes):
        return NO_ROWS, NO_ROWS
    rows = np.flatnonzero(np.isin(hashes, repeated_hashes)).astype(np.int64)
    encoded = pc.dictionary_encode(take_rows(keys, rows)).indices.to_numpy(zero_copy_only=False)
    _, first = np.unique(encoded, return_index=True)  # by key, because codes count from 0
    is_repeated = np.ones(len(rows), dtype=np.bool_)
    is_repeated[first] = False
    return rows[is_repeated], rows[first[encoded[is_repeated]]]


def _owners(column: Column, sources: Column) -> tuple[Rows, Rows]:
    """Return for each row with a counted source the position of that source, and the row."""
    index = pc.index_in(column, value_set=sources, skip_nulls=True)
    rows = rows_where(index.is_valid())
    positions: Rows = index.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    return positions, rows
