"""Exports: the same lines in the same order for every layout, complete files or none. Tasks run in this process."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard

from omnigraph.base import limits
from omnigraph.base.errors import FormatError, NotFoundError, OmnigraphError, RefusedError, UsageError
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.refs import SnapshotSelector
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.manifest.stamp import STAMP_KEY, StorageFormat
from omnigraph.pipeline.export.run import ExportOptions, export
from omnigraph.pipeline.export.target import ExportTarget, TargetKind, parse_target
from omnigraph.pipeline.export.tasks import ExportFormat
from omnigraph.pipeline.runner import Result, Task, run_here, task_info
from omnigraph.storage.lance.commit import commit_schema_metadata
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Durability, Location, parse_location
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.settings import DURABILITY_VARIABLE
from tests.file_faults import built_library
from tests.pipeline.exporting import (
    InProcessRunner,
    Record,
    contents,
    export_here,
    lines,
    load_file,
    load_records,
    make_graph,
)
from tests.pipeline.in_place import files
from tests.style.source import ROOT

SCHEMA = """\
node Person { slug: String @key  age: I32?  photo: Blob?  v: Vector(2)? }
node Note { text: String  score: F32? }
node Empty { word: String }
edge Knows: Person -> Person { weight: F64? }
edge About: Note -> Person { @key(src, dst) }
"""
RECORDS: list[Record] = [
    {"edge": "Knows", "from": "b", "to": "é", "data": {"weight": 0.1}},
    {"type": "Note", "data": {"id": "n-2", "text": 'q"\\\n\u0000 \u2028', "score": 0.1}},
    {"type": "Note", "data": {"id": "n-10", "text": ""}},
    {"type": "Person", "data": {"slug": "é"}},
    {"type": "Person", "data": {"slug": "b", "age": 36, "photo": "base64:/+8=", "v": [1, -0.25]}},
    {"edge": "About", "from": "n-2", "to": "b"},
]


@pytest.fixture
def root(local_location: Location, tmp_path: Path) -> Location:
    make_graph(local_location, SCHEMA)
    load_records(local_location, tmp_path, RECORDS)
    return local_location


def test_lines_are_ordered_and_have_ids(root: Location, tmp_path: Path) -> None:
    exported = export_here(root, tmp_path / "dump.jsonl")
    edge = contents(root)["edge:Knows"]["id"][0].as_py()
    text = (tmp_path / "dump.jsonl").read_text(encoding="utf-8")
    assert text == (
        '{"type":"Person","data":{"id":"b","slug":"b","age":36,"photo":"base64:/+8=","v":[1.0,-0.25]}}\n'
        '{"type":"Person","data":{"id":"é","slug":"é"}}\n'
        '{"type":"Note","data":{"id":"n-10","text":""}}\n'
        '{"type":"Note","data":{"id":"n-2","text":"q\\"\\\\\\n\\u0000 \u2028","score":0.1}}\n'
        f'{{"edge":"Knows","from":"b","to":"é","data":{{"id":"{edge}","weight":0.1}}}}\n'
        '{"edge":"About","from":"n-2","to":"b","data":{"id":"[\\"n-2\\",\\"b\\"]"}}\n'
    )
    assert exported.counts == {
        "node:Person": 2, "node:Note": 2, "node:Empty": 0, "edge:Knows": 1, "edge:About": 1,
    }  # fmt: skip
    assert exported.commit == read_snapshot(root).head
    assert exported.size_bytes == len(text.encode())


def test_an_export_loads_as_an_equal_graph(root: Location, tmp_path: Path) -> None:
    export_here(root, tmp_path / "dump.jsonl")
    fresh = make_graph(parse_location(str(tmp_path / "fresh.omni")), SCHEMA)
    load_file(fresh, tmp_path / "dump.jsonl")
    assert contents(fresh) == contents(root)
    export_here(fresh, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "dump.jsonl").read_bytes()


def test_types_branches_and_commits_are_chosen(root: Location, tmp_path: Path) -> None:
    before = read_snapshot(root)
    create_branch(root, "more", "ada", read_snapshot(root))
    start = read_snapshot(root, "more").version
    load_records(root, tmp_path, [{"type": "Person", "data": {"slug": "new"}}], "more")

    def slugs(**selection: Any) -> list[str]:
        export_here(root, tmp_path / "dump.jsonl", force=True, types=("Knows", "Person"), **selection)
        records = lines(tmp_path / "dump.jsonl")
        assert [record["edge"] for record in records if "edge" in record] == ["Knows"]
        assert all(record["type"] == "Person" for record in records[:-1])
        return [record["data"]["slug"] for record in records[:-1]]

    assert slugs() == ["b", "é"]
    assert slugs(branch="more") == ["b", "new", "é"]
    assert slugs(branch="more", selector=SnapshotSelector(commit=before.head)) == ["b", "é"]
    assert slugs(branch="more", selector=SnapshotSelector(version=start)) == ["b", "é"]
    made = read_snapshot(root, "more").manifest.find_commit(read_snapshot(root, "more").head)
    assert made is not None
    assert slugs(branch="more", selector=SnapshotSelector(time_us=made.created_us - 1)) == ["b", "é"]


@pytest.mark.parametrize(
    ("selection", "code", "text"),
    [
        ({"types": ("Person", "Persn")}, "type_missing", "unknown type 'Persn': did you mean 'Person'?"),
        ({"selector": SnapshotSelector(commit="01ARZ3NDEKTSV4RRFFQ69G5FAV")}, "commit_missing", "`graph.log()`"),
        ({"branch": "other"}, "branch_missing", "main"),
    ],
)
def test_unknown_type_branch_and_commit(
    root: Location, tmp_path: Path, selection: dict[str, Any], code: str, text: str
) -> None:
    with pytest.raises(NotFoundError) as missing:
        export_here(root, tmp_path / "dump.jsonl", **selection)
    assert missing.value.code == code
    assert text in f"{missing.value.message}\n{missing.value.hint}"
    assert not (tmp_path / "dump.jsonl").exists()


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_file_has_the_same_lines(root: Location, tmp_path: Path, suffix: str) -> None:
    export_here(root, tmp_path / "plain.jsonl")
    packed = tmp_path / f"dump.jsonl{suffix}"
    export_here(root, packed)
    data = packed.read_bytes()
    unpacked = (
        gzip.decompress(data) if suffix == ".gz" else zstandard.ZstdDecompressor().stream_reader(
            data, read_across_frames=True
        ).read()
    )  # fmt: skip
    assert unpacked == (tmp_path / "plain.jsonl").read_bytes()
    fresh = make_graph(parse_location(str(tmp_path / "fresh.omni")), SCHEMA)
    load_file(fresh, packed)
    assert contents(fresh) == contents(root)


def test_parts_of_a_stream_are_deleted_before_the_next_are_written(root: Location, tmp_path: Path) -> None:
    """A large export to stdout needs disk space for a few parts only."""
    people = [{"type": "Person", "data": {"slug": f"p{number:05}"}} for number in range(5_000)]
    load_records(root, tmp_path, people)
    runner = InProcessRunner(has_shared_disk=False)
    most = 0

    class Watched(BytesIO):
        def write(self, data: Any) -> int:
            nonlocal most
            most = max(most, sum("/parts/" in path for path in files(root)))
            return super().write(data)

    request = ExportOptions(target=ExportTarget(TargetKind.STREAM), stream=Watched(), part_bytes=4_000)
    export(root, request, runner)
    runs = [count for step, count in runner.steps if step == "export"]
    assert sum(runs) > 2 * limits.EXPORT_STREAMED_PARTS
    assert most == limits.EXPORT_STREAMED_PARTS


def test_a_stream_gets_the_lines_in_order(root: Location, tmp_path: Path) -> None:
    export_here(root, tmp_path / "dump.jsonl")
    stream = BytesIO()
    export(root, ExportOptions(target=ExportTarget(TargetKind.STREAM), stream=stream), InProcessRunner())
    assert stream.getvalue() == (tmp_path / "dump.jsonl").read_bytes()


def test_an_empty_graph_is_an_empty_file(local_location: Location, tmp_path: Path) -> None:
    make_graph(local_location, SCHEMA)
    assert export_here(local_location, tmp_path / "dump.jsonl").total == 0
    assert (tmp_path / "dump.jsonl").read_bytes() == b""
    assert export_here(local_location, f"{tmp_path}/parts/").files == ()
    assert list((tmp_path / "parts").iterdir()) == []
    for suffix, unpack in ((".gz", gzip.decompress), (".zst", zstandard.ZstdDecompressor().decompress)):
        exported = export_here(local_location, tmp_path / f"dump.jsonl{suffix}")
        data = (tmp_path / f"dump.jsonl{suffix}").read_bytes()
        assert exported.size_bytes == len(data) > 0
        assert unpack(data) == b""


def test_parquet_has_files_per_type(root: Location, tmp_path: Path) -> None:
    exported = export_here(root, tmp_path / "parquet", ExportFormat.PARQUET)
    names = [Path(file).name for file in exported.files]
    assert names == [
        "node-Person-00000.parquet", "node-Note-00000.parquet", "node-Empty-00000.parquet",
        "edge-Knows-00000.parquet", "edge-About-00000.parquet",
    ]  # fmt: skip
    people = pq.read_table(tmp_path / "parquet" / names[0]).to_pylist()
    assert people == [
        {"id": "b", "slug": "b", "age": 36, "photo": b"\xff\xef", "v": [1.0, -0.25]},
        {"id": "é", "slug": "é", "age": None, "photo": None, "v": None},
    ]
    assert pq.read_table(tmp_path / "parquet" / names[2]).num_rows == 0
    [about] = pq.read_table(tmp_path / "parquet" / names[4]).to_pylist()
    assert about == {"id": '["n-2","b"]', "from": "n-2", "to": "b"}


class _InterruptedRunner(InProcessRunner):
    """Runs all but the last task of the export step, then raises as Ctrl-C does."""

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> Sequence[Result]:
        if task_info(function).step != "export":
            return run_here(function, tasks)
        run_here(function, tasks[:-1])
        raise KeyboardInterrupt


@pytest.mark.parametrize("shares_disk", [True, False])
@pytest.mark.parametrize("out", ["dump.jsonl", "parts/"])
def test_interrupted_export_leaves_nothing(root: Location, tmp_path: Path, out: str, shares_disk: bool) -> None:
    (tmp_path / "out").mkdir()
    before = {entry.path for entry in ObjectStore(root).list("")}
    with pytest.raises(KeyboardInterrupt):
        export_here(root, f"{tmp_path}/out/{out}", runner=_InterruptedRunner(shares_disk))
    assert list((tmp_path / "out").iterdir()) == []
    assert {entry.path for entry in ObjectStore(root).list("")} == before


def test_existing_target_is_replaced_only_with_force(root: Location, tmp_path: Path) -> None:
    def rejection_hint(out: str, *, force: bool = False) -> str:
        with pytest.raises(RefusedError) as error:
            export_here(root, f"{tmp_path}/{out}", force=force)
        assert error.value.code == "export_exists"
        return error.value.hint

    (tmp_path / "dump.jsonl").write_text("mine")
    assert "force=True" in rejection_hint("dump.jsonl")
    assert (tmp_path / "dump.jsonl").read_text() == "mine"
    export_here(root, tmp_path / "dump.jsonl", force=True)
    assert len(lines(tmp_path / "dump.jsonl")) == 6

    export_here(root, f"{tmp_path}/parts/")
    (tmp_path / "parts" / "node-Old-00000.jsonl").write_text("old")
    assert "force=True" in rejection_hint("parts/")
    assert "force=True" in rejection_hint("parts")
    export_here(root, f"{tmp_path}/parts/", force=True)
    assert {path.name for path in (tmp_path / "parts").iterdir()} == {
        "node-Person-00000.jsonl", "node-Note-00000.jsonl", "edge-Knows-00000.jsonl", "edge-About-00000.jsonl",
    }  # fmt: skip
    (tmp_path / "parts" / "letter.txt").write_text("mine")
    assert "empty directory" in rejection_hint("parts/", force=True)
    assert (tmp_path / "parts" / "letter.txt").read_text() == "mine"
    assert "another name" in rejection_hint("dump.jsonl/", force=True)


@pytest.mark.parametrize(
    ("out", "format_", "code"),
    [
        (None, ExportFormat.PARQUET, "export_format"),
        ("people.parquet", ExportFormat.NDJSON, "export_format"),
        ("memory://x/y", ExportFormat.NDJSON, "export_target"),
        ("ftp://x/y", ExportFormat.NDJSON, "uri_scheme"),
    ],
)
def test_invalid_target_is_rejected(out: str | None, format_: ExportFormat, code: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_target(out, format_)
    assert error.value.code == code
    assert error.value.hint


def test_missing_folder_is_an_error(root: Location, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        export_here(root, tmp_path / "no" / "dump.jsonl")
    assert error.value.code == "export_folder_missing"
    assert not (tmp_path / "no").exists()


def test_s3_from_and_to(s3_location: Location, tmp_path: Path) -> None:
    root = make_graph(s3_location, SCHEMA)
    load_records(root, tmp_path, RECORDS)
    export_here(root, tmp_path / "dump.jsonl", runner=InProcessRunner(has_shared_disk=False))
    place = s3_location.uri.removesuffix("/graph.omni")
    store = ObjectStore(Location(scheme=s3_location.scheme, uri=place, options=s3_location.options))
    export_here(root, f"{place}/out/dump.jsonl")
    assert store.read("out/dump.jsonl") == (tmp_path / "dump.jsonl").read_bytes()
    with pytest.raises(RefusedError):
        export_here(root, f"{place}/out/dump.jsonl")

    with pytest.raises(KeyboardInterrupt):
        export_here(root, f"{place}/parts/", runner=_InterruptedRunner(has_shared_disk=False))
    assert store.list("parts") == ()
    names = ["edge-About", "edge-Knows", "node-Note", "node-Person"]
    for force in (False, True):
        export_here(root, f"{place}/parts/", force=force)
        assert [entry.path for entry in store.list("parts")] == [f"parts/{name}-00000.jsonl" for name in names]
    text = b"".join(store.read(f"parts/{name}-00000.jsonl") or b"" for name in reversed(names))
    assert sorted(text.splitlines()) == sorted((tmp_path / "dump.jsonl").read_bytes().splitlines())
    with pytest.raises(RefusedError):
        export_here(root, f"{place}/parts/")
    assert ObjectStore(root).list("__scratch") == ()


def test_a_graph_in_memory(memory_location: Location, tmp_path: Path) -> None:
    root = make_graph(memory_location, SCHEMA)
    load_records(root, tmp_path, RECORDS)
    assert export_here(root, tmp_path / "dump.jsonl").total == 6


def test_lost_rows_fail_the_export(root: Location, tmp_path: Path) -> None:
    class LosingRunner(InProcessRunner):
        def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> Sequence[Result]:
            results = run_here(function, tasks)
            return [results[1], *results[1:]]

    create = [{"type": "Person", "data": {"slug": "third"}}]
    load_records(root, tmp_path, create)
    with pytest.raises(OmnigraphError) as error:
        export_here(root, tmp_path / "dump.jsonl", runner=LosingRunner())
    assert error.value.code == "export_incomplete"
    assert not (tmp_path / "dump.jsonl").exists()


def test_graph_of_an_old_format_is_rebuilt(root: Location, tmp_path: Path) -> None:
    """As docs/user/upgrade.md says: rejected here, exported by a release that reads it, created again and loaded."""
    commit_schema_metadata(open_dataset(root.child("__manifest")), {STAMP_KEY: "0"})
    with pytest.raises(FormatError) as refused:
        export_here(root, tmp_path / "dump.jsonl")
    assert refused.value.code == "stamp_too_old"
    assert "Export it with the omnigraph that created it" in refused.value.hint
    older = StorageFormat(current=0)
    export_here(root, tmp_path / "dump.jsonl", storage_format=older)
    rebuilt = make_graph(parse_location(str(tmp_path / "rebuilt.omni")), SCHEMA)
    load_file(rebuilt, tmp_path / "dump.jsonl")
    assert contents(rebuilt) == contents(root, storage_format=older)


@pytest.mark.skipif(built_library() is None, reason="no C compiler")
def test_export_on_a_failing_disk_is_complete_or_missing(root: Location, tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    folder.mkdir()
    environment = {**os.environ, "LD_PRELOAD": str(built_library()), DURABILITY_VARIABLE: "sync"}
    command = [sys.executable, "-m", "tests.pipeline.failing_exports", root.uri, str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("durability", ["sync", "process"])
@pytest.mark.parametrize("out", ["parts/", "dump.jsonl"])
def test_an_export_is_as_durable_as_the_graph(
    root: Location, tmp_path: Path, out: str, durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DURABILITY_VARIABLE, "process" if durability == "sync" else "sync")
    folder = tmp_path / "exports"
    folder.mkdir()
    synced: list[str] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    target = parse_target(f"{folder}/{out}", ExportFormat.NDJSON, durability=durability)
    export(replace(root, durability=Durability(durability)), ExportOptions(target=target), InProcessRunner())
    if durability == "process":
        assert synced == []
        return
    assert str(folder) in synced, "the entry of the new file or folder"
    assert any("node-Person" in path for path in synced), "the content of a part"
    assert str(tmp_path) not in synced, "a directory above the export"
    if out.endswith("/"):
        assert f"{folder}/parts" in synced
