"""Runs one benchmark in a process of its own, for a limited time.

In: its name. Out: its result as it is kept, a failed one if it ended without. Its temporary files are in a folder that
goes with it, and its stderr is in `bench/results/<name>.log`. One that takes too long is interrupted, so that it can
stop what it has started, and then killed with its process group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Final

from bench.harness import RESULTS, Result, failed, keep, kept, kept_at, sized

SECONDS_MAX: Final = 3600
QUICK_SECONDS_MAX: Final = 600
STOP_SECONDS_MAX: Final = 30
# Not the warm Spark server of whoever measures, and no archive that is built in the background beside what is measured.
_APART: Final = {"OMNIGRAPH_HOME": str(RESULTS / "home"), "OMNIGRAPH_CLASS_ARCHIVE": "off"}


def run_apart(name: str) -> Result:
    """Run a benchmark, and keep what it found or why it did not."""
    limit = sized(SECONDS_MAX, QUICK_SECONDS_MAX)
    kept_at(name).unlink(missing_ok=True)
    log = RESULTS / f"{name}.log"
    print(f"{name}: for {limit:,} s at most; {log} tells how far it is", flush=True)
    started = perf_counter()
    why = run_for([sys.executable, "-m", "bench", "--here", name], limit, log)
    print(f"{name}: {perf_counter() - started:.0f} s\n", flush=True)
    found = kept(name)
    if found is None or why is not None:
        found = failed(name, why or "gave no result")
        keep(found)
    return found


def run_for(command: list[str], seconds_max: float, log: Path) -> str | None:
    """Run a command to its end or for so long; in a few words what went wrong, if anything did."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, log.open("wb") as errors:
        environ = {**os.environ, **_APART, "TMPDIR": folder}
        process = subprocess.Popen(command, env=environ, stderr=errors, start_new_session=True)
        try:
            code = process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            return f"took longer than {seconds_max:.0f} s"
        finally:
            _end(process)
    return None if code == 0 else f"ended with {code}: {_last_line(log)}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Whatever is left of it, also when this process is interrupted."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS_MAX)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "nothing on stderr")
