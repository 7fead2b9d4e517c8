"""Exports are the same bytes for every file layout of a graph. Tasks run in this process."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from omnigraph.pipeline.load.change import LoadMode
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.pipeline.exporting import InProcessRunner, Record, export_here, load_records, make_graph

SCHEMA = "node Person { slug: String @key  age: I32? }"
MANY = 30_000


def many(order: Sequence[int]) -> list[Record]:
    return [{"type": "Person", "data": {"slug": f"p{n * 7919 % 100_003}", "age": n % 90}} for n in order]


Layout = Callable[[Location, Path], None]


def sorted_layout(root: Location, folder: Path) -> None:
    """One fragment, with rows in id order."""
    records = sorted(many(range(MANY)), key=lambda record: str(record["data"]["slug"]))
    load_records(root, folder, records)


def random_layout(root: Location, folder: Path) -> None:
    """One fragment, with rows in random order."""
    order = list(range(MANY))
    random.Random(7).shuffle(order)
    load_records(root, folder, many(order))


def patched_layout(root: Location, folder: Path) -> None:
    """Several fragments, some of them with rows that were replaced later."""
    for start in range(0, MANY, 9_000):
        load_records(root, folder, many(range(start, min(start + 9_000, MANY))))
    load_records(root, folder, [{"type": "Person", "data": {"slug": "p0"}}], mode=LoadMode.MERGE)
    load_records(root, folder, many(range(5, 7_000, 3)), mode=LoadMode.MERGE)
    load_records(root, folder, many([0]), mode=LoadMode.MERGE)


@pytest.mark.parametrize("layout", [random_layout, patched_layout])
def test_export_does_not_depend_on_the_layout(tmp_path: Path, layout: Layout) -> None:
    """Parts have the same bounds too, so every file has the same bytes."""
    exports, steps = [], []
    for number, lay in enumerate((sorted_layout, layout)):
        root = make_graph(parse_location(str(tmp_path / f"{number}.omni")), SCHEMA)
        lay(root, tmp_path)
        runner = InProcessRunner(has_shared_disk=number == 0)
        export_here(root, f"{tmp_path}/{number}/", runner=runner, part_bytes=150_000)
        exports.append({path.name: path.read_bytes() for path in (tmp_path / f"{number}").iterdir()})
        steps.append([step for step, _ in runner.steps])
        export_here(root, tmp_path / f"{number}.jsonl.gz", part_bytes=150_000)
    assert len(exports[0]) > 10
    assert exports[0] == exports[1]
    assert (tmp_path / "0.jsonl.gz").read_bytes() == (tmp_path / "1.jsonl.gz").read_bytes()
    assert steps == [["read ids", "export"], ["read ids", "sort", "export"]]
    text = b"".join(exports[0][name] for name in sorted(exports[0]))
    ids = [json.loads(line)["data"]["id"] for line in text.splitlines()]
    assert ids == sorted(f"p{n * 7919 % 100_003}" for n in range(MANY))


def test_scratch_is_deleted(tmp_path: Path) -> None:
    root = make_graph(parse_location(str(tmp_path / "graph.omni")), SCHEMA)
    random_layout(root, tmp_path)
    before = {entry.path for entry in ObjectStore(root).list("")}
    (tmp_path / "out").mkdir()
    for shares_disk in (True, False):
        runner = InProcessRunner(shares_disk)
        export_here(root, tmp_path / "out" / "d.jsonl", runner=runner, force=True, part_bytes=150_000)
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["d.jsonl"]
    assert {entry.path for entry in ObjectStore(root).list("")} == before
