"""What two branches made of one schema, as one; or that it cannot be."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_json import catalog_from_json, catalog_to_json
from omnigraph.schema.consistency import require_consistent
from omnigraph.schema.evolution.apply import next_catalog, raise_counters
from omnigraph.schema.evolution.diff import Evolution, find_steps, find_steps_by_id
from omnigraph.schema.evolution.merge import Diverged, merge_catalogs
from omnigraph.schema.evolution.steps import kind_of
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
    """The catalog after a change; `others` have ids that are not given again."""
    accepted = raise_counters(catalog, others)
    found = find_steps(accepted, catalog_of(text))
    assert not found.unsupported
    return next_catalog(accepted, found.steps)


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
    "two properties": (
        [("age: I32?", "age: I32?  a: I32?")],
        [("age: I32?", "age: I32?  b: I32 @default(1)")],
    ),
    "a rename and a rule": ([RENAMED], [("age: I32?", "age: I32?  @range(age, 0..9)")]),
    "a rename and an edge": (
        [("node Company {", "node Firm @rename_from(Company) {")],
        [("node Company {", "edge Owns: Person -> Company\nnode Company {")],
    ),
    "values of an enum": ([("glad, sad", "glad, sad, calm")], [("glad, sad", "glad, sad, wild")]),
    "an index and a note": (
        [("age: I32?", "age: I32? @index")],
        [("age: I32?", 'age: I32? @description("d")')],
    ),
    "two uniques": (
        [("name: String  v", "name: String @unique  v")],
        [("age: I32?", "age: I32?  @unique(age, name)")],
    ),
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
    "a default and a note": (
        [("age: I32?", "age: I32? @default(1)")],
        [("age: I32?", 'age: I32? @description("d")')],
    ),
}
DIVERGED = {
    "one name for two types": ([CITY], [CITY], "City"),
    "one name for two properties": (
        [("age: I32?", "age: I32?  a: I32?")],
        [("age: I32?", "age: I32?  a: String?")],
        "`a`",
    ),
    "two names for one property": ([RENAMED], [("age: I32?", "old: I32? @rename_from(age)")], "name of"),
    "a drop and a change": ([NO_AGE], [("age: I32?", "age: I32? @index")], "dropped"),
    "a drop and a rule": ([NO_AGE], [("age: I32?", "age: I32?  @range(age, 0..9)")], "age"),
    "a dropped type and a change": (
        [NO_COMPANY],
        [("node Company {", 'node Company @description("d") {')],
        "dropped",
    ),
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
        "together are no schema: ",
    ),
    "a node and an interface of one name": (
        [CITY],
        [("edge Knows", "interface City { name: String }\nedge Knows")],
        "together are no schema: ",
    ),
    "a dropped interface and who implements it": (
        [("interface Seen { at: Date? }\n", ""), ("Place implements Seen {", "Place { at: Date? ")],
        [("edge Knows", "node City implements Seen { name: String @key }\nedge Knows")],
        "`Seen`",
    ),
    "a property of an interface and who implements it": (
        [("{ at: Date? }", "{ at: Date?  by: String? }")],
        [("edge Knows", "node City implements Seen { name: String @key }\nedge Knows")],
        "add property node:City.by",
    ),
    "a range and a default beyond": (
        [("age: I32?", "age: I32?  @range(age, 0..5)")],
        [("age: I32?", "age: I32? @default(10)")],
        "no schema",
    ),
    "two cardinalities": ([("0..5", "0..7")], [("0..5", "0..9")], "cardinality"),
    "the source of a vector": (
        [
            ("name: String  v:", "title: String @rename_from(name)  v:"),
            ('@embed("name")', '@embed("title")'),
        ],
        [("v: Vector", 'w: Vector(3)? @embed("name")  v: Vector')],
        "makes w",
    ),
}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("left", "right"), BOTH.values(), ids=BOTH.keys())
def test_changes_that_commute(
    left: list[tuple[str, str]], right: list[tuple[str, str]], swapped: bool
) -> None:
    """The order of the sides does not matter, and the result is one change after the other."""
    base = catalog_of(BASE)
    one = evolved(base, changed(*left))
    other = evolved(base, changed(*right), one)
    ours, theirs = (other, one) if swapped else (one, other)
    merged = merge_catalogs(base, ours, theirs)
    assert isinstance(merged, Catalog)
    if not {old for old, _ in left} & {old for old, _ in right}:
        assert without_ids(merged) == without_ids(evolved(one, changed(*left, *right), other))
    for side in (ours, theirs):
        assert without_ids(next_catalog(side, find_steps_by_id(side, merged))) == without_ids(merged)
    assert merge_catalogs(theirs, merged, theirs) == merged
    assert merge_catalogs(theirs, theirs, merged) == merged


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("left", "right", "why"), DIVERGED.values(), ids=DIVERGED.keys())
def test_changes_that_do_not(
    left: list[tuple[str, str]], right: list[tuple[str, str]], why: str, swapped: bool
) -> None:
    base = catalog_of(BASE)
    one = evolved(base, changed(*left))
    other = evolved(base, changed(*right), one)
    merged = merge_catalogs(base, *((other, one) if swapped else (one, other)))
    assert isinstance(merged, Diverged)
    assert why in merged.why


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("age: I32?", "age: I32?  RULE"),
        ("{ at: Date? }", "{ at: Date?  age: I32?  name: String?  RULE }"),
    ],
    ids=["of a node", "of an interface"],
)
def test_a_unique_is_the_same_in_any_order_of_its_columns(old: str, new: str) -> None:
    def with_rule(rule: str) -> tuple[str, str]:
        return old, new.replace("RULE", rule)

    base = evolved(catalog_of(BASE), changed(with_rule("")))
    one, other = (
        evolved(base, changed(with_rule(rule))) for rule in ("@unique(age, name)", "@unique(name, age)")
    )
    assert one != other
    for ours, theirs in ((one, other), (other, one)):
        assert merge_catalogs(base, ours, theirs) == ours
        grown = evolved(theirs, changed(with_rule("@unique(age, name)"), TOWN))
        merged = merge_catalogs(base, ours, grown)
        assert isinstance(merged, Catalog)
        assert [kind_of(step) for step in find_steps_by_id(ours, merged)] == ["add_type"]


def test_ids_that_were_given_twice() -> None:
    """Two branches that add something at the same moment do not see each other."""
    base = catalog_of(BASE)
    for old, new in (
        ("age: I32?", "age: I32?  p{}: I32?"),
        ("edge Knows", "node T{} {{ a: I32 }}\nedge Knows"),
    ):
        sides = [evolved(base, changed((old, new.format(number)))) for number in (1, 2)]
        assert isinstance(merge_catalogs(base, *sides), Diverged)


def test_a_raised_counter_is_no_change() -> None:
    base = catalog_of(BASE)
    dropped = evolved(base, changed(NO_COMPANY))
    counted = evolved(evolved(base, BASE.replace("@key }", "@key  x: I32? }", 1)), BASE)
    assert counted != base
    merged = merge_catalogs(base, dropped, counted)
    assert isinstance(merged, Catalog)
    assert [one.name for one in merged.nodes] == ["Person", "Place"]


def test_what_rows_got_stays_when_the_default_changes() -> None:
    base = catalog_of(BASE)
    states = [base]
    for text in ("n: I32 @default(1)", "n: I32 @default(5)", "n: I32", "n: I32 @default(1)"):
        states.append(evolved(states[-1], changed(("age: I32?", f"age: I32?  {text}"))))
    found = [state.nodes[0].property_named("n") for state in states[1:]]
    told = [(one.fill, one.default, one.filled) for one in found if one is not None]
    assert told == [(1, 1, None), (1, 5, (1,)), (1, None, (1,)), (1, 1, None)]
    for state in states:
        assert catalog_from_json(catalog_to_json(state)) == state
    late = evolved(
        evolved(base, changed(("age: I32?", "age: I32?  n: I32?"))),
        changed(("age: I32?", "age: I32?  n: I32? @default(2)")),
    )
    own = catalog_from_json(catalog_to_json(late)).nodes[0].property_named("n")
    assert own is not None
    assert (own.fill, own.default, own.filled) == (None, 2, ())


@given(schema_pairs)
def test_the_steps_between_two_states_of_one_graph(pair: SchemaPair) -> None:
    before = catalog_of(pair.before)
    found = find_steps(before, catalog_of(pair.after))
    assume(not found.unsupported)
    after = next_catalog(before, found.steps)
    by_id = find_steps_by_id(before, after)
    assert {kind_of(step) for step in by_id} == {kind_of(step) for step in found.steps}
    again = next_catalog(before, by_id)
    require_consistent(again)
    assert without_ids(again) == without_ids(after)
    assert merge_catalogs(before, before, after) == after
    assert merge_catalogs(before, after, before) == after
    told = catalog_of(print_schema(schema_from_catalog(after)))
    assert find_steps(after, told) == Evolution(())
