"""Every Python file follows every rule, every rule can fail, and class names are unique."""

from __future__ import annotations

import ast
from collections import Counter

import pytest
from hypothesis import settings

from tests.style.rules import RULES, StyleRule
from tests.style.source import ROOT, python_sources


def test_sources_follow_the_rules() -> None:
    """One test of all rules reads every file once."""
    violations = [
        f"{source.path}: {rule.check.__name__}: {text}"
        for source in python_sources()
        for rule in RULES
        for text in rule.check(source)
    ]
    assert violations == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.check.__name__)
def test_rule_reports_its_violation(rule: StyleRule) -> None:
    assert len(list(rule.check(rule.violation))) == 1


def test_class_names_are_unique() -> None:
    names = Counter(
        node.name for source in python_sources() for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_tests_mirror_the_packages() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "omnigraph").glob("*/__init__.py")}
    directories = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert directories - packages <= {"bench", "conformance", "docs", "style"}


def test_hypothesis_tries_the_same_cases_in_every_run_but_a_soak(pytestconfig: pytest.Config) -> None:
    is_soak = pytestconfig.getoption("--hypothesis-profile") == "soak"
    assert settings().derandomize is not is_soak
    assert is_soak or settings().database is None
