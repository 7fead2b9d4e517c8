"""Invalid schema files: every problem has its position, and no graph is created."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.process import assert_golden, omnigraph, run_in_process, tree

TEXTS = {
    "empty": (b"", 1),
    "blank": (b"\xef\xbb\xbf \n\t\n", 1),
    "latin1": ("node Café { slug: String @key }".encode("latin-1"), 1),
    "binary": (bytes(range(256)), 1),
    "syntax": (b"node Person {\n  slug: String @key\n", 1),
    "two_problems": (b"node person {\n\tslug: Sting @key\n}\n", 1),
    "huge": (b"// " + b"x" * (1024 * 1024), 1),
}


@pytest.mark.parametrize("name", TEXTS)
def test_invalid_text(name: str, tmp_path: Path, update_golden: bool) -> None:
    text, exit_code = TEXTS[name]
    (tmp_path / "bad.pg").write_bytes(text)
    before = tree(tmp_path)
    outcome = run_in_process("init", "-q", "--schema", "bad.pg", "graph.omni", cwd=tmp_path)
    assert_golden(f"bad_schema_{name}.txt", outcome.transcript(tmp_path), update_golden)
    assert (outcome.exit_code, outcome.stdout) == (exit_code, "")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["missing.pg", "folder", "missing/schema.pg", "file/schema.pg"])
def test_invalid_path(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    before = tree(tmp_path)
    outcome = run_in_process("init", "--schema", name, "graph.omni", cwd=tmp_path)
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("error: ")
    assert name in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 2
    assert tree(tmp_path) == before


def test_file_without_read_permission(directory: Path) -> None:
    (directory / "schema.pg").chmod(0)
    outcome = omnigraph("init", "--schema", "schema.pg", "graph.omni", cwd=directory, weak=True)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "permission denied" in outcome.stderr
    assert not (directory / "graph.omni").exists()


def test_json_lists_every_problem(tmp_path: Path) -> None:
    (tmp_path / "bad.pg").write_bytes(TEXTS["two_problems"][0])
    outcome = run_in_process("init", "--schema", "bad.pg", "graph.omni", "--json", cwd=tmp_path)
    document = json.loads(outcome.stdout)
    assert document["kind"] == "invalid_content"
    assert [problem["line"] for problem in document["problems"]] == [1, 2]
    assert {problem["source"] for problem in document["problems"]} == {"bad.pg"}
