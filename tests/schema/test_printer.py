"""Printing: the text of any tree parses to the same tree, and prints the same again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.lang.syntax import Annotation, Name, StringLiteral
from omnigraph.schema.parser import parse_schema
from omnigraph.schema.printer import print_schema, schema_from_catalog
from omnigraph.schema.syntax import NodeSyntax, Schema
from tests.schema.incarnations import catalog_of
from tests.schema.strategies import trees, valid_schemas


@given(trees)
@settings(max_examples=60)
def test_print_and_parse(tree: Schema) -> None:
    text = print_schema(tree)
    again = parse_schema(text)
    assert again == tree
    assert print_schema(again) == text


@given(st.text(st.characters(codec="utf-8")))
def test_every_string_can_be_printed(value: str) -> None:
    tree = Schema((NodeSyntax(Name("A"), (Annotation(Name("x"), (StringLiteral(value),)),)),))
    assert parse_schema(print_schema(tree)) == tree


@given(valid_schemas())
@settings(max_examples=40)
def test_a_catalog_prints_as_a_schema_that_builds_it(schema: Schema) -> None:
    catalog = catalog_of(schema)
    assert catalog_of(print_schema(schema_from_catalog(catalog))) == catalog


def test_an_open_end_of_a_cardinality_is_a_star() -> None:
    text = "node A {}\n\nedge E: A -> A @card(1..*) @x(1..)\n"
    assert print_schema(parse_schema("node A {} edge E: A -> A @card(1..) @x(1..*)")) == text
