"""Reads a `.pg` file from disk into text."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import SchemaTextError
from omnigraph.cli.given_file import TextKind, decode_text, file_problem, read_bytes

_SCHEMA: Final = TextKind(limits.SCHEMA_TEXT_BYTES_MAX, SchemaTextError, too_large="S002", not_utf8="S003")


def read_schema_file(path: Path) -> str:
    """The text of the file. Its size is bounded here, its grammar is not judged."""
    text = decode_text(read_bytes(path, limits.SCHEMA_TEXT_BYTES_MAX, "schema", "--schema"), path, _SCHEMA)
    if not text.strip("\ufeff \t\r\n"):
        problem = file_problem(path, "S001", "the file is empty", "declare at least one node type")
        raise SchemaTextError((problem,))
    return text
