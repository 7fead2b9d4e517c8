"""A policy file: YAML rules that allow, and raw Cedar files. Text in, a `Bundle` and problems out. Pure.

What no rule allows is denied, so a misspelled member is an error and never a wider rule. Cedar is not imported here;
`cedar` compiles a bundle and finds the problems of the Cedar texts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from omnigraph.base import limits
from omnigraph.base.actors import find_actor_problem
from omnigraph.base.authorization import SERVER_ACTIONS, AccessAction
from omnigraph.base.diagnostics import Diagnostics
from omnigraph.base.display import did_you_mean
from omnigraph.base.yaml_text import YamlNode, YamlReader, parse_yaml

POLICY_INVALID: Final = "policy_invalid"
_VERSION: Final = "1"

BRANCH_ACTIONS: Final = frozenset({AccessAction.READ, AccessAction.EXPORT, AccessAction.CHANGE})
"""The actions whose rules may have a `branch_scope`."""

TARGET_ACTIONS: Final = frozenset(
    {AccessAction.BRANCH_CREATE, AccessAction.BRANCH_DELETE, AccessAction.BRANCH_MERGE, AccessAction.SCHEMA_APPLY}
)
"""The actions whose rules may have a `target_branch_scope`."""


class BranchScope(StrEnum):
    """On which branches a rule allows its actions. Requests without a branch match only `any`."""

    ANY = "any"
    PROTECTED = "protected"
    UNPROTECTED = "unprotected"


class BundleKind(StrEnum):
    """Whether the rules are about graphs or about the server."""

    GRAPH = "graph"
    SERVER = "server"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """Allows the actors of a group some actions. At most one of the scopes is not `any`."""

    id: str
    group: str
    actions: tuple[AccessAction, ...]
    branch_scope: BranchScope = BranchScope.ANY
    target_branch_scope: BranchScope = BranchScope.ANY


@dataclass(frozen=True, slots=True)
class CedarText:
    """A raw Cedar file: its name relative to the policy file, and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The rules of one policy file with the raw Cedar files that it names."""

    source: str
    kind: BundleKind | None
    """What the rules are about; None without rules: then the Cedar files may be about both."""
    groups: Mapping[str, tuple[str, ...]]
    protected_branches: tuple[str, ...]
    rules: tuple[PolicyRule, ...]
    cedar: tuple[CedarText, ...] = ()

    @property
    def actors(self) -> frozenset[str]:
        """The actors of all groups."""
        return frozenset(actor for members in self.groups.values() for actor in members)

    def is_protected(self, branch: str) -> bool:
        """Return whether a name or pattern of `protected_branches` covers the branch."""
        return any(
            branch.startswith(pattern[:-1]) if pattern.endswith("/*") else branch == pattern
            for pattern in self.protected_branches
        )


def parse_bundle(text: str, source: str, read_cedar: Callable[[str], str], problems: Diagnostics) -> Bundle | None:
    """Return the bundle of a policy file, without what has a problem; None if it is not YAML.

    The rest of an invalid file is returned so that its Cedar files can be checked in the same run.

    Args:
        text: The YAML text.
        source: The name of the file, for problems.
        read_cedar: Returns the text of a Cedar file by the name in the policy file, or raises OSError.
        problems: Receives every problem of the file.
    """
    reader = YamlReader(POLICY_INVALID, problems)
    if len(text.encode()) > limits.POLICY_BYTES_MAX:
        problems.error(POLICY_INVALID, source, None, f"the file has more than {limits.POLICY_BYTES_MAX:,} bytes")
        return None
    root = parse_yaml(text, source, reader)
    if root is None:
        return None
    members = reader.members(root, required=("version",), optional=("groups", "protected_branches", "rules", "cedar"))
    _check_version(reader, members.get("version"))
    groups = _read_groups(reader, members.get("groups"))
    rules = _read_rules(reader, members.get("rules"), groups)
    protected = tuple(pattern for pattern, node in reader.texts(members.get("protected_branches"))
                      if _is_pattern(reader, pattern, node))  # fmt: skip
    cedar = _read_cedar_files(reader, members.get("cedar"), read_cedar)
    return Bundle(
        source=source, kind=_bundle_kind(rules), groups=groups, protected_branches=protected, rules=rules, cedar=cedar
    )


def join_bundles(bundles: Sequence[Bundle], problems: Diagnostics) -> Bundle | None:
    """Return one bundle with everything that several files declare; None, with problems, if they do not fit together.

    A group of two files must have the same actors, and a rule is in one file: an edit of one file must not change what
    another one means.
    """
    count_before = len(problems.items)
    first = next((bundle for bundle in bundles if bundle.kind is not None), bundles[0])
    groups: dict[str, tuple[str, ...]] = {}
    group_sources: dict[str, Bundle] = {}
    rule_sources: dict[str, Bundle] = {}
    for bundle in bundles:
        if bundle.kind not in (first.kind, None):
            message = f"rules about a {bundle.kind}: expected rules about a {first.kind}, as in '{first.source}'"
            problems.error(POLICY_INVALID, bundle.source, None, message)
        for name, actors in bundle.groups.items():
            other = group_sources.setdefault(name, bundle)
            if set(other.groups[name]) != set(actors):
                message = f"the group '{name}' has other actors than in '{other.source}'"
                problems.error(POLICY_INVALID, bundle.source, None, message)
        for rule in bundle.rules:
            other = rule_sources.setdefault(rule.id, bundle)
            if other is not bundle:
                message = f"duplicate rule '{rule.id}': the first one is in '{other.source}'"
                problems.error(POLICY_INVALID, bundle.source, None, message)
        groups.update(bundle.groups)
    if len(problems.items) > count_before:
        return None
    return Bundle(
        source=", ".join(bundle.source for bundle in bundles),
        kind=first.kind,
        groups=groups,
        protected_branches=tuple(name for bundle in bundles for name in bundle.protected_branches),
        rules=tuple(rule for bundle in bundles for rule in bundle.rules),
        cedar=tuple(text for bundle in bundles for text in bundle.cedar),
    )


def _check_version(reader: YamlReader, node: YamlNode | None) -> None:
    version = reader.text(node)
    if node is not None and version is not None and version != _VERSION:
        reader.problem(node, f"unsupported version: expected {_VERSION}, got {version}")


def _read_groups(reader: YamlReader, node: YamlNode | None) -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for name, member in reader.mapping(node).items():
        actors = reader.texts(member)
        if not name.strip():
            reader.problem(member, "the name of a group is blank")
        if member.content in ("", []):
            reader.problem(member, "the group has no actors: expected a list of actor ids")
        for actor, actor_node in actors:
            problem = find_actor_problem(actor)
            if problem is not None:
                reader.problem(actor_node, problem)
        groups[name] = tuple(actor for actor, _ in actors)
    count = sum(len(actors) for actors in groups.values())
    if node is not None and count > limits.POLICY_ACTORS_MAX:
        reader.problem(node, f"{count:,} actors: expected at most {limits.POLICY_ACTORS_MAX:,}")
    return groups


def _read_rules(
    reader: YamlReader, node: YamlNode | None, groups: Mapping[str, tuple[str, ...]]
) -> tuple[PolicyRule, ...]:
    rules: list[PolicyRule] = []
    first_lines: dict[str, int] = {}
    kinds: set[BundleKind] = set()
    items = reader.items(node)
    if node is not None and len(items) > limits.POLICY_RULES_MAX:
        reader.problem(node, f"{len(items):,} rules: expected at most {limits.POLICY_RULES_MAX:,}")
        return ()
    for item in items:
        rule = _read_rule(reader, item, groups)
        if rule is None:
            continue
        if rule.id in first_lines:
            reader.problem(item, f"duplicate rule '{rule.id}': the first one is on line {first_lines[rule.id]}")
        first_lines.setdefault(rule.id, item.line)
        kinds |= {action_kind(action) for action in rule.actions}
        if len(kinds) > 1:
            reader.problem(item, "actions on graphs and on the server cannot be in one file: expected one kind")
            kinds = {action_kind(rule.actions[0])}
        rules.append(rule)
    return tuple(rules)


def _read_rule(reader: YamlReader, node: YamlNode, groups: Mapping[str, tuple[str, ...]]) -> PolicyRule | None:
    count_before = len(reader.problems.items)
    members = reader.members(node, required=("id", "allow"))
    identifier = reader.text(members.get("id"))
    allow_node = members.get("allow")
    allow = reader.members(allow_node, required=("actors", "actions"), optional=("branch_scope", "target_branch_scope"))
    actors = reader.members(allow.get("actors"), required=("group",))
    group = reader.text(actors.get("group"))
    if group is not None and group not in groups:
        reader.problem(actors["group"], f"unknown group '{group}'{did_you_mean(group, groups)}")
    actions = _read_actions(reader, allow.get("actions"))
    branch_scope = _read_scope(reader, allow.get("branch_scope"), actions, BRANCH_ACTIONS)
    target_scope = _read_scope(reader, allow.get("target_branch_scope"), actions, TARGET_ACTIONS)
    if allow_node is not None and "branch_scope" in allow and "target_branch_scope" in allow:
        reader.problem(allow_node, "a rule has one scope: expected branch_scope or target_branch_scope, got both")
    if len(reader.problems.items) > count_before or identifier is None or group is None:
        return None
    return PolicyRule(
        id=identifier, group=group, actions=actions, branch_scope=branch_scope, target_branch_scope=target_scope
    )


def _read_actions(reader: YamlReader, node: YamlNode | None) -> tuple[AccessAction, ...]:
    if node is None:
        return ()
    names = reader.texts(node)
    if node.content in ("", []):
        reader.problem(node, "expected a list of actions")
    actions = [_read_choice(reader, name, item, AccessAction, "action") for name, item in names]
    return tuple(dict.fromkeys(action for action in actions if action is not None))


def _read_scope(
    reader: YamlReader,
    node: YamlNode | None,
    actions: Collection[AccessAction],
    scoped_actions: Collection[AccessAction],
) -> BranchScope:
    text = reader.text(node)
    if node is None or text is None:
        return BranchScope.ANY
    name = node.path.rpartition(".")[2]
    for action in actions:
        if action not in scoped_actions:
            names = ", ".join(sorted(scoped_actions))
            reader.problem(node, f"the action '{action}' has no {name}: expected one of {names}")
    return _read_choice(reader, text, node, BranchScope, name) or BranchScope.ANY


Choice = TypeVar("Choice", bound=StrEnum)


def _read_choice(reader: YamlReader, text: str, node: YamlNode, kind: type[Choice], label: str) -> Choice | None:
    try:
        return kind(text)
    except ValueError:
        names = [str(value) for value in kind]
        advice = did_you_mean(text, names) or f": expected one of {', '.join(names)}"
        reader.problem(node, f"unknown {label} '{text}'{advice}")
        return None


def _is_pattern(reader: YamlReader, pattern: str, node: YamlNode) -> bool:
    if "*" in pattern.removesuffix("/*") or pattern == "/*":
        reader.problem(node, f"invalid pattern '{pattern}': expected a branch, or a prefix that ends in /*")
        return False
    return True


def _read_cedar_files(
    reader: YamlReader, node: YamlNode | None, read_cedar: Callable[[str], str]
) -> tuple[CedarText, ...]:
    texts: list[CedarText] = []
    for name, item in reader.texts(node):
        try:
            texts.append(CedarText(name, read_cedar(name)))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "expected UTF-8 text"
            reader.problem(item, f"the file '{name}' cannot be used: {reason}")
    return tuple(texts)


def action_kind(action: AccessAction) -> BundleKind:
    """Return whether an action is about graphs or about the server."""
    return BundleKind.SERVER if action in SERVER_ACTIONS else BundleKind.GRAPH


def _bundle_kind(rules: Collection[PolicyRule]) -> BundleKind | None:
    return next((action_kind(action) for rule in rules for action in rule.actions), None)
