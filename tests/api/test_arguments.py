"""Arguments that types do not describe completely are checked at the call, and have the same forms everywhere."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.base.errors import UsageError

SCHEMA = "node Person { slug: String @key }"
READ = "query q() { match { $p: Person } return { $p.slug } }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return og.init(tmp_path_factory.mktemp("arguments") / "graph.omni", SCHEMA)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda graph: graph.snapshot(datetime(2026, 5, 31)), "as_of"),
        (lambda graph: graph.query(READ, as_of=datetime(2026, 5, 31)), "as_of"),
        (lambda graph: graph.query(READ, as_of=True), "as_of"),
        (lambda graph: graph.snapshot(3.5), "as_of"),
        (lambda graph: graph.optimize(types="Person"), "types"),
        (lambda graph: graph.build_indexes(types="Person"), "types"),
        (lambda graph: graph.export(types="Person"), "types"),
        (lambda graph: graph.changes(limit=0), "limit"),
        (lambda graph: graph.changes(limit=-1), "limit"),
        (lambda graph: graph.log(0), "limit"),
        (lambda graph: graph.cleanup(older_than=3), "older_than"),
        (lambda graph: graph.repair(unverified="forget"), "unverified"),
        (lambda _: og.open("graph.omni", storage_options={"aws_allow_http": True}), "storage_options"),  # type: ignore[dict-item]
    ],
)
def test_invalid_argument(graph: Any, call: Callable[[Any], object], name: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(graph)
    assert (caught.value.code, caught.value.facts["argument"]) == ("argument", name)
    assert f"{name}=" in caught.value.hint
    assert str(caught.value) == f"{caught.value.message}\nhint: {caught.value.hint}"


def test_values_of_storage_options_are_not_reported() -> None:
    options: Any = {"aws_secret_access_key": b"hunter2"}
    with pytest.raises(UsageError) as caught:
        og.open("graph.omni", storage_options=options)
    assert "aws_secret_access_key" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_snapshot_of_another_graph(graph: og.Graph, tmp_path: Path) -> None:
    other = og.init(tmp_path / "other.omni", SCHEMA)
    with pytest.raises(UsageError, match="the snapshot is of another graph"):
        graph.query(READ, as_of=other.snapshot())


def test_durations_are_text_or_timedeltas(graph: og.Graph) -> None:
    for older_than in ("14d", timedelta(days=14)):
        assert graph.cleanup(older_than=older_than).dry_run
    with pytest.raises(UsageError) as caught:
        graph.cleanup(older_than="a while")
    assert caught.value.code == "duration_malformed"


def test_schema_is_text_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.pg").write_text(SCHEMA, encoding="utf-8")
    forms: tuple[str | Path, ...] = (SCHEMA, "schema.pg", tmp_path / "schema.pg")
    for number, schema in enumerate(forms):
        graph = og.init(f"{number}.omni", schema)
        assert graph.schema == SCHEMA
        assert graph.plan_schema("schema.pg").steps == ()
    with pytest.raises(UsageError) as caught:
        og.init("missing.omni", "missing.pg")
    assert caught.value.code == "schema_file"
    (tmp_path / "bad.pg").write_text("node A { a: Nope }", encoding="utf-8")
    with pytest.raises(og.SchemaTextError, match=r"bad\.pg:1:13"):
        og.init("bad.omni", "bad.pg")


def test_uri_is_text_or_a_path(tmp_path: Path) -> None:
    place = tmp_path / "graph.omni"
    assert og.init(place, SCHEMA).uri == og.open(place).uri == str(place)


def test_files_are_text_or_paths(graph: Any, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere" / "rows.jsonl"
    for code, method, data in (
        ("export_folder_missing", graph.export, nowhere),
        ("input_missing", graph.load, nowhere),
        ("input_missing", graph.load, [nowhere]),
    ):
        with pytest.raises(og.OmnigraphError) as caught:
            method(data)
        assert caught.value.code == code
    rows = tmp_path / "rows.jsonl"
    rows.touch()
    with pytest.raises(UsageError, match="no file can be written at"):
        graph.load(rows, rejects=tmp_path)


@pytest.mark.parametrize("data", [{}, [], ()], ids=str)
def test_nothing_to_load_is_an_error(graph: Any, data: object) -> None:
    with pytest.raises(UsageError, match=f"nothing to load: the {type(data).__name__} is empty") as caught:
        graph.load(data)
    assert caught.value.code == "load_data"


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph.mutate(READ, actor=" "),
        lambda graph: graph.create_branch("b", actor=""),
        lambda graph: graph.merge("b", actor="\t"),
        lambda graph: graph.load("x.jsonl", actor=""),
        lambda graph: og.open(graph.uri, actor=""),
        lambda graph: og.init(f"{graph.uri}2", SCHEMA, actor=""),
    ],
)
def test_blank_actor_is_rejected(graph: Any, call: Callable[[Any], object]) -> None:
    with pytest.raises(UsageError) as caught:
        call(graph)
    assert caught.value.code == "actor_blank"


def test_text_error_lists_every_problem() -> None:
    with pytest.raises(og.OmnigraphError) as caught:
        og.init("never", "node A { a: Nope  b: Nada }")
    assert "Nope" in str(caught.value)
    assert "Nada" in str(caught.value)


def test_actor_of_the_system_or_without_a_valid_name_is_rejected(graph: Any) -> None:
    for actor in ("omnigraph:repair", " ada", "ada\n", "a" * 129):
        with pytest.raises(UsageError) as caught:
            graph.mutate(READ, actor=actor)
        assert caught.value.code == "actor_invalid"
