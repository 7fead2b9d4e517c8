"""Byte ranges contain each line once, whatever their size and the compression of the file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.base import limits
from omnigraph.pipeline.load.inputs.files import InputFile, InputFormat, find_inputs
from omnigraph.pipeline.load.inputs.ranges import ByteRange, plan_ranges, read_line_blocks
from omnigraph.storage.files import Compression, FileStamp
from omnigraph.storage.location import parse_location

LINES = st.lists(st.text(alphabet="ab\r{é", max_size=12), max_size=30)


def lines_of(ranges: tuple[ByteRange, ...], block_bytes: int) -> list[bytes]:
    lines: list[bytes] = []
    for piece in ranges:
        for block in read_line_blocks(piece, block_bytes):
            lines += block.data.splitlines(keepends=True) if b"\r" not in block.data else _split(block.data)
    return lines


def _split(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def write(folder: Path, name: str, data: bytes) -> InputFile:
    path = folder / name
    path.write_bytes(data)
    return find_inputs([str(path)])[0]


@given(lines=LINES, ends=st.booleans(), range_bytes=st.integers(1, 40), block_bytes=st.integers(1, 40))
def test_every_line_is_read_once_in_order(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], ends: bool, range_bytes: int, block_bytes: int
) -> None:
    data = "\n".join(lines).encode() + (b"\n" if ends and lines else b"")
    file = write(tmp_path_factory.getbasetemp(), "cut.jsonl", data)
    ranges = plan_ranges([file], range_bytes)
    assert lines_of(ranges, block_bytes) == _split(data)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_compressed_file_is_one_range(tmp_path: Path, codec: str) -> None:
    data = b"".join(b'{"line": %d}\n' % number for number in range(5_000))
    packed = gzip.compress(data) if codec == "gzip" else pa.Codec("zstd").compress(data, asbytes=True)
    file = write(tmp_path, f"data.jsonl.{'gz' if codec == 'gzip' else 'zst'}", bytes(packed))
    ranges = plan_ranges([file], 100)
    assert len(ranges) == 1
    assert b"".join(lines_of(ranges, 1_000)) == data


def test_several_compressed_members_are_one_file(tmp_path: Path) -> None:
    file = write(tmp_path, "data.jsonl.gz", gzip.compress(b"a\nb\n") + gzip.compress(b"c\n"))
    assert lines_of(plan_ranges([file]), 1_000) == [b"a\n", b"b\n", b"c\n"]


def test_an_empty_file_has_no_range(tmp_path: Path) -> None:
    assert plan_ranges([write(tmp_path, "none.jsonl", b"")]) == ()


def test_a_line_without_an_end_is_cut_and_reading_stops(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.write(b"{}\n")
        file.truncate(limits.LOAD_LINE_BYTES_MAX + 20_000_000)
    blocks = list(read_line_blocks(plan_ranges(find_inputs([str(path)]), 2**40)[0]))
    assert [block.is_cut for block in blocks] == [False, True]


@pytest.mark.parametrize(("size", "expected"), [(1, 1), (8 * 2**20, 1), (64 * 2**20, 8), (200 * 2**20, 8), (2**30, 32)])
def test_medium_input_gives_every_core_a_range(size: int, expected: int) -> None:
    file = InputFile(
        name="a",
        location=parse_location("a.jsonl"),
        stamp=FileStamp(size, ""),
        format=InputFormat.NDJSON,
        compression=Compression.NONE,
    )
    assert len(plan_ranges([file])) in (expected, expected + 1)
