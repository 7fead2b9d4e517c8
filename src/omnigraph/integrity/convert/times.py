"""Dates and datetimes read from columns of text, without a loop over the rows.

Texts of one length have one layout, so their bytes are looked at as a matrix: every position is checked and read for
all rows at once. Dates are `YYYY-MM-DD`. Datetimes are RFC 3339 with at most three digits of a second; `t` and `z` may
be lower case, an offset is at most 23:59, a 60th second does not exist. Years are 0001 to 9999, for datetimes also
after the offset is taken away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Bytes, Column, Mask, Rows, bools, nulls, text_buffers
from omnigraph.integrity.convert.result import Converted, Mistake, all_refused, mistakes_of
from omnigraph.integrity.rules import Rule

Integers = npt.NDArray[np.int64]

DAY_MS: Final = 86_400_000
DAYS_MIN: Final = -719_162  # 0001-01-01
DAYS_MAX: Final = 2_932_896  # 9999-12-31
_SLICE_ROWS: Final = 65_536
_DATE_LENGTH: Final = 10
_SECOND_END: Final = 19

_YEARS: Final = np.arange(10_000, dtype=np.int64)
_IS_LEAP: Final = ((_YEARS % 4 == 0) & (_YEARS % 100 != 0)) | (_YEARS % 400 == 0)
_DAYS_BEFORE_YEAR: Final = 365 * (_YEARS - 1) + (_YEARS - 1) // 4 - (_YEARS - 1) // 100 + (_YEARS - 1) // 400
_MONTH_LENGTHS: Final = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# Indexed by 128 * leap + month; months that do not exist have no days.
_DAYS_IN_MONTH: Final = np.zeros(256, dtype=np.int64)
_DAYS_BEFORE_MONTH: Final = np.zeros(256, dtype=np.int64)
for _leap in (0, 1):
    for _month in range(1, 13):
        _DAYS_IN_MONTH[128 * _leap + _month] = _MONTH_LENGTHS[_month] + (_leap if _month == 2 else 0)
        _DAYS_BEFORE_MONTH[128 * _leap + _month] = sum(_MONTH_LENGTHS[:_month]) + (_leap if _month > 2 else 0)


def read_dates(texts: Column) -> tuple[Integers, Mask]:
    """Days since 1970 of each text, and which texts are dates. Nulls are not."""
    return _read(texts, {_DATE_LENGTH: _dates})


def read_datetimes(texts: Column) -> tuple[Integers, Mask]:
    """Milliseconds since 1970 of each text, and which texts are datetimes. Nulls are not."""
    return _read(texts, dict.fromkeys(_LAYOUTS, _datetimes))


@dataclass(frozen=True, slots=True)
class _Layout:
    """How many digits a second's fraction has, and whether an offset follows it."""

    digits: int
    offset: bool


_LAYOUTS: Final = {
    _SECOND_END + (digits + 1 if digits else 0) + (6 if offset else 1): _Layout(digits, offset)
    for digits in (0, 1, 2, 3)
    for offset in (False, True)
}


def _read(texts: Column, readers: dict[int, Any]) -> tuple[Integers, Mask]:
    """Slices that fit the processor's cache; within a slice, texts of one length together."""
    numbers = np.zeros(len(texts), dtype=np.int64)
    good = np.zeros(len(texts), dtype=np.bool_)
    valid = texts.is_valid().to_numpy(zero_copy_only=False) if texts.null_count else None
    offsets, data = text_buffers(texts)
    for start in range(0, len(texts), _SLICE_ROWS):
        part = slice(start, min(start + _SLICE_ROWS, len(texts)))
        begins = offsets[part]
        lengths = offsets[part.start + 1 : part.stop + 1] - begins
        for length, reader in readers.items():
            rows = np.flatnonzero(lengths == length)
            if not len(rows):
                continue
            matrix = _bytes_at(data, begins[rows], length)
            numbers[start + rows], good[start + rows] = reader(matrix)
    return numbers, good if valid is None else good & valid


def _bytes_at(data: Bytes, begins: Rows, length: int) -> Bytes:
    """One row of the result per position of the texts, one column per text."""
    if len(begins) and begins[-1] - begins[0] == (len(begins) - 1) * length:
        packed = data[begins[0] : begins[0] + len(begins) * length].reshape(-1, length)
        return np.ascontiguousarray(packed.T)
    scattered: Bytes = data[begins + np.arange(length, dtype=np.int64)[:, None]]
    return scattered


def _dates(matrix: Bytes) -> tuple[Integers, Mask]:
    good = (matrix[4] == ord("-")) & (matrix[7] == ord("-"))
    year = _number(matrix, 0, 4, good)
    month = _number(matrix, 5, 2, good)
    day = _number(matrix, 8, 2, good)
    # Whatever is not a digit has made `good` false; the tables still need an index within them.
    year = np.where(good, year, 0)
    at = np.where(good, 128 * _IS_LEAP[year] + month, 0)
    good &= (year >= 1) & (day >= 1) & (day <= _DAYS_IN_MONTH[at])
    return _DAYS_BEFORE_YEAR[year] + _DAYS_BEFORE_MONTH[at] + day - 1 + DAYS_MIN, good


def _datetimes(matrix: Bytes) -> tuple[Integers, Mask]:
    layout = _LAYOUTS[len(matrix)]
    days, good = _dates(matrix)
    good &= (matrix[10] | 0x20) == ord("t")
    good &= (matrix[13] == ord(":")) & (matrix[16] == ord(":"))
    hour = _number(matrix, 11, 2, good)
    minute = _number(matrix, 14, 2, good)
    second = _number(matrix, 17, 2, good)
    good &= (hour <= 23) & (minute <= 59) & (second <= 59)
    moment = days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000
    at = _SECOND_END
    if layout.digits:
        good &= matrix[at] == ord(".")
        moment += _number(matrix, at + 1, layout.digits, good) * 10 ** (3 - layout.digits)
        at += layout.digits + 1
    if not layout.offset:
        good &= (matrix[at] | 0x20) == ord("z")
        return moment, good
    moment -= _offset_ms(matrix, at, good)
    good &= (moment >= DAYS_MIN * DAY_MS) & (moment < (DAYS_MAX + 1) * DAY_MS)
    return moment, good


def _offset_ms(matrix: Bytes, at: int, good: Mask) -> Integers:
    east = matrix[at] == ord("+")
    good &= (east | (matrix[at] == ord("-"))) & (matrix[at + 3] == ord(":"))
    hour = _number(matrix, at + 1, 2, good)
    minute = _number(matrix, at + 4, 2, good)
    good &= (hour <= 23) & (minute <= 59)
    sign: Integers = np.where(east, 1, -1).astype(np.int64)
    return sign * (hour * 60 + minute) * 60_000


def _number(matrix: Bytes, at: int, digits: int, good: Mask) -> Integers:
    """The number at a position; where there are other characters than digits, `good` becomes false."""
    number: Integers = np.zeros(matrix.shape[1], dtype=np.int64)
    for position in range(at, at + digits):
        digit = matrix[position] - np.uint8(ord("0"))
        good &= digit <= 9
        number = number * 10 + digit
    return number


def date_array(days: Integers, good: Mask) -> Column:
    """A Date column; what is not good is null."""
    return pa.array(days.astype(np.int32), pa.int32(), mask=None if good.all() else ~good).view(pa.date32())


def datetime_array(moments: Integers, good: Mask) -> Column:
    """A DateTime column; what is not good is null."""
    column = pa.array(moments, pa.int64(), mask=None if good.all() else ~good)
    return column.view(pa.timestamp("ms", "UTC"))


_DATETIME: Final = pa.timestamp("ms", "UTC")
_UNITS_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_FINE_TEXT: Final = (
    r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{4,}(?:[Zz]|[+-][0-9]{2}:[0-9]{2})\z"
)
_DATE_MESSAGE: Final = "needs a day of the years 0001 to 9999, written as 2024-05-31 (Date)"
_DATETIME_MESSAGE: Final = (
    "needs a moment of the years 0001 to 9999, written as 2024-05-31T12:00:00Z (DateTime)"
)
_FINE_MESSAGE: Final = "is finer than the milliseconds that DateTime holds"
_ZONE_MESSAGE: Final = "needs a datetime with a time zone (DateTime), not one without"


def convert_dates(array: Column) -> Converted:
    """Days."""
    if pa.types.is_string(array.type):
        days, good = read_dates(array)
    elif pa.types.is_date(array.type):
        days = _integers(array)
        good = bools(array.is_valid())
        if pa.types.is_date64(array.type):
            good &= days % DAY_MS == 0
            days //= DAY_MS
        good &= (days >= DAYS_MIN) & (days <= DAYS_MAX)
    else:
        return all_refused(array, "a day as text (Date)", pa.date32())
    bad = _refused(array, good)
    return Converted(date_array(days, good), mistakes_of(Rule.DATE, _DATE_MESSAGE, bad))


def convert_datetimes(array: Column) -> Converted:
    """Moments in milliseconds, UTC."""
    if pa.types.is_string(array.type):
        return _from_texts(array)
    if not pa.types.is_timestamp(array.type):
        return all_refused(array, "a moment as text (DateTime)", _DATETIME)
    if array.type.tz is None:
        message = mistakes_of(Rule.WRONG_TYPE, _ZONE_MESSAGE, bools(array.is_valid()))
        return Converted(nulls(len(array), _DATETIME), message)
    return _from_timestamps(array)


def _from_texts(array: Column) -> Converted:
    moments, good = read_datetimes(array)
    bad = _refused(array, good)
    mistakes: tuple[Mistake, ...] = ()
    if bad.any():
        fine = bad & bools(pc.match_substring_regex(array, _FINE_TEXT))
        mistakes = (
            *mistakes_of(Rule.DATETIME, _DATETIME_MESSAGE, bad & ~fine),
            *mistakes_of(Rule.DATETIME_TOO_FINE, _FINE_MESSAGE, fine),
        )
    return Converted(datetime_array(moments, good), mistakes)


def _from_timestamps(array: Column) -> Converted:
    units = _UNITS_PER_SECOND[array.type.unit]
    numbers = _integers(array)
    valid = bools(array.is_valid())
    seconds, rest = np.divmod(numbers, units)
    # Bounds are looked at in seconds, where no unit overflows.
    inside = (seconds >= DAYS_MIN * 86_400) & (seconds < (DAYS_MAX + 1) * 86_400)
    whole = rest % (units // 1_000) == 0 if units > 1_000 else np.ones(len(array), dtype=np.bool_)
    moments = np.where(inside, seconds, 0) * 1_000 + rest * 1_000 // units
    mistakes = (
        *mistakes_of(Rule.DATETIME, _DATETIME_MESSAGE, valid & ~inside),
        *mistakes_of(Rule.DATETIME_TOO_FINE, _FINE_MESSAGE, valid & inside & ~whole),
    )
    return Converted(datetime_array(moments, valid & inside & whole), mistakes)


def _integers(array: Column) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The numbers behind a column of dates or timestamps; a null is 0."""
    width = pa.int32() if pa.types.is_date32(array.type) else pa.int64()
    numbers = array.view(width).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64)


def _refused(array: Column, good: Mask) -> Mask:
    return ~good if not array.null_count else bools(array.is_valid()) & ~good
