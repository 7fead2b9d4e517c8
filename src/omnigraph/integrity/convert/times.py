"""Converts raw columns to dates and datetimes, with Arrow's kernels and without a loop over the rows.

Text: dates are `YYYY-MM-DD`, datetimes are RFC 3339 with at most three fractional digits; `t` and `z` may be lower
case, an offset is at most 23:59, second 60 is rejected. Arrow's cast accepts more spellings of datetimes, and fails for
the whole column, so a regular expression that accepts only existing days selects the rows to cast; a column of valid
dates does not need it. Years are 0001 to 9999, for datetimes also in UTC. Pure.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column, Mask, array_with_nulls, bool_array, bool_mask, nulls
from omnigraph.integrity.convert.result import ConvertedColumn, invalid_values, reject_all
from omnigraph.integrity.rules import Rule

_DATETIME: Final[Any] = pa.timestamp("ms", "UTC")
_DAY_MS: Final = 86_400_000
_DAYS_MIN: Final = -719_162  # 0001-01-01
_DAYS_MAX: Final = 2_932_896  # 9999-12-31
_UNITS_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_YEAR: Final = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_LEAP_YEAR: Final = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_MONTH_AND_DAY: Final = (
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_DATE: Final = f"(?:{_YEAR}-{_MONTH_AND_DAY}|{_LEAP_YEAR}-02-29)"
_HOUR_AND_MINUTE: Final = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_DATE_PATTERN: Final = rf"\A{_DATE}\z"
_DATETIME_PATTERN: Final = (
    rf"\A{_DATE}[Tt]{_HOUR_AND_MINUTE}:[0-5][0-9](?:\.[0-9]{{1,3}})?(?:[Zz]|[+-]{_HOUR_AND_MINUTE})\z"
)
_TOO_FINE_PATTERN: Final = (
    r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{4,}(?:[Zz]|[+-][0-9]{2}:[0-9]{2})\z"
)

_DATE_MESSAGE: Final = "expected a date of the years 0001 to 9999, written as 2024-05-31 (Date)"
_DATETIME_MESSAGE: Final = "expected a datetime of the years 0001 to 9999, written as 2024-05-31T12:00:00Z (DateTime)"
_TOO_FINE_MESSAGE: Final = "is more precise than the milliseconds of DateTime"
_ZONE_MESSAGE: Final = "expected a datetime with a time zone (DateTime), got one without"


def convert_dates(array: Column) -> ConvertedColumn:
    """Convert text and dates to days."""
    if pa.types.is_string(array.type):
        if (dates := _cast_dates(array)) is not None:
            return ConvertedColumn(dates)
        is_valid = bool_mask(pc.match_substring_regex(array, _DATE_PATTERN))
        dates = pc.cast(_only(array, is_valid), pa.date32())
    elif pa.types.is_date(array.type):
        days = _integers(array)
        is_valid = bool_mask(array.is_valid())
        if pa.types.is_date64(array.type):
            is_valid &= days % _DAY_MS == 0
            days //= _DAY_MS
        is_valid &= (days >= _DAYS_MIN) & (days <= _DAYS_MAX)
        dates = array_with_nulls(days.astype(np.int32), ~is_valid).view(pa.date32())
    else:
        return reject_all(array, "a date as text (Date)", pa.date32())
    return ConvertedColumn(dates, invalid_values(Rule.DATE, _DATE_MESSAGE, bool_mask(array.is_valid()) & ~is_valid))


def _cast_dates(texts: Column) -> Column | None:
    """Return the dates; None if Arrow rejects a text, or accepts one of the year 0000, the only one that we reject."""
    try:
        dates: Column = pc.cast(texts, pa.date32())
    except pa.ArrowInvalid:
        return None
    first = pc.min(dates.view(pa.int32())).as_py()
    return dates if first is None or first >= _DAYS_MIN else None


def convert_datetimes(array: Column) -> ConvertedColumn:
    """Convert text and timestamps to milliseconds in UTC."""
    if pa.types.is_string(array.type):
        return _convert_texts(array)
    if not pa.types.is_timestamp(array.type):
        return reject_all(array, "a datetime as text (DateTime)", _DATETIME)
    if array.type.tz is None:
        invalid = invalid_values(Rule.WRONG_TYPE, _ZONE_MESSAGE, bool_mask(array.is_valid()))
        return ConvertedColumn(nulls(len(array), _DATETIME), invalid)
    return _convert_timestamps(array)


def _convert_texts(array: Column) -> ConvertedColumn:
    matches = bool_mask(pc.match_substring_regex(array, _DATETIME_PATTERN))
    datetimes = pc.cast(pc.ascii_upper(_only(array, matches)), _DATETIME)
    numbers = _integers(datetimes)
    is_valid = matches & (numbers >= _DAYS_MIN * _DAY_MS) & (numbers < (_DAYS_MAX + 1) * _DAY_MS)
    is_invalid = bool_mask(array.is_valid()) & ~is_valid
    if not is_invalid.any():
        return ConvertedColumn(datetimes)
    is_too_fine = is_invalid & bool_mask(pc.match_substring_regex(array, _TOO_FINE_PATTERN))
    return ConvertedColumn(
        _only(datetimes, is_valid),
        (
            *invalid_values(Rule.DATETIME, _DATETIME_MESSAGE, is_invalid & ~is_too_fine),
            *invalid_values(Rule.DATETIME_TOO_FINE, _TOO_FINE_MESSAGE, is_too_fine),
        ),
    )


def _convert_timestamps(array: Column) -> ConvertedColumn:
    units = _UNITS_PER_SECOND[array.type.unit]
    has_value = bool_mask(array.is_valid())
    seconds, rest = np.divmod(_integers(array), units)
    # Seconds are compared, because no unit overflows in them.
    is_inside = (seconds >= _DAYS_MIN * 86_400) & (seconds < (_DAYS_MAX + 1) * 86_400)
    is_whole = rest % (units // 1_000) == 0 if units > 1_000 else np.ones(len(array), dtype=np.bool_)
    numbers = np.where(is_inside, seconds, 0) * 1_000 + rest * 1_000 // units
    datetimes = array_with_nulls(numbers, ~(has_value & is_inside & is_whole)).view(_DATETIME)
    return ConvertedColumn(
        datetimes,
        (
            *invalid_values(Rule.DATETIME, _DATETIME_MESSAGE, has_value & ~is_inside),
            *invalid_values(Rule.DATETIME_TOO_FINE, _TOO_FINE_MESSAGE, has_value & is_inside & ~is_whole),
        ),
    )


def _only(array: Column, mask: Mask) -> Column:
    """Return the array with null where the mask is false."""
    return array if mask.all() else pc.if_else(bool_array(mask), array, pa.scalar(None, array.type))


def _integers(array: Column) -> npt.NDArray[np.int64]:
    """Return the numbers behind a column of dates or timestamps; 0 for null."""
    width = pa.int32() if pa.types.is_date32(array.type) else pa.int64()
    numbers = array.view(width).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64)
