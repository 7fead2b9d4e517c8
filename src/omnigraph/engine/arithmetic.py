"""Arithmetic over Arrow values: integers give an exact I64 or an error, floats and division an F64, `a / 0` null."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.errors import RunError
from omnigraph.engine.compare import Value
from omnigraph.query.syntax import Sign

_CHECKED: Final[dict[Sign, Any]] = {
    Sign.ADD: pc.add_checked,
    Sign.SUB: pc.subtract_checked,
    Sign.MUL: pc.multiply_checked,
}
_PLAIN: Final[dict[Sign, Any]] = {Sign.ADD: pc.add, Sign.SUB: pc.subtract, Sign.MUL: pc.multiply}


def computed(sign: Sign, left: Value, right: Value, wanted: pa.DataType) -> Value:
    """`left sign right`, as I64 or F64."""
    if pa.types.is_floating(wanted):
        return _floats(sign, left, right)
    try:
        return _CHECKED[sign](left.cast(pa.int64()), right.cast(pa.int64()))  # type: ignore[no-any-return]
    except pa.ArrowInvalid:
        # Out of range on the way, perhaps because of an unsigned operand: the exact answer decides.
        return _exact(_PLAIN[sign](_wide(left), _wide(right)))


def negated(operand: Value, wanted: pa.DataType) -> Value:
    """`-operand`."""
    if pa.types.is_floating(wanted):
        answer: Value = pc.negate(operand.cast(pa.float64()))
        return answer
    return _exact(pc.negate(_wide(operand)))


def overflow() -> RunError:
    """A whole number that is no I64."""
    return RunError(
        "a whole number left the range of I64 (-9223372036854775808 to 9223372036854775807)",
        code="integer_overflow",
        hint="divide or use floats: `x * 1.0` is an F64",
    )


def _floats(sign: Sign, left: Value, right: Value) -> Value:
    one, other = (side.cast(pa.float64(), safe=False) for side in (left, right))
    if sign is not Sign.DIV:
        return _PLAIN[sign](one, other)  # type: ignore[no-any-return]
    is_zero: Any = pc.equal(other, 0.0)
    divisor: Any = pc.if_else(is_zero, pa.scalar(None, pa.float64()), other)
    return pc.divide(one, divisor)  # type: ignore[no-any-return]


def _wide(value: Value) -> Value:
    return value.cast(pa.decimal256(20, 0))


def _exact(value: Value) -> Value:
    try:
        return value.cast(pa.int64())
    except pa.ArrowInvalid as beyond:
        raise overflow() from beyond
