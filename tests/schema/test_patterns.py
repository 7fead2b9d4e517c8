"""The dialect of `@check`: a valid pattern has the same meaning in Python and in Arrow's RE2, and fits both."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.schema.patterns import matches_whole, pattern_problem

_PIECES = (
    *"ab01-_.^$|()[]{}*+?\\,:=!<>P&é \n",
    "(?:",
    "[a-z]",
    "[^b]",
    "\\d",
    "\\w",
    "\\s",
    "\\b",
    "{2}",
    "{1,3}",
    "{500}",
)


@given(st.lists(st.sampled_from(_PIECES), max_size=10).map("".join), st.text("ab01-_.é \n", max_size=6))
@settings(max_examples=500)
def test_valid_patterns_match_the_same_in_both_engines(pattern: str, text: str) -> None:
    if pattern_problem(pattern) is None:
        whole = f"\\A(?:{pattern})\\z"
        assert pc.match_substring_regex(pa.array([text]), whole)[0].as_py() == matches_whole(pattern, text)


@pytest.mark.parametrize(
    "pattern", ["[^a]{1000}", "(?:[^a]{10}){100}", ".{999}", "(" * 49 + "a" + ")" * 49, "[^a]" * 249]
)
def test_the_largest_valid_patterns_fit_re2(pattern: str) -> None:
    assert pattern_problem(pattern) is None
    assert pc.match_substring_regex(pa.array(["b"]), f"\\A(?:{pattern})\\z")[0].as_py() is not None


@pytest.mark.parametrize(
    "pattern", ["[a-z0-9-]+", "(a|b)*c?", "a{2,3}", "\\d+\\.\\d+", "[\\w-]+@[\\w.]+", "^x$", "a+?"]
)
def test_usual_patterns_are_valid(pattern: str) -> None:
    assert pattern_problem(pattern) is None


def test_the_whole_value_must_match() -> None:
    assert matches_whole("[a-z]+", "abc")
    assert not matches_whole("[a-z]+", "abc1")
    assert not matches_whole("[a-z]+$", "abc\n")
    assert not matches_whole("\\d+", "١٢")


@pytest.mark.parametrize(
    "pattern",
    ["(a)\\1", "\\Z", "\\u0041", "(?=a)", "(?<!a)b", "(?P<n>a)", "(?i)a", "(?>a)", "a*+", "a{,2}", "a**", "[[a]", "("],
)
def test_patterns_that_only_one_engine_supports_are_rejected(pattern: str) -> None:
    assert pattern_problem(pattern)
