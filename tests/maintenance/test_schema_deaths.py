"""A crash at every durable call of a schema change with all kinds of steps: the graph is as before or as after."""

from __future__ import annotations

from contextlib import suppress

import pytest

import omnigraph
from omnigraph.engine.mutation.text import MutationOptions, run_mutation_text
from omnigraph.engine.prepare import QuerySource
from omnigraph.graph.manifest.requirements import ReadSetConflictError
from omnigraph.graph.manifest.snapshot import read_commit_snapshot, read_snapshot
from omnigraph.storage.location import Location
from tests.graph.crash.death import PatientClock, Victim, short_lease_environment
from tests.graph.crash.observe import find_leftovers
from tests.maintenance.evolving import contents, create, evolve, snapshot_contents

BEFORE = """\
node Person { slug: String @key  age: I64? }
node Company { name: String @key }
node Old { name: String @key }
edge Knows: Person -> Person { since: Date? }
"""
AFTER = """\
node Human @rename_from(Person) { slug: String @key  years: I64? @rename_from(age)  note: String @default("n") }
node Firm @rename_from(Company) { name: String @key }
node City { name: String @key }
edge Knows: Human -> Human
"""
# The new column is written, the table of a new type is created, two leases are taken, the intent is written, two tables
# are committed, the manifest is staged and published, the intent is deleted, and the leases are released.
CALLS = 14
SHORT = frozenset({7, 8, 9, 10, 11, 12, CALLS + 1})


@pytest.mark.parametrize(
    "k", [pytest.param(k, marks=() if k in SHORT else (pytest.mark.soak,)) for k in range(1, CALLS + 2)]
)
def test_graph_is_as_before_or_after_a_crash_at_any_call(local_location: Location, k: int) -> None:
    root = local_location
    create(root, BEFORE)
    omnigraph.open(root.uri).mutate("""query m() {
      insert Person { slug: "a", age: 1 }  insert Company { name: "c" }  insert Old { name: "o" }
      insert Knows { from: "a", to: "a" }
    }""")
    before, head = contents(root), read_snapshot(root).head
    victim = Victim(k)
    survived = victim.run(lambda: evolve(root, AFTER, environment=short_lease_environment(PatientClock())))
    assert (survived, len(victim.done)) == (k > CALLS, min(k - 1, CALLS))
    # The next writer recovers, which finishes or undoes the change; in both cases its own read set has changed.
    for _ in range(2):
        with suppress(ReadSetConflictError):
            evolve(root, AFTER, environment=short_lease_environment(PatientClock()))
    insert = QuerySource('query m() { insert City { name: "x" } }')
    options = MutationOptions(actor="tester", environment=short_lease_environment(PatientClock()))
    run_mutation_text(root, insert, None, options)
    now = contents(root)
    assert {alias: rows for alias, rows in now.items() if alias != "edge:Knows"} == {
        "node:Human": {"a": {"slug": "a", "years": 1, "note": "n"}},
        "node:Firm": {"c": {"name": "c"}},
        "node:City": {"x": {"name": "x"}},
    }
    assert [list(row) for row in now["edge:Knows"].values()] == [["src", "dst"]]
    operations = [commit.operation.value for commit in omnigraph.open(root.uri, read_only=True).log(None)]
    assert operations.count("schema_apply") == 1
    assert snapshot_contents(read_commit_snapshot(root, head)[0]) == before
    left = find_leftovers(root, short_lease_environment(PatientClock()))
    assert [text for text in left if "locked" not in text] == []
