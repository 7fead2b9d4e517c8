"""Converts typed values to the JSON of a result, and compares two results."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any, Final

from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan.types import Column, EntityListType, EntityValueType, ValueType
from omnigraph.schema.property_types import ListType, Scalar, ScalarType
from omnigraph.schema.values import value_text
from tests.conformance.case_files import Changed, Expected, Failed, Rows

_F32: Final = ScalarType(Scalar.F32)
_SYSTEM: Final = {"id": "@id", "src": "@from", "dst": "@to"}


def to_json(value: Any, field: ex.Field) -> Any:
    """Return a cell as JSON. An entity is a tuple of its columns with their values."""
    return _to_json(value, field.type)


def _to_json(value: Any, value_type: ValueType) -> Any:
    if isinstance(value, float) and value_type == _F32:
        return float(value_text(value, _F32))
    if isinstance(value, datetime | date):
        return value_text(value, ScalarType(Scalar.DATETIME if isinstance(value, datetime) else Scalar.DATE))
    if isinstance(value, tuple) and isinstance(value_type, EntityValueType):
        return _entity(value)
    if isinstance(value, tuple) and isinstance(value_type, EntityListType):
        return [_entity(entity) for entity in value]
    if isinstance(value, tuple):
        item = ScalarType(value_type.item) if isinstance(value_type, ListType) else _F32
        return [_to_json(element, item) for element in value]
    return value


def _entity(columns: tuple[tuple[Column, Any], ...]) -> dict[str, Any]:
    """Return the ids as system columns, and the properties that are not null."""
    return {
        _SYSTEM.get(column.name, column.name): _to_json(value, column.type)
        for column, value in columns
        if value is not None
    }


def difference(actual: Expected, expected: Expected) -> str | None:
    """Return a message about the difference; None if the results are equal."""
    if type(actual) is not type(expected):
        return f"expected {expected}\nactual   {actual}"
    match actual, expected:
        case Rows(), Rows():
            return _rows_difference(actual, expected)
        case (Changed(), Changed()) | (Failed(), Failed()):
            return None if actual == expected else f"expected {expected}\nactual   {actual}"
    raise AssertionError("both have one type")


def _rows_difference(actual: Rows, expected: Rows) -> str | None:
    if actual.columns != expected.columns:
        return f"expected columns {expected.columns}\nactual   columns {actual.columns}"
    pairs = (list(actual.rows), list(expected.rows))
    if not expected.ordered:
        pairs = (sorted(pairs[0], key=_text), sorted(pairs[1], key=_text))
    same = len(pairs[0]) == len(pairs[1]) and all(
        len(row) == len(expected_row) and all(_is_equal(*cells) for cells in zip(row, expected_row, strict=True))
        for row, expected_row in zip(*pairs, strict=True)
    )
    if same:
        return None
    lines = ["expected", *map(_text, pairs[1]), "actual", *map(_text, pairs[0])]
    return "\n".join(lines)


def _is_equal(actual: Any, expected: Any) -> bool:
    if isinstance(expected, str) and expected.startswith("~"):
        return isinstance(actual, float) and abs(actual - float(expected[1:])) < 5e-5
    return _text(actual) == _text(expected)


def _text(value: Any) -> str:
    """Return JSON, in which 1, 1.0 and true differ, and which keeps the order of members."""
    return json.dumps(value, ensure_ascii=False)
