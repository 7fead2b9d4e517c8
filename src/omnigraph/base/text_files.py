"""Text files that a caller names: read up to a limit, as UTF-8, with one clear error for each way that can fail.

Other modules check what the text means.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import Problem, ResourceLimit, SchemaTextError, TextError, UsageError
from omnigraph.base.hints import Argument, Hint, Placeholder, hint


@dataclass(frozen=True, slots=True, kw_only=True)
class TextKind:
    """A language that is read from files: the size limit, its error class, and the codes of file errors."""

    bytes_max: int
    error: type[TextError]
    resource: str
    too_large: str
    not_utf8: str


_SCHEMA: Final = TextKind(
    bytes_max=limits.SCHEMA_TEXT_BYTES_MAX,
    error=SchemaTextError,
    resource="schema_text",
    too_large="S002",
    not_utf8="S003",
)


def read_schema_file(path: Path) -> str:
    """Return the text of a schema file."""
    text = decode_text(read_bytes(path, limits.SCHEMA_TEXT_BYTES_MAX, "schema", "schema"), path, _SCHEMA)
    if not text.strip("\ufeff \t\r\n"):
        problem = file_problem(path, "S001", "the file is empty", "Declare at least one node type.")
        raise SchemaTextError((problem,))
    return text


def read_bytes(path: Path, bytes_max: int, content: str, argument: str) -> bytes:
    """Return the file up to one byte beyond the limit. Messages name the content and the argument that names it."""
    try:
        with path.open("rb") as file:
            return file.read(bytes_max + 1)
    except FileNotFoundError as error:
        advice = hint("Check the path in {}.", Argument(argument, Placeholder("FILE")))
        raise _unreadable(path, content, f"{content} file '{path}' does not exist", advice) from error
    except IsADirectoryError as error:
        advice = Hint("Pass a file, not a directory.")
        raise _unreadable(path, content, f"{content} file '{path}' is a directory", advice) from error
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        advice = Hint("Check the name and the permissions of the file.")
        raise _unreadable(path, content, f"cannot read {content} file '{path}': {reason}", advice) from error


def decode_text(data: bytes, path: Path, kind: TextKind) -> str:
    """Return the text in the bytes of a file."""
    if len(data) > kind.bytes_max:
        message = f"the file is too large: expected at most {kind.bytes_max:,} bytes"
        limit = ResourceLimit(kind.resource, kind.bytes_max, "bytes")
        raise kind.error((replace(file_problem(path, kind.too_large, message, "Pass a smaller file."), limit=limit),))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        position = before.count("\n") + 1, len(before) - before.rfind("\n")
        problem = file_problem(path, kind.not_utf8, "the file is not UTF-8", "Save it as UTF-8.", position)
        raise kind.error((problem,)) from error


def file_problem(path: Path, code: str, message: str, advice: str, position: tuple[int, int] = (1, 1)) -> Problem:
    """Return a problem at a line and column of a file, without that line."""
    line, column = position
    return Problem(
        code=code, message=message, hint=advice, source=str(path), line=line, column=column, length=1, text=""
    )


def _unreadable(path: Path, content: str, message: str, advice: Hint) -> UsageError:
    return UsageError(message, code=f"{content}_file", hint=advice, facts={"path": str(path)})
