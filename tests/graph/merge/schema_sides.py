"""Two branches whose schemas diverge: a small graph, and what a side does to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.storage.location import Location, parse_location
from tests.maintenance.evolving import create, evolve

BASE = """\
node Person { slug: String @key  age: I64? @index  note: String? }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
"""
START = """query m() {
  insert Person { slug: "ada", age: 36, note: "n" }  insert Person { slug: "bob", age: 7 }
  insert Company { name: "Acme" }  insert Knows { from: "ada", to: "bob" }
}"""
UPDATE_BOB = 'query m() { update Person set { age: 8 } where slug = "bob" }'
ADD_CAT = 'query m() { insert Person { slug: "cat", age: 3 } }'
RENAMED = BASE.replace("age: I64?", "years: I64? @rename_from(age)")
RANKED = BASE.replace("note: String?", "note: String?  rank: I64 @default(1)")
NOTED = BASE.replace("note: String?", 'note: String @default("x")')
SCORED = BASE.replace("note: String?", "note: String?  score: F64?")
SCORE_ALL = "query m() { update Person set { score: 0.5 } where slug is not null }"
CITY = BASE + "node City { name: String @key }\nedge LivesIn: Person -> City\n"
ONLY_ADA = 'query m() { delete Knows where since is null  delete Person where slug = "bob" }'
AGELESS = BASE.replace("age: I64? @index", "")
TOWN = BASE + "node Town { name: String @key }\n"


@dataclass(frozen=True, slots=True)
class MergeSide:
    """What one branch does: a schema, if any, and then mutations in that schema."""

    schema: str | None = None
    mutations: tuple[str, ...] = ()
    first: str | None = None
    then: str | None = None

    def apply(self, root: Location, branch: str) -> None:
        if self.first is not None:
            omnigraph.open(root.uri, branch).mutate(self.first)
        if self.schema is not None:
            evolve(root, self.schema, branch)
        for mutation in self.mutations:
            omnigraph.open(root.uri, branch).mutate(mutation)
        if self.then is not None:
            evolve(root, self.then, branch)


def forked(tmp_path: Path) -> Location:
    """Create a graph with rows and its branch `dev`."""
    location = parse_location(str(tmp_path / "graph.omni"))
    create(location, BASE)
    omnigraph.open(location.uri).mutate(START)
    create_branch(location, "dev", "tester", read_snapshot(location))
    return location


def person(now: dict[str, dict[str, dict[str, Any]]], alias: str = "node:Person") -> dict[str, Any]:
    return {name: {key: value for key, value in row.items() if key != "slug"} for name, row in now[alias].items()}


ADA, BOB = {"age": 36, "note": "n"}, {"age": 7, "note": None}
