"""Exports on real executors: they read the rows, and write the same bytes as one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.pipeline.export_scenario import PART_BYTES
from tests.pipeline.exporting import Record, export_here, load_records, make_graph
from tests.pipeline.process import ProcessEnvironment

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = """\
node Person { slug: String @key  age: I32?  photo: Blob? }
edge Knows: Person -> Person { weight: F64? }
"""


@pytest.fixture
def graph(world: ProcessEnvironment) -> Location:
    """Return a graph with rows in random order, so that the export sorts them."""
    root = make_graph(parse_location(str(world.folder / "graph.omni")), SCHEMA)
    slugs = [f"p{number * 7919 % 10_007}" for number in range(10_000)]
    people: list[Record] = [
        {"type": "Person", "data": {"slug": slug, "age": number % 90}} for number, slug in enumerate(slugs)
    ]
    people[5]["data"]["photo"] = "base64:/+8="
    knows: list[Record] = [
        {"edge": "Knows", "from": slug, "to": slugs[-number], "data": {"weight": number / 7}}
        for number, slug in enumerate(slugs)
    ]
    load_records(root, world.folder, [*people, *knows])
    return root


@pytest.mark.soak  # the loads on clusters end with an export, of one part
def test_executors_read_and_write_the_same_bytes(world: ProcessEnvironment, graph: Location) -> None:
    before = {entry.path for entry in ObjectStore(graph).list("")}
    master = {"MASTER": "local-cluster[2,1,1024]"}
    outcome = world.run("cluster", master, module="tests.pipeline.export_scenario")
    assert outcome == {"total": 20_000, "shares_disk": True}
    export_here(graph, f"{world.folder}/here/", part_bytes=PART_BYTES)
    assert len(files(world.folder / "here")) > 5
    assert files(world.folder / "cluster") == files(world.folder / "here")
    assert {entry.path for entry in ObjectStore(graph).list("")} == before


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
