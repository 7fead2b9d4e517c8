"""`omnigraph policy`: exit codes and documents, and the errors of a new user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.process import CommandResult, run_in_process
from tests.policy.test_bundle import TEAM

CASES = """
version: 1
cases:
  - { id: reads, actor: act-bo, action: read, branch: main, expect: allow }
  - { id: writes, actor: act-bo, action: change, branch: main, expect: allow }
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "team.yaml").write_text(TEAM, encoding="utf-8")
    (tmp_path / "cases.yaml").write_text(CASES, encoding="utf-8")
    return tmp_path


def policy(directory: Path, *arguments: str) -> CommandResult:
    return run_in_process("policy", *arguments, cwd=directory)


def test_validate_counts_what_the_file_has(files: Path) -> None:
    outcome = policy(files, "validate", "--file", "team.yaml", "--json")
    assert outcome.exit_code == 0
    assert json.loads(outcome.stdout) == {
        "ok": True, "bundle": "team.yaml", "kind": "graph", "actors": 4, "groups": 2, "rules": 3, "cedar_files": 0,
    }  # fmt: skip


def test_validate_reports_all_problems_of_a_file(files: Path) -> None:
    (files / "team.yaml").write_text(TEAM.replace("[change]", "[chnge]").replace("group: admins", "group: x"))
    outcome = policy(files, "validate", "--file", "team.yaml", "--json")
    assert outcome.exit_code == 1
    diagnostics = json.loads(outcome.stdout)["diagnostics"]
    assert [(row["path"], row["line"], row["code"]) for row in diagnostics] == [
        ("team.yaml", 11, "policy_invalid"),
        ("team.yaml", 14, "policy_invalid"),
    ]


def test_a_cedar_file_outside_of_the_directory_is_rejected(
    files: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "all.cedar"
    outside.write_text('@id("all") permit(principal, action, resource);')
    (files / "link.cedar").symlink_to(outside)
    (files / "team.yaml").write_text(TEAM + f"cedar: [link.cedar, ../{outside.parent.name}/all.cedar]\n")
    outcome = policy(files, "validate", "--file", "team.yaml")
    assert outcome.exit_code == 1
    assert outcome.stderr.count("the path leaves the directory of the policy") == 2


def test_test_lists_every_case_and_fails_for_a_difference(files: Path) -> None:
    outcome = policy(files, "test", "--file", "team.yaml", "--tests", "cases.yaml", "--json")
    document = json.loads(outcome.stdout)
    assert (outcome.exit_code, document["passed"], document["failed"]) == (1, 1, 1)
    assert [(case["id"], case["passed"], case["rule"]) for case in document["cases"]] == [
        ("reads", True, "team-reads"),
        ("writes", False, None),
    ]


def test_invalid_cases_are_reported_with_their_lines(files: Path) -> None:
    (files / "cases.yaml").write_text(
        CASES.replace("expect: allow", "expect: yes").replace("action: change", "acton: x")
    )
    outcome = policy(files, "test", "--file", "team.yaml", "--tests", "cases.yaml")
    assert outcome.exit_code == 1
    for message in (
        "cases.yaml:4: cases[0].expect: expected allow or deny, got 'yes'",
        "cases.yaml:5: cases[1].acton: unknown member",
        "cases.yaml:5: cases[1]: the member 'action' is missing",
    ):
        assert message in outcome.stderr


def test_explain_names_the_rule(files: Path) -> None:
    arguments = ("--actor", "act-ada", "--action", "branch_merge", "--branch", "r", "--target-branch", "main", "--json")
    outcome = policy(files, "explain", "--file", "team.yaml", *arguments)
    assert outcome.exit_code == 0
    assert json.loads(outcome.stdout) == {
        "actor": "act-ada", "action": "branch_merge", "branch": "r", "target_branch": "main", "allowed": True,
        "rule": "admins-promote", "bundle": "team.yaml", "graph": "default",
        "message": "policy allowed action 'branch_merge' on branch 'r' targeting branch 'main' for actor 'act-ada'",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("validate", "--file", "no.yaml"), 2, "policy file 'no.yaml' does not exist"),
        (("explain", "--file", "team.yaml", "--actor", "a", "--action", "raed"), 2, "did you mean 'read'?"),
        (("explain", "--file", "team.yaml", "--actor", "a", "--action", "read"), 0, ""),
    ],
)
def test_arguments(arguments: tuple[str, ...], exit_code: int, message: str, files: Path) -> None:
    outcome = policy(files, *arguments)
    assert outcome.exit_code == exit_code
    assert message in outcome.stderr
