"""Every kind of step, from two texts; over many pairs of schemas, the steps produce the desired schema."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from msgspec.structs import replace

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_json import catalog_from_json, catalog_to_json
from omnigraph.schema.consistency import require_consistent
from omnigraph.schema.evolution.apply import next_catalog
from omnigraph.schema.evolution.diff import find_steps
from omnigraph.schema.evolution.steps import AddProperty, AddType, Cost, DropProperty, DropType
from tests.schema.evolution.populated import BASE, COMPANY, KNOWS, PERSON, populated
from tests.schema.evolution.schema_pairs import SchemaPair, schema_pairs, without_ids
from tests.schema.incarnations import catalog_of


@dataclass(frozen=True, slots=True)
class DifferenceCase:
    """A replacement in the base text, and the expected steps with their costs on types with rows."""

    old: str
    new: str
    steps: tuple[str, ...]
    costs: str


CASES = {
    "add a type": DifferenceCase(
        COMPANY,
        COMPANY + "node City { name: String @key }  edge In: Person -> City\n",
        ("add_type: add type node:City", "add_type: add type edge:In"),
        "mm",
    ),
    "rename a type": DifferenceCase(
        "node Company {", "node Firm @rename_from(Company) {", ("rename_type: rename type node:Company to Firm",), "m"
    ),
    "rename an edge": DifferenceCase(
        "edge Knows: Person -> Person",
        "edge Meets: Person -> Person @rename_from(Knows)",
        ("rename_type: rename type edge:Knows to Meets",),
        "m",
    ),
    "add a nullable property": DifferenceCase(
        "age: I32?", "age: I32?  city: String?", ("add_property: add property node:Person.city: String?",), "m"
    ),
    "add a property with a default": DifferenceCase(
        "age: I32?",
        "age: I32?  score: F64 @default(0.5)",
        ("add_property: add property node:Person.score: F64, filled with its default",),
        "w",
    ),
    "rename a property": DifferenceCase(
        "age: I32?",
        "years: I32? @rename_from(age)",
        ("rename_property: rename property node:Person.age to years",),
        "m",
    ),
    "rename the property of a key": DifferenceCase(
        "slug: String @key",
        "handle: String @key @rename_from(slug)",
        ("rename_property: rename property node:Person.slug to handle",),
        "m",
    ),
    "add an index": DifferenceCase(
        "age: I32?", "age: I32? @index", ("add_index: declare an index on node:Person.age",), "m"
    ),
    "add unique": DifferenceCase(
        "name: String }", "name: String @unique }", ("add_constraint: add @unique(name) to node:Person",), "r"
    ),
    "add a range": DifferenceCase(
        "name: String }",
        "name: String @range(age, 0..200) }",
        ("add_constraint: add @range(age, 0..200) to node:Person",),
        "r",
    ),
    "add a check": DifferenceCase(
        "name: String }",
        'name: String @check(name, "[a-z]+") }',
        ('add_constraint: add @check(name, "[a-z]+") to node:Person',),
        "r",
    ),
    "tighten a cardinality": DifferenceCase(
        "@card(0..5)",
        "@card(1..2)",
        ("drop_constraint: drop @card(0..5) of edge:Knows", "add_constraint: add @card(1..2) to edge:Knows"),
        "mr",
    ),
    "widen a cardinality": DifferenceCase(
        "@card(0..5)",
        "@card(0..9)",
        ("drop_constraint: drop @card(0..5) of edge:Knows", "add_constraint: add @card(0..9) to edge:Knows"),
        "mm",
    ),
    "drop a cardinality": DifferenceCase("@card(0..5)", "", ("drop_constraint: drop @card(0..5) of edge:Knows",), "m"),
    "require": DifferenceCase(
        "age: I32?", "age: I32", ("add_constraint: require a value of node:Person.age in every row",), "r"
    ),
    "extend an enum": DifferenceCase(
        "enum(glad, sad)",
        "enum(sad, calm, glad, bored)",
        ("extend_enum: extend the enum node:Person.mood by bored, calm",),
        "m",
    ),
    "relax": DifferenceCase(
        "name: String }", "name: String? }", ("relax_nullability: make node:Person.name nullable",), "m"
    ),
    "note": DifferenceCase(
        "age: I32?",
        'age: I32? @description("years") @default(3)',
        ("update_metadata: change the annotations of node:Person.age",),
        "m",
    ),
    "note of a type": DifferenceCase(
        "node Company {",
        'node Company @description("a firm") {',
        ("update_metadata: change the annotations or interfaces of node:Company",),
        "m",
    ),
    "drop a property": DifferenceCase("age: I32?", "", ("drop_property: drop property node:Person.age [soft]",), "m"),
    "drop a type": DifferenceCase(COMPANY, "", ("drop_type: drop type node:Company [soft]",), "m"),
    "drop a node and its edge": DifferenceCase(
        PERSON + COMPANY + KNOWS,
        COMPANY,
        ("drop_type: drop type edge:Knows [soft]", "drop_type: drop type node:Person [soft]"),
        "mm",
    ),
    "many changes together, in an order that can be applied": DifferenceCase(
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
    "an interface": DifferenceCase(
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
def test_step(case: DifferenceCase) -> None:
    assert BASE.count(case.old) == 1
    accepted = catalog_of(BASE)
    desired = catalog_of(BASE.replace(case.old, case.new))
    evolution = find_steps(accepted, desired, populated(accepted))
    assert evolution.unsupported == ()
    assert tuple(f"{step.kind}: {step.describe()}" for step in evolution.steps) == case.steps
    letters = {Cost.METADATA: "m", Cost.READS: "r", Cost.REWRITES: "w"}
    assert "".join(letters[step.cost(3)] for step in evolution.steps) == case.costs
    assert without_ids(next_catalog(accepted, evolution.steps)) == without_ids(desired)


def test_an_applied_rename_is_not_planned_again() -> None:
    accepted = catalog_of(BASE)
    renamed = catalog_of(BASE.replace("age: I32?", "years: I32? @rename_from(age)"))
    after = next_catalog(accepted, find_steps(accepted, renamed).steps)
    assert find_steps(after, renamed).steps == ()
    person = after.node_named("Person")
    assert person is not None
    renamed_property, old_property = person.property_named("years"), accepted.nodes[0].property_named("age")
    assert renamed_property is not None
    assert old_property is not None
    assert renamed_property.id == old_property.id


def test_a_dropped_name_that_is_added_again_gets_a_new_id() -> None:
    accepted = catalog_of(BASE)
    less = catalog_of(BASE.replace("age: I32?", "").replace(COMPANY, ""))
    without = next_catalog(accepted, find_steps(accepted, less).steps)
    again = next_catalog(without, find_steps(without, catalog_of(BASE)).steps)
    age, old_age = again.nodes[0].property_named("age"), accepted.nodes[0].property_named("age")
    company, old_company = again.node_named("Company"), accepted.node_named("Company")
    assert [own.id for own in (age, old_age) if own] == [5, 2]
    assert [int(company_type.id, 16) for company_type in (company, old_company) if company_type] == [4, 2]


@pytest.mark.parametrize(
    ("old", "new", "steps"),
    [
        ("@index", "@index(ascii_folding=false)", ()),
        (
            "@index",
            '@index(stem="dutch")',
            ('change the text index on node:N.a to stem="dutch"; `optimize` rebuilds it',),
        ),
        (
            "@index(ascii_folding=true)",
            "@index",
            ("change the text index on node:N.a to no options; `optimize` rebuilds it",),
        ),
        ("@index(ascii_folding=true)", "", ("drop the index on node:N.a",)),
        ("", "@index(ascii_folding=true)", ("declare an index on node:N.a with ascii_folding=true",)),
    ],
)
def test_options_of_an_index_change(old: str, new: str, steps: tuple[str, ...]) -> None:
    accepted, desired = catalog_of(f"node N {{ a: String {old} }}"), catalog_of(f"node N {{ a: String {new} }}")
    evolution = find_steps(accepted, desired, {accepted.types[0].id: 3})
    assert tuple(step.describe() for step in evolution.steps) == steps
    assert all(step.cost(3) is Cost.METADATA for step in evolution.steps)
    assert next_catalog(accepted, evolution.steps) == desired


def test_a_wider_range_reads_no_rows() -> None:
    accepted = catalog_of("node N { a: I32 @range(a, 0..10) }")
    for bounds, cost in (("0..20", Cost.METADATA), ("0..", Cost.METADATA), ("1..20", Cost.READS)):
        evolution = find_steps(accepted, catalog_of(f"node N {{ a: I32 @range(a, {bounds}) }}"))
        assert evolution.steps[-1].cost(3) is cost, bounds


@given(schema_pairs)
def test_the_steps_produce_the_desired_schema(pair: SchemaPair) -> None:
    accepted, desired = catalog_of(pair.before), catalog_of(pair.after)
    evolution = find_steps(accepted, desired)
    assert evolution.unsupported == ()
    after = next_catalog(accepted, evolution.steps)
    assert without_ids(after) == without_ids(desired)
    assert catalog_from_json(catalog_to_json(after)) == after
    assert find_steps(after, desired).steps == ()
    assert_ids_are_stable(accepted, after)


@given(schema_pairs)
def test_the_catalog_is_consistent_after_every_step(pair: SchemaPair) -> None:
    catalog = catalog_of(pair.before)
    for step in find_steps(catalog, catalog_of(pair.after)).steps:
        catalog = next_catalog(catalog, [step])
        require_consistent(catalog)


@given(schema_pairs)
def test_an_equal_schema_needs_no_steps(pair: SchemaPair) -> None:
    assert find_steps(catalog_of(pair.after), catalog_of(pair.after)).steps == ()


def assert_ids_are_stable(before: Catalog, after: Catalog) -> None:
    """Check that a type or property with the same id has the same table and the same type of values."""
    for old in before.types:
        new = after.type_with_id(old.id)
        if new is None:
            continue
        assert (old.incarnation, old.kind) == (new.incarnation, new.kind)
        assert new.next_property_id >= old.next_property_id
        for own in old.properties:
            still = new.property_with_id(own.id)
            assert still is None or still.type == own.type
    assert {entity.id for entity in after.types if int(entity.id, 16) < before.next_type_id} <= {
        entity.id for entity in before.types
    }
    assert after.next_type_id >= before.next_type_id


def test_drops_can_be_hard() -> None:
    accepted = catalog_of(BASE)
    desired = catalog_of(BASE.replace(COMPANY, "").replace("age: I32?", ""))
    steps = find_steps(accepted, desired, hard=True).steps
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
    relaxed = catalog_of(text.replace("Vector(2)", "Vector(2)?"))
    evolution = find_steps(old, relaxed, populated(old))
    assert [step.kind for step in evolution.steps] == ["relax_nullability"]
    assert not evolution.unsupported


@pytest.mark.parametrize(("before", "after"), [("Vector(2)", "Vector(2)?"), ("Vector(2)?", "Vector(2)")])
def test_making_an_embedded_vector_nullable_or_required_changes_no_row(before: str, after: str) -> None:
    text = 'node Note {{ k: String @key  t: String  v: {} @embed("t") }}\n'
    old, desired = catalog_of(text.format(before)), catalog_of(text.format(after))
    evolution = find_steps(old, desired, populated(old))
    assert [step.kind for step in evolution.steps] == ["update_metadata"]
    assert not evolution.unsupported
    assert without_ids(next_catalog(old, evolution.steps)) == without_ids(desired)
