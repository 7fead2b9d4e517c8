"""Schema apply as a whole: tasks, rows that break rules, refusals, and the work afterwards."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.snapshot import MAIN, read_commit_snapshot, read_snapshot
from omnigraph.graph.schema_plan import UnsupportedSchemaChangeError
from omnigraph.maintenance.optimize.options import OptimizeOptions
from omnigraph.maintenance.optimize.run import ensure_indices, optimize_all_tables
from omnigraph.maintenance.schema_apply import SchemaRejectedError
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.graph.crash.observe import find_leftovers
from tests.maintenance.evolving import contents, create, evolve, opened, snapshot_contents
from tests.maintenance.schema_cases import BASE, CASES, COMPANY, PERSON, graph_at
from tests.pipeline.exporting import load_records
from tests.pipeline.in_place import in_place


@pytest.mark.parametrize(
    "name", ["add properties with defaults", "add rules", "require with a default", "tighten a cardinality"]
)
def test_tasks_give_the_same_result(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    root = graph_at(tmp_path)
    more = "".join(f'insert Person {{ slug: "p{n}", age: {n}, mood: "sad", name: "P{"abcde"[n]}" }} ' for n in range(5))
    omnigraph.open(root.uri).mutate(f"query more() {{ {more} }}")
    before = contents(root)
    evolve(root, BASE.replace(case.old, case.new), tasks=True)
    assert contents(root) == case.after(before)


NULLABLES: dict[str, tuple[str, list[Any], Any]] = {
    "String": ('"x"', ["a", None, ""], "x"),
    "Bool": ("true", [False, None], True),
    "I32": ("-7", [1, None], -7),
    "I64": ("-9223372036854775808", [1, None], -(2**63)),
    "U32": ("4294967295", [1, None], 2**32 - 1),
    "U64": ("18446744073709551615", [1, None], 2**64 - 1),
    "F32": ("0.5", [1.5, None], 0.5),
    "F64": ("0.1", [1.5, None], 0.1),
    "Date": ('"2024-05-31"', ["2020-01-01", None], date(2024, 5, 31)),
    "DateTime": (
        '"2024-05-31T10:00:00.250Z"',
        ["2020-01-01T00:00:00Z", None],
        datetime(2024, 5, 31, 10, 0, 0, 250_000, UTC),
    ),
    "enum(red, blue)": ("blue", ["red", None], "blue"),
}


@pytest.mark.parametrize("name", NULLABLES)
@pytest.mark.parametrize("tasks", [False, True], ids=["driver", "tasks"])
def test_null_becomes_the_default_of_a_required_property(name: str, tasks: bool, tmp_path: Path) -> None:
    """The result equals a load of the same rows into the new schema; values, also empty ones, are kept."""
    default, values, filled = NULLABLES[name]
    old, new = (f"node Doc {{ slug: String @key  p: {name}{end} }}\n" for end in ("?", f" @default({default})"))
    root, fresh = (parse_location(str(tmp_path / f"{folder}.omni")) for folder in ("graph", "fresh"))
    create(root, old)
    create(fresh, new)
    records = [
        {"type": "Doc", "data": {"slug": f"d{number}", "p": value}} for number, value in enumerate([*values, *values])
    ]
    for record in records:
        load_records(root, tmp_path, [record])
    load_records(fresh, tmp_path, records)
    plan = omnigraph.open(root.uri).plan_schema(new)
    assert [(step.step.kind, step.rows, step.filled_rows) for step in plan.steps] == [
        ("update_metadata", len(records), 0),
        ("add_constraint", len(records), 2),
    ]
    done = evolve(root, new, tasks=tasks)
    assert done.plan.steps == plan.steps
    assert contents(root) == contents(fresh)
    rows = contents(root)["node:Doc"].values()
    assert [row["p"] for row in rows].count(filled) == 2
    assert find_leftovers(root, WriteEnvironment()) == []


def test_column_without_null_is_not_rewritten(tmp_path: Path) -> None:
    root = graph_at(tmp_path)
    files = opened(read_snapshot(root), PERSON).data_files()
    done = evolve(root, BASE.replace("age: I32? @index", "age: I32 @index @default(1)"))
    assert [(step.cost.value, step.filled_rows) for step in done.plan.steps] == [
        ("metadata_only", 0),
        ("reads_data", 0),
    ]
    assert opened(read_snapshot(root), PERSON).data_files() == files


def test_default_for_null_must_obey_existing_rules(tmp_path: Path) -> None:
    """Nulls are never duplicates, but defaults that replace them are."""
    text = BASE.replace("age: I32? @index", "age: I32? @index @unique")
    root = graph_at(tmp_path, populated=False)
    evolve(root, text)
    omnigraph.open(root.uri).mutate("""query add() {
      insert Person { slug: "a", mood: "sad", name: "a", age: 1 }
      insert Person { slug: "b", mood: "sad", name: "b" }
      insert Person { slug: "c", mood: "sad", name: "c" }
    }""")
    for default, broken in (("1", ["b", "c"]), ("2", ["c"])):
        with pytest.raises(SchemaRejectedError) as rejected:
            evolve(root, text.replace("age: I32? @index", f"age: I32 @index @default({default})"))
        assert [violation.file for violation in rejected.value.report.first] == [
            f"node:Person {name}" for name in broken
        ]
    omnigraph.open(root.uri).mutate('query m() { delete Person where slug = "b" }')
    evolve(root, text.replace("age: I32? @index", "age: I32 @index @default(2)"))
    assert {key: row["age"] for key, row in contents(root)[PERSON].items()} == {"a": 1, "c": 2}


def test_diff_and_feed_report_rows_that_got_a_default_for_null(tmp_path: Path) -> None:
    root = graph_at(tmp_path, populated=False)
    graph = omnigraph.open(root.uri)
    graph.mutate("""query add() {
      insert Person { slug: "a", mood: "sad", name: "a", age: 1 }  insert Person { slug: "b", mood: "sad", name: "b" }
    }""")
    head = graph.snapshot().head
    done = evolve(root, BASE.replace("age: I32? @index", "age: I32 @index @default(7)"))
    evolve(root, BASE)
    assert done.commit is not None
    for before, after, ages in ((head, done.commit.id, (None, 7)), (done.commit.id, head, (7, None))):
        (change,) = graph.diff(before, after)
        images = ((image or {})["data"].get("age") for image in (change.before, change.after))
        assert (change.id, *images) == ("b", *ages)
    steps = [
        [(step.planned.filled_rows, step.planned.step.kind) for step in commit.schema_steps]
        for commit in graph.changes(head).commits
    ]
    assert steps == [
        [(0, "update_metadata"), (1, "add_constraint")],
        [(0, "relax_nullability"), (0, "update_metadata")],
    ]


REJECTED = {
    "unique": ("mood: enum(glad, sad)", "mood: enum(glad, sad) @unique", ["node:Person c V402 mood"]),
    "unique with a default": (
        "mood:",
        "rank: I32 @default(1) @unique  mood:",
        ["node:Person b V402 rank", "node:Person c V402 rank"],
    ),
    "range": ("name: String @index }", "name: String @range(age, 2..) }", ["node:Person a V202 age"]),
    "check": ("name: String @index }", 'name: String @check(name, "[ab]") }', ["node:Person c V203 name"]),
    "required": ("age: I32? @index", "age: I32", ["node:Person c V101 age"]),
    "card": ("@card(0..5)", "@card(2..2)", ["edge:Knows a V403 from", "edge:Knows b V404 from"]),
}


@pytest.mark.parametrize("tasks", [False, True], ids=["driver", "tasks"])
@pytest.mark.parametrize(("old", "new", "expected"), REJECTED.values(), ids=REJECTED.keys())
def test_rows_that_break_a_new_rule(old: str, new: str, expected: list[str], tasks: bool, tmp_path: Path) -> None:
    """All of them are reported, and no file is left, whatever else the schema would have changed."""
    root = graph_at(tmp_path, populated=False)
    omnigraph.open(root.uri).mutate("""query add() {
      insert Person { slug: "a", age: 1, mood: "glad", name: "a" }
      insert Person { slug: "b", age: 2, mood: "sad", name: "b" }
      insert Person { slug: "c", mood: "sad", name: "c" }
      insert Knows { from: "a", to: "a" }  insert Knows { from: "a", to: "b" }  insert Knows { from: "a", to: "c" }
      insert Knows { from: "b", to: "c" }
    }""")
    create_branch(root, "dev", "tester", read_snapshot(root))
    files = all_files(root)
    text = BASE.replace(old, new).replace("since: Date?", "") + "node City { name: String @key }\n"
    for branch in (MAIN, "dev"):
        with pytest.raises(SchemaRejectedError) as rejected:
            evolve(root, text, branch, tasks=tasks)
        violations = [
            f"{violation.file} {violation.rule.code} {violation.property}" for violation in rejected.value.report.first
        ]
        assert sorted(violations) == expected
        assert rejected.value.report.total == len(expected)
        assert rejected.value.applied is not None
    assert all_files(root) == files


def test_equivalent_text_is_stored(tmp_path: Path) -> None:
    """`schema show` prints the newest text with its comments; the schema itself does not change."""
    root = graph_at(tmp_path)
    before = read_snapshot(root)
    text = "// a comment\n" + BASE.replace("node Company", "node   Company")
    done = evolve(root, text)
    now = read_snapshot(root)
    assert [planned.step.kind for planned in done.plan.steps] == ["update_text"]
    assert (now.schema.source, now.schema.hash) == (text, before.schema.hash)
    assert now.tables == before.tables
    assert evolve(root, text).commit is None


def test_ids_are_unique_across_branches(tmp_path: Path) -> None:
    root = graph_at(tmp_path, branch="dev")
    evolve(root, BASE.replace("age:", "a: I32?  age:") + "node Aa { a: I32 }\n", "dev")
    evolve(root, BASE.replace("age:", "b: I32?  age:") + "node Bb { b: I32 }\n")
    main, dev = (read_snapshot(root, branch).schema.catalog for branch in (MAIN, "dev"))
    added = [catalog.nodes[0].properties[-1].id for catalog in (main, dev)]
    types = [catalog.nodes[-1].id for catalog in (main, dev)]
    assert len(set(added)) == len(set(types)) == 2


def test_unsupported_change_leaves_no_file(tmp_path: Path) -> None:
    root = graph_at(tmp_path)
    files = all_files(root)
    text = BASE.replace("age: I32?", "age: String?").replace("since: Date?", "since: I64?")
    with pytest.raises(UnsupportedSchemaChangeError) as refused:
        evolve(root, text + "node City { name: String @key }\n")
    assert refused.value.code == "OG-DS-101"
    head, *listed = refused.value.render().splitlines()
    assert head == "2 changes are not supported"
    assert [line.split(":")[:2] for line in listed] == [
        ["  OG-DS-101 node", "Person.age"],
        ["  OG-DS-101 edge", "Knows.since"],
    ]
    assert "`graph.plan_schema()`" in refused.value.hint
    assert all_files(root) == files


def test_added_again_properties_have_no_old_values(tmp_path: Path) -> None:
    root = graph_at(tmp_path)
    before = contents(root)
    evolve(root, BASE.replace("age: I32? @index", "").replace("node Company { name: String @key }\n", ""))
    evolve(root, BASE)
    now = contents(root)
    assert now[COMPANY] == {}
    assert {row["age"] for row in now[PERSON].values()} == {None}
    omnigraph.open(root.uri).mutate('query m() { update Person set { age: 1 } where slug = "ada" }')
    assert {key: row["age"] for key, row in contents(root)[PERSON].items()} == {"ada": 1, "bob": None}
    commits = [commit.id for commit in omnigraph.open(root.uri).log(None)]
    assert snapshot_contents(read_commit_snapshot(root, commits[3])[0]) == before


def test_writes_and_queries_work_afterwards(tmp_path: Path) -> None:
    root = graph_at(tmp_path, indexed=True)
    graph = omnigraph.open(root.uri)
    head = graph.snapshot().head
    evolve(
        root,
        BASE.replace("age: I32? @index", "years: I32? @index @rename_from(age)  score: F64 @default(0.5)")
        .replace("edge Knows: Person -> Person", "edge Meets: Person -> Person @rename_from(Knows)")
        .replace("since: Date?", ""),
    )
    ensure_indices(root, MAIN, in_place)
    graph.mutate("""query add() {
      insert Person { slug: "eve", years: 3, mood: "glad", name: "Eve", score: 2.0 }
      insert Meets { from: "bob", to: "eve" }
    }""")
    query = "query q() { match { $p: Person  $p meets $q } return { $p.slug, $q.years, $q.score } order { $p.slug } }"
    assert graph.query(query).to_arrow().to_pylist() == [
        {"p.slug": "ada", "q.years": 7, "q.score": 0.5},
        {"p.slug": "bob", "q.years": 3, "q.score": 2.0},
    ]
    by_name = "query q() { match { $p: Person { years: 36 } } return { $p.name } }"
    assert graph.query(by_name).to_arrow().to_pylist() == [{"p.name": "Ada"}]
    then = "query q() { match { $p: Person  $p knows $q } return { $q.age } }"
    assert graph.query(then, as_of=head).to_arrow().to_pylist() == [{"q.age": 7}]
    with pytest.raises(OmnigraphError):
        graph.query(then)


def test_compaction_keeps_the_result_of_a_change(tmp_path: Path) -> None:
    root = graph_at(tmp_path, indexed=True)
    graph = omnigraph.open(root.uri)
    evolve(root, BASE.replace("age: I32? @index", 'years: I32? @index @rename_from(age)  n: String @default("n")'))
    graph.mutate('query m() { insert Person { slug: "eve", years: 3, mood: "sad", name: "Eve" } }')
    before = contents(root)
    optimize_all_tables(graph, OptimizeOptions(), in_place)
    assert len(opened(graph.snapshot(), PERSON).fragment_rows()) == 1
    assert contents(root) == before
    query = "query q() { match { $p: Person { years: 36 } } return { $p.n } }"
    assert graph.query(query).to_arrow().to_pylist() == [{"p.n": "n"}]


def test_branches_keep_their_older_schema(tmp_path: Path) -> None:
    root = graph_at(tmp_path, branch="dev")
    evolve(root, BASE.replace("age: I32? @index", "years: I32? @rename_from(age)"))
    dev = omnigraph.open(root.uri, "dev")
    dev.mutate('query add() { insert Person { slug: "eve", age: 3, mood: "glad", name: "Eve" } }')
    assert contents(root, "dev")[PERSON]["eve"]["age"] == 3
    assert "eve" not in contents(root)[PERSON]
    evolve(root, BASE.replace("age: I32? @index", "").replace("node Company { name: String @key }\n", ""), "dev")
    assert COMPANY in contents(root)
    assert contents(root)[PERSON]["ada"]["years"] == 36


def all_files(root: Location) -> set[str]:
    """Return every file of the graph except its locks."""
    return {entry.path for entry in ObjectStore(root).list("") if not entry.path.startswith("__locks/")}
