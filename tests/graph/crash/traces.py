"""Read and write the golden file of the matrix: the failpoints that each scenario hits, in order; each is a cell."""

from __future__ import annotations

from pathlib import Path
from typing import Final

GOLDEN: Final = Path(__file__).with_name("traces.txt")

Traces = dict[str, tuple[str, ...]]


def read_traces() -> Traces:
    """Return the hits of each scenario; a line has a scenario and its hits."""
    lines = GOLDEN.read_text().splitlines() if GOLDEN.exists() else []
    return {name: tuple(hits.split()) for name, _, hits in (line.partition(": ") for line in lines)}


def write_trace(scenario: str, hits: tuple[str, ...]) -> None:
    """Replace the line of one scenario."""
    traces = {**read_traces(), scenario: hits}
    GOLDEN.write_text("".join(f"{name}: {' '.join(hits)}\n" for name, hits in sorted(traces.items())))
