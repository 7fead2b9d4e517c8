"""One raw column to the column of a property's type, strictly, with every refused row named.

In: a raw column and a property's type. Out: an array of that type in which what was refused is null. No value is
bent to fit; see the modules per kind for what each type takes. Nothing here knows constraints: enum membership, ranges
and patterns are `row_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.arrow.columns import Column, Rows, nulls, plain_array
from omnigraph.integrity.convert.lists import convert_lists, convert_vectors, is_list, lists_of
from omnigraph.integrity.convert.result import Converted, Mistake, all_refused
from omnigraph.integrity.convert.scalars import (
    convert_blobs,
    convert_booleans,
    convert_floats,
    convert_integers,
    convert_strings,
    refuse_huge,
    split_unicode,
)
from omnigraph.integrity.convert.times import convert_dates, convert_datetimes
from omnigraph.integrity.raw import HugeIntegers, Lists, MixedColumn, RawColumn, split_kinds
from omnigraph.integrity.rules import Rule
from omnigraph.schema.property_types import (
    FLOATS,
    INTEGER_BOUNDS,
    EnumType,
    ListType,
    PropertyType,
    Scalar,
    ScalarType,
    VectorType,
    type_text,
)
from omnigraph.schema.tables import arrow_type


def convert(raw: RawColumn, target: PropertyType) -> Converted:
    """The typed column."""
    if isinstance(raw, MixedColumn):
        return _convert_cells(raw, target)
    array = plain_array(raw)
    if pa.types.is_null(array.type):
        return Converted(nulls(len(array), arrow_type(target)))
    if not pa.types.is_string(array.type):
        return _convert_array(array, target)
    array, mistakes = split_unicode(array)
    converted = _convert_array(array, target)
    return Converted(converted.values, (*mistakes, *converted.mistakes))


def _convert_array(array: Column, target: PropertyType) -> Converted:
    match target:
        case EnumType():
            return convert_strings(array, "text (enum)")
        case ListType() | VectorType():
            if not is_list(array.type):
                return all_refused(array, f"a list ({type_text(target)})", arrow_type(target))
            return _convert_lists(lists_of(array), target)
        case ScalarType(scalar):
            return _convert_scalars(array, scalar)
        case _:
            assert_never(target)


def _convert_scalars(array: Column, scalar: Scalar) -> Converted:
    match scalar:
        case Scalar.STRING:
            return convert_strings(array)
        case Scalar.BOOL:
            return convert_booleans(array)
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return convert_integers(array, scalar)
        case Scalar.F32 | Scalar.F64:
            return convert_floats(array, scalar)
        case Scalar.DATE:
            return convert_dates(array)
        case Scalar.DATETIME:
            return convert_datetimes(array)
        case Scalar.BLOB:
            return convert_blobs(array)
        case _:
            assert_never(scalar)


def _convert_lists(lists: Lists, target: ListType | VectorType) -> Converted:
    if isinstance(target, VectorType):
        return convert_vectors(lists, target, convert)
    return convert_lists(lists, target, convert)


def _convert_cells(cells: MixedColumn, target: PropertyType) -> Converted:
    """Each kind on its own, then put back in order."""
    parts: list[Column] = [nulls(1, arrow_type(target))]
    source = np.zeros(len(cells), dtype=np.int64)
    mistakes: list[Mistake] = []
    done = 1
    for part in split_kinds(cells):
        converted = _convert_kind(part.values, target)
        source[part.rows] = np.arange(done, done + len(part.rows))
        done += len(part.rows)
        parts.append(converted.values)
        mistakes.extend(
            Mistake(found.rule, found.message, part.rows[found.rows]) for found in converted.mistakes
        )
    return Converted(pa.concat_arrays(parts).take(pa.array(source)), _together(mistakes))


def _convert_kind(values: Column | Lists | HugeIntegers, target: PropertyType) -> Converted:
    match values, target:
        case HugeIntegers(nearest), ScalarType(scalar) if scalar in INTEGER_BOUNDS:
            return refuse_huge(nearest, scalar)
        case HugeIntegers(nearest), ScalarType(scalar) if scalar in FLOATS:
            return convert(nearest, target)
        case HugeIntegers(nearest), _:
            return convert(nulls(len(nearest), pa.int64()).fill_null(0), target)
        case Lists(), ListType() | VectorType():
            return _convert_lists(values, target)
        case Lists(lengths), _:
            empty = pa.array([[]] * len(lengths), pa.list_(pa.null()))
            return convert(empty, target)
    assert isinstance(values, pa.Array)
    return convert(values, target)


def _together(mistakes: Sequence[Mistake]) -> tuple[Mistake, ...]:
    """One mistake per reason, also when several kinds of cells have it."""
    rows: dict[tuple[Rule, str], list[Rows]] = {}
    for found in mistakes:
        rows.setdefault((found.rule, found.message), []).append(found.rows)
    return tuple(
        Mistake(rule, message, np.sort(np.concatenate(found))) for (rule, message), found in rows.items()
    )
