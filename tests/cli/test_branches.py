"""`omnigraph branch`: create, list, delete and merge, and the exit code of each error."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.base.clock import format_timestamp
from tests.cli.process import SCHEMA, CommandResult, assert_golden, omnigraph, run_in_process


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with a new graph. A copy would not work: a branch stores absolute paths."""
    og.init(str(tmp_path / "graph.omni"), SCHEMA, actor="ada")
    return tmp_path


def branch(directory: Path, *arguments: str) -> CommandResult:
    return run_in_process("branch", *arguments, "--store", "graph.omni", cwd=directory)


def add(directory: Path, slug: str, on: str = "main") -> str:
    text = f'query add() {{ insert Person {{ slug: "{slug}" }} }}'
    done = og.open(str(directory / "graph.omni"), on).mutate(text, actor="ada")
    assert done.commit is not None
    return done.commit.id


def listed(directory: Path) -> dict[str, dict[str, Any]]:
    rows = json.loads(branch(directory, "list", "--json").stdout)["details"]
    return {row["name"]: row for row in rows}


@pytest.mark.parametrize("form", [(), ("--json",), ("--quiet",)], ids=["text", "json", "quiet"])
def test_create_and_delete(form: tuple[str, ...], directory: Path, update_golden: bool) -> None:
    suffix = "".join(form).replace("--", "_")
    created = branch(directory, "create", "review/1", "--as", "ada", *form)
    assert_golden(f"branch_create{suffix}.txt", created.transcript(directory), update_golden)
    assert set(listed(directory)) == {"main", "review/1"}
    deleted = branch(directory, "delete", "review/1", *form)
    assert_golden(f"branch_delete{suffix}.txt", deleted.transcript(directory), update_golden)
    assert set(listed(directory)) == {"main"}


def test_list_shows_the_distance_from_main(directory: Path, update_golden: bool) -> None:
    branch(directory, "create", "b", "--as", "ada")
    first = add(directory, "x", "b")
    branch(directory, "create", "--from", "b", "c", "--as", "ada")
    branch(directory, "create", "d", "--as", "ada")
    branch(directory, "create", "--from", "b", "e", "--as", "ada")
    add(directory, "y", "c")
    add(directory, "z")
    rows = listed(directory)
    assert {name: (row["ahead"], row["behind"]) for name, row in rows.items()} == {
        "main": (0, 0),
        "b": (1, 1),
        "c": (2, 1),
        "d": (0, 1),
        "e": (1, 1),
    }
    assert (rows["b"]["graph_commit_id"], rows["c"]["parent_branch"]) == (first, "b")
    for row in rows.values():
        assert [row["committed"], row["created"]] == [
            format_timestamp(row["committed_at"]),
            format_timestamp(row["created_at"]),
        ]
    assert rows["c"]["parent_commit_id"] == rows["e"]["graph_commit_id"] == first
    csv = branch(directory, "list", "--format", "csv")
    assert_golden("branch_list_csv.txt", csv.transcript(directory), update_golden)
    assert branch(directory, "list").stdout.split("\n")[0].split() == [
        *("branch", "head", "age", "ahead", "behind", "created", "from")
    ]


def test_copied_graph_lists_its_branches(directory: Path) -> None:
    branch(directory, "create", "b", "--as", "ada")
    shutil.copytree(directory / "graph.omni", directory / "copy.omni")
    listing = run_in_process("branch", "list", "copy.omni", cwd=directory)
    assert (listing.exit_code, listing.stderr) == (0, "")
    (line,) = (row for row in listing.stdout.splitlines() if row.startswith("b "))
    assert "not readable: the graph was moved" in line


def test_branch_starts_from_any_commit_of_any_branch(directory: Path) -> None:
    branch(directory, "create", "b")
    early = add(directory, "x", "b")
    add(directory, "y", "b")
    created = branch(directory, "create", "--from", early.lower(), "early", "--json")
    assert json.loads(created.stdout)["from"] == early.lower()
    rows = og.open(str(directory / "graph.omni"), "early").query(
        "query q() { match { $p: Person } return { $p.slug } }"
    )
    assert [row["p.slug"] for row in rows.to_pylist()] == ["x"]
    assert branch(directory, "delete", "b").exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (("create", "Bad Name"), 2, "branch_name"),
        (("create", "main"), 1, "branch_exists"),
        (("create", "existing"), 1, "branch_exists"),
        (("create", "existing/below"), 1, "branch_nested"),
        (("create", "new", "--from", "nowhere"), 1, "reference_missing"),
        (("delete", "nowhere"), 1, "branch_missing"),
        (("delete", "main"), 3, "branch_is_main"),
    ],
)
def test_error_of_a_branch_command(arguments: tuple[str, ...], exit_code: int, code: str, directory: Path) -> None:
    branch(directory, "create", "existing")
    outcome = branch(directory, *arguments, "--json")
    assert (outcome.exit_code, json.loads(outcome.stdout)["error_code"]) == (exit_code, code)
    assert set(listed(directory)) == {"main", "existing"}


def test_deleting_a_branch_on_s3_needs_yes(tmp_path: Path, s3_place: tuple[str, dict[str, str]]) -> None:
    uri, env = s3_place
    (tmp_path / "schema.pg").write_text(SCHEMA, encoding="utf-8")
    commands = [
        (("init", "--schema", "schema.pg", uri), 0),
        (("branch", "create", "b", uri), 0),
        (("branch", "delete", "b", uri), 3),
        (("branch", "delete", "b", uri, "--yes"), 0),
        (("branch", "delete", "b", uri, "--yes"), 1),
    ]
    for command, expected in commands:
        done = omnigraph(*command, cwd=tmp_path, env=env)
        assert done.exit_code == expected, (command, done.stderr)


def test_branch_created_again_has_no_rows_of_the_deleted_one(directory: Path) -> None:
    graph = og.open(str(directory / "graph.omni"))
    old = graph.create_branch("b", from_="main")
    add(directory, "old", "b")
    graph.delete_branch("b")
    new = graph.create_branch("b", from_="main")
    assert old == new
    assert new.query("query q() { match { $p: Person } return { $p.slug } }").to_pylist() == []
    assert [status.record.name for status in graph.list_branches()] == ["main", "b"]


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("folder", ["", "_versions", "data"])
def test_branch_with_missing_manifest_files_is_not_readable(directory: Path, written: bool, folder: str) -> None:
    """A branch without commits has no data files: it is read from its parent."""
    graph = og.open(str(directory / "graph.omni"))
    graph.create_branch("b", from_="main")
    graph.create_branch("other", from_="main")
    if written:
        add(directory, "new", "b")
    lance_branch = graph.list_branches()[1].record.lance_branch
    shutil.rmtree(directory / "graph.omni" / "__manifest" / "tree" / str(lance_branch) / folder, ignore_errors=True)
    is_damaged = written or folder != "data"
    rows = {row["name"]: row for row in json.loads(branch(directory, "list", "--json").stdout)["details"]}
    status = (rows["b"]["readable"], rows["b"]["ahead"], rows["b"]["error"] is None)
    assert status == ((False, None, False) if is_damaged else (True, 0, True))
    assert (rows["main"]["readable"], rows["other"]["ahead"]) == (True, 0)
    shown = next(line for line in branch(directory, "list").stdout.splitlines() if line.startswith("b "))
    assert ("not readable: " in shown) == is_damaged


def change(directory: Path, slug: str, age: int, on: str = "main") -> None:
    text = f'query change() {{ update Person set {{ age: {age} }} where slug = "{slug}" }}'
    assert og.open(str(directory / "graph.omni"), on).mutate(text, actor="ada").commit is not None


@pytest.fixture
def diverged(directory: Path) -> Path:
    """Two branches with different changes of one person, and a change of another person each."""
    for slug in ("x", "y", "z"):
        add(directory, slug)
    branch(directory, "create", "b", "--as", "ada")
    change(directory, "x", 1)
    change(directory, "y", 1)
    change(directory, "x", 2, "b")
    change(directory, "z", 2, "b")
    return directory


def ages(directory: Path) -> dict[str, int]:
    text = "query q() { match { $p: Person } return { $p.slug, $p.age } }"
    return {row["p.slug"]: row["p.age"] for row in og.open(str(directory / "graph.omni")).query(text).to_pylist()}


@pytest.mark.parametrize(
    "form", [(), ("--json",), ("--dry-run",), ("--dry-run", "--json"), ("--strategy", "theirs", "--json")], ids="".join
)
def test_merge(form: tuple[str, ...], diverged: Path, update_golden: bool) -> None:
    outcome = branch(diverged, "merge", "b", "--as", "ada", *form)
    suffix = "".join(form).replace("--", "_").replace("-", "_")
    assert_golden(f"branch_merge{suffix}.txt", outcome.transcript(diverged), update_golden)
    is_resolved = "--strategy" in form
    assert outcome.exit_code == (0 if is_resolved else 1)
    assert ages(diverged) == ({"x": 2, "y": 1, "z": 2} if is_resolved else {"x": 1, "y": 1, "z": None})


@pytest.mark.parametrize("prefix", ["", "node:"])
def test_decision_for_each_entity(prefix: str, diverged: Path) -> None:
    planned = json.loads(branch(diverged, "merge", "b", "--dry-run", "--json").stdout)
    for conflict in planned["merge_conflicts"]:
        conflict["take"] = "ours"
        conflict["type_name"] = prefix + conflict["type_name"]
    (diverged / "decided.json").write_text(json.dumps(planned), encoding="utf-8")
    done = branch(diverged, "merge", "b", "--resolve", "decided.json", "--delete-branch", "--json")
    document = json.loads(done.stdout)
    assert (document["outcome"], document["branch_deleted"]) == ("merged", True)
    assert (document["branch_delete_error"], document["branch_delete_error_details"]) == (None, None)
    assert ages(diverged) == {"x": 1, "y": 1, "z": 2}
    assert set(listed(diverged)) == {"main"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--strategy", "mine"), "merge_strategy"),
        (("--strategy", "update=ours"), "merge_strategy"),
        (("--strategy", "ours", "--strategy", "orphan_edge=ours"), "merge_strategy"),
        (("--resolve", "nowhere.json"), "merge_decisions"),
        (("--resolve", "bad.json"), "merge_decisions"),
        (("--resolve", "strange.json"), "merge_decisions"),
        (("--resolve", "kind.json"), "type_kind"),
        (("--resolve", "both.json"), "merge_decisions"),
        (("--resolve", "bare.json"), "merge_decisions"),
        (("--resolve", "idle.json"), "merge_decisions"),
        (("--resolve", "open.json"), "merge_decisions"),
        (("--resolve", "deep.json"), "merge_decisions"),
        (("--resolve", "/dev/zero"), "merge_decisions"),
        (("--into", "b", "--delete-branch"), "merge_into_itself"),
    ],
)
def test_invalid_options_for_conflicts(arguments: tuple[str, ...], code: str, diverged: Path) -> None:
    (diverged / "bad.json").write_text('[{"entity_id": "x", "take": "ours"}]', encoding="utf-8")
    strange = '[{"entity_kind": "node", "type_name": "Robot", "entity_id": "x", "take": "ours"}]'
    (diverged / "strange.json").write_text(strange, encoding="utf-8")
    (diverged / "kind.json").write_text(strange.replace("Robot", "edge:Robot"), encoding="utf-8")
    person = {"entity_kind": "node", "type_name": "Person"}
    both = [{**person, "entity_id": "x", "take": side} for side in ("ours", "theirs")]
    (diverged / "both.json").write_text(json.dumps(both), encoding="utf-8")
    # Only one side changed y, so it has no conflict.
    idle = [{**person, "entity_id": name, "take": "ours"} for name in ("x", "y")]
    (diverged / "idle.json").write_text(json.dumps(idle), encoding="utf-8")
    undecided = json.dumps([{**person, "entity_id": "x"}])
    (diverged / "open.json").write_text(undecided, encoding="utf-8")
    bare = [{"entity_kind": "Person", "type_name": "Person", "entity_id": "x", "take": "ours"}]
    (diverged / "bare.json").write_text(json.dumps(bare), encoding="utf-8")
    (diverged / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    outcome = branch(diverged, "merge", "b", *arguments, "--json")
    assert (outcome.exit_code, json.loads(outcome.stdout)["error_code"]) == (2, code)


def test_branch_with_children_is_merged_and_not_deleted(diverged: Path) -> None:
    branch(diverged, "create", "--from", "b", "c")
    done = branch(diverged, "merge", "b", "--strategy", "ours", "--delete-branch", "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["branch_deleted"]) == (0, False)
    details = document["branch_delete_error_details"]
    assert document["branch_delete_error"] == details["error"]
    assert "it is the parent of c" in details["error"]
    assert (details["kind"], details["error_code"], details["children"]) == ("refused", "branch_has_children", ["c"])
    assert details["hint"] == "Delete those branches first."
