"""Policy files: what is valid, and that every problem is reported in one run with its line."""

from __future__ import annotations

from typing import Final

import pytest

from omnigraph.base import limits
from omnigraph.base.authorization import AccessAction
from omnigraph.base.diagnostics import Diagnostic, Diagnostics
from omnigraph.policy.bundle import BranchScope, Bundle, BundleKind, join_bundles, parse_bundle
from omnigraph.policy.cedar import compile_bundle

TEAM: Final = """
version: 1
groups:
  team: [act-ada, act-bo, no, on]
  admins: [act-ada]
protected_branches: [main, "release/*"]
rules:
  - id: team-reads
    allow: { actors: { group: team }, actions: [read, export], branch_scope: any }
  - id: team-writes-on-branches
    allow: { actors: { group: team }, actions: [change], branch_scope: unprotected }
  - id: admins-promote
    allow:
      actors: { group: admins }
      actions: [branch_create, branch_delete, branch_merge, schema_apply]
      target_branch_scope: any
"""


def test_reads_groups_rules_and_scopes() -> None:
    bundle = parse(TEAM)
    assert bundle.kind is BundleKind.GRAPH
    assert bundle.groups == {"team": ("act-ada", "act-bo", "no", "on"), "admins": ("act-ada",)}
    assert bundle.rules[1].branch_scope is BranchScope.UNPROTECTED
    assert bundle.rules[2].actions[0] is AccessAction.BRANCH_CREATE


@pytest.mark.parametrize(
    ("branch", "is_protected"),
    [
        ("main", True),
        ("release/1", True),
        ("release/1/a", True),
        ("release", False),
        ("releases/1", False),
        ("x", False),
    ],
)
def test_protected_branches(branch: str, is_protected: bool) -> None:
    assert parse(TEAM).is_protected(branch) is is_protected


OTHER: Final = """
version: 1
groups:
  team: [no, on, act-bo, act-ada]
  readers: [eve]
protected_branches: [stable]
rules:
  - id: readers-read
    allow: { actors: { group: readers }, actions: [read] }
"""


def test_several_files_are_one_policy() -> None:
    problems = Diagnostics()
    joined = join_bundles([parse(TEAM), parse(OTHER)], problems)
    assert joined is not None, problems.items
    assert [rule.id for rule in joined.rules][-1] == "readers-read"
    assert sorted(joined.groups) == ["admins", "readers", "team"]
    assert (joined.is_protected("main"), joined.is_protected("stable"), joined.is_protected("x")) == (True, True, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OTHER.replace("act-bo, ", ""), "the group 'team' has other actors than in 'p.yaml'"),
        (OTHER.replace("readers-read", "team-reads"), "duplicate rule 'team-reads': the first one is in 'p.yaml'"),
        (OTHER.replace("[read]", "[graph_list]"), "rules about a server: expected rules about a graph"),
    ],
)
def test_files_that_do_not_fit_together(text: str, message: str) -> None:
    problems = Diagnostics()
    assert join_bundles([parse(TEAM), parse(text)], problems) is None
    assert message in problems.items[0].message


INVALID: Final = {
    "a misspelled member": (
        TEAM.replace("branch_scope: unprotected", "branch_scop: unprotected"),
        "p.yaml:11: rules[1].allow.branch_scop: unknown member: expected one of actors, actions, branch_scope, "
        "target_branch_scope",
    ),
    "an unknown action": (
        TEAM.replace("actions: [change]", "actions: [chnge]"),
        "p.yaml:11: rules[1].allow.actions[0]: unknown action 'chnge': did you mean 'change'?",
    ),
    "an unknown scope": (
        TEAM.replace("branch_scope: unprotected", "branch_scope: unprotcted"),
        "p.yaml:11: rules[1].allow.branch_scope: unknown branch_scope 'unprotcted': did you mean 'unprotected'?",
    ),
    "an unknown group": (
        TEAM.replace("group: admins", "group: admin"),
        "p.yaml:14: rules[2].allow.actors.group: unknown group 'admin': did you mean 'admins'?",
    ),
    "a scope of another action": (
        TEAM.replace("actions: [change], branch_scope", "actions: [change], target_branch_scope"),
        "p.yaml:11: rules[1].allow.target_branch_scope: the action 'change' has no target_branch_scope: "
        "expected one of branch_create, branch_delete, branch_merge, schema_apply",
    ),
    "a duplicate rule": (
        TEAM.replace("id: admins-promote", "id: team-reads"),
        "p.yaml:12: rules[2]: duplicate rule 'team-reads': the first one is on line 8",
    ),
    "a duplicate key": (TEAM.replace("  admins:", "  team:"), "p.yaml:5: duplicate key 'team'"),
    "an empty group": (
        TEAM.replace("admins: [act-ada]", "admins: []"),
        "p.yaml:5: groups.admins: the group has no actors: expected a list of actor ids",
    ),
    "an actor of the system": (
        TEAM.replace("admins: [act-ada]", "admins: ['omnigraph:repair']"),
        "p.yaml:5: groups.admins[0]: 'omnigraph:repair' is an actor of the system",
    ),
    "a blank id": (TEAM.replace("id: admins-promote", 'id: " "'), "p.yaml:12: rules[2].id: the value is blank"),
    "actions of graphs and of the server": (
        TEAM.replace("actions: [change], branch_scope: unprotected", "actions: [graph_list]"),
        "p.yaml:10: rules[1]: actions on graphs and on the server cannot be in one file: expected one kind",
    ),
    "no version": (TEAM.replace("version: 1\n", ""), "p.yaml:2: the member 'version' is missing"),
    "another version": (
        TEAM.replace("version: 1", "version: 2"),
        "p.yaml:2: version: unsupported version: expected 1, got 2",
    ),
    "a pattern": (
        TEAM.replace('"release/*"', '"rel*"'),
        "p.yaml:6: protected_branches[1]: invalid pattern 'rel*': expected a branch, or a prefix that ends in /*",
    ),
    "an anchor": (TEAM.replace("[act-ada]", "&a [act-ada]"), "p.yaml:5: anchors and aliases are not allowed"),
    "a tag": (TEAM.replace("[act-ada]", "[!!int 1]"), "p.yaml:5: the tag 'tag:yaml.org,2002:int' is not allowed"),
    "broken YAML": ("version: [1", "p.yaml:1: expected ',' or ']', but got '<stream end>'"),
    "a missing Cedar file": (
        TEAM + "cedar: [no.cedar]\n",
        "p.yaml:17: cedar[0]: the file 'no.cedar' cannot be used: No such file or directory",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_files(name: str) -> None:
    text, message = INVALID[name]
    assert message in [str(problem) for problem in problems_of(text)]


def test_all_problems_are_reported_in_one_run() -> None:
    text = TEAM.replace("group: admins", "group: ops").replace("[change]", "[chnge]").replace("version: 1", "vrsion: 1")
    assert [problem.line for problem in problems_of(text)] == [2, 2, 11, 14]


def test_deep_nesting_is_a_problem() -> None:
    assert "nested too deeply" in str(problems_of("[" * 100_000)[0])


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POLICY_RULES_MAX", 2)
    monkeypatch.setattr(limits, "POLICY_ACTORS_MAX", 4)
    assert [problem.message for problem in problems_of(TEAM)] == [
        "groups: 5 actors: expected at most 4",
        "rules: 3 rules: expected at most 2",
    ]


CEDAR_PROBLEMS: Final = {
    "syntax": ("permit(principal, action, resource) when { ;", "invalid Cedar"),
    "no id": (
        "permit(principal, action, resource);",
        'the policy has no id: expected an annotation such as @id("no-export")',
    ),
    "the id of a rule": (
        '@id("team-reads") forbid(principal, action, resource);',
        "duplicate policy 'team-reads': the first one is in 'p.yaml'",
    ),
    "an unknown member": (
        '@id("x") forbid(principal, action == Omnigraph::Action::"read", resource) when { context.brnch == "main" };',
        "attribute `brnch`",
    ),
    "an unknown group": (
        '@id("x") forbid(principal in Omnigraph::Group::"tem", action, resource);',
        "policy 'x': unknown group 'tem': did you mean 'team'?",
    ),
    "an unknown group in a condition": (
        '@id("x") forbid(principal, action, resource) unless { principal in [Omnigraph::Group::"ops"] };',
        "policy 'x': unknown group 'ops'",
    ),
    "a template": ('@id("x") permit(principal == ?principal, action, resource);', "templates are not supported"),
}


def test_every_problem_of_every_cedar_policy_is_reported_with_its_line() -> None:
    """A `;` in a string or in a comment does not end a policy."""
    text = (
        '@id("a") permit(principal, action, resource) when { context.branch == "x;" }; // no ; here\n'
        "permit(principal, action, resource) when { ; };\n\n"
        '@id("b")\nforbid(principal, action, resource) when { context.brnch == "main" };\n'
        'forbid(principal, action, resource) when { context.qery == "q" };\n'
        '@id("c") permit(principal == ?principal, action, resource);\n@id("d") permit(principal'
    )
    problems = Diagnostics()
    assert compile_bundle(parse(TEAM + "cedar: [extra.cedar]\n", {"extra.cedar": text}), "g", problems) is None
    assert sorted((item.line, item.message.removesuffix(" not found").split(": ")[-1]) for item in problems.items) == [
        (2, "unexpected token `;`"),
        (2, "unexpected token `}`"),
        (4, "attribute `brnch` in context"),
        (6, "attribute `qery` in context"),
        (6, 'expected an annotation such as @id("no-export")'),
        (7, "expected a policy"),
        (8, "unexpected end of input"),
    ]


@pytest.mark.parametrize("name", CEDAR_PROBLEMS)
def test_invalid_cedar(name: str) -> None:
    text, message = CEDAR_PROBLEMS[name]
    problems = Diagnostics()
    assert compile_bundle(parse(TEAM + "cedar: [extra.cedar]\n", {"extra.cedar": text}), "g", problems) is None
    assert [problem.path for problem in problems.items] == ["extra.cedar"]
    assert message in problems.items[0].message


def parse(text: str, cedar: dict[str, str] | None = None) -> Bundle:
    problems = Diagnostics()
    bundle = parse_bundle(text, "p.yaml", (cedar or {}).__getitem__, problems)
    assert problems.items == []
    assert bundle is not None
    return bundle


def problems_of(text: str) -> list[Diagnostic]:
    problems = Diagnostics()

    def read(name: str) -> str:
        raise FileNotFoundError(2, "No such file or directory", name)

    parse_bundle(text, "p.yaml", read, problems)
    assert problems.has_errors
    return list(problems.items)
