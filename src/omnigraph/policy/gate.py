"""The gate of a graph with a policy: raises for what the policy does not allow. See `base/authorization`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from omnigraph.base.authorization import AccessAction, AccessDeniedError, Authority
from omnigraph.base.errors import Fact
from omnigraph.policy.bundle import BRANCH_ACTIONS, TARGET_ACTIONS
from omnigraph.policy.cedar import CompiledPolicy
from omnigraph.policy.decide import PolicyDecision, decide

Extent = Literal["none", "some", "all"]
"""On how many branches an actor may do something."""

Listener = Callable[[str, Authority, PolicyDecision], None]
"""Receives every decision of a gate, for a log."""


@dataclass(frozen=True, slots=True)
class PolicyGate:
    """Asks one policy. Every decision is passed to `listener`, if there is one."""

    policy: CompiledPolicy
    listener: Listener | None = None

    def check(self, authority: Authority, actor: str | None) -> None:
        """Raise `AccessDeniedError` unless the actor may do it. A request without an actor is denied."""
        if actor is None:
            raise AccessDeniedError(
                f"policy denied action '{authority.action}': the request names no actor",
                code="actor_missing",
                hint="Nothing was done. Name the actor of the request.",
                facts=_facts(authority, actor),
            )
        decision = decide(self.policy, actor, authority)
        if self.listener is not None:
            self.listener(actor, authority, decision)
        if not decision.is_allowed:
            raise AccessDeniedError(
                decision.message,
                code="policy_denied",
                hint="Nothing was done. Ask the owners of the policy for a rule that allows it.",
                facts={**_facts(authority, actor), "rule": decision.rule},
            )

    def extent(self, actor: str, action: AccessAction, branches: Iterable[str]) -> Extent:
        """Return on how many of some branches an actor may do something.

        Some actions concern no branch; a read may have one or none.
        """
        if action in TARGET_ACTIONS:
            requests = [Authority(action=action, target=branch) for branch in branches]
        elif action in BRANCH_ACTIONS:
            requests = [Authority(action=action, branch=branch) for branch in branches]
        else:
            requests = [Authority(action=action)]
        if action is AccessAction.READ:
            requests.append(Authority(action=action))
        # A branch that does not exist yet: a team that writes only on its own branches creates one first.
        if action is AccessAction.BRANCH_CREATE:
            requests.append(Authority(action=action, target=_NEW_BRANCH))
        if action is AccessAction.CHANGE:
            requests.append(Authority(action=action, branch=_NEW_BRANCH))
        answers = {decide(self.policy, actor, authority).is_allowed for authority in requests}
        return "some" if len(answers) > 1 else "all" if answers == {True} else "none"


_NEW_BRANCH: Final = "new-branch"


def _facts(authority: Authority, actor: str | None) -> dict[str, Fact]:
    facts: dict[str, Fact] = {"action": authority.action.value, "actor": actor}
    names = {"branch": authority.branch, "target_branch": authority.target, "query": authority.query}
    facts.update({name: value for name, value in names.items() if value is not None})
    return facts
