"""The schema changes of two branches are merged into one schema, or reported as diverged."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_json import catalog_from_json, catalog_to_json
from omnigraph.schema.consistency import require_consistent
from omnigraph.schema.evolution.apply import next_catalog, raise_counters
from omnigraph.schema.evolution.diff import Evolution, find_steps, find_steps_by_id
from omnigraph.schema.evolution.merge import Diverged, merge_catalogs
from omnigraph.schema.printer import print_schema, schema_from_catalog
from tests.schema.evolution.schema_pairs import SchemaPair, schema_pairs, without_ids
from tests.schema.incarnations import catalog_of

BASE = """\
node Person { slug: String @key  age: I32?  mood: enum(glad, sad)  name: String  v: Vector(2)? @embed("name") }
node Company { name: String @key }
edge Knows: Person -> Person @card(0..5) { since: Date? }
interface Seen { at: Date? }
node Place implements Seen { code: String @key }
"""


def evolved(catalog: Catalog, text: str, *others: Catalog) -> Catalog:
    """Return the catalog after a change; ids of `others` are not assigned again."""
    accepted = raise_counters(catalog, others)
    evolution = find_steps(accepted, catalog_of(text))
    assert not evolution.unsupported
    return next_catalog(accepted, evolution.steps)


def changed(*changes: tuple[str, str]) -> str:
    text = BASE
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


CITY = ("node Company", "node City { name: String @key }\nnode Company")
TOWN = ("edge Knows", "node Town { name: String @key }\nedge Knows")
RENAMED = ("age: I32?", "years: I32? @rename_from(age)")
NO_AGE = ("age: I32?", "")
NO_COMPANY = ("node Company { name: String @key }\n", "")
BOTH = {
    "two types": ([CITY], [TOWN]),
    "two properties": ([("age: I32?", "age: I32?  a: I32?")], [("age: I32?", "age: I32?  b: I32 @default(1)")]),
    "a rename and a rule": ([RENAMED], [("age: I32?", "age: I32?  @range(age, 0..9)")]),
    "a rename and an edge": (
        [("node Company {", "node Firm @rename_from(Company) {")],
        [("node Company {", "edge Owns: Person -> Company\nnode Company {")],
    ),
    "values of an enum": ([("glad, sad", "glad, sad, calm")], [("glad, sad", "glad, sad, wild")]),
    "an index and a note": ([("age: I32?", "age: I32? @index")], [("age: I32?", 'age: I32? @description("d")')]),
    "two uniques": ([("name: String  v", "name: String @unique  v")], [("age: I32?", "age: I32?  @unique(age, name)")]),
    "the same": ([("age: I32?", "age: I32? @index")], [("age: I32?", "age: I32? @index"), CITY]),
    "two drops": ([NO_AGE], [NO_COMPANY]),
    "a cardinality and a drop": ([("0..5", "0..7")], [NO_AGE]),
    "two interfaces": (
        [("node Company {", "interface Named { name: String }\nnode Company implements Named {")],
        [("node Company {", "interface Tagged { tag: String? }\nnode Company implements Tagged {")],
    ),
    "two properties of one interface": (
        [("{ at: Date? }", "{ at: Date?  by: String? }")],
        [("{ at: Date? }", "{ at: Date?  x: I32? @index  @range(x, 0..9) }")],
    ),
    "a default and a note": ([("age: I32?", "age: I32? @default(1)")], [("age: I32?", 'age: I32? @description("d")')]),
}
DIVERGED = {
    "one name for two types": ([CITY], [CITY], "City"),
    "one name for two properties": (
        [("age: I32?", "age: I32?  a: I32?")],
        [("age: I32?", "age: I32?  a: String?")],
        "'a'",
    ),
    "two names for one property": ([RENAMED], [("age: I32?", "old: I32? @rename_from(age)")], "name of"),
    "a drop and a change": ([NO_AGE], [("age: I32?", "age: I32? @index")], "dropped"),
    "a drop and a rule": ([NO_AGE], [("age: I32?", "age: I32?  @range(age, 0..9)")], "age"),
    "a dropped type and a change": ([NO_COMPANY], [("node Company {", 'node Company @description("d") {')], "dropped"),
    "a dropped type and an edge to it": (
        [NO_COMPANY],
        [("edge Knows", "edge Owns: Person -> Company\nedge Knows")],
        "Owns",
    ),
    "two ranges": (
        [("age: I32?", "age: I32?  @range(age, 0..9)")],
        [("age: I32?", "age: I32?  @range(age, 0..8)")],
        "the rules of",
    ),
    "one interface": (
        [("node Company {", "interface Named { name: String }\nnode Company {")],
        [("node Company {", "interface Named { name: String? }\nnode Company {")],
        "interface Named",
    ),
    "one property of an interface": (
        [("{ at: Date? }", "{ at: Date? @index }")],
        [("{ at: Date? }", '{ at: Date? @description("d") }')],
        "at of",
    ),
    "a node and an edge of one name": (
        [CITY],
        [("edge Knows", "edge City: Person -> Person\nedge Knows")],
        "together are not a valid schema: ",
    ),
    "a node and an interface of one name": (
        [CITY],
        [("edge Knows", "interface City { name: String }\nedge Knows")],
        "together are not a valid schema: ",
    ),
    "a dropped interface and a node that implements it": (
        [("interface Seen { at: Date? }\n", ""), ("Place implements Seen {", "Place { at: Date? ")],
        [("edge Knows", "node City implements Seen { name: String @key }\nedge Knows")],
        "`Seen`",
    ),
    "a property of an interface and a node that implements it": (
        [("{ at: Date? }", "{ at: Date?  by: String? }")],
        [("edge Knows", "node City implements Seen { name: String @key }\nedge Knows")],
        "add property node:City.by",
    ),
    "a range and a default beyond": (
        [("age: I32?", "age: I32?  @range(age, 0..5)")],
        [("age: I32?", "age: I32? @default(10)")],
        "not a valid schema",
    ),
    "two cardinalities": ([("0..5", "0..7")], [("0..5", "0..9")], "cardinality"),
    "the source of a vector": (
        [("name: String  v:", "title: String @rename_from(name)  v:"), ('@embed("name")', '@embed("title")')],
        [("v: Vector", 'w: Vector(3)? @embed("name")  v: Vector')],
        "the source of w",
    ),
}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("left", "right"), BOTH.values(), ids=BOTH.keys())
def test_changes_that_commute(left: list[tuple[str, str]], right: list[tuple[str, str]], swapped: bool) -> None:
    """The order of the sides does not matter, and the result is that of both changes in sequence."""
    base = catalog_of(BASE)
    first = evolved(base, changed(*left))
    second = evolved(base, changed(*right), first)
    ours, theirs = (second, first) if swapped else (first, second)
    merged = merge_catalogs(base, ours, theirs)
    assert isinstance(merged, Catalog)
    if not {old for old, _ in left} & {old for old, _ in right}:
        assert without_ids(merged) == without_ids(evolved(first, changed(*left, *right), second))
    for side in (ours, theirs):
        assert without_ids(next_catalog(side, find_steps_by_id(side, merged))) == without_ids(merged)
    assert merge_catalogs(theirs, merged, theirs) == merged
    assert merge_catalogs(theirs, theirs, merged) == merged


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("left", "right", "why"), DIVERGED.values(), ids=DIVERGED.keys())
def test_changes_that_diverge(
    left: list[tuple[str, str]], right: list[tuple[str, str]], why: str, swapped: bool
) -> None:
    base = catalog_of(BASE)
    first = evolved(base, changed(*left))
    second = evolved(base, changed(*right), first)
    merged = merge_catalogs(base, *((second, first) if swapped else (first, second)))
    assert isinstance(merged, Diverged)
    assert why in merged.reason


@pytest.mark.parametrize(
    ("old", "new"),
    [("age: I32?", "age: I32?  RULE"), ("{ at: Date? }", "{ at: Date?  age: I32?  name: String?  RULE }")],
    ids=["of a node", "of an interface"],
)
def test_the_order_of_columns_in_unique_has_no_meaning(old: str, new: str) -> None:
    def with_rule(rule: str) -> tuple[str, str]:
        return old, new.replace("RULE", rule)

    base = evolved(catalog_of(BASE), changed(with_rule("")))
    first, second = (evolved(base, changed(with_rule(rule))) for rule in ("@unique(age, name)", "@unique(name, age)"))
    assert first != second
    for ours, theirs in ((first, second), (second, first)):
        assert merge_catalogs(base, ours, theirs) == ours
        grown = evolved(theirs, changed(with_rule("@unique(age, name)"), TOWN))
        merged = merge_catalogs(base, ours, grown)
        assert isinstance(merged, Catalog)
        assert [step.kind for step in find_steps_by_id(ours, merged)] == ["add_type"]


def test_ids_that_two_branches_assigned_diverge() -> None:
    """Two branches that add a type or property at the same time assign the same id."""
    base = catalog_of(BASE)
    for old, new in (("age: I32?", "age: I32?  p{}: I32?"), ("edge Knows", "node T{} {{ a: I32 }}\nedge Knows")):
        sides = [evolved(base, changed((old, new.format(number)))) for number in (1, 2)]
        assert isinstance(merge_catalogs(base, *sides), Diverged)


def test_a_raised_counter_is_not_a_change() -> None:
    base = catalog_of(BASE)
    dropped = evolved(base, changed(NO_COMPANY))
    counted = evolved(evolved(base, BASE.replace("@key }", "@key  x: I32? }", 1)), BASE)
    assert counted != base
    merged = merge_catalogs(base, dropped, counted)
    assert isinstance(merged, Catalog)
    assert [node.name for node in merged.nodes] == ["Person", "Place"]


def test_the_fill_of_existing_rows_is_kept_when_the_default_changes() -> None:
    base = catalog_of(BASE)
    states = [base]
    for text in ("n: I32 @default(1)", "n: I32 @default(5)", "n: I32", "n: I32 @default(1)"):
        states.append(evolved(states[-1], changed(("age: I32?", f"age: I32?  {text}"))))
    forms = [state.nodes[0].property_named("n") for state in states[1:]]
    fills = [(form.value_of_older_rows, form.default, form.filled) for form in forms if form is not None]
    assert fills == [(1, 1, None), (1, 5, (1,)), (1, None, (1,)), (1, 1, None)]
    for state in states:
        assert catalog_from_json(catalog_to_json(state)) == state
    late = evolved(
        evolved(base, changed(("age: I32?", "age: I32?  n: I32?"))),
        changed(("age: I32?", "age: I32?  n: I32? @default(2)")),
    )
    own = catalog_from_json(catalog_to_json(late)).nodes[0].property_named("n")
    assert own is not None
    assert (own.value_of_older_rows, own.default, own.filled) == (None, 2, ())


@given(schema_pairs)
def test_steps_by_id_produce_the_same_catalog(pair: SchemaPair) -> None:
    before = catalog_of(pair.before)
    evolution = find_steps(before, catalog_of(pair.after))
    assume(not evolution.unsupported)
    after = next_catalog(before, evolution.steps)
    by_id = find_steps_by_id(before, after)
    assert {step.kind for step in by_id} == {step.kind for step in evolution.steps}
    again = next_catalog(before, by_id)
    require_consistent(again)
    assert without_ids(again) == without_ids(after)
    assert merge_catalogs(before, before, after) == after
    assert merge_catalogs(before, after, before) == after
    printed = catalog_of(print_schema(schema_from_catalog(after)))
    assert find_steps(after, printed) == Evolution(())
