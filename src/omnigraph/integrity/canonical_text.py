"""The canonical text of typed columns: what ids and the keys of `@unique` are made of.

Strings verbatim, integers decimal, `true` and `false`, `YYYY-MM-DD`, RFC 3339 in UTC with milliseconds, floats the
shortest text that reads back the same at the width of the column. Several columns are one compact JSON array of those
texts, non-ASCII unescaped. A null anywhere makes the whole null.
Floats are finite already: conversion refuses everything else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.integrity.raw import Column, text_buffers

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
