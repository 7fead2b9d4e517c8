"""`Catalog.require_type`: the names by which calls and commands select a type."""

from __future__ import annotations

import pytest

from omnigraph.base.errors import NotFoundError
from omnigraph.schema.build import build_catalog
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.parser import parse_schema


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    text = "node Person { slug: String @key } node Company { name: String @key } edge Knows: Person -> Person"
    return build_catalog(parse_schema(text, "schema.pg"))


@pytest.mark.parametrize(
    ("name", "alias"),
    [
        ("Person", "node:Person"),
        ("node:Person", "node:Person"),
        ("Knows", "edge:Knows"),
        ("knows", "edge:Knows"),
        ("edge:Knows", "edge:Knows"),
        ("edge:knows", "edge:Knows"),
    ],
)
def test_name_or_alias(catalog: Catalog, name: str, alias: str) -> None:
    assert catalog.require_type(name).alias == alias


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Persn", "unknown type 'Persn': did you mean 'Person'?"),
        ("node:Persn", "unknown type 'node:Persn': did you mean 'Person'?"),
        ("edge:Person", "unknown type 'edge:Person': did you mean 'Person'?"),
        ("node:Knows", "unknown type 'node:Knows': did you mean 'Knows'?"),
        ("node:", "unknown type 'node:'"),
        ("person", "unknown type 'person': did you mean 'Person'?"),
        ("", "unknown type ''"),
    ],
)
def test_unknown_name(catalog: Catalog, name: str, message: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        catalog.require_type(name)
    assert (caught.value.message, caught.value.code, caught.value.facts["type"]) == (message, "type_missing", name)
    assert "schema" in caught.value.hint


def test_several_names_are_in_the_order_of_the_schema(catalog: Catalog) -> None:
    assert [entity.name for entity in catalog.select_types(["knows", "Company", "edge:Knows"])] == ["Company", "Knows"]
    assert catalog.select_types(None) == catalog.select_types([]) == list(catalog.types)
