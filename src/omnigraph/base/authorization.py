"""Who may do what: actions, what a request concerns, and the gate that writes and routes ask. Pure.

A gate allows or raises. The default of a graph that is opened by its location allows everything. Direct access to the
files is not protected by a gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from omnigraph.base.errors import ErrorKind, OmnigraphError


class AccessAction(StrEnum):
    """What an actor does to a graph; `graph_list` concerns the server. The values are the names in policies."""

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    INVOKE_QUERY = "invoke_query"
    ADMIN = "admin"
    GRAPH_LIST = "graph_list"


SERVER_ACTIONS: Final = frozenset({AccessAction.GRAPH_LIST})
"""The actions that concern a server and not one graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """What a request asks for: an action, the branch it reads or changes, the branch it targets, a stored query."""

    action: AccessAction
    branch: str | None = None
    target: str | None = None
    query: str | None = None


class GraphGate(Protocol):
    """Decides what actors may do with a graph."""

    def check(self, authority: Authority, actor: str | None) -> None:
        """Raise `AccessDeniedError` unless the actor may do it."""


class AllowAll:
    """The gate of a graph without a policy."""

    def check(self, authority: Authority, actor: str | None) -> None:
        """Allow everything."""


class AccessDeniedError(OmnigraphError):
    """A policy does not allow what the actor asked for."""

    kind = ErrorKind.FORBIDDEN
