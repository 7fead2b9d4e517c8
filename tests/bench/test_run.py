"""A benchmark in a separate process always has a result, and leaves no processes and no files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import harness, run
from bench.harness import Ratio, compare, read_result, report, sized
from bench.run import run_command, run_in_process
from tests.pipeline.process import is_alive
from tests.waiting import wait_until


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_success_returns_no_failure(tmp_path: Path) -> None:
    assert run_command(python("pass"), 60, tmp_path / "log") is None


def test_failure_has_last_line_of_stderr(tmp_path: Path) -> None:
    failure = run_command(python("raise SystemExit('first\\nno such engine\\n')"), 60, tmp_path / "log")
    assert failure == "ended with 1: no such engine"


def test_timeout_stops_all_processes_of_the_command(tmp_path: Path) -> None:
    child = tmp_path / "child"
    # A background job of a shell ignores SIGINT.
    command = ["sh", "-c", f"sleep 600 & echo $! > {child}.draft; mv {child}.draft {child}; wait"]
    assert run_command(command, 1, tmp_path / "log") == "took longer than 1 s"
    pid = int(child.read_text())
    wait_until(lambda: not is_alive(pid))


def test_temporary_files_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "path"
    code = f"import tempfile; open({str(path)!r}, 'w').write(tempfile.mkdtemp())"
    assert run_command(python(code), 60, tmp_path / "log") is None
    assert not Path(path.read_text()).exists()


def test_missing_result_is_stored_as_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    report("nosuch", [Ratio("of an earlier run", 1.0, None, "")])
    result = run_in_process("nosuch")
    assert result == read_result("nosuch")
    assert result.failure is not None
    assert result.failure.startswith("ended with 2: ")
    assert (result.ratios, result.earlier) == ((), {"of an earlier run": 1.0})
    assert result.seconds > 0


def test_ratios_of_a_run_with_other_sizes_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    report("nosuch", [Ratio("of an earlier run", 1.0, None, "")])
    monkeypatch.setenv("BENCH", "quick")
    assert run_in_process("nosuch").earlier == {}


def test_report_is_stored_with_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setenv("BENCH", "quick")
    ratio = compare("a over b", {"a": 3.0, "b": 2.0, "c": 9.0}, ("a", "b"), 1.0, 500)
    assert not report("some", [ratio])
    result = read_result("some")
    assert result is not None
    assert result.ratios == (ratio,)
    assert (ratio.sides, ratio.size) == ({"a": 3.0, "b": 2.0}, 500)
    assert result.quick
    assert (sized(10, 1), read_result("other")) == (1, None)
