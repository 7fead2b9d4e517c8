"""Comparisons of Arrow values with the meaning of the language.

Numbers of different types compare exactly: no integer is rounded on its way to a float, none wraps between signed and
unsigned. A date beside a datetime is the midnight with which it begins. Null with anything is null.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.errors import RunError
from omnigraph.engine.columns.dictionary import Array, Scalar
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
_MOMENT: Final = pa.timestamp("ms", "UTC")
_EXACT_MAX: Final = 2**53


def compare(operator: ComparisonOperator, left: Value, right: Value) -> Value:
    """`left operator right` as Bool values."""
    kernel = _KERNELS[operator]
    types = (left.type, right.type)
    if any(pa.types.is_null(found) for found in types):
        length = len(left) if isinstance(left, pa.Array) else len(right) if isinstance(right, pa.Array) else 0
        return pa.scalar(None, pa.bool_()) if not length else pa.nulls(length, pa.bool_())
    if left.type == right.type:
        return kernel(left, right)  # type: ignore[no-any-return]
    if any(pa.types.is_timestamp(found) for found in types):
        return kernel(left.cast(_MOMENT), right.cast(_MOMENT))  # type: ignore[no-any-return]
    floats = [pa.types.is_floating(found) for found in types]
    if all(floats):
        return kernel(left.cast(pa.float64()), right.cast(pa.float64()))  # type: ignore[no-any-return]
    if floats[0]:
        return _compare_with_float(REVERSED.get(operator, operator), right, left)
    if floats[1]:
        return _compare_with_float(operator, left, right)
    return _compare_integers(operator, left, right)


def broadcast(value: Value, length: int) -> Array:
    """A value as one array of this length."""
    if not isinstance(value, pa.Scalar):
        return value
    single: Any = value
    # Arrow repeats no list zero times.
    answer: Array = pa.repeat(single, length) if length else pa.nulls(0, single.type)
    return answer


def _compare_integers(operator: ComparisonOperator, left: Value, right: Value) -> Value:
    kernel = _KERNELS[operator]
    if pa.types.is_uint64(left.type) or pa.types.is_uint64(right.type):
        wide = pa.decimal128(20, 0)
        return kernel(left.cast(wide), right.cast(wide))  # type: ignore[no-any-return]
    return kernel(left.cast(pa.int64()), right.cast(pa.int64()))  # type: ignore[no-any-return]


def _compare_with_float(operator: ComparisonOperator, whole: Value, real: Value) -> Value:
    """An integer beside a float: through floats where all integers survive that, otherwise by the sign."""
    kernel = _KERNELS[operator]
    real = real.cast(pa.float64())
    if whole.type in {pa.int32(), pa.uint32()} or _fits_float(whole):
        answer: Value = kernel(whole.cast(pa.float64(), safe=False), real)
        return answer
    return _compare_by_sign(kernel, whole, real)


def _fits_float(whole: Value) -> bool:
    bounds: Any = pc.min_max(pa.array([whole.as_py()], whole.type) if isinstance(whole, pa.Scalar) else whole)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return low is None or (low >= -_EXACT_MAX and high <= _EXACT_MAX)


def _compare_by_sign(kernel: Any, whole: Value, real: Value) -> Value:
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
    # Equal to the floor, and the float has a fraction: the integer is smaller.
    sign = np.where((sign == 0) & (others > floor), -1, sign)
    sign = np.where(inside, sign, np.where(others >= high, -1, 1)).astype(np.float64)
    sign[np.isnan(others)] = np.nan
    mask = missing.to_numpy(zero_copy_only=False)
    found: Any = kernel(pa.array(sign, mask=mask, from_pandas=False), pa.scalar(0.0))
    both_single = isinstance(whole, pa.Scalar) and isinstance(real, pa.Scalar)
    answer: Value = found[0] if both_single else found
    return answer


_CHECKED: Final[dict[Sign, Any]] = {
    Sign.ADD: pc.add_checked,
    Sign.SUB: pc.subtract_checked,
    Sign.MUL: pc.multiply_checked,
}
_PLAIN: Final[dict[Sign, Any]] = {Sign.ADD: pc.add, Sign.SUB: pc.subtract, Sign.MUL: pc.multiply}


def calculate(sign: Sign, left: Value, right: Value, wanted: pa.DataType) -> Value:
    """`left sign right`, as I64 or F64."""
    if pa.types.is_floating(wanted):
        return _calculate_floats(sign, left, right)
    try:
        return _CHECKED[sign](left.cast(pa.int64()), right.cast(pa.int64()))  # type: ignore[no-any-return]
    except pa.ArrowInvalid:
        # Out of range on the way, perhaps because of an unsigned operand: the exact answer decides.
        return _as_i64(_PLAIN[sign](_as_decimal(left), _as_decimal(right)))


def negate(operand: Value, wanted: pa.DataType) -> Value:
    """`-operand`."""
    if pa.types.is_floating(wanted):
        answer: Value = pc.negate(operand.cast(pa.float64()))
        return answer
    return _as_i64(pc.negate(_as_decimal(operand)))


def overflow_error() -> RunError:
    """A whole number that is no I64."""
    return RunError(
        "a whole number left the range of I64 (-9223372036854775808 to 9223372036854775807)",
        code="integer_overflow",
        hint="divide or use floats: `x * 1.0` is an F64",
    )


def _calculate_floats(sign: Sign, left: Value, right: Value) -> Value:
    one, other = (side.cast(pa.float64(), safe=False) for side in (left, right))
    if sign is not Sign.DIV:
        return _PLAIN[sign](one, other)  # type: ignore[no-any-return]
    is_zero: Any = pc.equal(other, 0.0)
    divisor: Any = pc.if_else(is_zero, pa.scalar(None, pa.float64()), other)
    return pc.divide(one, divisor)  # type: ignore[no-any-return]


def _as_decimal(value: Value) -> Value:
    return value.cast(pa.decimal256(20, 0))


def _as_i64(value: Value) -> Value:
    try:
        return value.cast(pa.int64())
    except pa.ArrowInvalid as beyond:
        raise overflow_error() from beyond
