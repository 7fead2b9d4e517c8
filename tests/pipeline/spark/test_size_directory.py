"""Sizes of tasks through a directory: the newest size of each task counts, and a failure is not an error."""

from __future__ import annotations

from pathlib import Path

from omnigraph.pipeline.runner import TaskSize
from omnigraph.pipeline.spark.size_directory import SizeDirectory, SizeWriter, open_size_directory


def test_newest_sizes_are_added() -> None:
    with open_size_directory() as sizes:
        first, second = SizeWriter(sizes.path, 0, written_at=-60.0), SizeWriter(sizes.path, 1)
        assert sizes.value == TaskSize()
        first.receive(TaskSize(1, 10))
        second.receive(TaskSize(5, 5))  # too early: the writer has just started
        assert sizes.value == TaskSize(1, 10)
        first.receive(TaskSize(2, 20))  # too early
        first.write(TaskSize(3, 30))
        second.write(TaskSize(4, 40))
        assert sizes.value == TaskSize(7, 70)
    assert not Path(sizes.path).exists()


def test_damaged_files_and_a_missing_directory_are_skipped(tmp_path: Path) -> None:
    sizes = SizeDirectory(str(tmp_path))
    SizeWriter(str(tmp_path), 2).write(TaskSize(1, 1))
    (tmp_path / "3").write_text("no number", encoding="ascii")
    (tmp_path / "4.77").write_text("5 5", encoding="ascii")  # a draft
    assert sizes.value == TaskSize(1, 1)
    SizeWriter(str(tmp_path / "missing"), 0).write(TaskSize(1, 1))
    assert SizeDirectory(str(tmp_path / "missing")).value == TaskSize()
