"""Typed values of a result as the JSON that users see, and whether two results are the same."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any, Final

from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan.types import Column, EntityValueType, ValueType
from omnigraph.schema.property_types import ListType, Scalar, ScalarType
from omnigraph.schema.values import value_text
from tests.conformance.case_files import Changed, Expected, Failed, Rows

_F32: Final = ScalarType(Scalar.F32)
_SYSTEM: Final = {"id": "@id", "src": "@from", "dst": "@to"}


def shown(value: Any, field: ex.Field) -> Any:
    """A cell as JSON. An entity comes as its columns with their values."""
    return _shown(value, field.type)


def _shown(value: Any, value_type: ValueType) -> Any:
    if isinstance(value, float) and value_type == _F32:
        return float(value_text(value, _F32))
    if isinstance(value, datetime | date):
        return value_text(value, ScalarType(Scalar.DATETIME if isinstance(value, datetime) else Scalar.DATE))
    if isinstance(value, tuple) and isinstance(value_type, EntityValueType):
        return _entity(value)
    if isinstance(value, tuple):
        item = ScalarType(value_type.item) if isinstance(value_type, ListType) else _F32
        return [_shown(found, item) for found in value]
    return value


def _entity(columns: tuple[tuple[Column, Any], ...]) -> dict[str, Any]:
    """The ids as system columns, and the properties that are not null."""
    return {
        _SYSTEM.get(column.name, column.name): _shown(value, column.type)
        for column, value in columns
        if value is not None
    }


def difference(found: Expected, expected: Expected) -> str | None:
    """What is wrong, for people; None when nothing is."""
    if type(found) is not type(expected):
        return f"expected {expected}\nfound    {found}"
    match found, expected:
        case Rows(), Rows():
            return _rows_difference(found, expected)
        case (Changed(), Changed()) | (Failed(), Failed()):
            return None if found == expected else f"expected {expected}\nfound    {found}"
    raise AssertionError("both are of one kind")


def _rows_difference(found: Rows, expected: Rows) -> str | None:
    if found.columns != expected.columns:
        return f"expected columns {expected.columns}\nfound    columns {found.columns}"
    pairs = (list(found.rows), list(expected.rows))
    if not expected.ordered:
        pairs = (sorted(pairs[0], key=_text), sorted(pairs[1], key=_text))
    same = len(pairs[0]) == len(pairs[1]) and all(
        len(one) == len(other) and all(_is_same(*cells) for cells in zip(one, other, strict=True))
        for one, other in zip(*pairs, strict=True)
    )
    if same:
        return None
    lines = ["expected", *map(_text, pairs[1]), "found", *map(_text, pairs[0])]
    return "\n".join(lines)


def _is_same(found: Any, expected: Any) -> bool:
    if isinstance(expected, str) and expected.startswith("~"):
        return isinstance(found, float) and abs(found - float(expected[1:])) < 5e-5
    return _text(found) == _text(expected)


def _text(value: Any) -> str:
    """JSON, which tells 1, 1.0 and true apart, and keeps the order of members."""
    return json.dumps(value, ensure_ascii=False)
