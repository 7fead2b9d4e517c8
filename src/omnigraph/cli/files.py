"""Files that the words of a call name: read up to a bound, as UTF-8, with one clear error for each way that can fail.

What a text says is not judged here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from omnigraph.base import limits
from omnigraph.base.clock import _EPOCH
from omnigraph.base.errors import Problem, SchemaTextError, TextError, UsageError


@dataclass(frozen=True, slots=True)
class TextKind:
    """A language that is read from files: how large a text may be, its error, and the codes of what is wrong."""

    bytes_max: int
    error: type[TextError]
    too_large: str
    not_utf8: str


def read_bytes(path: Path, bytes_max: int, what: str, flag: str) -> bytes:
    """The file as far as one byte beyond the bound. `what` it is and the flag that names it are for messages."""
    try:
        with path.open("rb") as file:
            return file.read(bytes_max + 1)
    except FileNotFoundError as error:
        raise _unreadable(
            path, what, f"there is no {what} file", f"check the path given to {flag}"
        ) from error
    except IsADirectoryError as error:
        raise _unreadable(path, what, f"the {what} file is a directory:", "name a file in it") from error
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        sentence = f"cannot read the {what} file ({reason})"
        raise _unreadable(path, what, sentence, "check its name and its permissions") from error


def decode_text(data: bytes, path: Path, kind: TextKind) -> str:
    """The text in the bytes of a file."""
    if len(data) > kind.bytes_max:
        message = f"the file has more than {kind.bytes_max} bytes"
        raise kind.error((file_problem(path, kind.too_large, message, "is it the right one?"),))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        place = before.count("\n") + 1, len(before) - before.rfind("\n")
        message = "the file is not UTF-8"
        raise kind.error((file_problem(path, kind.not_utf8, message, "save it as UTF-8", place),)) from error


def file_problem(path: Path, code: str, message: str, hint: str, place: tuple[int, int] = (1, 1)) -> Problem:
    """A problem of the file, at this line and column, so without a line to show."""
    return Problem(code, message, hint, str(path), *place, 1, "")


def _unreadable(path: Path, what: str, sentence: str, hint: str) -> UsageError:
    code = "schema_file" if what == "schema" else "query_file"
    return UsageError(f"{sentence} {path}", code=code, hint=hint, facts={"path": str(path)})


def parse_time(text: str | None) -> datetime | None:
    """A time as it is given to `--at`."""
    if text is None:
        return None
    from omnigraph.graph.manifest.refs import parse_timestamp

    return _EPOCH + timedelta(microseconds=parse_timestamp(text))


_SCHEMA: Final = TextKind(limits.SCHEMA_TEXT_BYTES_MAX, SchemaTextError, too_large="S002", not_utf8="S003")


def read_schema_file(path: Path) -> str:
    """The text of the file. Its size is bounded here, its grammar is not judged."""
    text = decode_text(read_bytes(path, limits.SCHEMA_TEXT_BYTES_MAX, "schema", "--schema"), path, _SCHEMA)
    if not text.strip("\ufeff \t\r\n"):
        problem = file_problem(path, "S001", "the file is empty", "declare at least one node type")
        raise SchemaTextError((problem,))
    return text
