"""Measures the peak memory of a load: of its driver, its JVM and its largest worker.

Each load runs in a separate process; this one reads the peak memory of that process and of its descendants from
`/proc`. Ten times as many lines must not need much more memory.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final

import omnigraph
from bench.generate import SCHEMA, graph_file
from bench.harness import Ratio, sized
from omnigraph.base.clock import SYSTEM_CLOCK

LINES: Final = sized((2_000_000, 20_000_000), (20_000, 200_000))
BYTES_MAX: Final = 2 * 1024**3
GROWTH_MAX: Final = 1.3
_POLL_SECONDS: Final = 0.1
_LOAD: Final = "import sys, omnigraph; omnigraph.open(sys.argv[1]).load(sys.argv[2], runner='spark')"


class Kind(Enum):
    """A process of a load."""

    DRIVER = "driver"
    JVM = "JVM"
    WORKER = "worker"


Peaks = dict[Kind, int]


def run(folder: Path, sizes: tuple[int, ...] = LINES) -> list[Ratio]:
    """Return the memory of each kind of process over its maximum, and its growth with the input."""
    peaks = {lines: load_peaks(folder / f"{lines}.omni", graph_file(lines)) for lines in sizes}
    least, most = sizes[0], sizes[-1]
    shares = [
        Ratio(
            f"{kind.value} at {lines:,} lines, of {BYTES_MAX / 1024**2:.0f} MB",
            peak[kind] / BYTES_MAX,
            1.0,
            f"{peak[kind] / 1024**2:.0f} MB",
            {kind.value: peak[kind] / 1024**2},
            lines,
            "MB",
        )
        for lines, peak in peaks.items()
        for kind in Kind
    ]
    growth = [
        Ratio(f"{kind.value} at {most:,} lines over {least:,}", peaks[most][kind] / peaks[least][kind], GROWTH_MAX, "")
        for kind in Kind
    ]
    return [*shares, *growth]


def load_peaks(graph: Path, file: Path) -> Peaks:
    """Load a file into a new graph; return the peak memory of each kind of process."""
    omnigraph.init(str(graph), SCHEMA)
    return peaks_of([sys.executable, "-c", _LOAD, str(graph), str(file)])


def peaks_of(command: list[str]) -> Peaks:
    """Run a command that starts Spark; return the peak memory of each kind of process."""
    peaks = dict.fromkeys(Kind, 0)
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            for kind, peak in peak_memory(process.pid):
                peaks[kind] = max(peaks[kind], peak)
            SYSTEM_CLOCK.sleep(_POLL_SECONDS)
    assert process.returncode == 0, "the command failed"
    assert all(peaks.values()), "not all kinds of processes ran"
    return peaks


def peak_memory(root: int) -> Iterator[tuple[Kind, int]]:
    """Yield the kind and the peak memory of a process and of its descendants."""
    for pid in _tree(root):
        try:
            folder = Path("/proc", str(pid))
            command = folder.joinpath("cmdline").read_bytes().split(b"\0")
            status = folder.joinpath("status").read_text()
        except OSError:
            continue
        peak = next((line for line in status.splitlines() if line.startswith("VmHWM:")), None)
        if peak is not None:
            kind = Kind.DRIVER if pid == root else Kind.JVM if command[0].endswith(b"java") else Kind.WORKER
            yield kind, int(peak.split()[1]) * 1024


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    pids = [root]
    for pid in pids:
        pids += children.get(pid, [])
    return pids
