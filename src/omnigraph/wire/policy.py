"""The JSON documents of `omnigraph policy`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from omnigraph.base.authorization import Authority
from omnigraph.policy.bundle import Bundle
from omnigraph.policy.decide import PolicyDecision
from omnigraph.policy.files import CaseResult


class PolicyValidateOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A valid policy file, counted. `kind` is null if it has no rules."""

    ok: bool
    bundle: str
    kind: str | None
    actors: int
    groups: int
    rules: int
    cedar_files: int


class PolicyCaseOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A test case: what was expected, and the decision."""

    id: str
    expected: str
    allowed: bool
    passed: bool
    rule: str | None
    message: str


class PolicyTestOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The test cases of a policy."""

    ok: bool
    passed: int
    failed: int
    cases: list[PolicyCaseOutput]


class PolicyExplainOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about one request. `rule` is null if no rule decided it: then it is denied."""

    actor: str
    action: str
    branch: str | None
    target_branch: str | None
    allowed: bool
    rule: str | None
    message: str
    bundle: str
    graph: str


def validate_output(bundle: Bundle) -> PolicyValidateOutput:
    """Return the document of `policy validate`."""
    return PolicyValidateOutput(
        ok=True,
        bundle=bundle.source,
        kind=None if bundle.kind is None else bundle.kind.value,
        actors=len(bundle.actors),
        groups=len(bundle.groups),
        rules=len(bundle.rules),
        cedar_files=len(bundle.cedar),
    )


def test_output(results: Sequence[CaseResult]) -> PolicyTestOutput:
    """Return the document of `policy test`."""
    passed = sum(result.is_expected for result in results)
    cases = [
        PolicyCaseOutput(
            id=result.case.id,
            expected="allow" if result.case.expects_allow else "deny",
            allowed=result.decision.is_allowed,
            passed=result.is_expected,
            rule=result.decision.rule,
            message=result.decision.message,
        )
        for result in results
    ]
    return PolicyTestOutput(ok=passed == len(results), passed=passed, failed=len(results) - passed, cases=cases)


def explain_output(
    bundle: Bundle, graph: str, actor: str, authority: Authority, decision: PolicyDecision
) -> PolicyExplainOutput:
    """Return the document of `policy explain`."""
    return PolicyExplainOutput(
        actor=actor,
        action=authority.action.value,
        branch=authority.branch,
        target_branch=authority.target,
        allowed=decision.is_allowed,
        rule=decision.rule,
        message=decision.message,
        bundle=bundle.source,
        graph=graph,
    )
