"""The demo tells its story, and leaves files only where it was asked to."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.process import assert_golden, omnigraph, omnigraph_here

pytestmark = pytest.mark.xdist_group("spark")


def test_the_story(tmp_path: Path, update_golden: bool) -> None:
    outcome = omnigraph("demo", "--dir", "demo", cwd=tmp_path)
    actor = json.loads(omnigraph_here("commit", "list", "demo/graph.omni", "--json", cwd=tmp_path).stdout)
    text = re.sub(" {2,}", "  ", outcome.transcript(tmp_path))
    text = text.replace(f"  {actor['commits'][0]['actor_id']}  ", "  <actor>  ")
    assert_golden("demo.txt", text, update_golden)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {
        "schema.pg",
        "graph.omni",
        "data.jsonl",
        "mistakes.jsonl",
    }


@pytest.mark.parametrize("keep", [True, False])
def test_a_temporary_directory(keep: bool, tmp_path: Path, warm_spark: dict[str, str]) -> None:
    words = ("demo", *(["--keep"] if keep else []))
    outcome = omnigraph(*words, cwd=tmp_path, env={**warm_spark, "TMPDIR": str(tmp_path)})
    assert outcome.exit_code == 0
    assert bool(list(tmp_path.glob("omnigraph-demo-*"))) is keep


def test_a_directory_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    outcome = omnigraph_here("demo", "--dir", ".", cwd=tmp_path)
    assert outcome.exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
