"""Compiles a bundle to Cedar and evaluates requests: the only module that imports cedarpy.

In: a `Bundle` and the id of its graph. Out: a `CompiledPolicy`, which answers requests in about 0.2 ms, or problems of
the Cedar texts. Each rule and action is one `permit` with the id of the rule; raw files follow and may forbid. The
whole set is validated in Cedar's strict mode before it is used. An evaluation error never allows anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from omnigraph.base.authorization import SERVER_ACTIONS, AccessAction, Authority
from omnigraph.base.diagnostics import Diagnostics
from omnigraph.base.display import did_you_mean
from omnigraph.base.errors import ErrorKind, MachineError, OmnigraphError
from omnigraph.policy.bundle import POLICY_INVALID, TARGET_ACTIONS, BranchScope, Bundle, BundleKind, PolicyRule

SERVER_ID: Final = "root"
"""The id of the server as a resource."""
_CEDAR_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*(?:"|\\?\Z)|//[^\n]*|;|[^\s";/]+|/', re.DOTALL)
_ACTION: Final = re.compile(r' for Omnigraph::Action::"\w+"')

_SCHEMA: Final = """
namespace Omnigraph {{
  entity Group;
  entity Actor in [Group];
  entity Graph;
  entity Server;
  type Request = {{
    has_branch: Bool, branch: String, branch_is_protected: Bool,
    has_target_branch: Bool, target_branch: String, target_branch_is_protected: Bool,
    has_query: Bool, query: String
  }};
  action {graph_actions} appliesTo {{ principal: [Actor], resource: [Graph], context: Request }};
  action {server_actions} appliesTo {{ principal: [Actor], resource: [Server], context: Request }};
}}
"""


class PolicyFailedError(OmnigraphError):
    """Cedar could not evaluate a policy. Nothing was allowed."""

    kind = ErrorKind.INTERNAL


@dataclass(frozen=True, slots=True)
class CedarAnswer:
    """What Cedar decided, and the ids of the policies that decided it."""

    is_allowed: bool
    policy_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPolicy:
    """A bundle for one graph or the server, parsed and validated once."""

    bundle: Bundle
    resource_id: str
    schema: Any
    policies: Any
    entities: Any

    def ask(self, actor: str, authority: Authority) -> CedarAnswer:
        """Return what the policies decide; raise if one of them cannot be evaluated."""
        request = {
            "principal": {"type": "Omnigraph::Actor", "id": actor},
            "action": {"type": "Omnigraph::Action", "id": authority.action.value},
            "resource": self._resource(authority.action),
            "context": _context(self.bundle, authority),
        }
        answer = _cedarpy().is_authorized(request, self.policies, self.entities, self.schema)
        if answer.diagnostics.errors:
            raise PolicyFailedError(
                f"the policy '{self.bundle.source}' could not be evaluated: {answer.diagnostics.errors[0]}",
                code="policy_failed",
                hint="Nothing was allowed. Correct the Cedar files of the policy.",
            )
        ids = tuple(sorted(answer.diagnostics.id_annotations_by_reason.values()))
        return CedarAnswer(bool(answer.allowed), ids)

    def _resource(self, action: AccessAction) -> dict[str, str]:
        if action in SERVER_ACTIONS:
            return {"type": "Omnigraph::Server", "id": SERVER_ID}
        return {"type": "Omnigraph::Graph", "id": self.resource_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class _PolicyText:
    """One Cedar policy, and where it is declared."""

    id: str
    text: str
    file: str
    line: int | None = None


def compile_bundle(
    bundle: Bundle, graph_id: str, problems: Diagnostics, graph_ids: Collection[str] | None = None
) -> CompiledPolicy | None:
    """Return the policies of a bundle for one graph; None, with every problem, if a Cedar text is invalid.

    The bundle of a server ignores the id of the graph. With `graph_ids`, a Cedar policy must not name another graph.
    """
    cedarpy = _cedarpy()
    count_before = len(problems.items)
    resource_id = SERVER_ID if bundle.kind is BundleKind.SERVER else graph_id
    policies = [*_rule_policies(bundle, resource_id), *_raw_policies(bundle, problems, graph_ids)]
    schema = cedarpy.Schema.from_str(_schema_text())
    text = "\n".join(policy.text for policy in policies)
    reasons: set[tuple[_PolicyText, str]] = set()
    for error in cedarpy.validate_policies(text, schema).errors:
        policy = policies[int(error.policy_id.removeprefix("policy"))]
        label = f"policy '{policy.id}': " if policy.id else ""
        reason = label + str(error.error).removeprefix(f"for policy `{error.policy_id}`, ")
        reasons.add((policy, _ACTION.sub("", reason)))  # the same for every action
    for policy, reason in sorted(reasons, key=lambda pair: (policies.index(pair[0]), pair[1])):
        problems.error(POLICY_INVALID, policy.file, policy.line, reason)
    if len(problems.items) > count_before:
        return None
    return CompiledPolicy(
        bundle=bundle,
        resource_id=resource_id,
        schema=schema,
        policies=cedarpy.PolicySet.from_str(text),
        entities=cedarpy.Entities.from_json_str(json.dumps(_entities(bundle)), schema),
    )


def _cedarpy() -> Any:
    try:
        import cedarpy
    except ImportError as error:
        raise MachineError(
            "a policy applies, but the package cedarpy is not installed",
            code="policy_extra_missing",
            hint="Nothing was allowed. Run `pip install 'omnigraph[policy]'`.",
        ) from error
    return cedarpy


def _schema_text() -> str:
    graph_actions = ", ".join(f'"{action.value}"' for action in AccessAction if action not in SERVER_ACTIONS)
    server_actions = ", ".join(f'"{action.value}"' for action in sorted(SERVER_ACTIONS))
    return _SCHEMA.format(graph_actions=graph_actions, server_actions=server_actions)


def _rule_policies(bundle: Bundle, resource_id: str) -> Iterator[_PolicyText]:
    kind = "Server" if bundle.kind is BundleKind.SERVER else "Graph"
    resource = f"Omnigraph::{kind}::{_quote(resource_id)}"
    for rule in bundle.rules:
        group = f"Omnigraph::Group::{_quote(rule.group)}"
        for action in rule.actions:
            text = (
                f"@id({_quote(rule.id)})\n"
                f'permit(principal in {group}, action == Omnigraph::Action::"{action.value}", resource == {resource})'
                f"{_condition(rule, action)};"
            )
            yield _PolicyText(id=rule.id, text=text, file=bundle.source)


def _condition(rule: PolicyRule, action: AccessAction) -> str:
    is_target = action in TARGET_ACTIONS
    scope = rule.target_branch_scope if is_target else rule.branch_scope
    if scope is BranchScope.ANY:
        return ""
    branch = "target_branch" if is_target else "branch"
    negation = "" if scope is BranchScope.PROTECTED else "!"
    return f" when {{ context.has_{branch} && {negation}context.{branch}_is_protected }}"


def _raw_policies(bundle: Bundle, problems: Diagnostics, graph_ids: Collection[str] | None) -> Iterator[_PolicyText]:
    """Return the policies of the raw files that can be parsed. Each must have an id that is used once."""
    sources = dict.fromkeys((rule.id for rule in bundle.rules), bundle.source)
    for cedar in bundle.cedar:
        for line, text in _split_policies(cedar.text):
            try:
                document = json.loads(_cedarpy().policies_to_json_str(text))
            except ValueError as error:
                problems.error(POLICY_INVALID, cedar.name, line, f"invalid Cedar: {error}")
                continue
            if document["templates"]:
                problems.error(POLICY_INVALID, cedar.name, line, "templates are not supported: expected a policy")
                continue
            [policy] = document["staticPolicies"].values()
            policy_id = (policy.get("annotations") or {}).get("id") or ""
            if not policy_id.strip():
                message = 'the policy has no id: expected an annotation such as @id("no-export")'
                problems.error(POLICY_INVALID, cedar.name, line, message)
            elif policy_id in sources:
                message = f"duplicate policy '{policy_id}': the first one is in '{sources[policy_id]}'"
                problems.error(POLICY_INVALID, cedar.name, line, message)
            for kind, names in (("group", bundle.groups), ("graph", graph_ids)):
                unknown = set[str]() if names is None else _named(policy, f"Omnigraph::{kind.title()}") - {*names}
                for name in sorted(unknown):  # the policy would never apply
                    message = f"policy '{policy_id}': unknown {kind} '{name}'{did_you_mean(name, names or ())}"
                    problems.error(POLICY_INVALID, cedar.name, line, message)
            sources.setdefault(policy_id, cedar.name)
            yield _PolicyText(id=policy_id, text=text, file=cedar.name, line=line)


def _named(node: Any, kind: str) -> set[str]:
    """Return the ids of the entities of a kind that a part of a policy, as JSON, names."""
    if isinstance(node, list):
        return {name for item in node for name in _named(item, kind)}
    if not isinstance(node, dict):
        return set()
    if node.get("type") == kind:
        return {str(node.get("id"))}
    return _named(list(node.values()), kind)


def _split_policies(text: str) -> Iterator[tuple[int, str]]:
    """Return each policy of a file with its line: cedarpy reports only the first syntax error, without a position."""
    line, start = 1, None
    position = 0
    for token in _CEDAR_TOKEN.finditer(text):
        if token[0].startswith("//"):
            continue
        if start is None:
            line += text.count("\n", position, token.start())
            start = position = token.start()
        if token[0] == ";":
            yield line, text[start : token.end()]
            start = None
    if start is not None:
        yield line, text[start:]


def _entities(bundle: Bundle) -> list[dict[str, Any]]:
    parents: dict[str, list[dict[str, str]]] = {}
    for group, actors in bundle.groups.items():
        for actor in dict.fromkeys(actors):
            parents.setdefault(actor, []).append({"type": "Omnigraph::Group", "id": group})
    entities: list[dict[str, Any]] = [
        {"uid": {"type": "Omnigraph::Group", "id": group}, "attrs": {}, "parents": []} for group in bundle.groups
    ]
    for actor, actor_groups in parents.items():
        entities.append({"uid": {"type": "Omnigraph::Actor", "id": actor}, "attrs": {}, "parents": actor_groups})
    return entities


def _context(bundle: Bundle, authority: Authority) -> dict[str, bool | str]:
    """Return the context of a request. Every member is always present, so that no policy fails for a missing one."""
    return {
        "has_branch": authority.branch is not None,
        "branch": authority.branch or "",
        "branch_is_protected": authority.branch is not None and bundle.is_protected(authority.branch),
        "has_target_branch": authority.target is not None,
        "target_branch": authority.target or "",
        "target_branch_is_protected": authority.target is not None and bundle.is_protected(authority.target),
        "has_query": authority.query is not None,
        "query": authority.query or "",
    }


def _quote(text: str) -> str:
    """Return a Cedar string literal."""
    escaped = "".join(
        f"\\{char}" if char in '"\\' else char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in text
    )
    return f'"{escaped}"'
