"""Checks of a load on the driver and in hash buckets on workers: the same result and the same graph."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.scratch import open_scratch
from omnigraph.integrity.report import Violation, ViolationReport
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.keys import Buckets, KeyWriter, Origin, read_slices, slices_of
from omnigraph.pipeline.load.run import Loaded, LoadRejectedError, LoadRequest, load
from omnigraph.pipeline.load.source import InputSource
from omnigraph.pipeline.load.upsert import replace_rows
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.lance.stage import stage_replacement, stage_upsert, write_deletions, write_moved_rows, write_rows
from omnigraph.storage.location import Location, parse_location
from tests.pipeline.in_place import BucketedSource, in_place
from tests.pipeline.load.test_run import contents, source
from tests.schema.incarnations import catalog_of

SCHEMA = """\
node Person { slug: String @key  age: I32?  email: String? @unique  first: String?  last: String? @unique(first, last)
  @range(age, 0..9) }
node Note { text: String @unique }
edge Knows: Person -> Person @card(1..2) { weight: F64? }
edge Wrote: Person -> Note { at: I64? @unique }
"""
Record = Mapping[str, object]

_SLUGS = st.sampled_from(["ada", "bob", "cy", "dee", "eé", "missing"])
_FEW = st.none() | st.sampled_from(["x", "y", "z"])
_people = st.fixed_dictionaries(
    {"slug": _SLUGS | st.just(7)}, optional={"age": st.integers(-1, 11), "email": _FEW, "first": _FEW, "last": _FEW}
)
_notes = st.fixed_dictionaries({"text": st.sampled_from("abc")}, optional={"id": st.sampled_from(["n1", "n2", "n3"])})
_edge_data = st.fixed_dictionaries({"id": st.sampled_from([f"e{n}" for n in range(8)])})
_wrote = st.fixed_dictionaries({"id": st.sampled_from([f"w{n}" for n in range(5)])}, optional={"at": st.integers(0, 3)})
_records = st.one_of(
    st.builds(lambda data: {"type": "Person", "data": data}, _people),
    st.builds(lambda data: {"type": "Note", "data": data}, _notes),
    st.builds(lambda a, b, data: {"edge": "Knows", "from": a, "to": b, "data": data}, _SLUGS, _SLUGS, _edge_data),
    st.builds(
        lambda a, b, data: {"edge": "Wrote", "from": a, "to": b, "data": data},
        _SLUGS,
        st.sampled_from(["n1", "n2", "n9"]),
        _wrote,
    ),
)
_inputs = st.lists(st.lists(_records, max_size=8), min_size=1, max_size=3)
BASE: tuple[Record, ...] = (
    *({"type": "Person", "data": {"slug": name, "email": mail}} for name, mail in (("ada", "x"), ("bob", "y"))),
    {"type": "Person", "data": {"slug": "cy", "first": "x", "last": "y"}},
    {"type": "Note", "data": {"id": "n1", "text": "a"}},
    {"edge": "Knows", "from": "ada", "to": "bob", "data": {"id": "e0"}},
    {"edge": "Knows", "from": "bob", "to": "ada", "data": {"id": "e1"}},
    {"edge": "Knows", "from": "bob", "to": "cy", "data": {"id": "e2"}},
    {"edge": "Wrote", "from": "ada", "to": "n1", "data": {"id": "w0", "at": 1}},
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=30)
@given(inputs=_inputs, mode=st.sampled_from(LoadMode))
def test_buckets_and_driver_agree(inputs: Sequence[Sequence[Record]], mode: LoadMode) -> None:
    with tempfile.TemporaryDirectory() as folder:
        answers = [_answer(Path(folder), inputs, mode, kind) for kind in (InputSource, BucketedSource)]
    assert answers[0] == answers[1]


def _answer(
    folder: Path, inputs: Sequence[Sequence[Record]], mode: LoadMode, kind: type[InputSource]
) -> tuple[object, object, list[Violation]]:
    root = parse_location(str(folder / f"{kind.__name__}.omni"))
    og.init(root.uri, SCHEMA)
    _load(root, [BASE], LoadMode.APPEND, InputSource, [])
    every: list[Violation] = []
    try:
        outcome: object = _load(root, inputs, mode, kind, every).counts
    except LoadRejectedError as rejected:
        report = rejected.report
        outcome = (report, [violation.entity_id for violation in every])
    else:
        report = ViolationReport()
    assert (len(every), tuple(every[:100])) == (report.total, report.first)
    assert not (Path(root.uri) / "__scratch").exists()
    return outcome, _without_new_ids(contents(root)), every


def _load(
    root: Location, inputs: Sequence[Sequence[Record]], mode: LoadMode, kind: type[InputSource], every: list[Violation]
) -> Loaded:
    paths = []
    for number, records in enumerate(inputs):
        path = Path(root.uri).parent / f"part{number}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        paths.append(path)
    request = LoadRequest(source=source(*paths, kind=kind), mode=mode, actor="ada", errors=every.extend)
    return load(root, request, in_place)


def _without_new_ids(tables: Mapping[str, list[dict[str, object]]]) -> object:
    """Replace ULIDs, which differ between graphs."""
    stable_ids = {
        alias: [{**row, "id": row["id"] if len(str(row["id"])) < 26 else "new"} for row in rows]
        for alias, rows in tables.items()
    }
    return {alias: sorted(rows, key=repr) for alias, rows in stable_ids.items()}


def test_merges_keep_identities_as_lance_does(tmp_path: Path) -> None:
    """Created and updated versions, identities and rows are those of Lance's own upsert."""
    results = []
    (entity,) = catalog_of("node K { v: I64  l: [I64] }").types
    for way in ("lance", "workers", "driver"):
        place = parse_location(str(tmp_path / way))
        rows = pa.table({"id": [f"k{n}" for n in range(10)], "v": list(range(10)), "l": [[n] for n in range(10)]})
        lance.write_dataset(
            rows, place.uri, enable_stable_row_ids=True, max_rows_per_file=4, data_storage_version="2.2"
        )
        dataset = open_dataset(place)
        news = pa.table({"id": ["k8", "k9", "k3", "n1"], "v": [108, 109, 103, 1], "l": [[1], [2], [3], [4]]})
        if way == "lance":
            staged = stage_upsert(dataset, news)
        elif way == "driver":
            staged, part = replace_rows(dataset, entity, news)
            assert (part.replaced, part.unchanged) == (3, 0)
        else:
            keys = dataset.native.scanner(columns=["id"], with_row_id=True, with_row_address=True).to_table()
            graph_rows = {row["id"]: row for row in keys.to_pylist()}
            old = [graph_rows[name] for name in ("k8", "k9", "k3")]
            deletions = write_deletions(dataset, [row["_rowaddr"] for row in old])
            assert deletions.removed == (2,), "the fragment of k8 and k9 is empty now"
            moved = write_moved_rows(dataset, news.slice(0, 3), [row["_rowid"] for row in old])
            staged = stage_replacement(dataset, deletions, [*moved, *write_rows(dataset, news.slice(3))])
        lance.LanceDataset.commit(dataset.native, staged.native, max_retries=0)
        system = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
        table = open_dataset(place).native.scanner(columns=["id", "v", "l", *system]).to_table()
        results.append(sorted(table.to_pylist(), key=lambda row: str(row["id"])))
    assert results[0] == results[1] == results[2]


def test_bucket_has_all_rows_of_its_keys_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many files a writer starts, a bucket has all rows of its keys, in input order."""
    monkeypatch.setattr("omnigraph.base.limits.LOAD_KEY_FILE_BYTES", 200)
    with open_scratch(parse_location(str(tmp_path))) as scratch:
        writer = KeyWriter(buckets=Buckets(scratch, 5), origin=Origin("a", 1))
        for start in range(0, 100, 10):
            keys = pa.array([None if n % 7 == 0 else f"k{n % 9}" for n in range(start, start + 10)])
            rows = pa.RecordBatch.from_arrays([keys, pa.array(range(start, start + 10))], names=["key", "n"])
            writer.add("s", keys, rows)
        files = writer.finish()
        assert len(files) > 2
        where: dict[str | None, set[int]] = {}
        numbers = []
        for bucket in range(5):
            slices = slices_of(files, "s", bucket)
            rows_of = [row for _, table in read_slices(scratch, slices) for row in table.to_pylist()]
            assert [row["n"] for row in rows_of] == sorted(row["n"] for row in rows_of)
            numbers += [row["n"] for row in rows_of]
            for row in rows_of:
                where.setdefault(row["key"], set()).add(bucket)
    assert sorted(numbers) == list(range(100))
    assert all(len(buckets) == 1 for buckets in where.values())
    assert where[None] == {0}


def test_large_and_small_loads_after_each_other(tmp_path: Path) -> None:
    root = parse_location(str(tmp_path / "graph.omni"))
    og.init(root.uri, SCHEMA)
    _load(root, [BASE], LoadMode.APPEND, BucketedSource, [])
    changed = {"type": "Person", "data": {"slug": "ada", "email": "new"}}
    taken = {"type": "Person", "data": {"slug": "dee", "email": "x"}}
    _load(root, [[changed, taken]], LoadMode.MERGE, BucketedSource, [])
    rows = {row["id"]: row["email"] for row in contents(root)["node:Person"]}
    assert rows == {"ada": "new", "bob": "y", "cy": None, "dee": "x"}
    assert read_snapshot(root).tables["node:Person"].row_count == 4


def test_a_merge_of_many_rows_on_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a few thousand rows the driver does not use Lance's join, and the result is the same."""
    monkeypatch.setattr("omnigraph.base.limits.LOAD_UPSERT_ROWS_MAX", 0)
    root = parse_location(str(tmp_path / "graph.omni"))
    og.init(root.uri, SCHEMA)
    _load(root, [BASE], LoadMode.MERGE, InputSource, [])
    changed = {"type": "Person", "data": {"slug": "ada", "email": "new"}}
    new = {"type": "Person", "data": {"slug": "dee", "email": "z"}}
    _load(root, [[changed, new]], LoadMode.MERGE, InputSource, [])
    rows = {row["id"]: row["email"] for row in contents(root)["node:Person"]}
    assert rows == {"ada": "new", "bob": "y", "cy": None, "dee": "z"}
    assert read_snapshot(root).tables["node:Person"].row_count == 4
