"""How much memory a load takes: the most that its driver, its JVM and the largest of its workers ever held.

Every load runs in a process of its own, which this one watches from outside, by what the system says of its process
and all below it. A number of lines in ten times as many must not need much more.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final

import omnigraph
from bench.generate import SCHEMA, graph_file
from bench.harness import Ratio, report, sized
from omnigraph.base.clock import SYSTEM_CLOCK

LINES: Final = sized((2_000_000, 20_000_000), (20_000, 200_000))
BYTES_MAX: Final = 2 * 1024**3
GROWTH_MAX: Final = 1.3
_POLL_SECONDS: Final = 0.1
_LOAD: Final = "import sys, omnigraph; omnigraph.open(sys.argv[1]).load(sys.argv[2])"


class Kind(Enum):
    """A process of a load."""

    DRIVER = "driver"
    JVM = "JVM"
    WORKER = "worker"


Peaks = dict[Kind, int]


def run(folder: Path, sizes: tuple[int, ...] = LINES) -> list[Ratio]:
    """For each kind of process its share of what it may hold, and how that grows with the input."""
    peaks = {lines: load_peaks(folder / f"{lines}.omni", graph_file(lines)) for lines in sizes}
    least, most = sizes[0], sizes[-1]
    shares = [
        Ratio(
            f"{kind.value} at {lines:,} lines, of {BYTES_MAX / 1024**2:.0f} MB",
            found[kind] / BYTES_MAX,
            1.0,
            f"{found[kind] / 1024**2:.0f} MB",
            {kind.value: found[kind] / 1024**2},
            lines,
            "MB",
        )
        for lines, found in peaks.items()
        for kind in Kind
    ]
    growth = [
        Ratio(
            f"{kind.value} at {most:,} lines over {least:,}",
            peaks[most][kind] / peaks[least][kind],
            GROWTH_MAX,
            "",
        )
        for kind in Kind
    ]
    return [*shares, *growth]


def load_peaks(graph: Path, file: Path) -> Peaks:
    """Load a file into a new graph; the most memory that a process of each kind has held."""
    omnigraph.init(str(graph), SCHEMA)
    return peaks_of([sys.executable, "-c", _LOAD, str(graph), str(file)])


def peaks_of(command: list[str]) -> Peaks:
    """Run a command that starts Spark; the most memory that a process of each kind has held."""
    peaks = dict.fromkeys(Kind, 0)
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            for kind, held in looked_at(process.pid):
                peaks[kind] = max(peaks[kind], held)
            SYSTEM_CLOCK.sleep(_POLL_SECONDS)
    assert process.returncode == 0, "it succeeds"
    assert all(peaks.values()), "each kind of process was seen"
    return peaks


def looked_at(root: int) -> Iterator[tuple[Kind, int]]:
    """Every process at or below this one, and the most memory it has held so far."""
    for pid in _tree(root):
        try:
            folder = Path("/proc", str(pid))
            words = folder.joinpath("cmdline").read_bytes().split(b"\0")
            status = folder.joinpath("status").read_text()
        except OSError:
            continue
        peak = next((line for line in status.splitlines() if line.startswith("VmHWM:")), None)
        if peak is not None:
            kind = Kind.DRIVER if pid == root else Kind.JVM if words[0].endswith(b"java") else Kind.WORKER
            yield kind, int(peak.split()[1]) * 1024


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def main() -> bool:
    """Run it in a folder of its own; whether every process is within its bounds."""
    with tempfile.TemporaryDirectory() as folder:
        return report("memory", run(Path(folder)))
