"""The demo runs to its end, and keeps files only with `--dir` or `--keep`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.demo.dataset import write_company
from omnigraph.cli.demo.run import _command_name, _next_commands
from omnigraph.cli.demo.steps import SECTIONS
from tests.cli.process import omnigraph, run_in_process

pytestmark = pytest.mark.xdist_group("spark")

PEOPLE = 200
COMMITS = 12
SIZE = ("--people", str(PEOPLE), "--commits", str(COMMITS))


def test_demo_runs_every_section(tmp_path: Path, warm_spark: dict[str, str]) -> None:
    outcome = omnigraph("demo", "--dir", "demo", *SIZE, cwd=tmp_path, env=warm_spark)
    assert outcome.exit_code == 0, outcome.stdout + outcome.stderr
    for section in SECTIONS:
        assert section.title in outcome.stdout

    graph = og.open(str(tmp_path / "demo" / "graph.omni"), read_only=True)
    pay = "query q() { match { $p: Person } return { $p.slug, $p.salary } }"
    salaries = {row["p.slug"]: row["p.salary"] for row in graph.query(pay).to_pylist()}
    # The merge took p7 from the branch and p8 with it; the external delete of high salaries was discarded.
    assert (salaries["p7"], salaries["p8"], salaries["p9"]) == (90_000, 165_000, 92_000)
    assert len(salaries) == PEOPLE + COMMITS
    loaded = {
        line["data"]["slug"]: line["data"]["salary"]
        for line in map(json.loads, (tmp_path / "demo" / "company.jsonl").read_text().splitlines())
        if line.get("type") == "Person"
    }
    assert all(salaries[slug] > loaded[slug] for slug in ("p7", "p8", "p9")), "every change increased the salary"
    # The killed writer had committed both tables, so recovery published both.
    night = 'query q() { match { $p memberOf $t  $t: Team { slug: "night" } } return { $p.slug } }'
    assert graph.query(night).to_pylist() == [{"p.slug": "p1"}]
    assert len(graph.recoveries()) == 1
    assert [branch.record.name for branch in graph.list_branches()] == ["main"]
    assert not graph.pending_writes()
    # Cleanup deleted the versions of the small commits.
    versions = next((tmp_path / "demo" / "graph.omni" / "nodes").glob("*/_versions"))
    assert len(list(versions.iterdir())) <= COMMITS


def test_temporary_directory_is_deleted_after_an_error(tmp_path: Path) -> None:
    nowhere = {"TMPDIR": str(tmp_path), "MASTER": "nonsense"}
    outcome = omnigraph("demo", *SIZE, cwd=tmp_path, env=nowhere)
    assert outcome.exit_code == 1
    assert "failed: expected exit code 0, got" in outcome.stderr
    assert not list(tmp_path.glob("omnigraph-demo-*"))


def test_next_commands_use_a_path_that_the_shell_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / ".venv" / "bin" / "omnigraph"
    script.parent.mkdir(parents=True)
    script.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(script.parent / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _command_name() == str(script)
    monkeypatch.chdir(tmp_path)
    assert _command_name() == ".venv/bin/omnigraph"
    assert "  .venv/bin/omnigraph demo --dir demo\n" in _next_commands(_command_name(), None)
    monkeypatch.setenv("PATH", str(script.parent))
    assert _command_name() == "omnigraph"


def test_directory_with_files_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    outcome = run_in_process("demo", "--dir", ".", cwd=tmp_path)
    assert outcome.exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_data_is_deterministic(tmp_path: Path) -> None:
    texts = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        lines = write_company(PEOPLE, tmp_path / name)
        texts.append((tmp_path / name / "company.jsonl").read_text())
        assert lines == len(texts[-1].splitlines())
    assert texts[0] == texts[1]
    kinds = Counter(record.get("edge") for record in map(json.loads, texts[0].splitlines()))
    assert kinds["Knows"] == 2 * kinds["MemberOf"] == 2 * kinds["WorksOn"] == 2 * PEOPLE
