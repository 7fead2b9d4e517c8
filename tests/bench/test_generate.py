"""The files that measurements read: always the same, and whole graphs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import generate
from bench.generate import SCHEMA, graph_file, people_file
from omnigraph.integrity.check import check_batch
from omnigraph.pipeline.load.inputs.ndjson import parse_block
from omnigraph.schema.build import build_catalog
from omnigraph.schema.parser import parse_schema


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(generate, "RESULTS", tmp_path)
    return tmp_path


def test_a_graph_has_as_many_lines_as_asked_for_one_in_five_a_person() -> None:
    records = [json.loads(line) for line in graph_file(1_003).read_text().splitlines()]
    assert [record["type"] for record in records[:200]] == ["Person"] * 200
    assert [record["edge"] for record in records[200:]] == ["Knows"] * 803


def test_every_line_is_right_and_every_edge_ends_at_a_person() -> None:
    catalog = build_catalog(parse_schema(SCHEMA))
    block = parse_block(graph_file(1_000).read_bytes(), catalog)
    people, knows = (check_batch(found.entity, found.raw) for found in block.rows)
    assert (block.bad, people.violations, knows.violations) == ((), (), ())
    ids = people.rows.column("id").to_pylist()
    assert len(set(ids)) == 200
    assert {*knows.rows.column("src").to_pylist(), *knows.rows.column("dst").to_pylist()} <= set(ids)


def test_the_same_people_have_the_same_lines_in_every_file(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = people_file(range(500)).read_bytes().splitlines()
    monkeypatch.setattr(generate, "_BATCH", 7)
    assert people_file(range(300, 500)).read_bytes().splitlines() == whole[300:]
    assert graph_file(2_500).read_bytes().splitlines()[:500] == whole


def test_a_file_is_kept() -> None:
    path = graph_file(10)
    path.write_text("kept")
    assert graph_file(10).read_text() == "kept"


def test_some_values_are_missing_and_most_are_not() -> None:
    records = [json.loads(line)["data"] for line in people_file(range(1_000)).read_text().splitlines()]
    without = sum("age" not in record for record in records)
    assert 50 < without < 250
