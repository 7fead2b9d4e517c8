"""Whether two rows are the same, column by column, over whole tables. Pure.

Equality is typed: null, "" and [] differ from each other. Floats and vectors are the same when their bits are, so a
zero with a sign differs from one without, and not-a-number is itself. A blob is its bytes, or its URI.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.images import Image, Mask


def same_states(left: Image, right: Image) -> Mask:
    """For each row whether both sides have it alike, or both have it not; what is undecided is like nothing."""
    both = left.present & right.present
    same: Mask = (left.present == right.present) & ~left.undecided & ~right.undecided
    if both.any():
        same &= ~both | same_rows(left.rows, right.rows)
    return same


def same_rows(left: pa.Table, right: pa.Table) -> Mask:
    """For each row whether all columns are equal. Both tables have the same columns and as many rows."""
    same = np.ones(left.num_rows, np.bool_)
    for name in left.schema.names:
        same &= same_values(_whole(left, name), _whole(right, name))
    return same


def differing_columns(left: pa.Table, right: pa.Table) -> list[list[str]]:
    """For each row the names of the columns that differ."""
    names = left.schema.names
    differs = {name: ~same_values(_whole(left, name), _whole(right, name)) for name in names}
    return [[name for name in names if differs[name][row]] for row in range(left.num_rows)]


def same_values(left: Any, right: Any) -> Mask:
    """For each position whether two columns of one type are equal there."""
    there, also = _valid(left), _valid(right)
    same: Mask = there == also
    both = there & also
    if not both.any():
        return same
    mask = pa.array(both)
    same[both] = _same_present(left.filter(mask), right.filter(mask))
    return same


def _same_present(left: Any, right: Any) -> Mask:
    """Two columns without nulls."""
    kind = left.type
    if pa.types.is_floating(kind):
        bits = np.uint32 if kind == pa.float32() else np.uint64
        return left.to_numpy().view(bits) == right.to_numpy().view(bits)  # type: ignore[no-any-return]
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        ours, theirs = (side.flatten().to_numpy().view(np.uint32).reshape(-1, size) for side in (left, right))
        return (ours == theirs).all(axis=1)  # type: ignore[no-any-return]
    if pa.types.is_list(kind):
        return _same_lists(left, right)
    if pa.types.is_struct(kind):
        parts = [same_values(left.field(name), right.field(name)) for name in ("data", "uri")]
        return parts[0] & parts[1]
    found: Any = pc.equal(left, right)
    return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _same_lists(left: Any, right: Any) -> Mask:
    sizes = [pc.list_value_length(side).to_numpy(zero_copy_only=False) for side in (left, right)]
    same: Mask = sizes[0] == sizes[1]
    if not same.any():
        return same
    mask = pa.array(same)
    items = [side.filter(mask).flatten() for side in (left, right)]
    equal = same_values(items[0], items[1])
    rows = np.repeat(np.arange(int(same.sum())), sizes[0][same])
    wrong = np.zeros(int(same.sum()), np.bool_)
    wrong[rows[~equal]] = True
    same[same] = ~wrong
    return same


def _whole(table: pa.Table, name: str) -> Any:
    return table.column(name).combine_chunks()


def _valid(column: Any) -> Mask:
    answer: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return answer
