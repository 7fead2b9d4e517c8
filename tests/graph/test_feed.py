"""The change feed: complete commits, at least once, with rows before and after, and an error for a gap."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.base.errors import RefusedError
from omnigraph.base.ids import CommitId
from omnigraph.graph.feed import ChangeFeedGapError, read_feed
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.schema_apply import SchemaRequest, apply_schema
from omnigraph.storage.location import Location
from tests.graph.writers import KNOWS, PERSON, Change, create, run, run_compaction, triple
from tests.graph.writers import SCHEMA as SCHEMA_OF_WRITERS
from tests.pipeline.in_place import in_place

SCHEMA = """\
node Thing { name: String @key  tags: [String]?  weight: F64?  at: DateTime?  data: Blob?  vector: Vector(2)? }
"""


def read_changes(location: Location, cursor: str | None = None) -> list[tuple[str, list[tuple[str, str]]]]:
    feed = read_feed(location, cursor=cursor)
    return [
        (commit.commit.operation, [(change.kind.value, change.id) for change in commit.changes])
        for commit in feed.commits
    ]


def test_cursor_returns_the_same_commits_again(durable_location: Location) -> None:
    create(durable_location)
    first = read_snapshot(durable_location).head
    run(durable_location, [Change(PERSON, upsert=(("b", 1), ("a", 1)))])
    cursor = read_snapshot(durable_location).head
    run(durable_location, [Change(PERSON, upsert=(("a", 2),)), Change(KNOWS, upsert=(("a", 3),))])
    run_compaction(durable_location, [PERSON])
    run(durable_location, [Change(PERSON, delete=("b",))])
    later = [("load", [("updated", "a"), ("inserted", "a")]), ("optimize", []), ("load", [("deleted", "b")])]
    for _ in range(2):
        assert read_changes(durable_location, cursor) == later
    assert read_changes(durable_location, first) == [("load", [("inserted", "a"), ("inserted", "b")]), *later]
    assert read_changes(durable_location)[0] == ("init", [])
    assert read_changes(durable_location, read_snapshot(durable_location).head) == []


def test_pages_have_no_gap_and_no_overlap(local_location: Location) -> None:
    create(local_location)
    for number in range(5):
        run(local_location, triple([f"n{number}"]))
    cursor, seen = None, []
    for _ in range(9):
        page = read_feed(local_location, cursor=cursor, limit=2)
        seen += [commit.commit.id for commit in page.commits]
        cursor = page.cursor
        if not page.has_more:
            break
    assert seen == [commit.commit.id for commit in read_feed(local_location).commits]
    assert len(seen) == 6


def test_unknown_cursor_is_a_gap(local_location: Location) -> None:
    create(local_location)
    cursor = CommitId("01KA1F0Z5Q8W9V3N7R2T4Y6B8D")
    with pytest.raises(ChangeFeedGapError) as gap:
        read_feed(local_location, cursor=cursor)
    assert gap.value.code == "change_feed_gap"
    assert gap.value.facts["change_feed_gap"] == {"cursor": cursor, "first_unreadable_commit_id": cursor}


def test_first_commit_has_no_diff(local_location: Location) -> None:
    """The feed still has it, as a commit without changes."""
    create(local_location)
    first = read_snapshot(local_location).head
    with pytest.raises(RefusedError) as refused:
        og.open(local_location.uri).diff(first)
    refusal = {"reason": "parentless_commit", "graph_commit_id": first}
    assert (refused.value.code, refused.value.facts) == ("commit_is_first", {"change_diff_refusal": refusal})
    assert read_changes(local_location) == [("init", [])]


@pytest.mark.parametrize("part", ["__manifest/_versions", "nodes"])
def test_deleted_state_is_a_gap(part: str, local_location: Location) -> None:
    """Whether the version of the manifest or of the table was deleted, as after cleanup."""
    create(local_location)
    run(local_location, [Change(PERSON, upsert=(("a", 1),))])
    cursor = read_snapshot(local_location).head
    run(local_location, [Change(PERSON, upsert=(("a", 2),))])
    for versions in Path(local_location.uri).glob(f"{part}/**/_versions" if part == "nodes" else part):
        for old in _old_manifests(versions):
            old.unlink()
    with pytest.raises(ChangeFeedGapError) as gap:
        read_feed(local_location, cursor=cursor)
    document = gap.value.facts["change_feed_gap"]
    assert isinstance(document, dict)
    assert document["cursor"] == cursor


def test_page_ends_before_a_gap(local_location: Location) -> None:
    """A property that was dropped with its values is a gap, as a deleted state is."""
    create(local_location)
    cursor = read_snapshot(local_location).head
    run(local_location, [Change(PERSON, upsert=(("a", 1),))])
    readable = read_snapshot(local_location).head
    apply(local_location, SCHEMA_OF_WRITERS.replace("age: I64?", ""))
    page = read_feed(local_location, cursor=cursor)
    assert ([commit.commit.id for commit in page.commits], page.cursor, page.has_more) == ([readable], readable, True)
    with pytest.raises(ChangeFeedGapError, match="lost the property age with its values"):
        read_feed(local_location, cursor=page.cursor)
    later = read_snapshot(local_location).head
    assert list(read_feed(local_location, cursor=later).commits) == []


@pytest.mark.parametrize("hard", [False, True])
def test_drop_is_reported_as_hard_or_soft(hard: bool, local_location: Location) -> None:
    og.init(local_location.uri, "node A { k: String @key }  node B { k: String @key  n: I32? }")
    cursor = read_snapshot(local_location).head
    request = SchemaRequest(source="node B { k: String @key }", actor="tester", hard=hard)
    apply_schema(local_location, MAIN, request, in_place)
    (changes,) = read_feed(local_location, cursor=cursor).commits
    mode = "hard" if hard else "soft"
    assert [step.planned.step.describe() for step in changes.schema_steps] == [
        f"drop type node:A [{mode}]", f"drop property node:B.n [{mode}]",
    ]  # fmt: skip


FLOWS = (
    ("age: I64?", "age: I64?  nick: String?"),
    ("age: I64?", "years: I64? @rename_from(age)"),
    ("node Company", "node Firm @rename_from(Company)"),
    ("node Firm", "node City { name: String @key }\nnode Firm"),
    ("nick: String?", "nick: String? @index"),
    ("nick: String?", 'nick: String? @default("x") @description("d")'),
    ("years: I64?", "@range(years, 0..9)  years: I64"),
    ("0..9", "0..99"),
    ("years: I64", "years: I64?"),
    ("since: I64?", ""),
    ("node Firm @rename_from(Company) { name: String @key @index }\n", ""),
)
"""A nullable property, renames, a type, an index, a description and a default for later rows, new and relaxed rules,
and drops of properties without values and types without rows."""


def test_schema_change_without_row_changes_has_no_changes(local_location: Location) -> None:
    """Rows have the names of their time, also across several changes of the schema."""
    create(local_location)
    run(local_location, [Change(PERSON, upsert=(("a", 1),)), Change(KNOWS, insert=("a",))])
    start = read_snapshot(local_location).head
    text = SCHEMA_OF_WRITERS
    for old, new in FLOWS:
        assert old in text
        text = text.replace(old, new)
        apply(local_location, text)
    graph = og.open(local_location.uri)
    graph.mutate('query m() { update Person set { years: 2 } where slug = "a" }')
    changes = read_changes(local_location, start)
    assert [changes_of_commit for _, changes_of_commit in changes] == [[]] * len(FLOWS) + [[("updated", "a")]]
    (change,) = graph.diff(start, MAIN)
    assert (change.before, change.after) == (
        {"type": "Person", "data": {"id": "a", "slug": "a", "years": 1}},
        {"type": "Person", "data": {"id": "a", "slug": "a", "years": 2}},
    )


def test_property_with_a_default_changes_every_row(local_location: Location) -> None:
    create(local_location)
    run(local_location, [Change(PERSON, upsert=(("a", 1), ("b", 2)))])
    start = read_snapshot(local_location).head
    ranked = SCHEMA_OF_WRITERS.replace("age: I64?", "age: I64?  rank: I64 @default(7)")
    apply(local_location, ranked)
    apply(local_location, ranked.replace("(7)", "(8)"))
    assert read_changes(local_location, start) == [
        ("schema_apply", [("updated", "a"), ("updated", "b")]),
        ("schema_apply", []),
    ]
    first, _ = og.open(local_location.uri).diff(start, MAIN)
    assert first.before == {"type": "Person", "data": {"id": "a", "slug": "a", "age": 1}}
    assert first.after == {"type": "Person", "data": {"id": "a", "slug": "a", "age": 1, "rank": 7}}


P = "node P { slug: String @key  a: I64? }\n"
X = "node X { slug: String @key }\n"


@pytest.mark.parametrize(
    ("schemas", "write", "steps"),
    [
        ((X, X + P), 'insert P { slug: "1", a: 9 }', ["drop_type", "add_type"]),
        (
            (P, P.replace("P", "X @rename_from(P)").replace("a:", "b: I64? @rename_from(a)  c:")),
            'update X set { b: 9 } where slug = "1"',
            ["drop_type", "rename_type", "rename_property", "add_property"],
        ),
    ],
    ids=["again", "renamed"],
)
def test_follower_gets_the_rows_of_a_reused_type_name(
    schemas: tuple[str, str], write: str, steps: list[str], tmp_path: Path
) -> None:
    """A type is identified by its name until it is dropped, and by the id of its table always."""
    graph = og.init(str(tmp_path / "graph.omni"), X + P)
    graph.mutate('query a() { insert P { slug: "1", a: 1 } insert P { slug: "2" } insert X { slug: "1" } }')
    first = list(graph.changes().commits)[-1]
    rows = {(change.table_id, change.id): change.after for change in first.changes}
    start = graph.snapshot().head
    branch = graph.create_branch("b", from_="main")
    for text in schemas:
        branch.apply_schema(text)
    branch.mutate(f"query b() {{ {write} }}")
    graph.merge("b")
    (block,) = graph.changes(start).commits
    assert [step.planned.step.kind for step in block.schema_steps] == steps
    assert {move.table for move in block.commit.tables} <= block.table_names.keys()
    changes = list(block.changes)
    kinds = [change.kind.value for change in changes]
    assert kinds == sorted(kinds), "deletions of dropped types are first"
    for change in changes:
        if change.after is None:
            del rows[change.table_id, change.id]
        else:
            rows[change.table_id, change.id] = change.after
    tables = graph.snapshot().tables.values()
    assert {table.id: table.row_count for table in tables if table.row_count} == dict(
        Counter(table for table, _ in rows)
    )
    assert list(graph.diff(start, "main")) == changes


def apply(location: Location, text: str) -> None:
    apply_schema(location, MAIN, SchemaRequest(source=text, actor="tester"), in_place)


def _old_manifests(versions: Path) -> list[Path]:
    """Return every version but the newest. File names count down, so the newest is the first."""
    return sorted(versions.glob("*.manifest"))[1:]


def test_changes_have_every_kind_of_value(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA)
    values = 'tags: [] weight: 0.1 at: "2024-05-31T12:00:00Z" data: "base64:YWI=" vector: [1.5, 2.0]'
    graph.mutate(f'query a() {{ insert Thing {{ name: "t" {values} }} }}')
    made = graph.mutate('query b() { update Thing set { weight: 0.2, data: "base64:" } where name = "t" }')
    assert made.commit is not None
    (change,) = graph.diff(made.commit.id)
    same = {"id": "t", "name": "t", "tags": [], "at": "2024-05-31T12:00:00.000Z", "vector": [1.5, 2.0]}
    assert (change.table, change.id, change.kind.value) == ("node:Thing", "t", "updated")
    assert change.before == {"type": "Thing", "data": {**same, "weight": 0.1, "data": "base64:YWI="}}
    assert change.after == {"type": "Thing", "data": {**same, "weight": 0.2, "data": "base64:"}}
    deleted = graph.mutate('query c() { delete Thing where name = "t" }')
    assert deleted.commit is not None
    (change,) = graph.diff(made.commit.id, deleted.commit.id)
    assert (change.kind.value, change.after) == ("deleted", None)
    (back,) = graph.diff(deleted.commit.id, made.commit.id)
    assert (back.kind.value, back.before, back.after) == ("inserted", None, change.before)
