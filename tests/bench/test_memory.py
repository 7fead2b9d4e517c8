"""The watch over a load's processes: it finds those below, and what they held and gave back."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from bench.memory import Kind, looked_at

_MEBIBYTE: Final = 1024**2
# The parent holds little; its child held 64 MiB, gave it back and tells so.
_CHILD: Final = "held = b'x' * (64 << 20); del held; print('ready', flush=True); input()"
_PARENT: Final = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_CHILD!r}], check=True)"


def test_a_process_below_is_a_worker_and_its_peak_is_kept() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        found = dict(looked_at(process.pid))
        process.communicate("\n")
    assert found.keys() == {Kind.DRIVER, Kind.WORKER}
    assert found[Kind.DRIVER] < 64 * _MEBIBYTE < found[Kind.WORKER] < 256 * _MEBIBYTE
