"""Lint: rendered errors and warnings, the JSON, and a golden file for every warning."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from omnigraph.query.codes import LintCode
from omnigraph.query.lint import lint_queries
from omnigraph.wire.results import lint_output
from tests.query.golden_files import LINT, catalog, compare, query_files, read_text

FILES = query_files(LINT)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path, update_golden: bool) -> None:
    report = lint_queries([(path.name, read_text(path))], catalog())
    expected_code = path.stem.split("-", maxsplit=1)[0]
    codes = {problem.code for problem in (*report.errors, *report.warnings)}
    assert expected_code in {"clean", "errors"} or expected_code in codes
    shown = json.dumps(msgspec.to_builtins(lint_output(report)), indent=2, ensure_ascii=False)
    compare(path.with_suffix(".lint.txt"), report.render(), update=update_golden)
    compare(path.with_suffix(".lint.json"), shown + "\n", update=update_golden)


def test_every_warning_has_a_golden_file() -> None:
    shown = "".join(read_text(path) for path in sorted(LINT.glob("*.lint.txt")))
    assert not [code.code for code in LintCode if f" {code.code} " not in shown]


def test_codes_are_distinct_and_have_a_meaning() -> None:
    codes = [code.code for code in LintCode]
    assert codes == sorted(set(codes))
    assert all(code.meaning for code in LintCode)


def test_warnings_do_not_make_a_file_invalid() -> None:
    good = lint_queries([("a.gq", read_text(LINT / "L202-hard-coded.gq"))], catalog())
    bad = lint_queries([("a.gq", read_text(LINT / "Q000-parse-error.gq"))], catalog())
    assert good.is_valid
    assert good.warnings
    assert not bad.is_valid


def test_update_in_another_file_removes_warning() -> None:
    first = "query a($s: String, $n: String) { update Company set { name: $n } where code = $s }"
    second = (
        "query b($s: String, $d: Date, $v: Vector(3)) { update Company set { founded: $d, logo: $v } where code = $s }"
    )
    alone = lint_queries([("a.gq", first)], catalog())
    both = lint_queries([("a.gq", first), ("b.gq", second)], catalog())
    assert [problem.code for problem in alone.warnings] == ["L201"]
    assert not both.warnings


def test_invalid_query_does_not_hide_the_others() -> None:
    report = lint_queries([("a.gq", read_text(LINT / "errors-and-warnings.gq"))], catalog())
    assert [query.name for query in report.queries] == ["good", "again"]
    assert [problem.code for problem in report.errors] == ["T101"]
    assert [problem.code for problem in report.warnings] == ["L203"]
