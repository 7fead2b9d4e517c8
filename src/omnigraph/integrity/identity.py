"""The ids of rows: made of the key, given, or new.

A type with a key has the id that its key makes; an id that is given as well (an export writes it) must be that one.
A type without a key keeps a given id and gets a ULID otherwise. The key of an edge begins with its ends, so its id is
an array also when it has nothing else. An id that nobody could see is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, rows_where, text_buffers
from omnigraph.arrow.ulids import new_ulids
from omnigraph.integrity.raw import ID, taken
from omnigraph.integrity.rules import Rule, RuleViolations
from omnigraph.schema.catalog import EdgeType, Entity, NodeType

# What JSON escapes in a text: quotes, backslashes and control characters. The first two lie apart from the others.
_CONTROLS_END: Final = 0x20
_ESCAPED: Final = r'["\\\x00-\x1f]'


def canonical_text(column: Column) -> Column:
    """The text of each value of a typed column that can be part of a key."""
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_floating(kind):
        return _float_text(column)
    if pa.types.is_timestamp(kind):
        local = pc.cast(pc.cast(column, pa.int64()), pa.timestamp("ms"))
        dated = pc.binary_replace_slice(pc.cast(local, pa.utf8()), 10, 11, "T")
        return _joined(dated, "Z")
    assert pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind), kind
    text: Column = pc.cast(column, pa.utf8())
    return text


def key_text(columns: Sequence[Column]) -> Column:
    """The text of a key: that of its only column, or an array of the texts of all."""
    return canonical_text(columns[0]) if len(columns) == 1 else array_text(columns)


def array_text(columns: Sequence[Column]) -> Column:
    """A JSON array of the texts of the columns."""
    pieces: list[Column | str] = []
    for column in columns:
        pieces.append('","' if pieces else '["')
        text = canonical_text(column)
        pieces.append(escaped_text(text) if pa.types.is_string(column.type) else text)
    return _joined(*pieces, '"]')


def escaped_text(text: Column) -> Column:
    """The text as it stands between the quotes of JSON. Most columns need no escape at all."""
    offsets, data = text_buffers(text)
    used = data[offsets[0] : offsets[-1]]
    if not ((used < _CONTROLS_END) | (used == ord('"')) | (used == ord("\\"))).any():
        return text
    special = pc.match_substring_regex(text, _ESCAPED).fill_null(False)
    chosen: Any = text.filter(special)
    escapes = [json.dumps(value, ensure_ascii=False)[1:-1] for value in chosen.to_pylist()]
    escaped: Column = pc.replace_with_mask(text, special, pa.array(escapes, pa.utf8()))
    return escaped


def _joined(*pieces: Column | str) -> Column:
    joined: Column = pc.binary_join_element_wise(*pieces, "")
    return joined


def _float_text(column: Column) -> Column:
    # Adding zero turns -0.0 into 0.0. Arrow knows the shortest digits of each width, Python the form of the text.
    positive = pc.add(column, pa.scalar(0.0, column.type))
    wide: Column = positive
    if pa.types.is_float32(column.type):
        wide = pc.cast(pc.cast(positive, pa.utf8()), pa.float64())
    numbers = wide.fill_null(0.0).to_numpy(zero_copy_only=False)
    absent = None if wide.null_count == 0 else wide.is_null().to_numpy(zero_copy_only=False)
    return pa.array(list(map(repr, numbers.tolist())), pa.utf8(), mask=absent)


@dataclass(frozen=True, slots=True, eq=False)
class RowIds:
    """The ids, null where a part of the key is; those that another row could have; and ids that are wrong.

    A new ULID is null among the `known` ones: no other row has it.
    """

    ids: Column
    known: Column
    breaches: tuple[RuleViolations, ...] = ()


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


def _mismatches(made: Column, given: Column) -> tuple[RuleViolations, ...]:
    if given.null_count == len(given):
        return ()
    rows = rows_where(pc.not_equal(made, given))
    if not len(rows):
        return ()
    message = "is not the id that the key makes; leave `id` out"
    return (RuleViolations(Rule.ID_MISMATCH, ID, message, rows, taken(given, rows)),)


def _is_text_alone(entity: Entity, columns: Mapping[str, Column]) -> bool:
    """Whether the id is a text as it was given; an array or a number is never blank."""
    is_alone = isinstance(entity, NodeType) and len(entity.key) == 1
    return is_alone and pa.types.is_string(columns[entity.key[0]].type)


def _blanks(ids: Column, name: str) -> tuple[RuleViolations, ...]:
    there = ids.drop_null() if ids.null_count else ids  # what lies under a null need not be a text
    blank = rows_where(pc.or_(pc.equal(pc.binary_length(there), 0), pc.utf8_is_space(there)))
    rows = rows_where(ids.is_valid())[blank] if len(blank) and ids.null_count else blank
    if not len(rows):
        return ()
    message = "is an id, and cannot be empty or nothing but spaces"
    return (RuleViolations(Rule.BLANK_ID, name, message, rows, taken(ids, rows)),)


def no_ids(count: int) -> Column:
    """Given ids when none is given."""
    return pa.nulls(count, pa.utf8())
