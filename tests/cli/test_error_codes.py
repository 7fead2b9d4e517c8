"""The user documentation explains every error code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from omnigraph.integrity.rules import Rule
from omnigraph.query.codes import LintCode, QueryCode
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.evolution.codes import EvolutionCode
from tests.style.source import ROOT, SourceFile, python_sources

ERRORS: Final = (ROOT / "docs" / "user" / "errors.md").read_text(encoding="utf-8")
NOT_SHOWN: Final = frozenset({"failpoint", "failpoint_action", "failpoint_hold"})  # only in tests


def test_codes_of_commands() -> None:
    codes = {code for source in python_sources() if source.in_package for code in _codes(source)}
    assert {"usage", "graph_missing", "permission_denied"} < codes
    assert sorted(code for code in codes - NOT_SHOWN if f"`{code}`" not in ERRORS) == []


def test_codes_of_schemas() -> None:
    rows = [f"| `{code.code}` | {code.meaning} |" for code in SchemaCode]
    assert "\n".join(rows) + "\n" in ERRORS


def test_codes_of_schema_changes() -> None:
    rows = [f"| `{code.code}` | {code.meaning} |" for code in EvolutionCode]
    assert "\n".join(rows) + "\n" in ERRORS


def test_codes_of_queries() -> None:
    for codes in (QueryCode, LintCode):
        rows = [f"| `{code.code}` | {code.meaning} |" for code in codes]
        assert "\n".join(rows) + "\n" in ERRORS


def test_codes_of_rules() -> None:
    rows = [f"| `{rule.code}` | `{rule.word}` | {rule.meaning} |" for rule in Rule]
    assert "\n".join(rows) + "\n" in ERRORS


def _codes(source: SourceFile) -> Iterator[str]:
    """Yield the values of `code=`, and the codes in the rules for exceptions of libraries."""
    for node in ast.walk(source.tree):
        match node:
            case ast.keyword(arg="code", value=ast.Constant(value=str(code))):
                yield code
            case ast.Call(func=ast.Name(id="_Rule"), args=[_, ast.Constant(value=str(code)), *_]):
                yield code
