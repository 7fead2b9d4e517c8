"""Byte ranges: divides text files into pieces that workers read independently, line by line.

In: files. Out: ranges, and for each range its lines in blocks. A line belongs to the range in which it starts, so no
line is lost or read twice. The plan is pure. The reader streams blocks of complete lines, so memory does not grow with
the size of a range. A compressed file is one range. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.base import limits
from omnigraph.pipeline.load.inputs.files import InputFile, unreadable_input
from omnigraph.storage.files import Compression, open_bytes, read_bytes


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The lines of one file that start at `start` or later and before `end`. `part` numbers a file's ranges."""

    file: InputFile
    part: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Complete lines; the last may lack its line end. `is_cut`: a line was longer than the limit."""

    data: bytes
    is_cut: bool = False


def plan_ranges(files: Sequence[InputFile], range_bytes: int | None = None) -> tuple[ByteRange, ...]:
    """Return the ranges of all files, each of `range_bytes`, or of a size that gives every core work."""
    if range_bytes is None:
        # Large ranges give few fragments, but an input of medium size must give every core a range.
        bytes_per_core = sum(file.size for file in files) // limits.LOAD_RANGES_MIN
        range_bytes = min(max(bytes_per_core, limits.LOAD_RANGE_BYTES_MIN), limits.LOAD_RANGE_BYTES)
    ranges = []
    for file in files:
        if file.compression is not Compression.NONE:
            ranges.append(ByteRange(file, 0, 0, file.size))
            continue
        starts = range(0, file.size, range_bytes)
        ranges += [
            ByteRange(file, part, start, min(start + range_bytes, file.size)) for part, start in enumerate(starts)
        ]
    return tuple(ranges)


def text_bytes(file: InputFile, size_bytes: int) -> int:
    """Return about how long some bytes of a text file are when they are uncompressed."""
    return size_bytes * (1 if file.compression is Compression.NONE else limits.LOAD_COMPRESSION_FACTOR)


def read_line_blocks(piece: ByteRange, block_bytes: int = limits.LOAD_BLOCK_BYTES) -> Iterator[LineBlock]:
    """Read the lines of a range, in blocks of about this size."""
    if piece.file.compression is Compression.NONE:
        yield from _cut_at_lines(_blocks_of_range(piece, block_bytes))
    else:
        yield from _cut_at_lines(read_file_blocks(piece.file, block_bytes))


def read_file_blocks(file: InputFile, block_bytes: int = limits.LOAD_BLOCK_BYTES) -> Iterator[bytes]:
    """Read the uncompressed bytes of a whole file, in blocks of about this size."""
    stream = open_bytes(file.location, file.size)
    try:
        if file.compression is not Compression.NONE:
            stream = pa.CompressedInputStream(stream, "gzip" if file.compression is Compression.GZIP else "zstd")
        while data := stream.read(block_bytes):
            yield data
    except (pa.ArrowException, OSError) as error:
        raise unreadable_input(file, error) from error
    finally:
        stream.close()


def _blocks_of_range(piece: ByteRange, block_bytes: int) -> Iterator[bytes]:
    """Read from the first line that starts in the range to the end of the last line that does."""
    position = piece.start
    if position > 0:
        position = _next_line(piece.file, position - 1, piece.end)
    while position < piece.end:
        data = read_bytes(piece.file.location, position, min(block_bytes, piece.end - position))
        if not data:
            return
        position += len(data)
        yield data
        if position >= piece.end and not data.endswith(b"\n"):
            yield from _rest_of_line(piece.file, position, block_bytes)


def _next_line(file: InputFile, position: int, end: int) -> int:
    """Return where the line after `position` starts; `end` or later if that is not in the range."""
    while position < end:
        data = read_bytes(file.location, position, 64 * 1024)
        newline = data.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        if not data:
            return end
        position += len(data)
    return position


def _rest_of_line(file: InputFile, position: int, block_bytes: int) -> Iterator[bytes]:
    step = min(64 * 1024, block_bytes)
    while position < file.size:
        data = read_bytes(file.location, position, step)
        if not data:
            return
        newline = data.find(b"\n")
        if newline >= 0:
            yield data[: newline + 1]
            return
        position += len(data)
        yield data
        step = min(2 * step, block_bytes)


def _cut_at_lines(blocks: Iterator[bytes]) -> Iterator[LineBlock]:
    """Divide blocks at line ends. Each byte is copied once, however many blocks a line has."""
    incomplete_line: list[bytes] = []
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if cut:
            yield LineBlock(b"".join((*incomplete_line, memoryview(block)[:cut])))
            incomplete_line.clear()
        incomplete_line.append(block[cut:])
        if sum(map(len, incomplete_line)) > limits.LOAD_LINE_BYTES_MAX:
            yield LineBlock(b"".join(incomplete_line), is_cut=True)
            return
    if any(incomplete_line):
        yield LineBlock(b"".join(incomplete_line))
