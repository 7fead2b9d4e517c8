"""The measurement of peak memory: of a process and its descendants, also of released memory."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from bench.memory import Kind, peak_memory

_MEBIBYTE: Final = 1024**2
# The parent uses little memory; its child allocates 64 MiB, releases it and prints a line.
_CHILD: Final = "block = b'x' * (64 << 20); del block; print('ready', flush=True); input()"
_PARENT: Final = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_CHILD!r}], check=True)"


def test_descendant_is_a_worker_with_its_peak() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        peaks = dict(peak_memory(process.pid))
        process.communicate("\n")
    assert peaks.keys() == {Kind.DRIVER, Kind.WORKER}
    assert peaks[Kind.DRIVER] < 64 * _MEBIBYTE < peaks[Kind.WORKER] < 256 * _MEBIBYTE
