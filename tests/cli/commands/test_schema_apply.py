"""`omnigraph schema apply`: output, exit codes, and the schema of the graph afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from tests.cli.process import SCHEMA, CommandResult, assert_golden, run_in_process

NEXT = SCHEMA.replace("age: I32?", "years: I32? @rename_from(age)") + "node City { name: String @key }\n"
TEXTS = {
    "same": (0, SCHEMA),
    "next": (0, NEXT),
    "refused": (3, SCHEMA.replace("age: I32?", "age: String?")),
    "rejected": (1, SCHEMA.replace("age: I32?", "age: I32 @range(age, 0..9)")),
}


def apply(directory: Path, text: str, *arguments: str) -> CommandResult:
    (directory / "next.pg").write_text(text, encoding="utf-8")
    return run_in_process(
        "schema", "apply", "--schema", "next.pg", "graph.omni", "--as", "ada", *arguments, cwd=directory
    )


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("flag", ["", "--json"])
def test_golden(name: str, flag: str, graph: Path, directory: Path, update_golden: bool) -> None:
    exit_code, text = TEXTS[name]
    mutation = 'query m() { insert Person { slug: "a", age: 36 }  insert Person { slug: "b" } }'
    before = omnigraph.open(str(graph)).mutate(mutation).commit
    outcome = apply(directory, text, *filter(None, [flag]))
    suffix = "_json" if flag else ""
    assert_golden(f"schema_apply_{name}{suffix}.txt", outcome.transcript(directory), update_golden)
    assert outcome.exit_code == exit_code
    now = omnigraph.open(str(graph)).snapshot()
    assert before is not None
    assert (now.schema.source, now.head != before.id) == ((text, True) if name == "next" else (SCHEMA, False))


def test_missing_branch_is_reported(graph: Path, directory: Path) -> None:
    outcome = apply(directory, NEXT, "--branch", "dev")
    assert outcome.exit_code == 1
    assert "no branch 'dev'" in outcome.stderr


def test_permanent_drop_on_a_remote_target_requires_yes(directory: Path) -> None:
    """The confirmation is required before the command connects to the store."""
    (directory / "next.pg").write_text(SCHEMA, encoding="utf-8")
    outcome = run_in_process(
        "schema", "apply", "--schema", "next.pg", "s3://bucket/g.omni", "--allow-data-loss", cwd=directory
    )
    assert outcome.exit_code == 3
    assert "schema apply --allow-data-loss deletes data at s3://bucket/g.omni" in outcome.stderr
    assert "--yes" in outcome.stderr
