"""The JSON of a catalog: canonical, exact in both directions, tolerant of unknown members, strict about errors."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from omnigraph.base.errors import FormatError
from omnigraph.schema.catalog_json import catalog_from_json, catalog_to_json, schema_hash
from omnigraph.schema.syntax import Schema
from tests.schema.incarnations import catalog_of
from tests.schema.strategies import valid_schemas

TEXT = """
node Person { slug: String @key @description("é") age: I64 @default(9007199254740993) @range(age, 0..) }
edge Knows: Person -> Person @card(0..2) { since: Date }
"""
CANONICAL = (
    '{"edges":[{"cardinality":{"high":2},"id":"0000000000000002","incarnation":"00000000000000a1","name":"Knows",'
    '"next_property_id":2,"properties":[{"id":1,"name":"since","type":{"kind":"Date"}}],"source":"0000000000000001",'
    '"target":"0000000000000001"}],"next_type_id":"3","nodes":[{"id":"0000000000000001","incarnation":"00000000000000a0",'
    '"key":["slug"],"name":"Person","next_property_id":3,"properties":[{"description":"é","id":1,"name":"slug",'
    '"type":{"kind":"String"}},{"default":"9007199254740993","id":2,"name":"age","type":{"kind":"I64"}}],'
    '"ranges":[{"low":"0","property":"age"}]}],"v":1}'
)


def test_the_canonical_text_and_its_hash() -> None:
    catalog = catalog_of(TEXT)
    assert catalog_to_json(catalog) == CANONICAL
    assert schema_hash(catalog) == hashlib.sha256(CANONICAL.encode()).hexdigest()


@given(valid_schemas())
@settings(max_examples=40)
def test_round_trip(schema: Schema) -> None:
    catalog = catalog_of(schema)
    text = catalog_to_json(catalog)
    again = catalog_from_json(text)
    assert again == catalog
    assert catalog_to_json(again) == text
    assert catalog_from_json(text.encode()) == catalog


def test_unknown_members_are_ignored() -> None:
    def extended(value: Any) -> Any:
        if isinstance(value, dict):
            return {**{name: extended(member) for name, member in value.items()}, "new": [1, {"x": None}]}
        return [extended(member) for member in value] if isinstance(value, list) else value

    assert catalog_from_json(json.dumps(extended(json.loads(CANONICAL)))) == catalog_of(TEXT)


Change = Callable[[dict[str, Any]], object]
MALFORMED: dict[str, Change] = {
    "newer version": lambda whole: whole.update(v=2),
    "no version": lambda whole: whole.pop("v"),
    "no nodes": lambda whole: whole.pop("nodes"),
    "nodes of another kind": lambda whole: whole.update(nodes="none"),
    "next id is not a number": lambda whole: whole.update(next_type_id="x"),
    "next id is too low": lambda whole: whole.update(next_type_id="2"),
    "next id is too long": lambda whole: whole.update(next_type_id="9" * 5000),
    "id is not hex": lambda whole: whole["nodes"][0].update(id="1"),
    "duplicate id": lambda whole: whole["edges"][0].update(id="0000000000000001"),
    "incarnation is not hex": lambda whole: whole["nodes"][0].update(incarnation="../../etc/passwd"),
    "edge to an unknown node": lambda whole: whole["edges"][0].update(source="0000000000000009"),
    "edge to an edge": lambda whole: whole["edges"][0].update(source="0000000000000002"),
    "duplicate node name": lambda whole: whole["nodes"].append({**whole["nodes"][0], "id": "0000000000000000"}),
    "duplicate property id": lambda whole: whole["nodes"][0]["properties"][0].update(id=2),
    "duplicate property name": lambda whole: whole["nodes"][0]["properties"][0].update(name="age"),
    "property id is not assigned yet": lambda whole: whole["nodes"][0].update(next_property_id=2),
    "unknown type": lambda whole: whole["nodes"][0]["properties"][0].update(type={"kind": "Decimal"}),
    "vector without size": lambda whole: whole["nodes"][0]["properties"][0].update(type={"kind": "Vector"}),
    "default of another type": lambda whole: whole["nodes"][0]["properties"][1].update(default="x"),
    "bound of another type": lambda whole: whole["nodes"][0]["ranges"][0].update(low="x"),
    "range of an unknown property": lambda whole: whole["nodes"][0]["ranges"][0].update(property="x"),
    "key of an unknown property": lambda whole: whole["nodes"][0].update(key=["x"]),
    "metadata without value": lambda whole: whole["nodes"][0].update(
        metadata=[{"name": "x", "arguments": [{"kind": "named"}]}]
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_catalogs_are_rejected(name: str) -> None:
    whole = copy.deepcopy(json.loads(CANONICAL))
    MALFORMED[name](whole)
    with pytest.raises(FormatError, match="catalog cannot be read") as caught:
        catalog_from_json(json.dumps(whole))
    assert caught.value.code == "catalog_malformed"
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", "{", "null", "[]", CANONICAL[:-5], "[" * 100_000, b"\xff\xfe", '{"v":1e999}'])
def test_invalid_json_is_rejected(text: str | bytes) -> None:
    with pytest.raises(FormatError):
        catalog_from_json(text)
