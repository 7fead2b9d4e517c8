"""Reads policy files and test cases from a directory. The texts are parsed by `bundle` and `cedar`.

A policy names raw Cedar files relative to itself; a name that leaves its directory, also through a symbolic link, is
rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from errno import EACCES, EFBIG
from pathlib import Path
from typing import Final

from omnigraph.base import limits
from omnigraph.base.authorization import AccessAction, Authority
from omnigraph.base.diagnostics import Diagnostics
from omnigraph.base.display import did_you_mean
from omnigraph.base.errors import UsageError
from omnigraph.base.text_files import read_bytes
from omnigraph.base.yaml_text import YamlNode, YamlReader, parse_yaml
from omnigraph.policy.bundle import Bundle, join_bundles, parse_bundle
from omnigraph.policy.cedar import CompiledPolicy, compile_bundle
from omnigraph.policy.decide import PolicyDecision, decide

TESTS_INVALID: Final = "policy_tests_invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCase:
    """A request and the decision that a test expects."""

    id: str
    actor: str
    authority: Authority
    expects_allow: bool


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A test case and the decision of the policy."""

    case: PolicyCase
    decision: PolicyDecision

    @property
    def is_expected(self) -> bool:
        """Whether the decision is the expected one."""
        return self.case.expects_allow is self.decision.is_allowed


def read_policy(paths: Sequence[Path], graph_id: str) -> CompiledPolicy:
    """Return the policy of one file or several, compiled for one graph; raise with every problem if it is invalid."""
    problems = Diagnostics()
    bundles = [read_bundle(path, problems) for path in paths]
    readable = [bundle for bundle in bundles if bundle is not None]
    joined = None if problems.has_errors else join_bundles(readable, problems)
    # The Cedar files of invalid policies are checked too: all problems are reported in one run.
    policies = [compile_bundle(bundle, graph_id, problems) for bundle in (readable if joined is None else [joined])]
    names = ", ".join(f"'{path}'" for path in paths)
    problems.raise_errors(f"the policy {names}", "Correct the file, then run `omnigraph policy validate` again.")
    assert policies[0] is not None
    return policies[0]


def read_bundle(path: Path, problems: Diagnostics) -> Bundle | None:
    """Return the bundle of a file, with its problems; None if it is not YAML."""

    def read_cedar(name: str) -> str:
        cedar_path = path.parent / name
        directory = path.parent.resolve()
        if not cedar_path.resolve().is_relative_to(directory) or ".." in Path(name).parts:
            raise OSError(EACCES, "the path leaves the directory of the policy")
        text = cedar_path.read_text(encoding="utf-8")
        if len(text) > limits.POLICY_BYTES_MAX:
            raise OSError(EFBIG, f"the file has more than {limits.POLICY_BYTES_MAX:,} bytes")
        return text

    return parse_bundle(_read_text(path, "file"), str(path), read_cedar, problems)


def read_cases(path: Path) -> tuple[PolicyCase, ...]:
    """Return the test cases of a file; raise with every problem if it is invalid."""
    problems = Diagnostics()
    reader = YamlReader(TESTS_INVALID, problems)
    root = parse_yaml(_read_text(path, "tests"), str(path), reader)
    members = reader.members(root, required=("version", "cases"))
    version = members.get("version")
    if version is not None and version.content != "1":
        reader.problem(version, f"unsupported version: expected 1, got {version.content}")
    cases = [_read_case(reader, node) for node in reader.items(members.get("cases"))]
    problems.raise_errors(f"the file of test cases '{path}'", "Correct the file.")
    return tuple(case for case in cases if case is not None)


def run_cases(policy: CompiledPolicy, cases: tuple[PolicyCase, ...]) -> tuple[CaseResult, ...]:
    """Return the decision of a policy about each case."""
    return tuple(CaseResult(case, decide(policy, case.actor, case.authority)) for case in cases)


def parse_action(name: str) -> AccessAction:
    """Return the action of a name; raise with the names that exist."""
    try:
        return AccessAction(name)
    except ValueError as error:
        names = [action.value for action in AccessAction]
        raise UsageError(
            f"unknown action '{name}'{did_you_mean(name, names)}",
            code="action_unknown",
            hint=f"Pass one of {', '.join(names)}.",
        ) from error


def _read_case(reader: YamlReader, node: YamlNode) -> PolicyCase | None:
    count_before = len(reader.problems.items)
    members = reader.members(
        node, required=("id", "actor", "action", "expect"), optional=("branch", "target_branch", "query")
    )
    texts = {name: reader.text(member) for name, member in members.items()}
    action = texts.get("action")
    if action is not None and action not in list(AccessAction):
        reader.problem(members["action"], f"unknown action '{action}'{did_you_mean(action, list(AccessAction))}")
    expect = texts.get("expect")
    if expect not in ("allow", "deny", None):
        reader.problem(members["expect"], f"expected allow or deny, got '{expect}'")
    identifier, actor = texts.get("id"), texts.get("actor")
    if len(reader.problems.items) > count_before or identifier is None or actor is None or action is None:
        return None
    authority = Authority(
        action=AccessAction(action),
        branch=texts.get("branch"),
        target=texts.get("target_branch"),
        query=texts.get("query"),
    )
    return PolicyCase(id=identifier, actor=actor, authority=authority, expects_allow=expect == "allow")


def _read_text(path: Path, argument: str) -> str:
    content = read_bytes(path, limits.POLICY_BYTES_MAX, "policy", argument)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"policy file '{path}' is not UTF-8 text: invalid byte at position {error.start}",
            code="policy_invalid",
            hint="Save the file as UTF-8.",
        ) from error
