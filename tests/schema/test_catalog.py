"""The catalog: ids, lookups, properties of interfaces, and pickling."""

from __future__ import annotations

import pickle

from hypothesis import given, settings

from omnigraph.base.ids import PropertyId, TypeId
from omnigraph.schema.build import build_catalog
from omnigraph.schema.catalog import EdgeType, Rules, TypeKind
from omnigraph.schema.parser import parse_schema
from omnigraph.schema.syntax import Schema
from tests.schema.incarnations import catalog_of
from tests.schema.strategies import valid_schemas

TEXT = """
interface Named { name: String @index @unique(name) }
edge Knows: Person -> Company
node Person implements Named { age: I32 @range(age, 0..) }
node Company { slug: String @key }
"""


def test_ids_count_from_one_in_the_order_of_the_text() -> None:
    catalog = catalog_of(TEXT)
    assert [(entity.alias, entity.id) for entity in catalog.types] == [
        ("node:Person", "0000000000000002"),
        ("node:Company", "0000000000000003"),
        ("edge:Knows", "0000000000000001"),
    ]
    assert catalog.next_type_id == 4
    person = catalog.nodes[0]
    assert [(own.id, own.name) for own in person.properties] == [(1, "name"), (2, "age")]
    assert person.next_property_id == 3


def test_incarnations_are_new_for_every_type_and_build() -> None:
    first, second = (build_catalog(parse_schema(TEXT)) for _ in range(2))
    incarnations = {entity.incarnation for catalog in (first, second) for entity in catalog.types}
    assert len(incarnations) == 6


def test_lookups() -> None:
    catalog = catalog_of(TEXT)
    person = catalog.node_named("Person")
    assert person is not None
    assert catalog.node_named("person") is None
    knows = catalog.edge_named("Knows")
    assert isinstance(knows, EdgeType)
    assert catalog.edge_named("knows") is knows
    assert catalog.edge_named("KNOWS") is None
    assert catalog.type_named("Knows") is knows
    assert catalog.type_named("knows") is None
    assert catalog.type_named("Person") is person
    assert catalog.type_with_id(person.id) is person
    assert catalog.type_with_id(TypeId("f" * 16)) is None
    assert catalog.source_of(knows) is person
    assert catalog.target_of(knows).name == "Company"
    assert knows.kind is TypeKind.EDGE
    assert person.property_named("age") == person.property_with_id(PropertyId(2))
    assert person.property_named("Age") is None
    interface = catalog.interface_named("Named")
    assert interface is not None
    assert interface.rules == Rules(uniques=(("name",),))


def test_a_node_has_the_properties_and_rules_of_its_interface() -> None:
    person = catalog_of(TEXT).nodes[0]
    assert person.rules.uniques == (("name",),)
    assert person.properties[0].indexed


def test_the_order_of_enum_values_has_no_meaning() -> None:
    assert catalog_of("node A { a: enum(x, y) }") == catalog_of("node A { a: enum(y, x) }")


@given(valid_schemas())
@settings(max_examples=40)
def test_a_catalog_can_be_pickled(schema: Schema) -> None:
    catalog = catalog_of(schema)
    copy = pickle.loads(pickle.dumps(catalog))
    assert copy == catalog
    assert hash(copy) == hash(catalog)
    assert copy.types == catalog.types
