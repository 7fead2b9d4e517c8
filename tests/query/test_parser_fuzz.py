"""Fuzzing: for any text, the parser, the checks and the rules return a result or raise `QueryTextError`."""

from __future__ import annotations

import time
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.base import limits
from omnigraph.base.errors import QueryTextError
from omnigraph.query.checks.run import check_queries
from omnigraph.query.explain import explain_plan
from omnigraph.query.lint import lint_queries
from omnigraph.query.parser import parse_queries
from omnigraph.query.rules.run import rewrite_plan
from tests.query.golden_files import BAD, GOOD, RULES, catalog, query_files, read_text
from tests.query.query_text import print_queries

TEXTS: Final = [read_text(path) for folder in (GOOD, BAD, RULES) for path in query_files(folder)]
_WORDS: Final = """
query a ( ) { } [ ] match return order limit offset insert update delete set where not optional and or is null in
contains starts_with asc desc as distinct $p $q $_ $e Person knows worksAt name age : , . + - * / = != < <= > >= "x"
1 2.5 1e9 <knows> {1,2} {1,} count sum nearest bm25 rrf search now @description // /* */ " ; \\ é
"""
TOKENS: Final = (*_WORDS.split(), "\x00", "\ufeff")
CPU_SECONDS_MAX: Final = 60.0


def assert_result_or_problems(text: str) -> None:
    """Require problems, or plans that the rules can rewrite; lint must not raise."""
    error_raised: QueryTextError | None = None
    try:
        file = parse_queries(text)
        assert parse_queries(print_queries(file)) == file
        for query in check_queries(file, catalog()):
            assert explain_plan(rewrite_plan(query.plan))
    except QueryTextError as error:
        error_raised = error
    assert error_raised is None or error_raised.render()
    report = lint_queries([("a.gq", text)], catalog())
    assert report.is_valid is (error_raised is None)


@given(st.text(alphabet=st.characters(), max_size=120))
@settings(max_examples=60)
def test_random_text(text: str) -> None:
    assert_result_or_problems(text)


@given(st.lists(st.sampled_from(TOKENS), max_size=40), st.sampled_from((" ", "", "\n")))
@settings(max_examples=150)
def test_token_soup(tokens: list[str], glue: str) -> None:
    assert_result_or_problems("query a() { match {" + glue.join(tokens))


@st.composite
def mutated_queries(draw: st.DrawFn) -> str:
    """Generate a file with parts removed, duplicated or replaced by a token."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        piece = draw(st.sampled_from((*TOKENS, "", text[start:end] * 2)))
        text = text[:start] + piece + text[end:]
    return text


@given(mutated_queries())
@settings(max_examples=120)
def test_mutated_queries(text: str) -> None:
    assert_result_or_problems(text)


PART: Final = limits.QUERY_TEXT_BYTES_MAX // 8
OPEN: Final = "query a() { match { $p: Person "
HOSTILE: Final = {
    "deep-parentheses": OPEN + "(" * PART,
    "deep-lists": OPEN + "$p.age in " + "[" * PART,
    "deep-blocks": OPEN + "not {" * (PART // 5),
    "deep-negatives": OPEN + "$p.age = " + "-" * PART,
    "deep-inversions": OPEN + "not " * (PART // 4),
    "many-sums": OPEN + "$p.age = " + "1+" * (PART // 2),
    "closed-sums": OPEN + "$p.age = " + "1+" * 5_000 + "1 } return { 1 } }",
    "many-ors": OPEN + "$p.age = 1 or " * 1_000 + "true } return { $p.slug } }",
    "many-filters": OPEN + "$p.age = 1 " * 1_000 + "} return { $p.slug } }",
    "many-columns": OPEN + "} return { " + " ".join(f"$p.age as a{n}" for n in range(1_000)) + " } }",
    "one-name": "query " + "a" * PART,
    "one-number": OPEN + "$p.age = " + "9" * PART,
    "one-string": OPEN + '$p.name = "' + "x" * PART + '"',
    "one-open-string": OPEN + '$p.name = "' + "\\n" * (PART // 2),
    "one-open-comment": OPEN + "/*" + "* /" * (PART // 3),
    "headers": "query a() {\n" * (PART // 12),
    "many-unknown": OPEN + "".join(f"$p.x{n} = 1 " for n in range(90)) + "} return { $p.slug } }",
    "many-queries": "".join(f"query q{n}() {{ match {{ $p: Person }} return {{ $p.slug }} }}\n" for n in range(200)),
    "long-chain": OPEN
    + " ".join(f"${'p' if n == 0 else f'x{n}'} knows $x{n + 1}" for n in range(98))
    + " } return { $p.slug } }",
    "long-cross": OPEN + " ".join(f"$x{n}: City" for n in range(98)) + " } return { $p.slug } }",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_sizes_need_bounded_cpu_time(name: str) -> None:
    started = time.process_time()  # CPU time of this process only
    assert_result_or_problems(HOSTILE[name])
    assert time.process_time() - started < CPU_SECONDS_MAX
