"""What an actor may do: one gate for every route, with a policy or without one.

In: an actor, an action and the branches that it concerns. Out: nothing, or an error with the reason. Decisions of a
policy are logged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from omnigraph.base.authorization import AccessAction, Authority
from omnigraph.base.errors import ErrorKind
from omnigraph.policy.cedar import CompiledPolicy
from omnigraph.policy.decide import PolicyDecision
from omnigraph.policy.gate import PolicyGate
from omnigraph.server.boot import AccessState
from omnigraph.server.errors import RequestError
from omnigraph.server.logs import log_event


class GraphAction(StrEnum):
    """What a request does to a graph."""

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    INVOKE_QUERY = "invoke_query"


READ_ACTIONS: Final = frozenset({GraphAction.READ, GraphAction.EXPORT, GraphAction.INVOKE_QUERY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an action concerns: the branch, for a merge or a new branch the branch that it changes, a stored query."""

    branch: str | None = None
    target: str | None = None
    query: str | None = None


class ActionGate(Protocol):
    """Decides what actors may do with a graph."""

    @property
    def depends_on_subject(self) -> bool:
        """Whether it decides by branches and queries, so that they must be read first."""

    def require(self, actor: str, action: GraphAction, subject: Subject) -> None:
        """Raise unless the actor may do it."""

    def allowed(self, actor: str) -> dict[GraphAction, str]:
        """Return for each action on how many branches it is allowed: `none`, `some` or `all`."""

    def protects(self) -> Callable[[str], bool] | None:
        """Return a function that returns whether a branch is protected; None without a policy."""


@dataclass(frozen=True, slots=True)
class AccessGate:
    """The gate of a server without a policy: every token may do the same."""

    state: AccessState
    depends_on_subject = False

    def require(self, actor: str, action: GraphAction, subject: Subject) -> None:  # noqa: ARG002  # the same for all
        """Raise unless the actor may do it."""
        if self.state is AccessState.READ and action not in READ_ACTIONS:
            raise RequestError(
                f"actor '{actor}' may not {action.value.replace('_', ' ')}: the server allows only reading",
                code="access_denied",
                kind=ErrorKind.FORBIDDEN,
                hint="Nothing was done. Ask the operator of the server for write access.",
                facts={"action": action.value},
            )

    def allowed(self, actor: str) -> dict[GraphAction, str]:  # noqa: ARG002  # the same for all
        """Return `all` or `none` for each action."""
        is_reader = self.state is AccessState.READ
        return {action: "none" if is_reader and action not in READ_ACTIONS else "all" for action in GraphAction}

    def protects(self) -> None:
        """Return None: without a policy, no branch is protected."""


@dataclass(frozen=True, slots=True)
class PolicyActionGate:
    """The gate of a server with a policy, which SIGHUP may replace. What no rule allows is denied."""

    policy: Callable[[], CompiledPolicy]
    list_branches: Callable[[], list[str]]
    depends_on_subject = True

    def require(self, actor: str, action: GraphAction, subject: Subject) -> None:
        """Raise unless the policy allows it. A read of two branches must be allowed for each of them."""
        gate = PolicyGate(self.policy(), _log_decision)
        name = AccessAction(action.value)
        if action is GraphAction.READ and subject.target is not None:
            gate.check(Authority(action=name, branch=subject.branch), actor)
            gate.check(Authority(action=name, branch=subject.target), actor)
        else:
            gate.check(Authority(action=name, branch=subject.branch, target=subject.target, query=subject.query), actor)

    def allowed(self, actor: str) -> dict[GraphAction, str]:
        """Return for each action on how many branches the policy allows it."""
        gate = PolicyGate(self.policy())
        branches = self.list_branches()
        return {action: gate.extent(actor, AccessAction(action.value), branches) for action in GraphAction}

    def protects(self) -> Callable[[str], bool]:
        """Return a function that returns whether the policy protects a branch."""
        return self.policy().bundle.is_protected


@dataclass(frozen=True, slots=True)
class ListingGate:
    """The gate of a server of a cluster: only a policy of the server allows to list the graphs."""

    policy: CompiledPolicy | None

    def require_listing(self, actor: str) -> None:
        """Raise unless the actor may list the graphs."""
        if self.policy is not None:
            PolicyGate(self.policy, _log_decision).check(Authority(action=AccessAction.GRAPH_LIST), actor)
            return
        raise RequestError(
            f"actor '{actor}' may not list the graphs: the cluster has no policy of the server",
            code="access_denied",
            kind=ErrorKind.FORBIDDEN,
            hint="Declare a policy that applies to [cluster] and allows graph_list.",
            facts={"action": AccessAction.GRAPH_LIST.value},
        )


def _log_decision(actor: str, authority: Authority, decision: PolicyDecision) -> None:
    log_event(
        "policy decision",
        actor=actor,
        action=authority.action.value,
        branch=authority.branch,
        target=authority.target,
        allowed=decision.is_allowed,
        rule=decision.rule,
    )
