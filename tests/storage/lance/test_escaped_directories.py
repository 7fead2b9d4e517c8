"""Creating a Lance branch leaves no files outside of the dataset, for any path."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.storage.lance.commit import commit_branch, remove_escaped_dirs
from omnigraph.storage.lance.dataset import create_dataset
from omnigraph.storage.location import parse_location


@pytest.mark.parametrize("name", ["zoë", "a%20b", "a#b", 'q"q', "a*b", "<x>", "a\\b", "plain", "ä [1] ^{|}`~"])
def test_branch_creates_no_directory_outside_of_the_dataset(tmp_path: Path, name: str) -> None:
    location = parse_location(str(tmp_path / name / "t"))
    made = create_dataset(location, pa.table({"id": ["a"]}))
    commit_branch(made, "b")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "t" / "tree" / "b").is_dir()


def test_existing_directories_are_kept(tmp_path: Path) -> None:
    existing = tmp_path / "zo%C3%AB"
    existing.mkdir()
    with remove_escaped_dirs(parse_location(str(tmp_path / "zoë" / "t"))):
        (existing / "t" / "_refs" / "branches").mkdir(parents=True)
        (existing / "t" / "note").touch()
    assert [path.name for path in existing.rglob("*")] == ["t", "note"]
