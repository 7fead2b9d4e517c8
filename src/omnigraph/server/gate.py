"""What an actor may do: one gate for every route, with a policy or without one.

In: an actor, an action and the branches that it concerns. Out: nothing, or an error with the reason. Decisions of a
policy are logged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, Protocol

from omnigraph.base.authorization import AccessAction, Authority
from omnigraph.base.errors import ErrorKind, NotFoundError, OmnigraphError
from omnigraph.graph.manifest.refs import missing_reference
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
    references: tuple[str, ...] = ()
    """Branches or commits by name: the action concerns the branch of each of them."""


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
        """Raise unless the policy allows it."""
        policy = self.policy()
        gate = PolicyGate(policy, partial(_log_decision, policy.resource_id))
        name = AccessAction(action.value)
        gate.check(Authority(action=name, branch=subject.branch, target=subject.target, query=subject.query), actor)

    def allowed(self, actor: str) -> dict[GraphAction, str]:
        """Return for each action on how many branches the policy allows it."""
        gate = PolicyGate(self.policy())
        branches = self.list_branches()
        return {action: gate.extent(actor, AccessAction(action.value), branches) for action in GraphAction}

    def protects(self) -> Callable[[str], bool]:
        """Return a function that returns whether the policy protects a branch."""
        return self.policy().bundle.is_protected


def require_access(
    gate: ActionGate, actor: str, action: GraphAction, subject: Subject, find_branch: Callable[[str], str]
) -> None:
    """Raise unless the actor may do it.

    An actor that may not list branches and commits gets the same error for a reference that it must not use and for
    one that does not exist.
    """
    if not subject.references:
        gate.require(actor, action, subject)
    for name in subject.references:
        try:
            gate.require(actor, action, Subject(branch=find_branch(name)))
        except OmnigraphError as error:
            if error.kind not in _REVEALING or may_list(gate, actor):
                raise
            gate.require(actor, action, Subject())
            raise missing_reference(name) from error


BRANCH_MISSING: Final = "branch_missing"
_REVEALING: Final = frozenset({ErrorKind.FORBIDDEN, ErrorKind.NOT_FOUND, ErrorKind.BAD_REQUEST, ErrorKind.REFUSED})
"""The kinds of errors that depend on whether a branch or commit exists."""


def may_list(gate: ActionGate, actor: str) -> bool:
    """Return whether an actor may list the branches and commits of a graph."""
    try:
        gate.require(actor, GraphAction.READ, Subject())
    except OmnigraphError:
        return False
    return True


def hide_branches(gate: ActionGate, actor: str, error: OmnigraphError) -> OmnigraphError:
    """Return an error about a missing branch without the names of the existing ones, if the actor may not list them."""
    if error.code != BRANCH_MISSING or may_list(gate, actor):
        return error
    return NotFoundError(error.message, code=BRANCH_MISSING, facts={"branch": error.facts["branch"]})


@dataclass(frozen=True, slots=True)
class ListingGate:
    """The gate of a server of a cluster: only a policy of the server allows to list the graphs."""

    policy: CompiledPolicy | None

    def require_listing(self, actor: str) -> None:
        """Raise unless the actor may list the graphs."""
        if self.policy is not None:
            PolicyGate(self.policy, partial(_log_decision, None)).check(
                Authority(action=AccessAction.GRAPH_LIST), actor
            )
            return
        raise RequestError(
            f"actor '{actor}' may not list the graphs: the cluster has no policy of the server",
            code="access_denied",
            kind=ErrorKind.FORBIDDEN,
            hint="Declare a policy that applies to [cluster] and allows graph_list.",
            facts={"action": AccessAction.GRAPH_LIST.value},
        )


def _log_decision(graph: str | None, actor: str, authority: Authority, decision: PolicyDecision) -> None:
    log_event(
        "policy decision",
        actor=actor,
        action=authority.action.value,
        graph=graph,
        branch=authority.branch,
        target=authority.target,
        query=authority.query,
        allowed=decision.is_allowed,
        rule=decision.rule,
    )
