"""Decisions of policies: tables of requests, and properties that hold for every bundle."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.base.authorization import AccessAction, AccessDeniedError, Authority
from omnigraph.base.diagnostics import Diagnostics
from omnigraph.policy.bundle import BRANCH_ACTIONS, TARGET_ACTIONS, BranchScope, parse_bundle
from omnigraph.policy.cedar import CompiledPolicy, PolicyFailedError, compile_bundle
from omnigraph.policy.decide import decide
from omnigraph.policy.gate import PolicyGate
from tests.policy.test_bundle import TEAM

DECISIONS: Final = [
    # actor, action, branch, target, rule that allows it (or None)
    ("act-bo", "read", "main", None, "team-reads"),
    ("act-bo", "read", None, None, "team-reads"),
    ("no", "read", "main", None, "team-reads"),
    ("act-bo", "export", "main", None, "team-reads"),
    ("act-bo", "change", "main", None, None),
    ("act-bo", "change", "release/1", None, None),
    ("act-bo", "change", "review", None, "team-writes-on-branches"),
    ("act-bo", "change", None, None, None),
    ("act-bo", "branch_merge", "review", "main", None),
    ("act-ada", "branch_merge", "review", "main", "admins-promote"),
    ("act-ada", "schema_apply", None, "main", "admins-promote"),
    ("act-ada", "change", "main", None, None),
    ("act-ada", "invoke_query", None, None, None),
    ("act-ada", "admin", None, None, None),
    ("act-ada", "graph_list", None, None, None),
    ("stranger", "read", "main", None, None),
    ('a"; permit(principal,action,resource);//', "read", "main", None, None),
]


@pytest.mark.parametrize(("actor", "action", "branch", "target", "rule"), DECISIONS)
def test_decisions_of_a_team(actor: str, action: str, branch: str | None, target: str | None, rule: str | None) -> None:
    decision = decide(compiled(TEAM), actor, Authority(action=AccessAction(action), branch=branch, target=target))
    assert (decision.is_allowed, decision.rule) == (rule is not None, rule)


def test_messages_name_action_branches_and_actor() -> None:
    policy = compiled(TEAM)
    merge = Authority(action=AccessAction.BRANCH_MERGE, branch="review", target="main")
    assert decide(policy, "act-bo", merge).message == (
        "policy denied action 'branch_merge' on branch 'review' targeting branch 'main' for actor 'act-bo'"
    )
    assert decide(policy, "x", Authority(action=AccessAction.READ)).message == (
        "policy denied action 'read' for unknown actor 'x'"
    )


@pytest.mark.parametrize(
    ("scope", "branch", "is_allowed"),
    [
        ("any", None, True),
        ("any", "main", True),
        ("protected", None, False),
        ("protected", "main", True),
        ("protected", "x", False),
        ("unprotected", None, False),
        ("unprotected", "main", False),
        ("unprotected", "x", True),
    ],
)
def test_scopes_other_than_any_need_a_branch(scope: str, branch: str | None, is_allowed: bool) -> None:
    policy = compiled(TEAM.replace("branch_scope: any", f"branch_scope: {scope}", 1))
    assert decide(policy, "act-bo", Authority(action=AccessAction.READ, branch=branch)).is_allowed is is_allowed


def test_raw_cedar_can_forbid_and_names_its_policy() -> None:
    scope = 'principal, action == Omnigraph::Action::"change", resource'
    forbid = f'@id("freeze") forbid({scope}) when {{ context.branch like "r*" }};'
    policy = compiled(TEAM + "cedar: [f.cedar]\n", {"f.cedar": forbid})
    frozen = decide(policy, "act-bo", Authority(action=AccessAction.CHANGE, branch="review"))
    assert (frozen.is_allowed, frozen.rule) == (False, "freeze")
    assert decide(policy, "act-bo", Authority(action=AccessAction.CHANGE, branch="draft")).is_allowed


def test_an_evaluation_error_allows_nothing() -> None:
    broken = (
        '@id("overflow") permit(principal, action, resource is Omnigraph::Graph) when { 9223372036854775807 + 1 > 0 };'
    )

    policy = compiled(TEAM + "cedar: [f.cedar]\n", {"f.cedar": broken})
    with pytest.raises(PolicyFailedError) as raised:
        decide(policy, "act-bo", Authority(action=AccessAction.READ, branch="main"))
    assert raised.value.code == "policy_failed"


def test_a_policy_of_the_server_decides_only_about_the_server() -> None:
    text = (
        "version: 1\ngroups: {ops: [ada]}\nrules: [{id: list, allow: {actors: {group: ops}, actions: [graph_list]}}]\n"
    )
    policy = compiled(text)
    assert decide(policy, "ada", Authority(action=AccessAction.GRAPH_LIST)).rule == "list"
    assert not decide(policy, "ada", Authority(action=AccessAction.READ)).is_allowed


def test_a_policy_without_rules_decides_by_its_cedar_files() -> None:
    """It has no kind: the same file may be about graphs and about the server."""
    lists = '@id("lists") permit(principal, action == Omnigraph::Action::"graph_list", resource);'
    reads = '@id("reads") permit(principal == Omnigraph::Actor::"ada", action == Omnigraph::Action::"read", resource);'
    policy = compiled("version: 1\ncedar: [c.cedar]\n", {"c.cedar": f"{lists}\n{reads}"})
    assert decide(policy, "bo", Authority(action=AccessAction.GRAPH_LIST)).rule == "lists"
    assert decide(policy, "ada", Authority(action=AccessAction.READ, branch="main")).rule == "reads"
    assert not decide(policy, "bo", Authority(action=AccessAction.READ, branch="main")).is_allowed


def test_the_gate_raises_and_reports_every_decision() -> None:
    log: list[tuple[str, bool]] = []
    gate = PolicyGate(compiled(TEAM), lambda actor, _, decision: log.append((actor, decision.is_allowed)))
    gate.check(Authority(action=AccessAction.READ, branch="main"), "act-bo")
    with pytest.raises(AccessDeniedError) as denied:
        gate.check(Authority(action=AccessAction.CHANGE, branch="main"), "act-bo")
    assert (denied.value.code, denied.value.facts["branch"]) == ("policy_denied", "main")
    with pytest.raises(AccessDeniedError, match="names no actor"):
        gate.check(Authority(action=AccessAction.READ), None)
    assert log == [("act-bo", True), ("act-bo", False)]


def test_extent() -> None:
    gate = PolicyGate(compiled(TEAM))
    branches = ["main", "review"]
    assert gate.extent("act-bo", AccessAction.READ, branches) == "all"
    assert gate.extent("act-bo", AccessAction.CHANGE, branches) == "some"
    assert gate.extent("act-bo", AccessAction.BRANCH_MERGE, branches) == "none"
    assert gate.extent("act-ada", AccessAction.BRANCH_MERGE, branches) == "all"
    own = PolicyGate(compiled(TEAM.replace("target_branch_scope: any", "target_branch_scope: unprotected")))
    assert own.extent("act-ada", AccessAction.BRANCH_CREATE, ["main"]) == "some"
    assert own.extent("act-ada", AccessAction.BRANCH_MERGE, ["main"]) == "none"
    assert gate.extent("act-bo", AccessAction.CHANGE, ["main"]) == "some", "a branch that does not exist yet"


GRAPH_ACTIONS: Final = sorted(BRANCH_ACTIONS | TARGET_ACTIONS)
names = st.sampled_from(["main", "release/1", "draft", None])
requests = st.builds(
    lambda action, branch, target: Authority(action=action, branch=branch, target=target),
    st.sampled_from(GRAPH_ACTIONS), names, names,
)  # fmt: skip


@given(request=requests, action=st.sampled_from(GRAPH_ACTIONS), scope=st.sampled_from(BranchScope))
def test_another_rule_never_denies_what_was_allowed(
    request: Authority, action: AccessAction, scope: BranchScope
) -> None:
    name = "target_branch_scope" if action in TARGET_ACTIONS else "branch_scope"
    rule = f"  - id: more\n    allow: {{ actors: {{ group: team }}, actions: [{action}], {name}: {scope} }}\n"
    before = decide(compiled(TEAM), "act-bo", request)
    after = decide(compiled(TEAM + rule), "act-bo", request)
    assert after.is_allowed or not before.is_allowed


def compiled(text: str, cedar: dict[str, str] | None = None) -> CompiledPolicy:
    problems = Diagnostics()
    bundle = parse_bundle(text, "p.yaml", (cedar or {}).__getitem__, problems)
    assert bundle is not None, problems.items
    policy = compile_bundle(bundle, "knowledge", problems)
    assert policy is not None, problems.items
    return policy
