"""Comparisons, arithmetic and conversions of Arrow values, with the semantics of the query language.

Numbers of different types are compared exactly: no integer is rounded to a float or wraps between signed and unsigned.
A date is compared with a datetime as its midnight. Integers are calculated exactly and raise `integer_overflow` outside
I64; a division by zero is null. A time outside the years 1 to 9999 raises `date_overflow`. Null with any value is null.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.errors import RunError
from omnigraph.engine.columns.dictionary import Array, Scalar
from omnigraph.query.plan.functions import DAY_MILLIS, FIRST_DAY, LAST_DAY, Duration, largest_amount
from omnigraph.query.syntax import ComparisonOperator, Sign
from omnigraph.query.values import REVERSED

Value = Array | Scalar

_KERNELS: Final[dict[ComparisonOperator, Any]] = {
    ComparisonOperator.EQ: pc.equal,
    ComparisonOperator.NE: pc.not_equal,
    ComparisonOperator.LT: pc.less,
    ComparisonOperator.LE: pc.less_equal,
    ComparisonOperator.GT: pc.greater,
    ComparisonOperator.GE: pc.greater_equal,
}
_TIMESTAMP: Final = pa.timestamp("ms", "UTC")
_EXACT_MAX: Final = 2**53
_CHECKED: Final[dict[Sign, Any]] = {
    Sign.ADD: pc.add_checked,
    Sign.SUB: pc.subtract_checked,
    Sign.MUL: pc.multiply_checked,
}
_PLAIN: Final[dict[Sign, Any]] = {Sign.ADD: pc.add, Sign.SUB: pc.subtract, Sign.MUL: pc.multiply}


def compare(operator: ComparisonOperator, left: Value, right: Value) -> Value:
    """Return `left operator right` as Bool values."""
    kernel = _KERNELS[operator]
    types = (left.type, right.type)
    if any(pa.types.is_null(kind) for kind in types):
        length = len(left) if isinstance(left, pa.Array) else len(right) if isinstance(right, pa.Array) else 0
        return pa.scalar(None, pa.bool_()) if not length else pa.nulls(length, pa.bool_())
    if left.type == right.type:
        return kernel(left, right)  # type: ignore[no-any-return]
    if any(pa.types.is_timestamp(kind) for kind in types):
        return kernel(left.cast(_TIMESTAMP), right.cast(_TIMESTAMP))  # type: ignore[no-any-return]
    floats = [pa.types.is_floating(kind) for kind in types]
    if all(floats):
        return kernel(left.cast(pa.float64()), right.cast(pa.float64()))  # type: ignore[no-any-return]
    if floats[0]:
        return _compare_with_float(REVERSED.get(operator, operator), right, left)
    if floats[1]:
        return _compare_with_float(operator, left, right)
    return _compare_integers(operator, left, right)


def calculate(sign: Sign, left: Value, right: Value, result_type: pa.DataType) -> Value:
    """Return `left sign right`, as I64 or F64."""
    if pa.types.is_floating(result_type):
        return _calculate_floats(sign, left, right)
    try:
        return _CHECKED[sign](left.cast(pa.int64()), right.cast(pa.int64()))  # type: ignore[no-any-return]
    except pa.ArrowInvalid:
        # An operand may be out of range only because it is unsigned: calculate exactly, then check the result.
        return _as_i64(_PLAIN[sign](_as_decimal(left), _as_decimal(right)))


def negate(operand: Value, result_type: pa.DataType) -> Value:
    """Return `-operand`."""
    if pa.types.is_floating(result_type):
        result: Value = pc.negate(operand.cast(pa.float64()))
        return result
    return _as_i64(pc.negate(_as_decimal(operand)))


def convert(value: Value, result_type: pa.DataType) -> Value:
    """Return a value as another type of its family: an I64, an F64, a date, a datetime or a string."""
    if pa.types.is_int64(result_type):
        return _as_i64(value)
    return value.cast(result_type, safe=False)


def shift_time(times: Value, sign: Sign, amount: Value, duration: Duration, result_type: pa.DataType) -> Value:
    """Return dates or datetimes plus or minus a number of units, as the same type."""
    length = next((len(value) for value in (times, amount) if isinstance(value, pa.Array)), None)
    moments, amounts = broadcast(times.cast(_TIMESTAMP), length or 1), broadcast(amount, length or 1)
    missing: Any = pc.or_(moments.is_null(), amounts.is_null())
    mask: npt.NDArray[np.bool_] = missing.to_numpy(zero_copy_only=False)
    millis = moments.fill_null(0).view(pa.int64()).to_numpy(zero_copy_only=False)
    # A larger amount leaves the range of dates anyway; without the limit, the product could overflow.
    largest = largest_amount(duration)
    units = np.clip(amounts.fill_null(0).to_numpy(zero_copy_only=False), -largest, largest)
    if sign is Sign.SUB:
        units = -units
    shifted = _shift_months(millis, units * duration.months) if duration.months else millis + units * duration.millis
    outside = (shifted < FIRST_DAY * DAY_MILLIS) | (shifted >= (LAST_DAY + 1) * DAY_MILLIS)
    if (outside & ~mask).any():
        raise date_overflow_error()
    stamps: Any = pa.array(np.where(mask, 0, shifted), mask=mask)
    results = stamps.cast(pa.timestamp("ms")).cast(_TIMESTAMP).cast(result_type)
    value: Value = results if length is not None else results[0]
    return value


def _shift_months(millis: npt.NDArray[np.int64], months: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Add months; a day past the end of the month becomes its last day."""
    days = millis // DAY_MILLIS
    dates = days.astype("datetime64[D]")
    firsts = dates.astype("datetime64[M]")
    day_numbers = (dates - firsts.astype("datetime64[D]")).astype(np.int64)
    targets = (firsts.astype(np.int64) + months).astype("datetime64[M]")
    starts = targets.astype("datetime64[D]").astype(np.int64)
    ends = (targets + np.timedelta64(1, "M")).astype("datetime64[D]").astype(np.int64)
    shifted: npt.NDArray[np.int64] = np.minimum(starts + day_numbers, ends - 1) * DAY_MILLIS + millis % DAY_MILLIS
    return shifted


def time_difference(left: Value, right: Value, result_type: pa.DataType) -> Value:
    """Return the days between two dates as I64, or the seconds between two datetimes as F64."""
    if pa.types.is_int64(result_type):
        days: Value = pc.subtract(*(side.cast(pa.int32()).cast(pa.int64()) for side in (left, right)))
        return days
    millis: Any = pc.subtract(*(side.cast(_TIMESTAMP).cast(pa.int64()) for side in (left, right)))
    seconds: Value = pc.divide(millis.cast(pa.float64()), 1000.0)
    return seconds


def broadcast(value: Value, length: int) -> Array:
    """Return a value as an array of this length."""
    if not isinstance(value, pa.Scalar):
        return value
    scalar: Any = value
    # `pa.repeat` fails for a list and length 0.
    array: Array = pa.repeat(scalar, length) if length else pa.nulls(0, scalar.type)
    return array


def overflow_error() -> RunError:
    """Return the error of an integer outside the range of I64."""
    return RunError(
        "integer overflow: expected a value from -9223372036854775808 to 9223372036854775807 (I64)",
        code="integer_overflow",
        hint="Calculate with floats: `x * 1.0` is an F64.",
    )


def date_overflow_error() -> RunError:
    """Return the error of a date or datetime outside the years 1 to 9999."""
    return RunError(
        "date overflow: expected a date from 0001-01-01 to 9999-12-31",
        code="date_overflow",
        hint="Add or subtract a shorter duration.",
    )


def _compare_integers(operator: ComparisonOperator, left: Value, right: Value) -> Value:
    kernel = _KERNELS[operator]
    if pa.types.is_uint64(left.type) or pa.types.is_uint64(right.type):
        wide = pa.decimal128(20, 0)
        return kernel(left.cast(wide), right.cast(wide))  # type: ignore[no-any-return]
    return kernel(left.cast(pa.int64()), right.cast(pa.int64()))  # type: ignore[no-any-return]


def _compare_with_float(operator: ComparisonOperator, whole: Value, real: Value) -> Value:
    """Compare integers with floats: as floats if all integers are exact as floats, otherwise exactly."""
    kernel = _KERNELS[operator]
    real = real.cast(pa.float64())
    if whole.type in {pa.int32(), pa.uint32()} or _fits_float(whole):
        result: Value = kernel(whole.cast(pa.float64(), safe=False), real)
        return result
    return _compare_exactly(kernel, whole, real)


def _fits_float(whole: Value) -> bool:
    bounds: Any = pc.min_max(pa.array([whole.as_py()], whole.type) if isinstance(whole, pa.Scalar) else whole)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return low is None or (low >= -_EXACT_MAX and high <= _EXACT_MAX)


def _compare_exactly(kernel: Any, whole: Value, real: Value) -> Value:
    length = len(whole) if isinstance(whole, pa.Array) else len(real) if isinstance(real, pa.Array) else 1
    integers, floats = broadcast(whole, length), broadcast(real, length)
    missing: Any = pc.or_(integers.is_null(), floats.is_null())
    numbers: npt.NDArray[Any] = integers.fill_null(0).to_numpy(zero_copy_only=False)
    others: npt.NDArray[np.float64] = floats.fill_null(0.0).to_numpy(zero_copy_only=False)
    low, high = (0.0, 2.0**64) if numbers.dtype == np.uint64 else (-(2.0**63), 2.0**63)
    floor = np.floor(others)
    inside = (floor >= low) & (floor < high)
    near = np.where(inside, floor, 0.0).astype(numbers.dtype)
    sign = (numbers > near).astype(np.int8) - (numbers < near).astype(np.int8)
    # If the integer is equal to the floor and the float has a fraction, the integer is smaller.
    sign = np.where((sign == 0) & (others > floor), -1, sign)
    sign = np.where(inside, sign, np.where(others >= high, -1, 1)).astype(np.float64)
    sign[np.isnan(others)] = np.nan
    mask = missing.to_numpy(zero_copy_only=False)
    results: Any = kernel(pa.array(sign, mask=mask, from_pandas=False), pa.scalar(0.0))
    are_scalars = isinstance(whole, pa.Scalar) and isinstance(real, pa.Scalar)
    value: Value = results[0] if are_scalars else results
    return value


def _calculate_floats(sign: Sign, left: Value, right: Value) -> Value:
    left, right = (side.cast(pa.float64(), safe=False) for side in (left, right))
    if sign is not Sign.DIV:
        return _PLAIN[sign](left, right)  # type: ignore[no-any-return]
    is_zero: Any = pc.equal(right, 0.0)
    divisor: Any = pc.if_else(is_zero, pa.scalar(None, pa.float64()), right)
    return pc.divide(left, divisor)  # type: ignore[no-any-return]


def _as_decimal(value: Value) -> Value:
    return value.cast(pa.decimal256(20, 0))


def _as_i64(value: Value) -> Value:
    try:
        return value.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise overflow_error() from error
