"""Every kind of schema step, as a change of the schema text and of the rows, and a graph for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.optimize.run import ensure_indices
from omnigraph.storage.location import Location, parse_location
from tests.maintenance.evolving import create
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
    return lambda before: {**before, alias: {key: change(dict(row)) for key, row in before[alias].items()}}


def renamed(row: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if name == old else name: value for name, value in row.items()}


@dataclass(frozen=True, slots=True)
class SchemaCase:
    """A replacement in the base schema, and the rows after it."""

    old: str
    new: str
    after: Callable[[Contents], Contents] = same
    hard: bool = False


PERSON, COMPANY, KNOWS = "node:Person", "node:Company", "edge:Knows"
CASES = {
    "add types": SchemaCase(
        "node Company",
        "node City { name: String @key }\nedge In: Person -> City { v: Vector(4)? @index }\nnode Company",
        lambda before: {**before, "node:City": {}, "edge:In": {}},
    ),
    "rename a type": SchemaCase(
        "node Company",
        "node Firm @rename_from(Company)",
        lambda before: {"node:Firm" if alias == COMPANY else alias: rows for alias, rows in before.items()},
    ),
    "rename a type and its column": SchemaCase(
        "node Company { name: String @key }",
        "node Firm @rename_from(Company) { title: String @key @rename_from(name)  size: I64 @default(1) }",
        lambda before: {
            **{alias: rows for alias, rows in before.items() if alias != COMPANY},
            "node:Firm": {key: {"title": key, "size": 1} for key in before[COMPANY]},
        },
    ),
    "add nullable properties": SchemaCase(
        "mood:",
        "tags: [String]?  photo: Blob?  v: Vector(4)? @index  mood:",
        columns(PERSON, lambda row: {**row, "tags": None, "photo": None, "v": None}),
    ),
    "add properties with defaults": SchemaCase(
        "mood:",
        'city: String? @default("Rome")  born: Date @default("2024-05-31")  mood:',
        columns(PERSON, lambda row: {**row, "city": "Rome", "born": date(2024, 5, 31)}),
    ),
    "rename properties": SchemaCase(
        "age: I32? @index",
        "years: I32? @index @rename_from(age)",
        columns(PERSON, lambda row: renamed(row, "age", "years")),
    ),
    "rename the key": SchemaCase(
        "slug: String @key",
        "handle: String @key @rename_from(slug)",
        columns(PERSON, lambda row: renamed(row, "slug", "handle")),
    ),
    "add an index": SchemaCase("weight: F64?", "weight: F64? @index"),
    "add rules": SchemaCase(
        "name: String @index }",
        'name: String @index @unique @unique(age, name) @range(age, 0..200) @check(name, "[A-Z][a-z]+") }',
    ),
    "require": SchemaCase("age: I32? @index", "age: I32 @index"),
    "require with a default": SchemaCase(
        "since: Date?  weight: F64?",
        'since: Date @default("2024-05-31")  weight: F64 @default(2.5)',
        columns(KNOWS, lambda row: {**row, "since": date(2024, 5, 31)}),
    ),
    "require and rename with a default, with other steps": SchemaCase(
        "since: Date?  weight: F64?",
        'weight: F64 @default(2.5)  on: Date @default("2024-05-31") @rename_from(since)  n: I64 @default(1)',
        columns(KNOWS, lambda row: {**renamed(row, "since", "on"), "on": date(2024, 5, 31), "n": 1}),
    ),
    "tighten a cardinality": SchemaCase("@card(0..5)", "@card(1..1)"),
    "extend an enum": SchemaCase("enum(glad, sad)", "enum(glad, sad, calm)"),
    "relax": SchemaCase("name: String @index }", "name: String? @index }"),
    "relax together with a default": SchemaCase(
        "name: String @index }",
        "name: String? @index  score: F32 @default(0.5) }",
        columns(PERSON, lambda row: {**row, "score": 0.5}),
    ),
    "note": SchemaCase("node Company", 'node Company @description("a firm")'),
    "drop properties": SchemaCase(
        "age: I32? @index  mood: enum(glad, sad)",
        "",
        columns(PERSON, lambda row: {name: row[name] for name in ("slug", "name")}),
    ),
    "drop a type": SchemaCase(
        "node Company { name: String @key }\n",
        "",
        lambda before: {alias: rows for alias, rows in before.items() if alias != COMPANY},
    ),
    "drop an edge and a node": SchemaCase(
        BASE, "node Company { name: String @key }\n", lambda before: {COMPANY: before[COMPANY]}
    ),
}
CASES |= {
    f"{name}, hard": replace(CASES[name], hard=True)
    for name in ("drop properties", "drop a type", "drop an edge and a node")
}


def graph_at(place: Path | Location, *, populated: bool = True, indexed: bool = False, branch: str = MAIN) -> Location:
    root = place if isinstance(place, Location) else parse_location(str(place / "graph.omni"))
    create(root, BASE)
    if populated:
        opened_at(root).mutate(ADD)
    if indexed:
        ensure_indices(root, MAIN, in_place)
    if branch != MAIN:
        create_branch(root, branch, "tester", read_snapshot(root))
    return root


def opened_at(root: Location, branch: str = MAIN) -> omnigraph.Graph:
    return omnigraph.open(root.uri, branch, storage_options=dict(root.options), actor="tester")
