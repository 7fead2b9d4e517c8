"""Schema apply: every kind of step, on empty and populated types, on main and on a branch, indexed and not.

Whatever the step, the rows are those of before with the change, each table looks as its type says, the commit before
still shows what it showed, nothing else moved, and the next plan is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.branches import create_branch, source_snapshot
from omnigraph.graph.commit import World
from omnigraph.graph.schema_plan import SchemaRefusedError
from omnigraph.graph.snapshot import MAIN, read_commit_snapshot, read_snapshot
from omnigraph.maintenance.ensure_indices import ensure_indices
from omnigraph.maintenance.optimize import OptimizeOptions, optimize_all_tables
from omnigraph.maintenance.schema_apply import SchemaRejectedError
from omnigraph.schema import arrow_schema
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.graph.crash.observe import unsteady
from tests.maintenance.evolving import contents, create, evolve, opened, snapshot_contents
from tests.pipeline.in_place import in_place

BASE = """\
node Person { slug: String @key  age: I32? @index  mood: enum(glad, sad)  name: String @index }
node Company { name: String @key }
edge Knows: Person -> Person @card(0..5) { since: Date?  weight: F64? }
"""
ADD = """query add() {
  insert Person { slug: "ada", age: 36, mood: "glad", name: "Ada" }
  insert Person { slug: "bob", age: 7, mood: "sad", name: "Bob" }
  insert Company { name: "Acme" }
  insert Knows { from: "ada", to: "bob", weight: 0.5 }
}"""
Rows = dict[str, dict[str, Any]]
Contents = dict[str, Rows]


def same(before: Contents) -> Contents:
    return before


def columns(alias: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Contents], Contents]:
    return lambda before: {
        **before,
        alias: {key: change(dict(row)) for key, row in before[alias].items()},
    }


def renamed(row: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if name == old else name: value for name, value in row.items()}


@dataclass(frozen=True, slots=True)
class Case:
    """What replaces what in the base text, and what it makes of the rows."""

    old: str
    new: str
    after: Callable[[Contents], Contents] = same


PERSON, COMPANY, KNOWS = "node:Person", "node:Company", "edge:Knows"
CASES = {
    "add types": Case(
        "node Company",
        "node City { name: String @key }\nedge In: Person -> City { v: Vector(4)? @index }\nnode Company",
        lambda before: {**before, "node:City": {}, "edge:In": {}},
    ),
    "rename a type": Case(
        "node Company",
        "node Firm @rename_from(Company)",
        lambda before: {"node:Firm" if alias == COMPANY else alias: rows for alias, rows in before.items()},
    ),
    "rename a type and its column": Case(
        "node Company { name: String @key }",
        "node Firm @rename_from(Company) { title: String @key @rename_from(name)  size: I64 @default(1) }",
        lambda before: {
            **{alias: rows for alias, rows in before.items() if alias != COMPANY},
            "node:Firm": {key: {"title": key, "size": 1} for key in before[COMPANY]},
        },
    ),
    "add nullable properties": Case(
        "mood:",
        "tags: [String]?  photo: Blob?  v: Vector(4)? @index  mood:",
        columns(PERSON, lambda row: {**row, "tags": None, "photo": None, "v": None}),
    ),
    "add properties with defaults": Case(
        "mood:",
        'city: String? @default("Rome")  born: Date @default("2024-05-31")  mood:',
        columns(PERSON, lambda row: {**row, "city": "Rome", "born": date(2024, 5, 31)}),
    ),
    "rename properties": Case(
        "age: I32? @index",
        "years: I32? @index @rename_from(age)",
        columns(PERSON, lambda row: renamed(row, "age", "years")),
    ),
    "rename the key": Case(
        "slug: String @key",
        "handle: String @key @rename_from(slug)",
        columns(PERSON, lambda row: renamed(row, "slug", "handle")),
    ),
    "add an index": Case("weight: F64?", "weight: F64? @index"),
    "add rules": Case(
        "name: String @index }",
        'name: String @index @unique @unique(age, name) @range(age, 0..200) @check(name, "[A-Z][a-z]+") }',
    ),
    "require": Case("age: I32? @index", "age: I32 @index"),
    "tighten a cardinality": Case("@card(0..5)", "@card(1..1)"),
    "extend an enum": Case("enum(glad, sad)", "enum(glad, sad, calm)"),
    "relax": Case("name: String @index }", "name: String? @index }"),
    "relax beside a default": Case(
        "name: String @index }",
        "name: String? @index  score: F32 @default(0.5) }",
        columns(PERSON, lambda row: {**row, "score": 0.5}),
    ),
    "note": Case("node Company", 'node Company @description("a firm")'),
    "drop properties": Case(
        "age: I32? @index  mood: enum(glad, sad)",
        "",
        columns(PERSON, lambda row: {name: row[name] for name in ("slug", "name")}),
    ),
    "drop a type": Case(
        "node Company { name: String @key }\n",
        "",
        lambda before: {alias: rows for alias, rows in before.items() if alias != COMPANY},
    ),
    "drop an edge and a node": Case(
        BASE,
        "node Company { name: String @key }\n",
        lambda before: {COMPANY: before[COMPANY]},
    ),
}


def graph_at(place: Path, *, populated: bool = True, indexed: bool = False, branch: str = MAIN) -> Location:
    root = parse_location(str(place / "graph.omni"))
    create(root, BASE)
    if populated:
        omnigraph.open(root.uri).mutate(ADD)
    if indexed:
        ensure_indices(root, MAIN, in_place)
    if branch != MAIN:
        create_branch(root, branch, "tester", source_snapshot(root))
    return root


VARIANTS: dict[str, dict[str, Any]] = {
    "main": {"branch": MAIN},
    "indexed, on a branch": {"indexed": True, "branch": "dev"},
    "empty": {"populated": False},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_step(case: Case, variant: str, tmp_path: Path) -> None:
    how = VARIANTS[variant]
    branch = how.get("branch", MAIN)
    root = graph_at(tmp_path, **how)
    before, head = contents(root, branch), read_snapshot(root, branch).head
    assert BASE.count(case.old) == 1
    text = BASE.replace(case.old, case.new)
    done = evolve(root, text, branch)
    now = read_snapshot(root, branch)
    assert done.commit is not None
    assert (now.head, now.schema.source, now.schema.hash) == (done.commit.id, text, done.commit.schema_hash)
    assert contents(root, branch) == case.after(before)
    for entity in now.schema.catalog.types:
        assert columns_of(opened(now, entity.alias).schema) == columns_of(arrow_schema(entity))
        assert now.tables[entity.alias].row_count == len(case.after(before)[entity.alias])
    assert len(now.tables) == len(now.schema.catalog.types)
    assert snapshot_contents(read_commit_snapshot(root, head, branch)[0]) == before
    assert unsteady(root, World()) == []
    if branch != MAIN:
        assert contents(root) == before
        assert read_snapshot(root).head == head
    again = evolve(root, text, branch)
    assert (again.plan.steps, again.commit) == ((), None)


@pytest.mark.parametrize("name", ["add properties with defaults", "add rules", "tighten a cardinality"])
def test_tasks_do_the_same(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    root = graph_at(tmp_path)
    more = "".join(
        f'insert Person {{ slug: "p{n}", age: {n}, mood: "sad", name: "P{"abcde"[n]}" }} ' for n in range(5)
    )
    omnigraph.open(root.uri).mutate(f"query more() {{ {more} }}")
    before = contents(root)
    evolve(root, BASE.replace(case.old, case.new), tasks=True)
    assert contents(root) == case.after(before)


REJECTED = {
    "unique": ("mood: enum(glad, sad)", "mood: enum(glad, sad) @unique", ["node:Person c V402 mood"]),
    "unique with a default": (
        "mood:",
        "rank: I32 @default(1) @unique  mood:",
        ["node:Person b V402 rank", "node:Person c V402 rank"],
    ),
    "range": ("name: String @index }", "name: String @range(age, 2..) }", ["node:Person a V202 age"]),
    "check": (
        "name: String @index }",
        'name: String @check(name, "[ab]") }',
        ["node:Person c V203 name"],
    ),
    "required": ("age: I32? @index", "age: I32", ["node:Person c V101 age"]),
    "card": ("@card(0..5)", "@card(2..2)", ["edge:Knows a V403 from", "edge:Knows b V404 from"]),
}


@pytest.mark.parametrize("tasks", [False, True], ids=["driver", "tasks"])
@pytest.mark.parametrize(("old", "new", "found"), REJECTED.values(), ids=REJECTED.keys())
def test_rows_that_break_a_new_rule(
    old: str, new: str, found: list[str], tasks: bool, tmp_path: Path
) -> None:
    """All of them are told, and nothing is left behind, however much else the schema would have changed."""
    root = graph_at(tmp_path, populated=False)
    omnigraph.open(root.uri).mutate("""query add() {
      insert Person { slug: "a", age: 1, mood: "glad", name: "a" }
      insert Person { slug: "b", age: 2, mood: "sad", name: "b" }
      insert Person { slug: "c", mood: "sad", name: "c" }
      insert Knows { from: "a", to: "a" }  insert Knows { from: "a", to: "b" }  insert Knows { from: "a", to: "c" }
      insert Knows { from: "b", to: "c" }
    }""")
    create_branch(root, "dev", "tester", source_snapshot(root))
    files = everything(root)
    text = BASE.replace(old, new).replace("since: Date?", "") + "node City { name: String @key }\n"
    for branch in (MAIN, "dev"):
        with pytest.raises(SchemaRejectedError) as rejected:
            evolve(root, text, branch, tasks=tasks)
        told = [f"{one.file} {one.rule.code} {one.property}" for one in rejected.value.report.first]
        assert sorted(told) == found
        assert rejected.value.report.total == len(found)
        assert rejected.value.applied is not None
    assert everything(root) == files


def test_what_is_unsupported_leaves_nothing_behind(tmp_path: Path) -> None:
    root = graph_at(tmp_path)
    files = everything(root)
    with pytest.raises(SchemaRefusedError) as refused:
        evolve(root, BASE.replace("age: I32?", "age: String?") + "node City { name: String @key }\n")
    assert refused.value.code == "OG-DS-101"
    assert everything(root) == files


def test_what_comes_back_never_shows_what_was(tmp_path: Path) -> None:
    root = graph_at(tmp_path)
    before = contents(root)
    evolve(root, BASE.replace("age: I32? @index", "").replace("node Company { name: String @key }\n", ""))
    evolve(root, BASE)
    now = contents(root)
    assert now[COMPANY] == {}
    assert {row["age"] for row in now[PERSON].values()} == {None}
    omnigraph.open(root.uri).mutate('query m() { update Person set { age: 1 } where slug = "ada" }')
    assert {key: row["age"] for key, row in contents(root)[PERSON].items()} == {"ada": 1, "bob": None}
    commits = [commit.id for commit in omnigraph.open(root.uri).commits()]
    assert snapshot_contents(read_commit_snapshot(root, commits[3])[0]) == before


def test_writing_and_querying_go_on(tmp_path: Path) -> None:
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
    asked = "query q() { match { $p: Person  $p meets $q } return { $p.slug, $q.years, $q.score } order { $p.slug } }"
    assert graph.query(asked).arrow().to_pylist() == [
        {"p.slug": "ada", "q.years": 7, "q.score": 0.5},
        {"p.slug": "bob", "q.years": 3, "q.score": 2.0},
    ]
    by_name = "query q() { match { $p: Person { years: 36 } } return { $p.name } }"
    assert graph.query(by_name).arrow().to_pylist() == [{"p.name": "Ada"}]
    then = "query q() { match { $p: Person  $p knows $q } return { $q.age } }"
    assert graph.query(then, commit=head).arrow().to_pylist() == [{"q.age": 7}]
    with pytest.raises(OmnigraphError):
        graph.query(then)


def test_compaction_keeps_what_a_change_made(tmp_path: Path) -> None:
    root = graph_at(tmp_path, indexed=True)
    graph = omnigraph.open(root.uri)
    evolve(
        root,
        BASE.replace("age: I32? @index", 'years: I32? @index @rename_from(age)  n: String @default("n")'),
    )
    graph.mutate('query m() { insert Person { slug: "eve", years: 3, mood: "sad", name: "Eve" } }')
    before = contents(root)
    optimize_all_tables(graph, OptimizeOptions(), in_place)
    assert len(opened(graph.snapshot(), PERSON).fragment_rows()) == 1
    assert contents(root) == before
    asked = "query q() { match { $p: Person { years: 36 } } return { $p.n } }"
    assert graph.query(asked).arrow().to_pylist() == [{"p.n": "n"}]


def test_branches_of_an_older_schema_keep_theirs(tmp_path: Path) -> None:
    root = graph_at(tmp_path, branch="dev")
    evolve(root, BASE.replace("age: I32? @index", "years: I32? @rename_from(age)"))
    dev = omnigraph.open(root.uri, "dev")
    dev.mutate('query add() { insert Person { slug: "eve", age: 3, mood: "glad", name: "Eve" } }')
    assert contents(root, "dev")[PERSON]["eve"]["age"] == 3
    assert "eve" not in contents(root)[PERSON]
    evolve(
        root, BASE.replace("age: I32? @index", "").replace("node Company { name: String @key }\n", ""), "dev"
    )
    assert COMPANY in contents(root)
    assert contents(root)[PERSON]["ada"]["years"] == 36


def columns_of(schema: pa.Schema) -> list[tuple[str, bool, bytes | None]]:
    """Names, nullability and identities; Lance shows the type of a blob in another way than it takes it."""
    return [(one.name, one.nullable, (one.metadata or {}).get(b"omnigraph:property_id")) for one in schema]


def everything(root: Location) -> set[str]:
    """Every file of the graph but for its locks."""
    return {entry.path for entry in ObjectStore(root).list("") if not entry.path.startswith("__locks/")}
