"""All violations of a load as JSON lines: workers write them, the driver merges them in the order of the input.

In: violations, one block at a time. Out: one stream, ordered by file and line, of any length: memory holds the
violations of one block. Workers write line numbers within a piece; the reader adds the lines before the piece. The
files are in the scratch directory, which a crash leaves for `cleanup`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from pathlib import Path
from typing import Final

import msgspec

from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.graph.scratch import Scratch
from omnigraph.integrity.report import Violation
from omnigraph.integrity.rules import Rule
from omnigraph.storage.location import Location, parse_location

_RULES: Final = {rule.code: rule for rule in Rule}


@dataclass(slots=True)
class ErrorWriter:
    """Writes violations in line order, to files of bounded size."""

    scratch: Scratch
    files: list[str] = field(default_factory=list)
    pending: bytearray = field(default_factory=bytearray)

    def add(self, violations: Iterable[Violation]) -> None:
        """Add the violations of one block, in any order."""
        for violation in sorted(violations, key=lambda violation: violation.order()):
            self.pending += violation.to_ndjson()
            if len(self.pending) >= limits.LOAD_KEY_FILE_BYTES:
                self._flush()

    def finish(self) -> tuple[str, ...]:
        if self.pending:
            self._flush()
        return tuple(self.files)

    def _flush(self) -> None:
        self.files.append(self.scratch.write("errors", bytes(self.pending)))
        self.pending = bytearray()


@dataclass(frozen=True, slots=True)
class ErrorStream:
    """Files with violations in line order; `lines_before` is added to their line numbers."""

    files: tuple[str, ...]
    lines_before: int = 0


def locate_rejects(text: str, root: Location) -> Location:
    """Return the file for errors of rows; raise if it cannot be written."""
    location = parse_location(text, dict(root.options))
    path = Path(location.uri)
    if location.is_local and (path.is_dir() or not os.access(path.parent, os.W_OK)):
        raise UsageError(
            f"no file can be written at '{text}'",
            code="errors_file",
            hint="Pass a file in an existing directory that you may write to.",
        )
    return location


def merge_errors(scratch: Scratch, streams: Sequence[ErrorStream]) -> Iterator[Violation]:
    """Read the violations of all streams in the order of the report."""
    violations = [_read(scratch, stream) for stream in streams]
    yield from merge(*violations, key=lambda violation: violation.order())


def _read(scratch: Scratch, stream: ErrorStream) -> Iterator[Violation]:
    for name in stream.files:
        for line in _lines(scratch, name):
            members = msgspec.json.decode(line)
            yield Violation(
                file=members["file"],
                line=members["line"],
                property=members["property"],
                value=members["value"],
                rule=_RULES[members["code"]],
                message=members["message"],
                entity_id=members.get("entity_id"),
                earlier_file=members.get("earlier_file"),
                earlier_line=members.get("earlier_line"),
            ).shift_lines(stream.lines_before)


def _lines(scratch: Scratch, name: str) -> Iterator[bytes]:
    rest, position = b"", 0
    while data := scratch.read(name, position, limits.LOAD_BLOCK_BYTES):
        position += len(data)
        *whole, rest = (rest + data).split(b"\n")
        yield from whole
        if len(data) < limits.LOAD_BLOCK_BYTES:
            return
