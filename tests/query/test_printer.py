"""Printing: the printed text of any tree parses to the same tree and prints the same again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.lang.syntax import Name, StringLiteral
from omnigraph.query import syntax
from omnigraph.query.parser import parse_queries
from tests.query.query_text import print_queries
from tests.query.strategies import files


@given(files)
@settings(max_examples=120)
def test_print_and_parse(file: syntax.QueryFile) -> None:
    text = print_queries(file)
    again = parse_queries(text)
    assert again == file
    assert print_queries(again) == text


@given(st.text(st.characters(codec="utf-8")))
def test_every_string_round_trips(value: str) -> None:
    body = syntax.ReadBody((), (syntax.Projection(StringLiteral(value)),))
    file = syntax.QueryFile((syntax.Query(Name("a"), (), (), body),))
    assert parse_queries(print_queries(file)) == file


def test_word_before_a_parenthesis_is_not_a_call() -> None:
    file = parse_queries("query a() { match { $p: A  $p.kind = small  b  $p } return { $p.name } }")
    text = print_queries(file)
    assert parse_queries(text) == file
    assert "\n    ($p.kind = small)\n    (b)\n    ($p)\n" in text


def test_empty_file_prints_empty_text() -> None:
    assert print_queries(syntax.QueryFile()) == ""
    assert parse_queries("").queries == ()


def test_mutation_is_parsed_as_statements() -> None:
    (query,) = parse_queries('query a() { delete City where name = "x" }').queries
    assert isinstance(query.body, syntax.MutationBody)
