"""The id of each row, and the text form of values that are part of a key.

In: typed columns, and the explicit ids of the input. Out: ids, and violations: an explicit id that differs from the
key, or an id that is empty or only whitespace. If a type has a key, the id is the text of the key: of its only column,
or a JSON array if there are several columns (always for edges, whose keys start with both endpoints). If it has no key,
the id is the explicit id, or a new ULID. New ULIDs depend on the clock and on random numbers; everything else is pure.
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
from omnigraph.integrity.raw import ID
from omnigraph.integrity.rules import Rule, RuleViolations, violations_in
from omnigraph.schema.catalog import EdgeType, Entity, NodeType

# The characters that JSON escapes: quotes, backslashes and control characters.
_CONTROLS_END: Final = 0x20
_ESCAPED: Final = r'["\\\x00-\x1f]'


def canonical_text(column: Column) -> Column:
    """Return the text of each value of a typed column that can be part of a key."""
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_floating(kind):
        return _float_text(column)
    if pa.types.is_timestamp(kind):
        local = pc.cast(pc.cast(column, pa.int64()), pa.timestamp("ms"))
        dated = pc.binary_replace_slice(pc.cast(local, pa.utf8()), 10, 11, "T")
        return join_pieces(dated, "Z")
    assert pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind), kind
    text: Column = pc.cast(column, pa.utf8())
    return text


def key_text(columns: Sequence[Column]) -> Column:
    """Return the text of each key: that of its only column, or a JSON array of the texts of all columns."""
    return canonical_text(columns[0]) if len(columns) == 1 else array_text(columns)


def array_text(columns: Sequence[Column]) -> Column:
    """Return a JSON array of the texts of the columns for each row."""
    pieces: list[Column | str] = []
    for column in columns:
        pieces.append('","' if pieces else '["')
        text = canonical_text(column)
        pieces.append(escaped_text(text) if pa.types.is_string(column.type) else text)
    return join_pieces(*pieces, '"]')


def escaped_text(text: Column) -> Column:
    """Return each value escaped for a JSON string, without the quotes. Most columns have nothing to escape."""
    offsets, data = text_buffers(text)
    used = data[offsets[0] : offsets[-1]]
    if not ((used < _CONTROLS_END) | (used == ord('"')) | (used == ord("\\"))).any():
        return text
    is_special = pc.match_substring_regex(text, _ESCAPED).fill_null(False)
    special: Any = text.filter(is_special)
    escapes = [json.dumps(value, ensure_ascii=False)[1:-1] for value in special.to_pylist()]
    escaped: Column = pc.replace_with_mask(text, is_special, pa.array(escapes, pa.utf8()))
    return escaped


def join_pieces(*pieces: Column | str) -> Column:
    """Return the concatenated pieces of each row; null if one of them is null."""
    joined: Column = pc.binary_join_element_wise(*pieces, "")
    return joined


def _float_text(column: Column) -> Column:
    # Adding zero turns -0.0 into 0.0. Arrow finds the shortest digits of a 32-bit float; `repr` formats them.
    positive = pc.add(column, pa.scalar(0.0, column.type))
    wide: Column = positive
    if pa.types.is_float32(column.type):
        wide = pc.cast(pc.cast(positive, pa.utf8()), pa.float64())
    numbers = wide.fill_null(0.0).to_numpy(zero_copy_only=False)
    absent = None if wide.null_count == 0 else wide.is_null().to_numpy(zero_copy_only=False)
    return pa.array(list(map(repr, numbers.tolist())), pa.utf8(), mask=absent)


@dataclass(frozen=True, slots=True, eq=False)
class RowIds:
    """The ids, null where a part of the key is null; the comparable ids; and the invalid ids.

    In `comparable`, new ULIDs are null, because no other row can have them.
    """

    ids: Column
    comparable: Column
    violations: tuple[RuleViolations, ...] = ()


def row_ids(entity: Entity, columns: Mapping[str, Column], explicit: Column) -> RowIds:
    """Return the ids of rows.

    `columns` are the typed columns that the key names; `explicit` has a null for each row without an id.
    """
    if entity.key:
        ids = derived_ids(entity, columns)
        # An array or a number is never blank.
        is_text = (
            isinstance(entity, NodeType) and len(entity.key) == 1 and pa.types.is_string(columns[entity.key[0]].type)
        )
        blank = _check_blank(ids, entity.key[0]) if is_text else ()
        return RowIds(ids, ids, (*_check_mismatches(ids, explicit), *blank))
    if explicit.null_count == len(explicit):
        return RowIds(new_ulids(len(explicit)), explicit)
    blank = _check_blank(explicit, ID)
    if explicit.null_count == 0:
        return RowIds(explicit, explicit, blank)
    filled: Column = pc.replace_with_mask(explicit, explicit.is_null(), new_ulids(explicit.null_count))
    return RowIds(filled, explicit, blank)


def derived_ids(entity: Entity, columns: Mapping[str, Column]) -> Column:
    """Return the ids derived from the key of a type."""
    parts = [columns[name] for name in entity.key]
    return array_text(parts) if isinstance(entity, EdgeType) else key_text(parts)


def _check_mismatches(ids: Column, explicit: Column) -> tuple[RuleViolations, ...]:
    if explicit.null_count == len(explicit):
        return ()
    message = "differs from the id that the key gives; leave out `id`"
    return violations_in(Rule.ID_MISMATCH, ID, message, rows_where(pc.not_equal(ids, explicit)), explicit)


def _check_blank(ids: Column, name: str) -> tuple[RuleViolations, ...]:
    texts = ids.drop_null() if ids.null_count else ids  # the bytes of a null may be invalid UTF-8
    blank = rows_where(pc.or_(pc.equal(pc.binary_length(texts), 0), pc.utf8_is_space(texts)))
    rows = rows_where(ids.is_valid())[blank] if len(blank) and ids.null_count else blank
    return violations_in(Rule.BLANK_ID, name, "is an id, which cannot be empty or only whitespace", rows, ids)
