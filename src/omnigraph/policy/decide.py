"""Decides whether an actor may do something: a pure function of a compiled policy and a request.

Server, write path, cluster and commands ask here and get the same decision, rule and message.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.base.authorization import Authority
from omnigraph.policy.bundle import action_kind
from omnigraph.policy.cedar import CompiledPolicy


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """Whether a request is allowed, the rule that decided it, and the reason as text.

    `rule` is None if no rule allows the request; then it is denied by default.
    """

    is_allowed: bool
    rule: str | None
    message: str


def decide(policy: CompiledPolicy, actor: str, authority: Authority) -> PolicyDecision:
    """Return the decision of a policy about a request of an actor."""
    if policy.bundle.kind not in (action_kind(authority.action), None):  # its rules cannot name the action
        return PolicyDecision(False, None, _message(policy, actor, authority, is_allowed=False))
    answer = policy.ask(actor, authority)
    rule = answer.policy_ids[0] if answer.policy_ids else None
    return PolicyDecision(answer.is_allowed, rule, _message(policy, actor, authority, is_allowed=answer.is_allowed))


def _message(policy: CompiledPolicy, actor: str, authority: Authority, *, is_allowed: bool) -> str:
    parts = [f"policy {'allowed' if is_allowed else 'denied'} action '{authority.action}'"]
    if authority.query is not None:
        parts.append(f"of query '{authority.query}'")
    if authority.branch is not None:
        parts.append(f"on branch '{authority.branch}'")
    if authority.target is not None:
        parts.append(f"targeting branch '{authority.target}'")
    is_unknown = not is_allowed and actor not in policy.bundle.actors
    return " ".join([*parts, f"for {'unknown ' if is_unknown else ''}actor '{actor}'"])
