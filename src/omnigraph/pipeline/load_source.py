"""Where the rows of a load come from: files cut into pieces, or a frame that Spark holds.

In: what the user named. Out: the parts that workers made of it. A source can be read again, when the schema moved
under a load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from omnigraph.pipeline.blocks import Piece
from omnigraph.pipeline.load_task import LoadPart, LoadShape, LoadTask, load_piece
from omnigraph.pipeline.runner import RunTasks


class LoadSource(Protocol):
    """Everything that a load reads. `text_bytes` is about what it takes as text, None when nobody knows."""

    @property
    def text_bytes(self) -> int | None: ...

    def read(self, shape: LoadShape, run_tasks: RunTasks) -> Sequence[LoadPart]:
        """Let workers read, check and write all of it; no two parts have the same name and number."""
        ...


@dataclass(frozen=True, slots=True)
class PieceSource:
    """Pieces that tasks read, one each."""

    pieces: tuple[Piece, ...]

    @property
    def size_bytes(self) -> int:
        """How much there is to read."""
        return sum(piece.size_bytes for piece in self.pieces)

    @property
    def text_bytes(self) -> int:
        return sum(piece.text_bytes for piece in self.pieces)

    def read(self, shape: LoadShape, run_tasks: RunTasks) -> Sequence[LoadPart]:
        return run_tasks(load_piece, [LoadTask(piece, shape) for piece in self.pieces])


@dataclass(frozen=True, slots=True)
class JoinedSource:
    """Several sources, read one after another and loaded as one. No two of them have a name in common."""

    sources: tuple[LoadSource, ...]

    @property
    def text_bytes(self) -> int | None:
        known = [source.text_bytes for source in self.sources]
        return None if None in known else sum(size for size in known if size is not None)

    def read(self, shape: LoadShape, run_tasks: RunTasks) -> Sequence[LoadPart]:
        return [part for source in self.sources for part in source.read(shape, run_tasks)]
