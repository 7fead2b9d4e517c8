"""Invalid queries: their rendered problems, and a golden file for every code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from omnigraph.base import limits
from omnigraph.base.errors import ErrorKind, QueryTextError
from omnigraph.query.checks.run import check_queries
from omnigraph.query.codes import QueryCode
from omnigraph.query.parser import parse_queries
from tests.query.golden_files import BAD, catalog, checked, compare, query_files, read_text

FILES = query_files(BAD)


def match(clauses: str, result: str = "$p.slug") -> str:
    return f"query a() {{ match {{ $p: Person {clauses} }} return {{ {result} }} }}\n"


# Texts that are not stored as files: too large, or not valid UTF-8.
GENERATED: Final[dict[str, Callable[[], str]]] = {
    "Q001-too-large": lambda: " " * (limits.QUERY_TEXT_BYTES_MAX + 1),
    "Q002-lone-surrogate": lambda: 'query a() {}\nquery b() @x("\ud800") {}\n',
    "Q004-deep-blocks": lambda: match("not { " * 100 + "$p: Person" + " }" * 100),
    "Q004-deep-expression": lambda: match("", "+".join(["1"] * 200)),
    "Q004-deep-inversion": lambda: match("not " * 200 + "true"),
    "Q005-long-string": lambda: match(f'$p.name = "{"x" * limits.QUERY_STRING_LENGTH_MAX}"'),
    "Q005-long-number": lambda: match(f"$p.age = {'9' * 1000}"),
    "Q005-large-exponent": lambda: match("$p.age < 1e999999999999"),
    "Q005-long-list": lambda: match(f"$p.age in [{', '.join(['1'] * (limits.QUERY_LIST_ITEMS_MAX + 1))}]"),
    "Q005-long-name": lambda: match(f"$p knows ${'x' * (limits.QUERY_NAME_LENGTH_MAX + 1)}"),
    "Q006-many-clauses": lambda: match("$p.age > 3\n" * limits.QUERY_CLAUSES_MAX),
    "Q006-many-statements": lambda: (
        "query a() {" + 'delete City where name = "a"\n' * (limits.QUERY_STATEMENTS_MAX + 1) + "}"
    ),
}


def problems_of(text: str, source: str) -> QueryTextError:
    with pytest.raises(QueryTextError) as caught:
        checked(text, source)
    return caught.value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path, update_golden: bool) -> None:
    error = problems_of(read_text(path), path.name)
    assert_sound(error, path.stem)
    compare(path.with_suffix(".problems.txt"), error.render() + "\n", update=update_golden)


@pytest.mark.parametrize("name", GENERATED)
def test_generated_text(name: str, update_golden: bool) -> None:
    error = problems_of(GENERATED[name](), f"{name}.gq")
    assert_sound(error, name)
    is_limit = not name.startswith("Q002")
    assert (error.kind is ErrorKind.LIMIT_EXCEEDED, "resource_limit" in error.facts) == (is_limit, is_limit)
    shown = error.render().encode("utf-8", "backslashreplace").decode()
    compare(BAD / f"{name}.problems.txt", shown + "\n", update=update_golden)


def assert_sound(error: QueryTextError, name: str) -> None:
    """Require that the code in the name is reported, and that problems are in text order."""
    positions = [(problem.line, problem.column) for problem in error.problems]
    assert positions == sorted(positions)
    assert len(positions) <= limits.QUERY_PROBLEMS_MAX
    expected_code = name.split("-", maxsplit=1)[0]
    assert expected_code == "mixed" or expected_code in {problem.code for problem in error.problems}


def test_every_query_of_an_invalid_file_has_a_problem() -> None:
    """Each query of these files is a separate case."""
    for path in FILES:
        text = read_text(path)
        lines = {problem.line for problem in problems_of(text, path.name).problems}
        if path.stem not in {"Q000-open-comment", "mixed-many", "T107-query-twice"}:
            starts = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith("query")]
            assert set(starts) <= lines, path.name


def test_every_code_has_a_golden_file() -> None:
    shown = "".join(read_text(path) for path in sorted(BAD.glob("*.problems.txt")))
    missing = [code.code for code in QueryCode if f" {code.code} " not in shown]
    assert not missing


def test_codes_are_distinct_and_have_a_meaning() -> None:
    codes = [code.code for code in QueryCode]
    assert codes == sorted(set(codes))
    assert all(code.meaning for code in QueryCode)


def test_every_problem_names_its_query() -> None:
    nameless = {
        f"{path.stem} {problem.code}"
        for path in FILES
        for problem in problems_of(read_text(path), path.name).problems
        if not problem.message.startswith("query ")
    }
    assert nameless == {"Q000-no-query Q000"}


def test_maximum_of_hops_allows_open_bounds() -> None:
    file = parse_queries("query a() { match { $p: Person $p knows{2,} $q } return { $q.slug } }")
    (query,) = check_queries(file, catalog(), hops_ceiling=4)
    assert "Knows{2,4}" in plan_text(query.plan)


def plan_text(plan: object) -> str:
    from omnigraph.query.explain import explain_plan
    from omnigraph.query.plan.statements import MutationPlan, ReadPlan

    assert isinstance(plan, ReadPlan | MutationPlan)
    return explain_plan(plan)


def test_deepest_allowed_query_is_planned() -> None:
    depth = limits.QUERY_DEPTH_MAX - 6
    text = match("not { " * depth + "$p knows $q" + " }" * depth)
    assert plan_text(checked(text)[0].plan)


def test_text_that_is_too_large_names_the_limit() -> None:
    error = problems_of(GENERATED["Q001-too-large"](), "large.gq")
    maximum = limits.QUERY_TEXT_BYTES_MAX
    limit = {"resource": "query_text", "limit": maximum, "unit": "bytes", "actual": maximum + 1}
    assert error.facts["resource_limit"] == limit
