"""Fields of CSV to raw columns: text that the schema knows how to read.

An empty field is null, and a quoted empty one is the empty text. Whole numbers are digits, `0` or `-?[1-9][0-9]*`;
other numbers are written as in JSON; booleans are true, True or TRUE and so on; lists and vectors are JSON arrays.
Everything else stays the text that it is, so that the same rules refuse it with the same words as in every format.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, assert_never

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.integrity.raw import Cells, Column, RawColumn, values_of
from omnigraph.schema import EnumType, ListType, PropertyType, Scalar, ScalarType, VectorType
from omnigraph.schema.property_types import FLOATS, INTEGER_BOUNDS

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
# Texts of this many characters are 64-bit integers whatever their digits are.
_SURELY_FITTING_CHARACTERS: Final = 18
# Python refuses to read longer ones; they fit nothing however they go on.
_DIGITS_MAX: Final = 1_000
_BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_TRUE: Final = pa.array([text for text, value in _BOOLEANS.items() if value])
_EITHER: Final = pa.array(list(_BOOLEANS))


def raw_column(texts: Column, target: PropertyType) -> RawColumn:
    """The fields of one column for a property of this type."""
    match target:
        case ListType() | VectorType():
            return _each(texts, _list_or_text)
        case ScalarType(Scalar.BOOL):
            return _booleans(texts)
        case ScalarType(scalar) if scalar in INTEGER_BOUNDS:
            return _integers(texts)
        case ScalarType(scalar) if scalar in FLOATS:
            return _floats(texts)
        case ScalarType() | EnumType():
            return texts
        case _:
            assert_never(target)


def _integers(texts: Column) -> RawColumn:
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest <= _SURELY_FITTING_CHARACTERS and _all_match(texts, _INTEGER):
        numbers: Column = pc.cast(texts, pa.int64())
        return numbers
    return _each(texts, _integer_or_text)


def _floats(texts: Column) -> RawColumn:
    return pc.cast(texts, pa.float64()) if _all_match(texts, _NUMBER) else _each(texts, _float_or_text)


def _booleans(texts: Column) -> RawColumn:
    if pc.all(pc.or_kleene(pc.is_in(texts, _EITHER), pc.is_null(texts))).as_py() is False:
        return _each(texts, lambda text: _BOOLEANS.get(text, text))
    values: Column = pc.if_else(pc.is_null(texts), pa.scalar(None, pa.bool_()), pc.is_in(texts, _TRUE))
    return values


def _all_match(texts: Column, pattern: re.Pattern[str]) -> bool:
    return pc.all(pc.match_substring_regex(texts, rf"\A(?:{pattern.pattern})\z")).as_py() is not False


def _each(texts: Column, read: Callable[[str], object]) -> Cells:
    return Cells([read(text) if isinstance(text, str) else None for text in values_of(texts)])


def _integer_or_text(text: str) -> object:
    return int(text[:_DIGITS_MAX]) if _INTEGER.fullmatch(text) else text


def _float_or_text(text: str) -> object:
    return float(text) if _NUMBER.fullmatch(text) else text


def _list_or_text(text: str) -> object:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text
    return found if isinstance(found, list) else text
