"""Every Python file follows every rule, and every rule can fail."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.style.rules import RULES, Rule
from tests.style.source import ROOT, python_sources

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.check.__name__)


@each_rule
def test_the_code_follows_the_rule(rule: Rule) -> None:
    found = [f"{source.path}: {text}" for source in python_sources() for text in rule.check(source)]
    assert found == []


@each_rule
def test_the_rule_finds_a_breach(rule: Rule) -> None:
    assert len(list(rule.check(rule.breach))) == 1


def test_the_tests_mirror_the_package() -> None:
    rooms = {path.name for path in (ROOT / "src" / "omnigraph").iterdir() if (path / "__init__.py").exists()}
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders - rooms <= {"bench", "conformance", "docs", "style"}


def test_hypothesis_tries_the_same_cases_in_every_run_but_a_soak(pytestconfig: pytest.Config) -> None:
    is_soak = pytestconfig.getoption("--hypothesis-profile") == "soak"
    assert settings().derandomize is not is_soak
    assert is_soak or settings().database is None
