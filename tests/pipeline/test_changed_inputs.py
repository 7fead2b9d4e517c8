"""Files that change after the load was planned: an error names the file and nothing is written, in every format."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.base.errors import ContentError
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.inputs.blocks import Block, Piece
from omnigraph.pipeline.load.inputs.files import find_inputs
from omnigraph.pipeline.load.inputs.ndjson import plan_json_pieces
from omnigraph.pipeline.load.run import LoadRequest, load
from omnigraph.pipeline.load.source import InputSource, classify_inputs, plan_files
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.files import write_file
from omnigraph.storage.lance.delete import delete_files
from omnigraph.storage.location import Location
from tests.pipeline.in_place import contents, files, in_place

SCHEMA = "node P { slug: String @key  n: I32? }\n"
ROWS = 4_000


def ndjson(rows: int) -> bytes:
    return "".join(
        json.dumps({"type": "P", "data": {"slug": f"p{row}", "n": row}}) + "\n" for row in range(rows)
    ).encode()


def csv(rows: int) -> bytes:
    return ("slug,n\n" + "".join(f"p{row},{row}\n" for row in range(rows))).encode()


def parquet(rows: int) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"slug": [f"p{row}" for row in range(rows)], "n": pa.array(range(rows), pa.int32())})
    pq.write_table(table, sink, row_group_size=1_000)
    return sink.getvalue()


FORMATS: dict[str, Callable[[int], bytes]] = {
    "p.jsonl": ndjson,
    "p.jsonl.gz": lambda rows: gzip.compress(ndjson(rows)),
    "p.csv": csv,
    "p.csv.gz": lambda rows: gzip.compress(csv(rows)),
    "p.parquet": parquet,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangingPiece(Piece):
    """A piece whose file changes while it is read."""

    inner: Piece
    change: Callable[[], None]

    @classmethod
    def of(cls, piece: Piece, change: Callable[[], None]) -> ChangingPiece:
        return cls(
            name=piece.name,
            file=piece.file,
            part=piece.part,
            size_bytes=piece.size_bytes,
            text_bytes=piece.text_bytes,
            inner=piece,
            change=change,
        )

    def blocks(self, catalog: Catalog) -> Iterator[Block]:
        for block in self.inner.blocks(catalog):
            self.change()
            yield block


@dataclass(frozen=True, slots=True)
class StoreCase:
    """A graph and a file for it, on the same kind of store."""

    root: Location
    data: Location

    def put(self, content: bytes) -> None:
        with write_file(self.data) as file:
            file.write(content)

    def plan(self) -> tuple[Piece, ...]:
        type_name = None if ".json" in self.data.uri else "P"
        inputs = classify_inputs(self.data.uri, type_name, dict(self.root.options))
        return plan_files(inputs, read_snapshot(self.root).schema.catalog)

    def load(self, pieces: tuple[Piece, ...], run: Any = in_place) -> None:
        load(self.root, LoadRequest(source=InputSource(pieces), mode=LoadMode.APPEND, actor="ada"), run)

    def rejects(self, run: Callable[[], None]) -> ContentError:
        """The error of a load of a changed file, which leaves the graph and its files unchanged."""
        before = files(self.root)
        with pytest.raises(ContentError) as caught:
            run()
        assert caught.value.code == "input_changed"
        assert f"'{self.data.uri}'" in caught.value.message
        assert contents(self.root) == {"node:P": []}
        assert files(self.root) == before
        return caught.value


@pytest.fixture(params=sorted(FORMATS))
def name(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def case(durable_location: Location, name: str) -> StoreCase:
    og.init(durable_location.uri, SCHEMA, storage_options=dict(durable_location.options))
    folder = durable_location.uri.rpartition("/")[0]
    made = StoreCase(durable_location, replace(durable_location, uri=f"{folder}/{name}"))
    made.put(FORMATS[name](ROWS))
    return made


def test_file_shrinks_before_its_pieces_are_read(case: StoreCase, name: str) -> None:
    pieces = case.plan()
    sizes = [len(FORMATS[name](rows)) for rows in (ROWS, 1_000)]
    case.put(FORMATS[name](1_000))
    error = case.rejects(lambda: case.load(pieces))
    assert f"expected {sizes[0]:,} bytes" in error.message
    assert f"got {sizes[1]:,} bytes" in error.message
    assert error.hint.startswith("Nothing was written.")


def test_file_changes_while_it_is_read(case: StoreCase, name: str) -> None:
    """The size is unchanged."""
    other = FORMATS[name](ROWS).replace(b"p", b"q", 1)
    pieces = tuple(ChangingPiece.of(piece, lambda: case.put(other)) for piece in case.plan())
    error = case.rejects(lambda: case.load(pieces))
    size = len(other)
    assert f"got {size:,} bytes" in error.message
    case.put(FORMATS[name](ROWS))
    case.load(case.plan())
    assert len(contents(case.root)["node:P"]) == ROWS


@pytest.mark.parametrize("name", ["p.jsonl"], indirect=True)
def test_file_changes_between_two_of_its_pieces(case: StoreCase) -> None:
    [file] = find_inputs([case.data.uri], dict(case.root.options))
    pieces = plan_json_pieces([file], file.size // 3)
    assert len(pieces) > 2

    def run(function: Callable[[Any], Any], tasks: Any) -> list[Any]:
        done = [function(tasks[0])]
        case.put(ndjson(100))
        return [*done, *(function(task) for task in tasks[1:])]

    case.rejects(lambda: case.load(pieces, run))


@pytest.mark.parametrize("name", ["p.jsonl"], indirect=True)
def test_deleted_file(case: StoreCase) -> None:
    pieces = case.plan()
    folder, _, path = case.data.uri.rpartition("/")
    delete_files(replace(case.data, uri=folder), [path])
    assert case.rejects(lambda: case.load(pieces)).message.endswith("got no file")


def test_touched_file(tmp_path: Path) -> None:
    """The bytes are the same, but a load cannot know that without reading them twice."""
    og.init(tmp_path / "g.omni", SCHEMA)
    path = tmp_path / "p.jsonl"
    path.write_bytes(ndjson(5))
    case = StoreCase(
        og.open(tmp_path / "g.omni").location, replace(og.open(tmp_path / "g.omni").location, uri=str(path))
    )
    pieces = case.plan()
    os.utime(path, ns=(1, 1))
    assert "modified 1970-01-01T00:00:00.000000001Z" in case.rejects(lambda: case.load(pieces)).message
