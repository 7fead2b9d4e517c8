"""`omnigraph branch`: create, list, delete, each refusal with its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.cli.process import SCHEMA, Outcome, assert_golden, omnigraph, omnigraph_here


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a graph that was made there: a branch holds absolute paths."""
    og.init(str(tmp_path / "graph.omni"), SCHEMA, options=og.OpenOptions(actor="ada"))
    return tmp_path


def branch(place: Path, *arguments: str) -> Outcome:
    return omnigraph_here("branch", *arguments, "--store", "graph.omni", cwd=place)


def add(place: Path, slug: str, on: str = "main") -> str:
    text = f'query add() {{ insert Person {{ slug: "{slug}" }} }}'
    done = og.open(str(place / "graph.omni"), on).mutate(text, actor="ada")
    assert done.commit is not None
    return done.commit.id


def listed(place: Path) -> dict[str, dict[str, Any]]:
    found = json.loads(branch(place, "list", "--json").stdout)["branches"]
    return {row["name"]: row for row in found}


@pytest.mark.parametrize("form", [(), ("--json",), ("--quiet",)], ids=["text", "json", "quiet"])
def test_create_and_delete(form: tuple[str, ...], place: Path, update_golden: bool) -> None:
    suffix = "".join(form).replace("--", "_")
    made = branch(place, "create", "review/1", "--as", "ada", *form)
    assert_golden(f"branch_create{suffix}.txt", made.transcript(place), update_golden)
    assert set(listed(place)) == {"main", "review/1"}
    gone = branch(place, "delete", "review/1", *form)
    assert_golden(f"branch_delete{suffix}.txt", gone.transcript(place), update_golden)
    assert set(listed(place)) == {"main"}


def test_a_list_says_how_far_branches_are_from_main(place: Path, update_golden: bool) -> None:
    branch(place, "create", "b", "--as", "ada")
    first = add(place, "x", "b")
    branch(place, "create", "--from", "b", "c", "--as", "ada")
    add(place, "y", "c")
    add(place, "z")
    rows = listed(place)
    assert {name: (row["ahead"], row["behind"]) for name, row in rows.items()} == {
        "main": (0, 0),
        "b": (1, 1),
        "c": (2, 1),
    }
    assert (rows["b"]["graph_commit_id"], rows["c"]["parent_branch"]) == (first, "b")
    assert rows["c"]["parent_commit_id"] == first
    csv = branch(place, "list", "--format", "csv")
    assert_golden("branch_list_csv.txt", csv.transcript(place), update_golden)
    assert branch(place, "list").stdout.split("\n")[0].split() == [
        *("branch", "head", "age", "ahead", "behind", "made", "from")
    ]


def test_a_branch_starts_from_any_commit_of_any_branch(place: Path) -> None:
    branch(place, "create", "b")
    early = add(place, "x", "b")
    add(place, "y", "b")
    made = branch(place, "create", "--from", early.lower(), "early", "--json")
    assert json.loads(made.stdout)["parent_branch"] == "b"
    rows = og.open(str(place / "graph.omni"), "early").query(
        "query q() { match { $p: Person } return { $p.slug } }"
    )
    assert [row["p.slug"] for row in rows.rows()] == ["x"]
    assert branch(place, "delete", "b").exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (("create", "Bad Name"), 2, "branch_name"),
        (("create", "main"), 2, "branch_name"),
        (("create", "there"), 1, "branch_exists"),
        (("create", "there/below"), 1, "branch_nested"),
        (("create", "new", "--from", "nowhere"), 1, "reference_missing"),
        (("delete", "nowhere"), 1, "branch_missing"),
        (("delete", "main"), 3, "branch_is_main"),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], exit_code: int, code: str, place: Path) -> None:
    branch(place, "create", "there")
    outcome = branch(place, *arguments, "--json")
    assert (outcome.exit_code, json.loads(outcome.stdout)["error_code"]) == (exit_code, code)
    assert set(listed(place)) == {"main", "there"}


def test_deleting_elsewhere_needs_a_yes(tmp_path: Path, s3_place: tuple[str, dict[str, str]]) -> None:
    uri, env = s3_place
    (tmp_path / "schema.pg").write_text(SCHEMA, encoding="utf-8")
    commands = [
        (("init", "--schema", "schema.pg", uri), 0),
        (("branch", "create", "b", uri), 0),
        (("branch", "delete", "b", uri), 3),
        (("branch", "delete", "b", uri, "--yes"), 0),
        (("branch", "delete", "b", uri, "--yes"), 1),
    ]
    for words, expected in commands:
        done = omnigraph(*words, cwd=tmp_path, env=env)
        assert done.exit_code == expected, (words, done.stderr)


def test_a_branch_made_again_shows_nothing_of_the_old_one(place: Path) -> None:
    graph = og.open(str(place / "graph.omni"))
    old = graph.branch("b", create_from="main")
    add(place, "old", "b")
    graph.delete_branch("b")
    new = graph.branch("b", create_from="main")
    assert old == new
    assert new.query("query q() { match { $p: Person } return { $p.slug } }").rows() == []
    assert [standing.record.name for standing in graph.branches()] == ["main", "b"]
