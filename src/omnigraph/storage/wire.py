"""Reads the top level of a protobuf message without knowing its type, and writes single fields.

Lance's manifests and transactions are protobuf messages, and its Python reader cannot show all of them. Field
numbers never change their meaning in protobuf, so the few we need are read directly. A manifest has one field
per fragment, so the loop takes the short way for small numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_VARINT_BYTES_MAX: Final = 10


class WireError(ValueError):
    """The bytes are no protobuf message."""


def read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Each field's number and value in order: an int for a varint, bytes for the rest."""
    at, size = 0, len(message)
    while at < size:
        tag = message[at]
        at += 1
        if tag > 127:
            tag, at = _read_varint(message, at - 1)
        kind = tag & 7
        if kind == 0:
            value, at = _read_varint(message, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            length, at = _read_varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise WireError(f"field type {kind} before byte {at}")
        end = at + length
        if end > size:
            raise WireError(f"{length} bytes expected at byte {at}, {size - at} are left")
        yield tag >> 3, message[at:end]
        at = end


def text_field(number: int, text: str) -> bytes:
    """A field with a text, as it is in a message."""
    return bytes_field(number, text.encode())


def bytes_field(number: int, data: bytes) -> bytes:
    """A field with bytes or with a message, as it is in a message."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def number_field(number: int, value: int) -> bytes:
    """A field with a number, as it stands in a message; negative ones take ten bytes."""
    return _varint(number << 3) + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for byte in message[at : at + _VARINT_BYTES_MAX]:
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise WireError(f"no end of the number before byte {at}")
