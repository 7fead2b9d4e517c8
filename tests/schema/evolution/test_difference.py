"""Every kind of step, from two texts; and over many pairs, that the steps lead where they should."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_json import catalog_from_json, catalog_to_json
from omnigraph.schema.consistency import require_consistent
from omnigraph.schema.evolution.apply import next_catalog
from omnigraph.schema.evolution.diff import find_steps
from omnigraph.schema.evolution.steps import (
    AddProperty,
    AddType,
    Cost,
    DropProperty,
    DropType,
    cost_of,
    kind_of,
    text_of,
)
from tests.schema.evolution.populated import BASE, COMPANY, KNOWS, PERSON, populated
from tests.schema.evolution.schema_pairs import SchemaPair, schema_pairs, without_ids
from tests.schema.incarnations import catalog_of


@dataclass(frozen=True, slots=True)
class Case:
    """What replaces what in the base text, and the steps that follow, with their costs on populated types."""

    old: str
    new: str
    steps: tuple[str, ...]
    costs: str


CASES = {
    "add a type": Case(
        COMPANY,
        COMPANY + "node City { name: String @key }  edge In: Person -> City\n",
        ("add_type: add type node:City", "add_type: add type edge:In"),
        "mm",
    ),
    "rename a type": Case(
        "node Company {",
        "node Firm @rename_from(Company) {",
        ("rename_type: rename type node:Company to Firm",),
        "m",
    ),
    "rename an edge": Case(
        "edge Knows: Person -> Person",
        "edge Meets: Person -> Person @rename_from(Knows)",
        ("rename_type: rename type edge:Knows to Meets",),
        "m",
    ),
    "add a nullable property": Case(
        "age: I32?",
        "age: I32?  city: String?",
        ("add_property: add property node:Person.city: String?",),
        "m",
    ),
    "add a property with a default": Case(
        "age: I32?",
        "age: I32?  score: F64 @default(0.5)",
        ("add_property: add property node:Person.score: F64, filled with its default",),
        "w",
    ),
    "rename a property": Case(
        "age: I32?",
        "years: I32? @rename_from(age)",
        ("rename_property: rename property node:Person.age to years",),
        "m",
    ),
    "rename the property of a key": Case(
        "slug: String @key",
        "handle: String @key @rename_from(slug)",
        ("rename_property: rename property node:Person.slug to handle",),
        "m",
    ),
    "add an index": Case(
        "age: I32?", "age: I32? @index", ("add_index: declare an index on node:Person.age",), "m"
    ),
    "add unique": Case(
        "name: String }",
        "name: String @unique }",
        ("add_constraint: add @unique(name) to node:Person",),
        "r",
    ),
    "add a range": Case(
        "name: String }",
        "name: String @range(age, 0..200) }",
        ("add_constraint: add @range(age, 0..200) to node:Person",),
        "r",
    ),
    "add a check": Case(
        "name: String }",
        'name: String @check(name, "[a-z]+") }',
        ('add_constraint: add @check(name, "[a-z]+") to node:Person',),
        "r",
    ),
    "tighten a cardinality": Case(
        "@card(0..5)",
        "@card(1..2)",
        ("drop_constraint: drop @card(0..5) of edge:Knows", "add_constraint: add @card(1..2) to edge:Knows"),
        "mr",
    ),
    "loosen a cardinality": Case(
        "@card(0..5)",
        "@card(0..9)",
        ("drop_constraint: drop @card(0..5) of edge:Knows", "add_constraint: add @card(0..9) to edge:Knows"),
        "mm",
    ),
    "drop a cardinality": Case("@card(0..5)", "", ("drop_constraint: drop @card(0..5) of edge:Knows",), "m"),
    "require": Case(
        "age: I32?",
        "age: I32",
        ("add_constraint: require a value of node:Person.age in every row",),
        "r",
    ),
    "extend an enum": Case(
        "enum(glad, sad)",
        "enum(sad, calm, glad, bored)",
        ("extend_enum: extend the enum node:Person.mood by bored, calm",),
        "m",
    ),
    "relax": Case(
        "name: String }", "name: String? }", ("relax_nullability: make node:Person.name nullable",), "m"
    ),
    "note": Case(
        "age: I32?",
        'age: I32? @description("years") @default(3)',
        ("update_metadata: change the annotations of node:Person.age",),
        "m",
    ),
    "note of a type": Case(
        "node Company {",
        'node Company @description("a firm") {',
        ("update_metadata: change the annotations or interfaces of node:Company",),
        "m",
    ),
    "drop a property": Case("age: I32?", "", ("drop_property: drop property node:Person.age [soft]",), "m"),
    "drop a type": Case(COMPANY, "", ("drop_type: drop type node:Company [soft]",), "m"),
    "drop a node and its edge": Case(
        PERSON + COMPANY + KNOWS,
        COMPANY,
        ("drop_type: drop type edge:Knows [soft]", "drop_type: drop type node:Person [soft]"),
        "mm",
    ),
    "everything at once, in an order that works": Case(
        "age: I32?  mood: enum(glad, sad)  name: String }",
        "title: String? @rename_from(name)  size: I64 @default(1) @index @range(size, 0..9) @unique(title, size) }",
        (
            "drop_property: drop property node:Person.age [soft]",
            "drop_property: drop property node:Person.mood [soft]",
            "rename_property: rename property node:Person.name to title",
            "relax_nullability: make node:Person.title nullable",
            "add_property: add property node:Person.size: I64, filled with its default",
            "add_constraint: add @unique(title, size) to node:Person",
            "add_constraint: add @range(size, 0..9) to node:Person",
        ),
        "mmmmwrm",
    ),
    "an interface": Case(
        "node Company {",
        "interface Tagged { tag: String? }\nnode Company implements Tagged {",
        (
            "add_property: add property node:Company.tag: String?",
            "update_metadata: change the annotations or interfaces of node:Company",
            "update_metadata: update the interfaces",
        ),
        "mmm",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_step(case: Case) -> None:
    assert BASE.count(case.old) == 1
    accepted = catalog_of(BASE)
    wanted = catalog_of(BASE.replace(case.old, case.new))
    found = find_steps(accepted, wanted, populated(accepted))
    assert found.unsupported == ()
    assert tuple(f"{kind_of(step)}: {text_of(step)}" for step in found.steps) == case.steps
    letters = {Cost.METADATA: "m", Cost.READS: "r", Cost.REWRITES: "w"}
    assert "".join(letters[cost_of(step, 3)] for step in found.steps) == case.costs
    assert without_ids(next_catalog(accepted, found.steps)) == without_ids(wanted)


def test_a_rename_that_was_made_is_not_made_again() -> None:
    accepted = catalog_of(BASE)
    renamed = catalog_of(BASE.replace("age: I32?", "years: I32? @rename_from(age)"))
    after = next_catalog(accepted, find_steps(accepted, renamed).steps)
    assert find_steps(after, renamed).steps == ()
    person = after.node_named("Person")
    assert person is not None
    kept, was = person.property_named("years"), accepted.nodes[0].property_named("age")
    assert kept is not None
    assert was is not None
    assert kept.id == was.id


def test_a_name_that_comes_back_is_somebody_else() -> None:
    accepted = catalog_of(BASE)
    less = catalog_of(BASE.replace("age: I32?", "").replace(COMPANY, ""))
    without = next_catalog(accepted, find_steps(accepted, less).steps)
    again = next_catalog(without, find_steps(without, catalog_of(BASE)).steps)
    age, old_age = again.nodes[0].property_named("age"), accepted.nodes[0].property_named("age")
    company, old_company = again.node_named("Company"), accepted.node_named("Company")
    assert [own.id for own in (age, old_age) if own] == [5, 2]
    assert [int(found.id, 16) for found in (company, old_company) if found] == [4, 2]


def test_a_wider_range_need_not_be_read() -> None:
    accepted = catalog_of("node N { a: I32 @range(a, 0..10) }")
    for bounds, cost in (("0..20", Cost.METADATA), ("0..", Cost.METADATA), ("1..20", Cost.READS)):
        found = find_steps(accepted, catalog_of(f"node N {{ a: I32 @range(a, {bounds}) }}"))
        assert cost_of(found.steps[-1], 3) is cost, bounds


@given(schema_pairs)
def test_the_steps_lead_to_the_desired_schema(pair: SchemaPair) -> None:
    accepted, wanted = catalog_of(pair.before), catalog_of(pair.after)
    found = find_steps(accepted, wanted)
    assert found.unsupported == ()
    after = next_catalog(accepted, found.steps)
    assert without_ids(after) == without_ids(wanted)
    assert catalog_from_json(catalog_to_json(after)) == after
    assert find_steps(after, wanted).steps == ()
    kept_ids(accepted, after)


@given(schema_pairs)
def test_the_order_of_the_steps_is_safe(pair: SchemaPair) -> None:
    catalog = catalog_of(pair.before)
    for step in find_steps(catalog, catalog_of(pair.after)).steps:
        catalog = next_catalog(catalog, [step])
        require_consistent(catalog)


@given(schema_pairs)
def test_an_equal_schema_needs_no_steps(pair: SchemaPair) -> None:
    assert find_steps(catalog_of(pair.after), catalog_of(pair.after)).steps == ()


def kept_ids(before: Catalog, after: Catalog) -> None:
    """Whatever is there before and after by its id is of the same table and the same type of values."""
    for old in before.types:
        new = after.type_with_id(old.id)
        if new is None:
            continue
        assert (old.incarnation, old.kind) == (new.incarnation, new.kind)
        assert new.next_property_id >= old.next_property_id
        for own in old.properties:
            still = new.property_with_id(own.id)
            assert still is None or still.type == own.type
    assert {found.id for found in after.types if int(found.id, 16) < before.next_type_id} <= {
        found.id for found in before.types
    }
    assert after.next_type_id >= before.next_type_id


def test_drops_can_be_hard() -> None:
    accepted = catalog_of(BASE)
    wanted = catalog_of(BASE.replace(COMPANY, "").replace("age: I32?", ""))
    steps = find_steps(accepted, wanted, hard=True).steps
    assert [step.hard for step in steps if isinstance(step, DropType | DropProperty)] == [True, True]
    assert not any(isinstance(step, AddType | AddProperty) for step in steps)


def test_a_required_vector_of_an_earlier_release_keeps_its_column() -> None:
    text = 'node Note { k: String @key  t: String  v: Vector(2) @embed("t") }\n'
    desired = catalog_of(text)
    (note,) = desired.nodes
    vector = note.properties[2]
    assert vector.nullable
    assert vector.embedding is not None
    earlier = replace(vector, nullable=False, embedding=replace(vector.embedding, required=False))
    old = replace(desired, nodes=(replace(note, properties=(*note.properties[:2], earlier)),))
    assert not find_steps(old, desired, populated(old)).steps
    loosened = catalog_of(text.replace("Vector(2)", "Vector(2)?"))
    found = find_steps(old, loosened, populated(old))
    assert [kind_of(step) for step in found.steps] == ["relax_nullability"]
    assert not found.unsupported


@pytest.mark.parametrize(("before", "after"), [("Vector(2)", "Vector(2)?"), ("Vector(2)?", "Vector(2)")])
def test_the_mark_of_an_embedded_vector_changes_no_row(before: str, after: str) -> None:
    text = 'node Note {{ k: String @key  t: String  v: {} @embed("t") }}\n'
    old, desired = catalog_of(text.format(before)), catalog_of(text.format(after))
    found = find_steps(old, desired, populated(old))
    assert [kind_of(step) for step in found.steps] == ["update_metadata"]
    assert not found.unsupported
    assert without_ids(next_catalog(old, found.steps)) == without_ids(desired)
