"""Reads a `.pg` file from disk into text, with one clear error for each way that can fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from omnigraph.base.errors import Problem, SchemaTextError, UsageError
from omnigraph.base.limits import SCHEMA_TEXT_BYTES_MAX


def read_schema_file(path: Path) -> str:
    """The text of the file. Its size is bounded here, its grammar is not judged."""
    data = _read(path)
    if len(data) > SCHEMA_TEXT_BYTES_MAX:
        message = f"the file has more than {SCHEMA_TEXT_BYTES_MAX} bytes"
        raise SchemaTextError((_problem(path, "S002", message, "is it the right one?"),))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, data, error.start) from error
    if not text.strip("\ufeff \t\r\n"):
        raise SchemaTextError(
            (_problem(path, "S001", "the file is empty", "declare at least one node type"),)
        )
    return text


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(SCHEMA_TEXT_BYTES_MAX + 1)
    except FileNotFoundError as error:
        raise _unreadable(path, "there is no schema file", "check the path given to --schema") from error
    except IsADirectoryError as error:
        raise _unreadable(
            path, "the schema is a directory, not a file:", "name the .pg file in it"
        ) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise _unreadable(path, f"cannot read the schema file ({reason})", "check its permissions") from error


def _unreadable(path: Path, sentence: str, hint: str) -> UsageError:
    return UsageError(f"{sentence} {path}", code="schema_file", hint=hint, facts={"path": str(path)})


def _not_utf8(path: Path, data: bytes, start: int) -> SchemaTextError:
    line_start = data.rfind(b"\n", 0, start) + 1
    column = len(data[line_start:start].decode("utf-8")) + 1
    line = data.count(b"\n", 0, start) + 1
    problem = _problem(path, "S003", "the file is not UTF-8", "save it as UTF-8")
    return SchemaTextError((replace(problem, line=line, column=column),))


def _problem(path: Path, code: str, message: str, hint: str) -> Problem:
    """A problem of the whole file, so without a line to show."""
    return Problem(code, message, hint, str(path), 1, 1, 1, "")
