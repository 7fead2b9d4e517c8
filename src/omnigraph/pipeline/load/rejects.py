"""Every violation of a load, as lines of JSON: written by workers, put together in the order of the input.

In: violations, a block at a time. Out: one stream of lines for `--errors FILE`, by file and line, however many there
are: memory holds one block's. Workers write local line numbers; whoever reads knows how many lines come before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge

import msgspec

from omnigraph.base import limits
from omnigraph.graph.scratch import Scratch
from omnigraph.integrity.report import Violation
from omnigraph.integrity.rules import Rule


@dataclass(slots=True)
class ErrorWriter:
    """Writes violations that come in the order of their lines, in files of bounded size."""

    scratch: Scratch
    files: list[str] = field(default_factory=list)
    waiting: bytearray = field(default_factory=bytearray)

    def add(self, violations: Iterable[Violation]) -> None:
        """The violations of one block; they need not be in order among themselves."""
        for violation in sorted(violations, key=lambda found: found.order()):
            self.waiting += violation.to_ndjson()
            if len(self.waiting) >= limits.LOAD_KEY_FILE_BYTES:
                self._flush()

    def finish(self) -> tuple[str, ...]:
        if self.waiting:
            self._flush()
        return tuple(self.files)

    def _flush(self) -> None:
        self.files.append(self.scratch.write("errors", bytes(self.waiting)))
        self.waiting = bytearray()


@dataclass(frozen=True, slots=True)
class ErrorStream:
    """Files whose violations are in order, one file after the other; `lines_before` moves their lines."""

    files: tuple[str, ...]
    lines_before: int = 0


def merge_errors(scratch: Scratch, streams: Sequence[ErrorStream]) -> Iterator[Violation]:
    """The violations of all streams in the order of the report."""
    each = [_read(scratch, stream) for stream in streams]
    yield from merge(*each, key=lambda found: found.order())


def _read(scratch: Scratch, stream: ErrorStream) -> Iterator[Violation]:
    for name in stream.files:
        for line in _lines(scratch, name):
            yield _violation(msgspec.json.decode(line)).shift_lines(stream.lines_before)


def _lines(scratch: Scratch, name: str) -> Iterator[bytes]:
    rest, at = b"", 0
    while data := scratch.read(name, at, limits.LOAD_BLOCK_BYTES):
        at += len(data)
        *whole, rest = (rest + data).split(b"\n")
        yield from whole
        if len(data) < limits.LOAD_BLOCK_BYTES:
            return


_RULES: Mapping[str, Rule] = {rule.code: rule for rule in Rule}


def _violation(members: Mapping[str, object]) -> Violation:
    line, name = members["line"], members["property"]
    return Violation(
        str(members["file"]),
        int(str(line)) if line is not None else None,
        None if name is None else str(name),
        str(members["value"]),
        _RULES[str(members["code"])],
        str(members["message"]),
    )
