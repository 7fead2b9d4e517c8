"""CSV bytes become rows with their lines, whatever the block size, and an unexpected quote affects one line."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.base import limits
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.load.inputs.csv_rows import parse_fields, read_chunks

Row = tuple[int, str | None, str | None]


def read(data: bytes, block_bytes: int = 1 << 20) -> tuple[list[Row], list[int], int]:
    """Return the rows of two fields with their lines, the lines of bad rows, and the number of lines."""
    rows: list[Row] = []
    bad: list[int] = []
    lines = 0
    blocks = (data[start : start + block_bytes] for start in range(0, len(data), block_bytes))
    for chunk in read_chunks(blocks):
        if chunk.data:
            table, mismatches = parse_fields(chunk.data, ["a", "b"])
            assert table.num_rows + len(mismatches) == len(chunk.starts)
            starts = np.delete(chunk.starts, [mismatch.row for mismatch in mismatches])
            fields = (table.column(name).to_pylist() for name in ("a", "b"))
            rows += [(lines + int(start), a, b) for start, a, b in zip(starts, *fields, strict=True)]
            bad += [lines + int(chunk.starts[mismatch.row]) for mismatch in mismatches]
        bad += [lines + bad_line.line for bad_line in chunk.bad]
        lines += chunk.lines
    return rows, sorted(bad), lines


@given(st.text('ab,"\n\r', max_size=24), st.integers(1, 6))
def test_rows_do_not_depend_on_the_block_size(text: str, block_bytes: int) -> None:
    data = text.encode()
    whole = read(data)
    assert read(data, block_bytes) == whole
    assert whole[2] == len(data.split(b"\n")) - (data[-1:] in (b"", b"\n"))


@given(
    st.lists(st.tuples(st.text('ab,"\n é', max_size=4), st.text('ab,"\n é', max_size=4))),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 9),
)
def test_what_a_csv_writer_writes_is_read(
    rows: list[tuple[str, str]], quoting: int, end: str, block_bytes: int
) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=quoting, lineterminator=end).writerows(rows)  # type: ignore[arg-type]
    actual, bad, _ = read(text.getvalue().encode(), block_bytes)
    assert bad == []
    assert [(a or "", b or "") for _, a, b in actual] == rows


def test_lines_are_those_of_the_file() -> None:
    data = b'1,"two\nlines"\n\n"x\r\n\r\ny",2\r\nbad\n3,4\n'
    assert read(data) == ([(0, "1", "two\nlines"), (3, "x\r\n\r\ny", "2"), (7, "3", "4")], [6], 8)


def test_null_and_empty_text_differ() -> None:
    assert read(b',""\n')[0] == [(0, None, "")]


STRAY = {"inside": b'1,a"b\n', "after": b'"1"x,2\n', "open": b'1,"2\n', "return": b"1,2\r3,4\n"}


@pytest.mark.parametrize("name", STRAY)
@pytest.mark.parametrize("after", [b'5,"6"\n7,8\n', b"5,6\n7,8\n"])
def test_unexpected_quote_affects_one_line(name: str, after: bytes) -> None:
    rows, bad, lines = read(b"0,0\n" + STRAY[name] + after)
    assert [row[1:] for row in rows] == [("0", "0"), ("5", "6"), ("7", "8")]
    assert (bad, lines) == ([1], 4)


def test_endless_line_is_bad_and_the_last() -> None:
    block = b"x" * (limits.LOAD_LINE_BYTES_MAX // 2 + 1)
    (good, *rest) = [chunk for chunk in read_chunks(iter([b"1,2\n" + block, block])) if chunk.lines]
    assert (len(good.starts), [bad.rule for chunk in rest for bad in chunk.bad]) == (1, [Rule.LINE_TOO_LONG])


def test_unclosed_quote_does_not_consume_the_file() -> None:
    filling = b"3,4\n" * (limits.LOAD_LINE_BYTES_MAX // 8)
    blocks = iter([b'1,"2\n', filling, filling, b"5,6\n"])
    chunks = list(read_chunks(blocks))
    assert [bad.line for chunk in chunks for bad in chunk.bad] == [0]
    assert sum(len(chunk.starts) for chunk in chunks) == len(filling) // 4 * 2 + 1
