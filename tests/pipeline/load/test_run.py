"""Loads: one commit or nothing, in every mode, on any branch, with concurrent writers. Tasks run in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.base.errors import fact_rows
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.integrity.report import Violation, ViolationReport
from omnigraph.integrity.rules import Rule
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.inputs.files import find_inputs
from omnigraph.pipeline.load.inputs.ndjson import plan_json_pieces
from omnigraph.pipeline.load.run import LoadCounts, Loaded, LoadRejectedError, LoadRequest, load
from omnigraph.pipeline.load.source import InputSource
from omnigraph.pipeline.runner import Result, RunTasks, Task
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location, Scheme, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.pipeline.in_place import BucketedSource, in_place

SCHEMA = """\
node Person { slug: String @key  age: I32?  email: String? @unique @range(age, 0..150) }
node Note { text: String }
edge Knows: Person -> Person @card(0..2) { weight: F64? }
"""
ADA = {"type": "Person", "data": {"slug": "ada", "age": 36}}
GRACE = {"type": "Person", "data": {"slug": "grace"}}
KNOWS = {"edge": "Knows", "from": "ada", "to": "grace", "data": {"weight": 0.5}}
Record = Mapping[str, object]


def source(*paths: Path, kind: type[InputSource] = InputSource) -> InputSource:
    return kind(plan_json_pieces(find_inputs([str(path) for path in paths])))


@pytest.fixture
def root(store_location: Location) -> Location:
    og.init(store_location.uri, SCHEMA, storage_options=dict(store_location.options), actor="ada")
    return store_location


@pytest.fixture(params=["driver", "driver with files", "buckets"])
def load_records(
    request: pytest.FixtureRequest, root: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Loaded]:
    kind = BucketedSource if request.param == "buckets" else InputSource
    if request.param == "driver with files":
        monkeypatch.setattr("omnigraph.base.limits.LOAD_PART_BYTES_MAX", 0)

    def run(*records: Record, mode: LoadMode = LoadMode.APPEND, branch: str = MAIN, dry_run: bool = False) -> Loaded:
        path = tmp_path / "data.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        request = LoadRequest(source=source(path, kind=kind), mode=mode, actor="ada", branch=branch, dry_run=dry_run)
        return load(root, request, in_place)

    return run


def contents(root: Location, branch: str = MAIN) -> dict[str, list[dict[str, object]]]:
    rows_by_alias = {}
    snapshot = read_snapshot(root, branch)
    for alias, table in snapshot.tables.items():
        place = root.child(table.path)
        rows = open_dataset(place, branch=table.pin.branch, version=table.pin.version).read().to_pylist()
        assert table.row_count == len(rows)
        rows_by_alias[alias] = sorted(rows, key=lambda row: str(row["id"]))
    return rows_by_alias


def people(root: Location, branch: str = MAIN) -> dict[str, object]:
    return {str(row["id"]): row["age"] for row in contents(root, branch)["node:Person"]}


def files(root: Location) -> set[str]:
    return {entry.path for entry in ObjectStore(root).list("") if not entry.path.startswith("__locks/")}


def test_append_is_one_commit(root: Location, load_records: Callable[..., Loaded]) -> None:
    before = read_snapshot(root)
    loaded = load_records(ADA, GRACE, KNOWS, {"type": "Note", "data": {"text": "é"}})
    assert loaded.counts == {"node:Person": 2, "node:Note": 1, "edge:Knows": 1}
    assert loaded.commit is not None
    assert loaded.commit.parent == before.head
    assert people(root) == {"ada": 36, "grace": None}
    (edge,) = contents(root)["edge:Knows"]
    assert (edge["src"], edge["dst"], edge["weight"]) == ("ada", "grace", 0.5)
    assert len(str(edge["id"])) == 26


BAD: dict[str, tuple[tuple[Record, ...], Rule]] = {
    "existing": ((ADA,), Rule.KEY_CONFLICT),
    "twice": ((GRACE, GRACE), Rule.DUPLICATE_ID),
    "dangling": (({"edge": "Knows", "from": "ada", "to": "missing"},), Rule.DANGLING_END),
    "range": (({"type": "Person", "data": {"slug": "x", "age": 151}},), Rule.RANGE),
    "required": (({"type": "Note", "data": {}},), Rule.REQUIRED),
    "too many": (tuple({**KNOWS, "to": "ada"} for _ in range(3)), Rule.CARDINALITY_MAX),
    "unique": (tuple({"type": "Person", "data": {"slug": name, "email": "same"}} for name in ("x", "y")), Rule.UNIQUE),
    "type": (({"type": "Nothing"},), Rule.UNKNOWN_TYPE),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_load_writes_nothing(root: Location, load_records: Callable[..., Loaded], name: str) -> None:
    load_records(ADA)
    before, seen = files(root), contents(root)
    records, rule = BAD[name]
    with pytest.raises(LoadRejectedError) as rejected:
        load_records({"type": "Note", "data": {"text": "good"}}, *records)
    assert dict(rejected.value.report.counts) == {rule: 1}
    advice = "Pass `mode='merge'` to replace existing rows. Rows of Note without an id are added again."
    assert (advice in rejected.value.hint) is (rule is Rule.KEY_CONFLICT)
    assert rejected.value.report.first[0].line is not None
    assert rejected.value.report.first[0].line > 1
    assert contents(root) == seen
    assert files(root) == before, "no version, no intent, and no staged file is left"


def test_merge_replaces_by_id_and_inserts_the_rest(root: Location, load_records: Callable[..., Loaded]) -> None:
    load_records(ADA)
    load_records({"type": "Person", "data": {"slug": "ada", "age": 37}}, GRACE, mode=LoadMode.MERGE)
    assert people(root) == {"ada": 37, "grace": None}
    load_records(GRACE, mode=LoadMode.MERGE)
    assert people(root) == {"ada": 37, "grace": None}


@pytest.mark.parametrize("rows_max", [0, 10_000], ids=["own upsert", "upsert of Lance"])
def test_a_merge_counts_inserted_replaced_and_unchanged_rows(
    root: Location, load_records: Callable[..., Loaded], monkeypatch: pytest.MonkeyPatch, rows_max: int
) -> None:
    monkeypatch.setattr("omnigraph.base.limits.LOAD_UPSERT_ROWS_MAX", rows_max)
    knows = {**KNOWS, "data": {"id": "k", "weight": 0.5}}

    def merge(*records: Record) -> Loaded:
        expected = load_records(*records, mode=LoadMode.MERGE, dry_run=True)
        loaded = load_records(*records, mode=LoadMode.MERGE)
        assert (expected.commit, expected.counts, expected.changes) == (None, loaded.counts, loaded.changes)
        return loaded

    first = merge(ADA, GRACE, knows)
    assert first.changes == {"node:Person": LoadCounts(inserted=2), "edge:Knows": LoadCounts(inserted=1)}
    alan = {"type": "Person", "data": {"slug": "alan"}}
    older = {"type": "Person", "data": {"slug": "ada", "age": 37}}
    again = merge(older, GRACE, alan, knows, KNOWS)
    assert again.changes == {
        "node:Person": LoadCounts(inserted=1, replaced=1, unchanged=1),
        "edge:Knows": LoadCounts(inserted=1, unchanged=1, inserted_without_key=1),
    }
    assert again.commit is not None
    assert again.commit.counts == {**again.counts, "inserted": 2, "updated": 1, "deleted": 0}
    assert len(contents(root)["edge:Knows"]) == 2
    heavier = {**KNOWS, "data": {"id": "k", "weight": None}}
    assert merge(heavier).changes == {"edge:Knows": LoadCounts(replaced=1)}


def test_append_and_overwrite_count_rows(root: Location, load_records: Callable[..., Loaded]) -> None:
    assert load_records(ADA, GRACE).changes == {"node:Person": LoadCounts(inserted=2)}
    for dry_run in (True, False):
        overwritten = load_records(ADA, mode=LoadMode.OVERWRITE, dry_run=dry_run)
        assert overwritten.changes == {"node:Person": LoadCounts(inserted=1, deleted=2)}
    assert load_records(GRACE, dry_run=True).changes == {"node:Person": LoadCounts(inserted=1)}


def test_overwrite_replaces_the_types_that_are_named(root: Location, load_records: Callable[..., Loaded]) -> None:
    load_records(ADA, {"type": "Note", "data": {"text": "stays"}})
    load_records(GRACE, mode=LoadMode.OVERWRITE)
    assert people(root) == {"grace": None}
    assert len(contents(root)["node:Note"]) == 1


@pytest.mark.parametrize("kind", [InputSource, BucketedSource])
def test_overwrite_without_rows_empties_a_named_type(
    root: Location, load_records: Callable[..., Loaded], tmp_path: Path, kind: type[InputSource]
) -> None:
    if kind is BucketedSource and root.scheme is Scheme.MEMORY:
        pytest.skip("a graph in memory has no buckets")
    load_records(ADA, GRACE, KNOWS)
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")

    def overwrite(*names: str) -> Loaded:
        request = LoadRequest(source=source(empty, kind=kind), mode=LoadMode.OVERWRITE, actor="ada", named_types=names)
        return load(root, request, in_place)

    with pytest.raises(LoadRejectedError) as rejected:
        overwrite("Person")
    assert dict(rejected.value.report.counts) == {Rule.DANGLING_END: 2}
    assert overwrite("Knows").changes == {"edge:Knows": LoadCounts(deleted=1)}
    assert overwrite("Person", "Note").changes == {"node:Person": LoadCounts(deleted=2)}
    assert contents(root) == {"node:Person": [], "node:Note": [], "edge:Knows": []}
    assert overwrite("Person").commit is None


def test_overwrite_that_would_strand_edges_is_rejected(root: Location, load_records: Callable[..., Loaded]) -> None:
    load_records(ADA, GRACE, KNOWS)
    with pytest.raises(LoadRejectedError) as rejected:
        load_records(ADA, mode=LoadMode.OVERWRITE)
    assert dict(rejected.value.report.counts) == {Rule.DANGLING_END: 1}
    assert "of an edge Knows of the graph, which has this id (" in rejected.value.message
    assert rejected.value.hint == (
        "Nothing was written. Add the edge types to this overwrite, or delete these edges first."
    )
    assert sorted(people(root)) == ["ada", "grace"]


def test_a_merge_of_existing_edges_without_a_key_has_a_hint(load_records: Callable[..., Loaded]) -> None:
    load_records(ADA, GRACE, KNOWS, KNOWS)
    hints = []
    for mode in (LoadMode.MERGE, LoadMode.APPEND):
        with pytest.raises(LoadRejectedError) as rejected:
            load_records(KNOWS, mode=mode)
        assert dict(rejected.value.report.counts) == {Rule.CARDINALITY_MAX: 1}
        hints.append(rejected.value.hint)
    assert hints == [
        "Nothing was written. Knows has no key, so a merge adds its edges again: declare `@key(@src, @dst)` or give "
        "ids if the graph has these edges already, or fix these lines.",
        "Nothing was written. Fix these lines and load again.",
    ]


def test_a_dry_run_checks_and_writes_nothing(root: Location, load_records: Callable[..., Loaded]) -> None:
    before = files(root)
    assert load_records(ADA, dry_run=True).total == 1
    with pytest.raises(LoadRejectedError):
        load_records(KNOWS, dry_run=True)
    assert files(root) == before


def test_input_without_rows_creates_no_commit(root: Location, load_records: Callable[..., Loaded]) -> None:
    head = read_snapshot(root).head
    assert load_records().commit is None
    assert read_snapshot(root).head == head


def test_load_to_a_branch_does_not_change_main(root: Location, load_records: Callable[..., Loaded]) -> None:
    load_records(ADA)
    create_branch(root, "import", "ada", read_snapshot(root))
    load_records(GRACE, KNOWS, branch="import")
    load_records({"type": "Person", "data": {"slug": "ada", "age": 1}}, branch="import", mode=LoadMode.MERGE)
    assert people(root, "import") == {"ada": 1, "grace": None}
    assert people(root) == {"ada": 36}


def test_concurrent_load_is_checked_again_but_not_read_again(tmp_path: Path) -> None:
    """Another load commits while this one is staged: it is checked again, but not read again."""
    root = parse_location(str(tmp_path / "graph.omni"))
    og.init(root.uri, SCHEMA)
    mine, theirs = tmp_path / "mine.jsonl", tmp_path / "theirs.jsonl"
    mine.write_text(json.dumps(GRACE), encoding="utf-8")
    runs: list[int] = []

    def run_with_concurrent_load(record: Record) -> RunTasks:
        def run(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
            runs.append(len(tasks))
            parts = in_place(function, tasks)
            theirs.write_text(json.dumps(record), encoding="utf-8")
            load(root, LoadRequest(source=source(theirs), mode=LoadMode.APPEND, actor="bob"), in_place)
            return parts

        return run

    request = LoadRequest(source=source(mine), mode=LoadMode.APPEND, actor="ada")
    load(root, request, run_with_concurrent_load(ADA))
    assert sorted(people(root)) == ["ada", "grace"]
    assert runs == [1]
    mine.write_text(json.dumps({"type": "Person", "data": {"slug": "late"}}), encoding="utf-8")
    with pytest.raises(LoadRejectedError) as rejected:
        load(
            root,
            LoadRequest(source=source(mine), mode=LoadMode.APPEND, actor="ada"),
            run_with_concurrent_load({"type": "Person", "data": {"slug": "late", "age": 9}}),
        )
    assert dict(rejected.value.report.counts) == {Rule.KEY_CONFLICT: 1}
    assert people(root)["late"] == 9


def test_lines_are_counted_over_ranges_and_files(root: Location, tmp_path: Path) -> None:
    names = []
    for number in range(2):
        path = tmp_path / f"part{number}.jsonl"
        rows = [{"type": "Person", "data": {"slug": f"p{number}-{row}"}} for row in range(30)]
        lines = [json.dumps(row) for row in rows]
        lines[20] = "broken"
        path.write_text("\n".join(lines), encoding="utf-8")
        names.append(path)
    request = LoadRequest(source=source(*names), mode=LoadMode.APPEND, actor="ada")
    with pytest.raises(LoadRejectedError) as rejected:
        load(root, request, in_place)
    assert [(Path(v.file).name, v.line) for v in rejected.value.report.first] == [
        ("part0.jsonl", 21), ("part1.jsonl", 21),
    ]  # fmt: skip


def test_large_numbers_can_be_read() -> None:
    first = Violation(
        file="people.jsonl", line=1, property="slug", value="", rule=Rule.REQUIRED, message="a value is required"
    )
    rejected = LoadRejectedError(ViolationReport.of_group(300_000, [first]))
    assert rejected.message.endswith("V101 slug: a value is required (and 299,999 more)")
    assert rejected.render().startswith(
        "the input has 300,000 errors\n  V101 slug: a value is required: 300,000 errors"
    )


def test_an_invalid_column_is_one_line(root: Location, tmp_path: Path) -> None:
    rows = [{"type": "Person", "data": {"slug": f"p{row}", "age": f"x{row}"}} for row in range(5_000)]
    rows[4_000]["data"]["slug"] = None  # type: ignore[index]
    path = tmp_path / "people.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(LoadRejectedError) as rejected:
        load(root, LoadRequest(source=source(path), mode=LoadMode.APPEND, actor="ada"), in_place)
    assert rejected.value.render().split("\n") == [
        "the input has 5,001 errors",
        f"  V103 age: expected an integer (I32), got text: 5,000 errors, such as {path}:1 (x0), {path}:2 (x1), "
        f"{path}:3 (x2)",
        f"  {path}:4001: V101 slug: a value is required",
    ]
    groups = fact_rows(rejected.value.facts, "validation_groups")
    assert [(group["property"], group["count"]) for group in groups] == [("age", 5_000), ("slug", 1)]
    assert "list every error" in rejected.value.advice.render(str)
    listed_errors: list[Violation] = []
    request = LoadRequest(source=source(path), mode=LoadMode.APPEND, actor="ada", errors=listed_errors.extend)
    with pytest.raises(LoadRejectedError) as listed:
        load(root, request, in_place)
    assert len(listed_errors) == 5_001
    assert "list every error" not in listed.value.advice.render(str)


def test_a_duplicate_names_the_earlier_row(root: Location, tmp_path: Path) -> None:
    for number, slugs in enumerate((["ada", "bob"], ["cy", "ada"])):
        lines = [json.dumps({"type": "Person", "data": {"slug": slug}}) for slug in slugs]
        (tmp_path / f"part{number}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    paths = [tmp_path / "part0.jsonl", tmp_path / "part1.jsonl"]
    with pytest.raises(LoadRejectedError) as rejected:
        load(root, LoadRequest(source=source(*paths), mode=LoadMode.APPEND, actor="ada"), in_place)
    first = rejected.value.report.first[0]
    assert first.describe() == f"{paths[1]}:2: V302 id: an earlier row of the input has this id: {paths[0]}:1 (ada)"
    assert (first.to_json()["earlier_file"], first.to_json()["earlier_line"]) == (str(paths[0]), 1)
