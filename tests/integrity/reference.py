"""A reference implementation of the rules, one value at a time and without Arrow."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from omnigraph.integrity.rules import Rule
from omnigraph.schema.property_types import (
    FLOATS,
    INTEGER_BOUNDS,
    EnumType,
    ListType,
    PropertyType,
    Scalar,
    ScalarType,
    VectorType,
)

Typed = object
_DATETIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1)


def typed(value: object, target: PropertyType) -> Typed | Rule:
    """Return the value in the property's type, or the rule that it violates. Datetimes are milliseconds."""
    if isinstance(value, str) and not _is_unicode(value):
        return Rule.NOT_UNICODE
    match target:
        case EnumType():
            return value if isinstance(value, str) else Rule.WRONG_TYPE
        case ListType(item):
            return _list(value, ScalarType(item))
        case VectorType(size):
            if isinstance(value, list) and len(value) != size:
                return Rule.VECTOR_LENGTH
            return _list(value, ScalarType(Scalar.F32))
        case ScalarType(scalar) if scalar in INTEGER_BOUNDS:
            return _integer(value, scalar)
        case ScalarType(scalar) if scalar in FLOATS:
            return _float(value, scalar)
        case ScalarType(scalar):
            return _other(value, scalar)
    raise AssertionError(target)


def _list(value: object, item: ScalarType) -> list[Typed] | Rule:
    """Return the converted items, or the rule that an item violates."""
    if not isinstance(value, list):
        return Rule.WRONG_TYPE
    items = [None if member is None else typed(member, item) for member in value]
    broken = {entry for entry in items if isinstance(entry, Rule)}
    if broken:
        assert len(broken) == 1, "the tests have lists with one kind of violation"
        return broken.pop()
    return Rule.LIST_ITEM_NULL if None in items else items


def _integer(value: object, scalar: Scalar) -> int | Rule:
    if isinstance(value, str) and scalar in (Scalar.I64, Scalar.U64):
        if not re.fullmatch("0|-?[1-9][0-9]*", value, re.ASCII):
            return Rule.WRONG_TYPE
        value = int(Decimal(value))
    if isinstance(value, bool) or not isinstance(value, int):
        return Rule.WRONG_TYPE
    low, high = INTEGER_BOUNDS[scalar]
    return value if low <= value <= high else Rule.NUMBER_SIZE


def _float(value: object, scalar: Scalar) -> float | Rule:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Rule.WRONG_TYPE
    try:
        number = float(value)
        if scalar is Scalar.F32:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return Rule.NOT_FINITE
    return number + 0.0 if math.isfinite(number) else Rule.NOT_FINITE


def _other(value: object, scalar: Scalar) -> Typed | Rule:
    if scalar is Scalar.BOOL:
        return value if isinstance(value, bool) else Rule.WRONG_TYPE
    if not isinstance(value, str):
        return Rule.WRONG_TYPE
    if scalar is Scalar.DATE:
        try:
            return date.fromisoformat(value) if re.fullmatch(r"[0-9-]{10}", value) else Rule.DATE
        except ValueError:
            return Rule.DATE
    if scalar is Scalar.DATETIME:
        return _datetime(value)
    if scalar is Scalar.BLOB:
        return _blob(value)
    return value


def _datetime(text: str) -> int | Rule:
    match = _DATETIME.fullmatch(text)
    if not match:
        return Rule.DATETIME
    day, hour, minute, second, fraction, sign, off_hour, off_minute = match.groups()
    if len(fraction or "") > 3:
        return Rule.DATETIME_TOO_FINE
    try:
        time = datetime.fromisoformat(f"{day}T{hour}:{minute}:{second}")
    except ValueError:
        return Rule.DATETIME
    if sign and (int(off_hour) > 23 or int(off_minute) > 59):
        return Rule.DATETIME
    offset = timedelta(hours=int(off_hour or 0), minutes=int(off_minute or 0))
    try:
        time = time + offset if sign == "-" else time - offset
    except OverflowError:
        return Rule.DATETIME
    return int((time - _EPOCH) / timedelta(seconds=1)) * 1000 + int(f"{fraction or '0':0<3}")


def _blob(text: str) -> bytes | Rule:
    if not text.startswith("base64:"):
        return Rule.BLOB_URI
    try:
        return base64.b64decode(text[7:].encode(), validate=True)
    except (binascii.Error, ValueError):
        return Rule.BLOB_ENCODING


def text_of(value: Typed, target: PropertyType) -> str:
    """Return the canonical text of a typed value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if target == ScalarType(Scalar.DATETIME):
        assert isinstance(value, int)
        time = _EPOCH + timedelta(milliseconds=value)
        return time.replace(tzinfo=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return _shortest(value + 0.0) if target == ScalarType(Scalar.F32) else repr(value + 0.0)
    return str(value)


def _shortest(value: float) -> str:
    """Return the fewest digits that give the same 32-bit float, tried from the nearest number."""
    for digits in range(1, 10):
        near = Decimal(f"{value:.{digits - 1}e}")
        step = Decimal((0, (1,), int(near.as_tuple().exponent)))
        tried = sorted((near, near - step, near + step), key=lambda number: abs(number - Decimal(value)))
        for candidate in tried:
            try:
                if struct.pack("<f", float(candidate)) == struct.pack("<f", value):
                    return repr(float(candidate))
            except OverflowError:
                continue
    raise AssertionError(value)


def array_of(texts: Sequence[str]) -> str:
    return json.dumps(list(texts), ensure_ascii=False, separators=(",", ":"))


def repeated(keys: Sequence[str | None]) -> list[int]:
    """Return the rows whose key an earlier row has."""
    seen: set[str] = set()
    rows = []
    for row, key in enumerate(keys):
        if key is not None and key in seen:
            rows.append(row)
        elif key is not None:
            seen.add(key)
    return rows


def counts_after(before: Mapping[str, int], added: Sequence[str | None], removed: Sequence[str]) -> dict[str, int]:
    """Return the number of edges of each source that a change affects, after the change."""
    after = {source: before.get(source, 0) for source in {*added, *removed} if source is not None}
    for source in added:
        if source is not None:
            after[source] += 1
    for source in removed:
        after[source] -= 1
    return after


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
