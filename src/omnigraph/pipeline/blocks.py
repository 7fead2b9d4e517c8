"""Blocks: what a reader of input hands on, a bounded number of rows at a time, and the pieces that it reads.

A piece is a description that one task reads on its own, some hundred bytes that travel to an executor: a byte range of
a text file, some row groups of a Parquet file. Its blocks come in the order of the input, and the same piece gives the
same blocks however often it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from omnigraph.integrity.raw import RawBatch, Rows
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.inputs import InputFile
from omnigraph.schema import Catalog, Entity


class Piece(Protocol):
    """A part of the input. `name` is what the user knows its file by, `part` numbers the pieces of one file.

    `file` is None for what Omnigraph itself wrote for this load.

    `size_bytes` is what there is to read, `text_bytes` about what its rows take as text when nothing is packed.
    """

    @property
    def name(self) -> str: ...

    @property
    def file(self) -> InputFile | None: ...

    @property
    def part(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def text_bytes(self) -> int: ...

    def blocks(self, catalog: Catalog) -> Iterator[Block]:
        """The rows and the lines that are none, in the order of the piece."""
        ...


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Raw rows of one type, and for each the number of its line within the block, from 0."""

    entity: Entity
    raw: RawBatch
    lines: Rows


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no row of any type; `line` is its number within the block, from 0."""

    line: int
    rule: Rule
    message: str
    value: str


@dataclass(frozen=True, slots=True)
class Block:
    """Everything in one block: how many lines it has, the rows by type, and the lines that are none."""

    lines: int
    rows: tuple[TypedRows, ...]
    bad: tuple[BadLine, ...]
