"""Old commits with their own schema: queries, exports and differences across schema changes; and what a plan reads.

On S3 everything once: plan, soft and hard apply, branches, merge, time travel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.api.graph import Graph
from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest import reader as manifest
from omnigraph.graph.manifest.refs import SnapshotSelector
from omnigraph.graph.manifest.snapshot import MAIN, read_commit_snapshot, read_snapshot
from omnigraph.maintenance.optimize.run import ensure_indices
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.indexes import read_indexes
from omnigraph.storage.location import Location, parse_location
from tests.maintenance.evolving import contents, create, evolve, opened, snapshot_contents
from tests.pipeline.exporting import export_here, lines
from tests.pipeline.in_place import in_place

BASE = """\
node Person { slug: String @key  age: I64? @index }
node Company { name: String @key }
"""
RENAMED = """\
node Human @rename_from(Person) { slug: String @key  years: I64? @index @rename_from(age) }
node Company { name: String @key }
"""
START = 'query m() { insert Person { slug: "ada", age: 36 }  insert Company { name: "Acme" } }'
UPDATE = 'query m() { update Human set { years: 37 } where slug = "ada" }'


@pytest.fixture
def root(tmp_path: Path) -> Location:
    location = parse_location(str(tmp_path / "graph.omni"))
    create(location, BASE)
    omnigraph.open(location.uri).mutate(START)
    return location


def test_export_of_an_old_commit_has_its_names(root: Location, tmp_path: Path) -> None:
    head = omnigraph.open(root.uri).snapshot().head
    evolve(root, RENAMED.replace("node Company { name: String @key }\n", ""))
    export_here(root, tmp_path / "then.jsonl", selector=SnapshotSelector(commit=head))
    export_here(root, tmp_path / "now.jsonl")
    person = {"type": "Person", "data": {"id": "ada", "slug": "ada", "age": 36}}
    company = {"type": "Company", "data": {"id": "Acme", "name": "Acme"}}
    assert lines(tmp_path / "then.jsonl") == [person, company]
    human = {"type": "Human", "data": {"id": "ada", "slug": "ada", "years": 36}}
    assert lines(tmp_path / "now.jsonl") == [human]


def test_query_of_an_old_commit_uses_its_schema(root: Location) -> None:
    graph = omnigraph.open(root.uri)
    head = graph.snapshot().head
    evolve(root, RENAMED)
    then = "query q() { match { $p: Person } return { $p.age } }"
    now = "query q() { match { $p: Human } return { $p.years } }"
    assert graph.query(then, as_of=head).to_arrow().to_pylist() == [{"p.age": 36}]
    assert graph.query(now).to_arrow().to_pylist() == [{"p.years": 36}]
    for text, commit in ((then, None), (now, head)):
        with pytest.raises(OmnigraphError):
            graph.query(text, as_of=commit)


def test_differences_follow_property_ids(root: Location) -> None:
    graph = omnigraph.open(root.uri)
    start = graph.snapshot().head
    evolve(root, RENAMED)
    graph.mutate(UPDATE)
    renamed, updated = ([*block.changes] for block in graph.changes(start).commits)
    assert renamed == []
    assert [(change.before or {})["data"]["years"] for change in updated] == [36]
    (change,) = graph.diff(start, graph.snapshot().head)
    assert (change.before or {})["data"] == {"id": "ada", "slug": "ada", "years": 36}
    assert (change.after or {})["data"] == {"id": "ada", "slug": "ada", "years": 37}


@pytest.mark.parametrize("is_added", [True, False])
def test_added_or_dropped_type_is_a_difference_of_its_rows(root: Location, is_added: bool) -> None:
    graph = omnigraph.open(root.uri)
    start = graph.snapshot().head
    if is_added:
        evolve(root, BASE + "node City { name: String @key }\n")
        graph.mutate('query m() { insert City { name: "c" } }')
    else:
        evolve(root, BASE.replace("node Company { name: String @key }\n", ""))
    (change,) = graph.diff(start, graph.snapshot().head)
    assert (change.before is None, change.after is None) == (is_added, not is_added)


def test_index_keeps_its_column_and_another_gets_its_own_name(root: Location) -> None:
    graph = omnigraph.open(root.uri)
    ensure_indices(root, MAIN, in_place)
    evolve(root, BASE.replace("age: I64? @index", "years: I64? @index @rename_from(age)"))
    evolve(root, BASE.replace("age: I64? @index", "years: I64? @index  age: I64? @index"))
    graph.mutate('query m() { insert Person { slug: "bob", years: 9, age: 7 } }')
    ensure_indices(root, MAIN, in_place)
    columns = {index.name: index.column for index in read_indexes(opened(graph.snapshot(), "node:Person"))}
    assert columns == {"id_btree": "id", "slug_btree": "slug", "age_btree": "years", "age_btree_2": "age"}
    for asked, slug in (("years: 36", "ada"), ("years: 9", "bob"), ("age: 7", "bob")):
        text = f"query q() {{ match {{ $p: Person {{ {asked} }} }} return {{ $p.slug }} }}"
        assert graph.query(text).to_arrow().to_pylist() == [{"p.slug": slug}]


def test_plan_reads_one_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest is opened at most once on main and twice on a branch, for any number of types and branches."""
    text = "\n".join(f"node N{number} {{ a: I32? }}" for number in range(200))
    location = parse_location(str(tmp_path / "graph.omni"))
    create(location, text)
    create_branch(location, "dev", "tester", read_snapshot(location))
    opens: list[str] = []

    def counted(dataset: Location, **options: Any) -> Dataset:
        opens.append(dataset.uri)
        return open_dataset(dataset, **options)

    monkeypatch.setattr(manifest, "open_dataset", counted)
    for branch, opens_max in ((MAIN, 1), ("dev", 2)):
        opens.clear()
        plan = Graph(location, branch=branch, read_only=True).plan_schema(text.replace("a: I32?", "a: I32? @index"))
        assert len(plan.steps) == 200
        assert len(opens) <= opens_max


@pytest.mark.soak
def test_everything_on_s3(s3_location: Location) -> None:
    create(s3_location, BASE)
    graph = Graph(s3_location)
    graph.mutate(START)
    head = graph.snapshot().head
    create_branch(s3_location, "dev", "tester", read_snapshot(s3_location))
    assert [step.step.kind for step in graph.plan_schema(RENAMED).steps] == ["rename_type", "rename_property"]
    evolve(s3_location, RENAMED)
    graph.mutate(UPDATE)
    more = BASE.replace("age: I64? @index", "age: I64? @index  rank: I64 @default(1)")
    evolve(s3_location, more + "node City { name: String @key }\n", "dev", tasks=True)
    Graph(s3_location, branch="dev").mutate(
        'query m() { insert Person { slug: "bob", rank: 2 }  insert City { name: "c" } }'
    )
    graph.merge("dev")
    now = contents(s3_location)
    assert {name: (row["years"], row["rank"]) for name, row in now["node:Human"].items()} == {
        "ada": (37, 1),
        "bob": (None, 2),
    }
    assert list(now["node:City"]) == ["c"]
    evolve(s3_location, RENAMED, tasks=True, hard=True)
    assert "rank" not in contents(s3_location)["node:Human"]["bob"]
    then = snapshot_contents(read_commit_snapshot(s3_location, head)[0])
    assert then["node:Person"] == {"ada": {"slug": "ada", "age": 36}}
    with pytest.raises(OmnigraphError):
        evolve(s3_location, RENAMED.replace("years: I64?", "years: String?"))


def test_diff_of_branches_with_another_order_of_properties(tmp_path: Path) -> None:
    base = "node P { slug: String @key%s }\n"
    root = parse_location(str(tmp_path / "graph.omni"))
    create(root, base % "")
    graph = omnigraph.open(root.uri)
    graph.mutate('query m() { insert P { slug: "a" } }')
    for name, added in (("one", "  p: String?"), ("two", "  q: String?"), ("other", "")):
        create_branch(root, name, "tester", read_snapshot(root))
        if added:
            evolve(root, base % added, name)
    omnigraph.open(root.uri, "one").mutate('query m() { update P set { p: "pp" } where slug = "a" }')
    for into, source in (("main", "one"), ("main", "two"), ("other", "two"), ("other", "one")):
        omnigraph.open(root.uri, into).merge(source)
    omnigraph.open(root.uri, "other").mutate('query m() { update P set { q: "qq" } where slug = "a" }')
    (change,) = graph.diff("main", "other")
    assert change.before is not None
    assert change.after is not None
    assert change.before["data"] == {"id": "a", "slug": "a", "p": "pp"}
    assert change.after["data"] == {"id": "a", "slug": "a", "p": "pp", "q": "qq"}
