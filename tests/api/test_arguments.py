"""The wrong kind of value is an error with a hint, wherever it is passed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.arguments import checked
from omnigraph.base.errors import UsageError

READ = "query q() { match { $p: Person } return { $p.slug } }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("arguments") / "graph.omni"
    return og.init(str(place), "node Person { slug: String @key }")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda graph: graph.query(5), "source"),
        (lambda graph: graph.query(READ, params=["ada"]), "params"),
        (lambda graph: graph.query(READ, params={5: "ada"}), "params"),
        (lambda graph: graph.query(READ, at="yesterday"), "at"),
        (lambda graph: graph.query(READ, at=date(2026, 5, 31)), "at"),
        (lambda graph: graph.snapshot(at=datetime(2026, 5, 31)), "at"),  # what it is about
        (lambda graph: graph.query(READ, version="3"), "version"),
        (lambda graph: graph.query(READ, version=True), "version"),
        (lambda graph: graph.query(READ, limits={"hops": 3}), "limits"),
        (lambda graph: graph.prepare(READ).run(graph.pin(), [1]), "params"),
        (lambda graph: graph.prepare(READ).run("main"), "snapshot"),
        (lambda graph: graph.mutate(READ, if_commit=5), "if_commit"),
        (lambda graph: graph.cleanup(older_than="2w"), "older_than"),
        (lambda graph: graph.cleanup(keep="3"), "keep"),
        (lambda graph: graph.optimize(tables="Person"), "tables"),
        (lambda graph: graph.ensure_indices(tables=5), "tables"),
        (lambda graph: graph.optimize(report=5), "report"),
        (lambda graph: graph.export(types="Person"), "types"),
        (lambda graph: graph.merge("b", resolve={"ada": "ours"}), "resolve"),
        (lambda graph: graph.merge("b", strategy=["ours"]), "strategy"),
        (lambda graph: graph.apply_schema(b"node A {}"), "schema"),
        (lambda graph: graph.doctor(deep="yes"), "deep"),
        (lambda _: og.open(b"graph.omni"), "uri"),  # type: ignore[arg-type]
        (lambda graph: graph.changes(limit=0), "limit"),
        (lambda graph: graph.changes(limit=-1), "limit"),
        (lambda _: og.open("graph.omni", options="ada"), "options"),  # type: ignore[arg-type]
        (lambda _: og.OpenOptions(storage_options=[1]), "storage_options"),  # type: ignore[arg-type]
        (lambda _: og.OpenOptions(storage_options={"aws_endpoint": 1}), "storage_options"),  # type: ignore[dict-item]
    ],
)
def test_a_wrong_kind_of_value(graph: Any, call: Callable[[Any], object], name: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(graph)
    assert (caught.value.code, caught.value.facts["argument"]) == ("argument", name)
    assert f"{name}=" in caught.value.hint


SECRET: dict[object, object] = {"aws_secret_access_key": "hunter2"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({**SECRET, "allow_http": True}, "'allow_http' is a bool"),
        ({**SECRET, 5: "x", "timeout": 1}, "the name 5 is an int, 'timeout' is an int"),
        ({**SECRET, "aws_region": None}, "'aws_region' is None"),
        (list(SECRET.items()), "cannot be a list"),
    ],
)
def test_what_opens_a_store_is_not_told(given: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        og.OpenOptions(storage_options=given)
    assert caught.value.message.split(", and ", 1)[1] == told
    options: Any = {"storage_options": given}
    with pytest.raises(UsageError, match=r"and cannot be a dict$"):
        og.open("graph.omni", options=options)


def test_a_place_may_be_a_path(tmp_path: Path) -> None:
    place = tmp_path / "graph.omni"
    assert og.init(place, "node A { a: String @key }").uri == og.open(place).uri == str(place)


def test_files_may_be_paths(graph: Any, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere" / "rows.jsonl"
    for code, method, given in (
        ("export_folder_missing", graph.export, nowhere),
        ("input_missing", graph.load, nowhere),
        ("input_missing", graph.load, [nowhere]),
    ):
        with pytest.raises(og.OmnigraphError) as caught:
            method(given)
        assert caught.value.code == code
    rows = tmp_path / "rows.jsonl"
    rows.touch()
    with pytest.raises(UsageError, match="no file can be written at"):
        graph.load(rows, errors=tmp_path)


@pytest.mark.parametrize("data", [{}, [], ()], ids=str)
def test_nothing_to_load_is_a_mistake(graph: Any, data: object) -> None:
    with pytest.raises(UsageError, match=f"nothing to load: the {type(data).__name__} is empty") as caught:
        graph.load(data)
    assert caught.value.code == "load_data"


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph.mutate(READ, actor=" "),
        lambda graph: graph.branch("b", create_from="main", actor=""),
        lambda graph: graph.merge("b", actor="\t"),
        lambda graph: graph.load("x.jsonl", actor=""),
        lambda _: og.OpenOptions(actor=""),
    ],
)
def test_a_blank_actor_is_refused(graph: Any, call: Callable[[Any], object]) -> None:
    with pytest.raises(UsageError) as caught:
        call(graph)
    assert (caught.value.code, "actor=" in caught.value.hint) == ("actor_blank", True)


def test_the_names_that_are_imported_late_are_there() -> None:
    assert set(og.__all__) <= set(dir(og))
    assert {name: getattr(og, name).__name__ for name in og.__all__ if name.endswith("Error")} == {
        name: name for name in og.__all__ if name.endswith("Error")
    }
    with pytest.raises(AttributeError, match="has no attribute 'opne'"):
        og.opne  # noqa: B018


def test_what_fits_goes_through() -> None:
    @checked
    def called(at: datetime | None, age: timedelta, *, tables: tuple[str, ...] = (), more: object = 5) -> str:
        return f"{at} {age} {tables} {more}"

    east = timezone(timedelta(hours=2))
    assert called(datetime(2026, 1, 1, tzinfo=east), timedelta(1), tables=["a"]).endswith("['a'] 5")  # type: ignore[arg-type]
    assert called(None, age=timedelta(1), more="x") == "None 1 day, 0:00:00 () x"


def test_a_text_error_tells_every_problem() -> None:
    with pytest.raises(og.OmnigraphError) as caught:
        og.init("never", "node A { a: Nope  b: Nada }")
    assert "Nope" in str(caught.value)
    assert "Nada" in str(caught.value)
