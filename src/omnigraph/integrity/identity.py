"""The ids of rows: made of the key, given, or new.

A type with a key has the id that its key makes; an id that is given as well (an export writes it) must be that one.
A type without a key keeps a given id and gets a ULID otherwise. The key of an edge begins with its ends, so its id is
an array also when it has nothing else. An id that nobody could see is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.integrity.breaches import Breach
from omnigraph.integrity.canonical_text import array_text, key_text
from omnigraph.integrity.raw import ID, Column, rows_where, taken
from omnigraph.integrity.rules import Rule
from omnigraph.integrity.ulids import new_ulids
from omnigraph.schema import EdgeType, Entity, NodeType


@dataclass(frozen=True, slots=True, eq=False)
class RowIds:
    """The ids, null where a part of the key is; those that another row could have; and ids that are wrong.

    A new ULID is null among the `known` ones: no other row has it.
    """

    ids: Column
    known: Column
    breaches: tuple[Breach, ...] = ()


def row_ids(entity: Entity, columns: Mapping[str, Column], given: Column) -> RowIds:
    """The ids of rows.

    `columns` are the typed columns that the key names; `given` has a null for each row without an id.
    """
    if entity.key:
        made = derived_ids(entity, columns)
        blank = _blanks(made, entity.key[0]) if _is_text_alone(entity, columns) else ()
        return RowIds(made, made, (*_mismatches(made, given), *blank))
    if given.null_count == len(given):
        return RowIds(new_ulids(len(given)), given)
    blank = _blanks(given, ID)
    if given.null_count == 0:
        return RowIds(given, given, blank)
    filled: Column = pc.replace_with_mask(given, given.is_null(), new_ulids(given.null_count))
    return RowIds(filled, given, blank)


def derived_ids(entity: Entity, columns: Mapping[str, Column]) -> Column:
    """The ids that the key of a type makes."""
    parts = [columns[name] for name in entity.key]
    return array_text(parts) if isinstance(entity, EdgeType) else key_text(parts)


def _mismatches(made: Column, given: Column) -> tuple[Breach, ...]:
    if given.null_count == len(given):
        return ()
    rows = rows_where(pc.not_equal(made, given))
    if not len(rows):
        return ()
    message = "is not the id that the key makes; leave `id` out"
    return (Breach(Rule.ID_MISMATCH, ID, message, rows, taken(given, rows)),)


def _is_text_alone(entity: Entity, columns: Mapping[str, Column]) -> bool:
    """Whether the id is a text as it was given; an array or a number is never blank."""
    is_alone = isinstance(entity, NodeType) and len(entity.key) == 1
    return is_alone and pa.types.is_string(columns[entity.key[0]].type)


def _blanks(ids: Column, name: str) -> tuple[Breach, ...]:
    there = ids.drop_null() if ids.null_count else ids  # what lies under a null need not be a text
    blank = rows_where(pc.or_(pc.equal(pc.binary_length(there), 0), pc.utf8_is_space(there)))
    rows = rows_where(ids.is_valid())[blank] if len(blank) and ids.null_count else blank
    if not len(rows):
        return ()
    message = "is an id, and cannot be empty or nothing but spaces"
    return (Breach(Rule.BLANK_ID, name, message, rows, taken(ids, rows)),)


def no_ids(count: int) -> Column:
    """Given ids when none is given."""
    return pa.nulls(count, pa.utf8())
