"""Runs one benchmark in a separate process, with a time limit.

In: the name of a benchmark. Out: its stored result, with the ratios of the run before it, or a failed result. Its
temporary directory is deleted after the run; its stderr is in `bench/results/<name>.log`. A benchmark above the time
limit is interrupted, so that it can stop its processes, and then its process group is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Final

from bench.harness import RESULTS, BenchmarkResult, failed_result, read_result, result_path, sized, write_result

SECONDS_MAX: Final = 3600
QUICK_SECONDS_MAX: Final = 600
STOP_SECONDS_MAX: Final = 30
# Do not use the warm Spark server of the user, and do not write a class-data archive during a measurement.
_ENVIRONMENT: Final = {"OMNIGRAPH_HOME": str(RESULTS / "home"), "OMNIGRAPH_CLASS_ARCHIVE": "off"}


def run_in_process(name: str) -> BenchmarkResult:
    """Run a benchmark; store and return its result, or why it failed."""
    seconds_max = sized(SECONDS_MAX, QUICK_SECONDS_MAX)
    before = read_result(name)
    result_path(name).unlink(missing_ok=True)
    log = RESULTS / f"{name}.log"
    print(f"{name}: at most {seconds_max:,} s; progress is in {log}", flush=True)
    started = perf_counter()
    failure = run_command([sys.executable, "-m", "bench", "--here", name], seconds_max, log)
    seconds = perf_counter() - started
    print(f"{name}: {seconds:.0f} s\n", flush=True)
    result = read_result(name)
    if result is None or failure is not None:
        result = failed_result(name, failure or "returned no result")
    compared = before.ratios if before is not None and before.quick == result.quick else ()
    earlier = {ratio.name: ratio.ratio for ratio in compared}
    result = replace(result, seconds=seconds, earlier=earlier)
    write_result(result)
    return result


def run_command(command: list[str], seconds_max: float, log: Path) -> str | None:
    """Run a command, at most for `seconds_max`; return why it failed, or None."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, log.open("wb") as errors:
        environ = {**os.environ, **_ENVIRONMENT, "TMPDIR": folder}
        # Without bytecode, each process of a benchmark would compile its modules, also within what is measured.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        process = subprocess.Popen(command, env=environ, stderr=errors, start_new_session=True)
        try:
            code = process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            return f"took longer than {seconds_max:.0f} s"
        finally:
            _stop(process)
    return None if code == 0 else f"ended with {code}: {_last_line(log)}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the process and its group, also when this process is interrupted."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS_MAX)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output on stderr")
