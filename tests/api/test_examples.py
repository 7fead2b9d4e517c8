"""Every public function and method has one example, and it runs as written on a small graph."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import omnigraph as og
from omnigraph.api import graph as surface
from omnigraph.api.prepared import PreparedQuery

SCHEMA: Final = """
node Person { slug: String @key  age: I32? @index }
edge Knows: Person -> Person
"""
PEOPLE: Final = """
query people() {
  insert Person { slug: "ada", age: 36 }
  insert Person { slug: "bob", age: 41 }
  insert Knows { from: "ada", to: "bob" }
}
"""
ON_SPARK: Final = frozenset(
    {"Graph.load", "Graph.export", "Graph.build_indexes", "Graph.apply_schema", "spark.session"}
)


def _documented() -> Iterator[tuple[str, Any]]:
    for name in ("init", "open", "lint"):
        yield name, getattr(og, name)
    for name in ("cleanup_all_tables", "optimize_all_tables", "repair_all_tables"):
        yield f"maintenance.{name}", getattr(og.maintenance, name)
    yield "spark.session", og.spark.session
    for kind in (surface.Graph, PreparedQuery, og.types.Result):
        for name, member in vars(kind).items():
            if inspect.isfunction(member) and not name.startswith("_"):
                yield f"{kind.__name__}.{name}", member


DOCUMENTED: Final = dict(_documented())


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    monkeypatch.chdir(tmp_path)
    graph = og.init("people.omni", SCHEMA)
    graph.mutate(PEOPLE)
    return graph


def _run(name: str, graph: og.Graph) -> None:
    text = inspect.getdoc(DOCUMENTED[name]) or ""
    assert text.count("Example:\n") == 1, f"{name} needs one example"
    test = doctest.DocTestParser().get_doctest(text, {"og": og, "graph": graph}, name, None, None)
    assert test.examples, f"the example of {name} has no code"
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=output.append)
    assert runner.failures == 0, "".join(output)


@pytest.mark.parametrize("name", sorted(DOCUMENTED.keys() - ON_SPARK))
def test_example(name: str, people: og.Graph) -> None:
    _run(name, people)


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("name", sorted(ON_SPARK))
def test_example_on_spark(name: str, people: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER", "local[2]")  # as the other tests that share this process
    _run(name, people)


def test_representation_of_the_class_example(people: og.Graph) -> None:
    text = inspect.getdoc(og.Graph) or ""
    test = doctest.DocTestParser().get_doctest(text, {"graph": people}, "Graph", None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test).failed == 0
