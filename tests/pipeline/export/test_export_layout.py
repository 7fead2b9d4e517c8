"""Exports are the same bytes however the rows lie in the files of a graph. Workers run in place here."""

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
    """One fragment, rows in the order of their ids."""
    records = sorted(many(range(MANY)), key=lambda record: str(record["data"]["slug"]))
    load_records(root, folder, records)


def random_layout(root: Location, folder: Path) -> None:
    """One fragment without any order."""
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
def test_the_layout_of_files_does_not_show(tmp_path: Path, layout: Layout) -> None:
    """Parts too are cut at the same ids, so every file has the same bytes."""
    found, steps = [], []
    for number, lay in enumerate((sorted_layout, layout)):
        root = make_graph(parse_location(str(tmp_path / f"{number}.omni")), SCHEMA)
        lay(root, tmp_path)
        runner = InProcessRunner(has_shared_disk=number == 0)
        export_here(root, f"{tmp_path}/{number}/", runner=runner, part_bytes=150_000)
        found.append({path.name: path.read_bytes() for path in (tmp_path / f"{number}").iterdir()})
        steps.append([step for step, _ in runner.steps])
        export_here(root, tmp_path / f"{number}.jsonl.gz", part_bytes=150_000)
    assert len(found[0]) > 10
    assert found[0] == found[1]
    assert (tmp_path / "0.jsonl.gz").read_bytes() == (tmp_path / "1.jsonl.gz").read_bytes()
    assert steps == [["read ids", "export"], ["read ids", "sort", "export"]]
    text = b"".join(found[0][name] for name in sorted(found[0]))
    ids = [json.loads(line)["data"]["id"] for line in text.splitlines()]
    assert ids == sorted(f"p{n * 7919 % 100_003}" for n in range(MANY))


def test_scratch_is_gone(tmp_path: Path) -> None:
    root = make_graph(parse_location(str(tmp_path / "graph.omni")), SCHEMA)
    random_layout(root, tmp_path)
    before = {entry.path for entry in ObjectStore(root).list("")}
    (tmp_path / "out").mkdir()
    for shares_disk in (True, False):
        runner = InProcessRunner(shares_disk)
        export_here(root, tmp_path / "out" / "d.jsonl", runner=runner, force=True, part_bytes=150_000)
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["d.jsonl"]
    assert {entry.path for entry in ObjectStore(root).list("")} == before
