"""Raw columns to Date and DateTime.

From JSON both are text. Typed columns are taken when they say the same without a guess: a day for a Date; for a
DateTime a moment with a time zone, in whole milliseconds whatever its unit. A moment without a time zone is refused.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.integrity.calendar_text import (
    DAY_MS,
    DAYS_MAX,
    DAYS_MIN,
    date_array,
    datetime_array,
    read_dates,
    read_datetimes,
)
from omnigraph.integrity.converted import Converted, Mistake, all_refused, mistakes_of
from omnigraph.integrity.raw import Column, Mask, bools, nulls
from omnigraph.integrity.rules import Rule

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
