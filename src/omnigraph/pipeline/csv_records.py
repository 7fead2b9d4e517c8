"""Bytes of CSV to whole rows, each with the line on which it begins.

A quoted field may hold line ends, so only the quotes from the start of a file tell where its rows end. In a stretch
whose quotes all stand where RFC 4180 has them, that is a matter of counting. Any other stretch is read row by row: a
row that is no CSV is a bad one, and the next row begins on the line after the one on which it began, so that one stray
quote never costs the rest of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from omnigraph.base import limits
from omnigraph.integrity.raw import Rows
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.blocks import BadLine

_QUOTE, _COMMA, _NEWLINE, _RETURN = b'",\n\r'
_FIELD: Final = rb'(?:"(?:[^"]++|"")*+"|[^",\r\n]*+)'
_RECORD: Final = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*+(?:\r?\n|\Z)")
_QUOTED: Final = re.compile(rb'"(?:[^"]++|"")*+"')
_UNCLOSED: Final = re.compile(rb"(?:" + _FIELD + rb',)*+"(?:[^"]++|"")*+"?\Z')
_MESSAGE: Final = "the row is not CSV: a quote is out of place or never closed, or a line ends with a bare CR"


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Some rows: their bytes in a row, the line of each from 0, the bad ones, and how many lines it all takes."""

    data: bytes
    starts: Rows
    bad: tuple[BadLine, ...]
    lines: int


def read_stretches(blocks: Iterator[bytes]) -> Iterator[Stretch]:
    """The rows of a file without its header; a blank line is none."""
    rest = b""
    for block in blocks:
        stretch, rest = _split(rest + block if rest else block, is_last=False)
        yield stretch
        while len(rest) > limits.LOAD_LINE_BYTES_MAX:
            cut = rest.find(b"\n") + 1
            if not cut:
                yield _only_bad(rest, Rule.LINE_TOO_LONG, "the line is too long")
                return
            yield _only_bad(rest[:cut], Rule.LINE_SYNTAX, _MESSAGE)
            stretch, rest = _split(rest[cut:], is_last=False)
            yield stretch
    if rest:
        yield _split(rest, is_last=True)[0]


def split_records(data: bytes) -> Iterator[bytes]:
    """The rows of a stretch one by one."""
    at = 0
    while at < len(data):
        found = _RECORD.match(data, at)
        assert found is not None, "the rows of a stretch are CSV"
        yield found[0]
        at = found.end()


def count_fields(record: bytes) -> int:
    """How many fields a row has."""
    return _QUOTED.sub(b"", record).count(b",") + 1


def _split(data: bytes, *, is_last: bool) -> tuple[Stretch, bytes]:
    """The whole rows, and the bytes of the one that has only begun."""
    octets = np.frombuffer(data, dtype=np.uint8)
    newlines = np.flatnonzero(octets == _NEWLINE)
    quotes = np.flatnonzero(octets == _QUOTE)
    if not _is_plain(octets, quotes, is_last=is_last):
        return _split_carefully(data, newlines, is_last=is_last)
    ends = newlines[np.searchsorted(quotes, newlines) % 2 == 0] + 1
    if is_last and (not len(ends) or ends[-1] < len(data)):
        ends = np.append(ends, len(data))
    cut = int(ends[-1]) if len(ends) else 0
    return _made(data, ends, newlines), data[cut:]


def _is_plain(octets: Any, quotes: Any, *, is_last: bool) -> bool:
    """Whether every quote opens or closes a field or is one of two, and every CR is part of a line end or quoted."""
    last = len(octets) - 1
    opens, closes = quotes[0::2], quotes[1::2]
    before = octets[np.maximum(opens - 1, 0)]
    is_open = (opens == 0) | (before == _COMMA) | (before == _NEWLINE)
    is_open[1:] |= opens[1:] - 1 == closes[: len(opens) - 1]
    after = octets[np.minimum(closes + 1, last)]
    is_close = (closes == last) | np.isin(after, (_COMMA, _NEWLINE, _RETURN, _QUOTE))
    returns = np.flatnonzero(octets == _RETURN)
    is_end = octets[np.minimum(returns + 1, last)] == _NEWLINE
    if not is_last:
        is_end |= returns == last
    is_quoted = np.searchsorted(quotes, returns) % 2 == 1
    is_whole = not is_last or len(quotes) % 2 == 0
    return bool(is_whole and is_open.all() and is_close.all() and (is_end | is_quoted).all())


def _split_carefully(data: bytes, newlines: Any, *, is_last: bool) -> tuple[Stretch, bytes]:
    good: list[bytes] = []
    starts: list[int] = []
    bad: list[tuple[int, int]] = []
    at = 0
    while at < len(data):
        found = _RECORD.match(data, at)
        is_begun = found.end() == len(data) and data[-1] != _NEWLINE if found else _UNCLOSED.match(data, at)
        if is_begun and not is_last:
            break
        if found:
            good.append(found[0])
            starts.append(at)
            at = found.end()
            continue
        end = data.find(b"\n", at) + 1
        if not end and not is_last:
            break
        bad.append((at, end or len(data)))
        at = end or len(data)
    shown = tuple(
        BadLine(int(np.searchsorted(newlines, start)), Rule.LINE_SYNTAX, _MESSAGE, _shown(data[start:end]))
        for start, end in bad
    )
    lines = int(np.searchsorted(newlines, at)) + (at == len(data) and data[-1] != _NEWLINE)
    records = _without_blanks(good, np.searchsorted(newlines, np.array(starts, dtype=np.int64)))
    return Stretch(records[0], records[1], shown, lines), data[at:]


def _made(data: bytes, ends: Any, newlines: Any) -> Stretch:
    """The rows between ends that all are row ends."""
    if not len(ends):
        return Stretch(b"", np.empty(0, dtype=np.int64), (), 0)
    begins = np.concatenate([[0], ends[:-1]])
    starts = np.searchsorted(newlines, begins).astype(np.int64)
    cut = int(ends[-1])
    lines = int(np.searchsorted(newlines, cut)) + (data[cut - 1] != _NEWLINE)
    octets = np.frombuffer(data, dtype=np.uint8)
    lengths = ends - begins
    blank = (octets[begins] == _NEWLINE) | ((lengths == 2) & (octets[begins] == _RETURN))
    if not blank.any():
        return Stretch(data[:cut], starts, (), lines)
    kept = [data[begin:end] for begin, end in zip(begins[~blank], ends[~blank], strict=True)]
    return Stretch(b"".join(kept), starts[~blank], (), lines)


def _without_blanks(records: list[bytes], starts: Any) -> tuple[bytes, Rows]:
    is_row = np.array([record not in (b"\n", b"\r\n", b"") for record in records], dtype=np.bool_)
    kept = [record for record, keep in zip(records, is_row.tolist(), strict=True) if keep]
    return b"".join(kept), starts[is_row].astype(np.int64)


def _only_bad(data: bytes, rule: Rule, message: str) -> Stretch:
    line = BadLine(0, rule, message, _shown(data))
    return Stretch(b"", np.empty(0, dtype=np.int64), (line,), 1)


def _shown(data: bytes) -> str:
    return (
        data[: 4 * limits.VIOLATION_VALUE_LENGTH_MAX]
        .decode(errors="replace")
        .strip()[: limits.VIOLATION_VALUE_LENGTH_MAX]
    )
