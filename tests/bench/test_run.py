"""A benchmark in a process of its own: whatever happens to it, there is a result, and nothing is left of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import harness, run
from bench.harness import Ratio, compare, kept, report, sized
from bench.run import run_apart, run_for
from tests.pipeline.process import is_alive
from tests.waiting import wait_until


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_success_says_nothing(tmp_path: Path) -> None:
    assert run_for(python("pass"), 60, tmp_path / "log") is None


def test_a_failure_is_told_by_its_last_line(tmp_path: Path) -> None:
    said = run_for(python("raise SystemExit('first\\nno such engine\\n')"), 60, tmp_path / "log")
    assert said == "ended with 1: no such engine"


def test_what_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    # A shell's background job does not hear an interrupt.
    command = ["sh", "-c", f"sleep 600 & echo $! > {child}.draft; mv {child}.draft {child}; wait"]
    assert run_for(command, 1, tmp_path / "log") == "took longer than 1 s"
    pid = int(child.read_text())
    wait_until(lambda: not is_alive(pid))


def test_its_temporary_files_go(tmp_path: Path) -> None:
    place = tmp_path / "place"
    code = f"import tempfile; open({str(place)!r}, 'w').write(tempfile.mkdtemp())"
    assert run_for(python(code), 60, tmp_path / "log") is None
    assert not Path(place.read_text()).exists()


def test_one_without_a_result_is_kept_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    report("nosuch", [Ratio("of an earlier run", 1.0, None, "")])
    found = run_apart("nosuch")
    assert found == kept("nosuch")
    assert found.failure is not None
    assert found.failure.startswith("ended with 2: ")
    assert found.ratios == ()


def test_a_report_is_kept_with_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setenv("BENCH", "quick")
    ratio = compare("a over b", {"a": 3.0, "b": 2.0, "c": 9.0}, ("a", "b"), 1.0, 500)
    assert not report("some", [ratio])
    found = kept("some")
    assert found is not None
    assert found.ratios == (ratio,)
    assert (ratio.sides, ratio.size) == ({"a": 3.0, "b": 2.0}, 500)
    assert found.quick
    assert (sized(10, 1), kept("other")) == (1, None)
