"""The absolute paths in version files of Lance branches, and how to replace them after a dataset was moved.

In: the bytes of a version file. Out: its base paths, or the bytes with other ones. A Lance branch is a shallow clone:
its versions name the directories of main and of parent branches, in the field `base_paths`, as absolute paths: Lance
does not support relative paths. The manifest message is the last part of a version file, so its length can change
without moving other bytes. `tests/maintenance/test_relocation.py` fails when Lance changes this format. Pure.
"""

from __future__ import annotations

import struct
from typing import Final

from omnigraph.base.errors import FormatError
from omnigraph.storage.lance import protobuf

_MAGIC: Final = b"LANC"
_FOOTER: Final = struct.Struct("<QHH4s")
_LENGTH: Final = struct.Struct("<I")
_BASE_PATHS: Final = 18
_PATH: Final = 4


def read_base_paths(data: bytes, name: str) -> list[str]:
    """Return the base paths of a version file. `name` is for errors."""
    _, message = _split(data, name)
    return [path for number, value in protobuf.parse_fields(message) if number == _BASE_PATHS for path in _paths(value)]


def replace_base_paths(data: bytes, old_root: str, new_root: str, name: str) -> bytes:
    """Return a version file with other base paths: those below the old root are below the new one."""
    position, message = _split(data, name)
    replaced = b"".join(
        _replace_path(raw, old_root, new_root) if number == _BASE_PATHS else raw
        for number, raw in protobuf.parse_raw_fields(message)
    )
    return data[:position] + _LENGTH.pack(len(replaced)) + replaced + data[-_FOOTER.size :]


def is_below(path: str, root: str) -> bool:
    """Return whether a path is a directory or one below it."""
    return path == root or path.startswith(f"{root}/")


def _replace_path(raw: bytes, old_root: str, new_root: str) -> bytes:
    ((number, base),) = protobuf.parse_fields(raw)
    assert isinstance(base, bytes), "a base path is a message"
    fields = b""
    for field, value in protobuf.parse_fields(base):
        match value:
            case bytes() if field == _PATH and is_below(value.decode(), old_root):
                fields += protobuf.text_field(field, new_root + value.decode()[len(old_root) :])
            case bytes():
                fields += protobuf.bytes_field(field, value)
            case int():
                fields += protobuf.number_field(field, value)
    return protobuf.bytes_field(number, fields)


def _paths(base: int | bytes) -> list[str]:
    assert isinstance(base, bytes), "a base path is a message"
    return [
        value.decode() for number, value in protobuf.parse_fields(base) if number == _PATH and isinstance(value, bytes)
    ]


def _split(data: bytes, name: str) -> tuple[int, bytes]:
    """Return where the manifest message starts, with its length, and the message; raise if this is another format."""
    try:
        position, _, _, magic = _FOOTER.unpack(data[-_FOOTER.size :])
        (length,) = _LENGTH.unpack_from(data, position)
        start = position + _LENGTH.size
        if magic != _MAGIC or start + length + _FOOTER.size != len(data):
            raise protobuf.ProtobufError("expected a manifest message at its end")
        message = data[start : start + length]
        list(protobuf.parse_fields(message))
    except (struct.error, protobuf.ProtobufError) as error:
        raise FormatError(
            f"cannot read the version file '{name}': {error}",
            code="version_file",
            hint="Nothing was changed. Restore the file from a copy, or delete its branch.",
            facts={"file": name},
        ) from error
    return position, message
