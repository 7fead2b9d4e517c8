"""Conditions as SQL for the storage, where that loses nothing.

Comes in: conjuncts over the columns of one table, with literals of exactly the columns' types. Goes out: one text, and
the conjuncts that could not be said in it. Values only ever become quoted or numeric literals.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Final

from omnigraph.query.expressions import (
    And,
    ColumnRef,
    Compare,
    Expr,
    InList,
    IsNull,
    Literal,
    LiteralValue,
    Not,
    Or,
    Prefix,
)
from omnigraph.query.value_types import ValueType
from omnigraph.schema.property_types import EnumType, Scalar, ScalarType
from omnigraph.storage.conditions import column_text, text_literal

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SURROGATES: Final = range(0xD800, 0xE000)


def pushed_text(conjuncts: tuple[Expr, ...]) -> tuple[str | None, tuple[Expr, ...]]:
    """The filter for the storage, None if there is none, and the conjuncts that remain."""
    texts, rest = [], []
    for conjunct in conjuncts:
        text = _condition(conjunct)
        if text is None:
            rest.append(conjunct)
        else:
            texts.append(text)
    return (" AND ".join(f"({text})" for text in texts) or None), tuple(rest)


def _condition(expr: Expr) -> str | None:
    match expr:
        case And(operands) | Or(operands):
            parts = [_condition(operand) for operand in operands]
            known = [f"({part})" for part in parts if part is not None]
            word = " AND " if isinstance(expr, And) else " OR "
            return word.join(known) if len(known) == len(parts) else None
        case Not(operand):
            inner = _condition(operand)
            return None if inner is None else f"NOT ({inner})"
        case Compare(operator, ColumnRef() as column, Literal() as literal):
            value = _literal(literal.value, column.type)
            sign = "<>" if operator.value == "!=" else operator.value
            return None if value is None else f"{column_text(column.column)} {sign} {value}"
        case InList(ColumnRef() as column, items):
            values = [
                _literal(item.value, column.type) if isinstance(item, Literal) else None for item in items
            ]
            listed = [value for value in values if value is not None]
            if not listed or len(listed) < len(values):
                return None
            return f"{column_text(column.column)} IN ({', '.join(listed)})"
        case Prefix(ColumnRef() as column, Literal(str() as part)):
            return _prefix(column_text(column.column), part)
        case IsNull(ColumnRef() as column, negated):
            return f"{column_text(column.column)} IS {'NOT ' if negated else ''}NULL"
        case Literal(bool() as answer):
            return "true" if answer else "false"
        case _:
            return None


def _literal(value: LiteralValue, wanted: ValueType) -> str | None:
    match wanted, value:
        case ((ScalarType(Scalar.STRING) | EnumType()), str()):
            return None if "\x00" in value else text_literal(value)
        case ScalarType(Scalar.BOOL), bool():
            return "true" if value else "false"
        case ScalarType(Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64), int():
            # The parser reads the smallest I64 as minus a number that is too large.
            return None if value == -(2**63) else str(value)
        case ScalarType(Scalar.F64), float() if math.isfinite(value):
            return f"CAST('{value!r}' AS DOUBLE)"
        case ScalarType(Scalar.F32), float() if math.isfinite(value):
            return f"CAST('{value!r}' AS FLOAT)"
        case ScalarType(Scalar.DATE), date():
            return f"arrow_cast({(value - _EPOCH.date()).days}, 'Date32')"
        case ScalarType(Scalar.DATETIME), datetime():
            moment = value.astimezone(UTC) - _EPOCH
            millis = (moment.days * 86_400 + moment.seconds) * 1000 + moment.microseconds // 1000
            return f"arrow_cast({millis}, 'Timestamp(Millisecond, Some(\"UTC\"))')"
        case _:
            return None


def _prefix(column: str, part: str) -> str | None:
    """A prefix as a range, which an index serves: texts are ordered by code points."""
    if "\x00" in part:
        return None
    after = _after_prefix(part)
    low = f"{column} >= {text_literal(part)}"
    return low if after is None else f"{low} AND {column} < {text_literal(after)}"


def _after_prefix(part: str) -> str | None:
    """The smallest text above all texts with this prefix; None if there is none."""
    kept = part.rstrip("\U0010ffff")
    if not kept:
        return None
    code = ord(kept[-1]) + 1
    if code in _SURROGATES:
        code = _SURROGATES.stop
    return kept[:-1] + chr(code)
