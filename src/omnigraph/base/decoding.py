"""Decode JSON and convert values to structs and dataclasses, from any thread.

msgspec collects the fields of a class when it first needs them. If two threads do this for the same class at the same
time, the process ends with a segmentation fault. So the first use of each type holds a lock.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_lock = threading.Lock()


def decode_json(data: bytes | str, kind: type[T]) -> T:
    """Return the JSON document as a value of this type; raise like `msgspec.json.decode`."""
    value: T = _decoder(kind).decode(data)
    return value


def convert(value: Any, kind: type[T], *, strict: bool = True, from_attributes: bool = False) -> T:
    """Return the value as one of this type; raise like `msgspec.convert`."""
    _decoder(kind)
    return msgspec.convert(value, kind, strict=strict, from_attributes=from_attributes)


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(kind)
    if decoder is None:
        with _lock:
            decoder = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    return decoder
