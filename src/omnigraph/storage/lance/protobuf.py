"""Protobuf messages of Lance, field by field: parses any message and encodes single fields.

In: bytes, or a field number and a value. Out: field numbers with values, or bytes. A library would need Lance's message
definitions, which the package `lance` does not contain. The meaning of a field is not known here. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_VARINT_BYTES_MAX: Final = 10


class ProtobufError(ValueError):
    """The bytes are not a valid protobuf message."""


def parse_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and value of each field in order: an int for a varint, bytes for other types."""
    return ((number, value) for number, value, _ in _parse(message))


def parse_raw_fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each field in order, and the bytes that encode the field."""
    start = 0
    for number, _, end in _parse(message):
        yield number, message[start:end]
        start = end


def _parse(message: bytes) -> Iterator[tuple[int, int | bytes, int]]:
    """Yield the number, the value and the end of each field."""
    position, size = 0, len(message)
    while position < size:
        tag = message[position]
        position += 1
        if tag > 127:
            tag, position = _parse_varint(message, position - 1)
        kind = tag & 7
        if kind == 0:
            value, position = _parse_varint(message, position)
            yield tag >> 3, value, position
            continue
        if kind == 2:
            length, position = _parse_varint(message, position)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ProtobufError(f"unknown field type {kind} before byte {position}")
        end = position + length
        if end > size:
            raise ProtobufError(
                f"message ends early: expected {length} bytes at byte {position}, got {size - position}"
            )
        yield tag >> 3, message[position:end], end
        position = end


def text_field(number: int, text: str) -> bytes:
    """Encode a field with a string."""
    return bytes_field(number, text.encode())


def bytes_field(number: int, data: bytes) -> bytes:
    """Encode a field with bytes or with a message."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def number_field(number: int, value: int) -> bytes:
    """Encode a field with a number; a negative number needs ten bytes."""
    return _varint(number << 3) + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _parse_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    for byte in message[position : position + _VARINT_BYTES_MAX]:
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise ProtobufError(f"invalid varint: it does not end before byte {position}")
