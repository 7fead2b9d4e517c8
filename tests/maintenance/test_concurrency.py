"""The number of tables in parallel: the variable, the default, invalid values, and the bound of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from omnigraph.api.graph import Graph, init
from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.maintenance.optimize.indexes import build_segments
from omnigraph.maintenance.optimize.options import OptimizeOptions
from omnigraph.maintenance.optimize.rewrite import rewrite_group
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.pipeline.runner import CONCURRENCY_VARIABLE, maintenance_concurrency
from omnigraph.storage.location import Location


@pytest.mark.parametrize(("value", "expected"), [("3", 3), ("1", 1), ("", limits.MAINTENANCE_CONCURRENCY)])
def test_valid_values(value: str, expected: int) -> None:
    assert maintenance_concurrency({CONCURRENCY_VARIABLE: value}) == expected


def test_default() -> None:
    assert maintenance_concurrency({}) == limits.MAINTENANCE_CONCURRENCY


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", " ", "²"])
def test_invalid_values_are_rejected(value: str) -> None:
    with pytest.raises(UsageError, match=CONCURRENCY_VARIABLE) as refused:
        maintenance_concurrency({CONCURRENCY_VARIABLE: value})
    assert refused.value.code == "maintenance_concurrency"


class Workers:
    """Threads that run all tasks of a call together, as Spark does, and record their tables."""

    def __init__(self) -> None:
        self.active: list[str] = []
        self.together: list[set[str]] = []
        self.functions: set[str] = set()
        self._lock = threading.Lock()

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        self.functions.add(function.__name__)
        everyone = threading.Barrier(len(tasks))

        def work(task: Any) -> Any:
            table = task.table.location.uri
            with self._lock:
                self.active.append(table)
                self.together.append(set(self.active))
            everyone.wait()
            try:
                return function(task)
            finally:
                with self._lock:
                    self.active.remove(table)

        with ThreadPoolExecutor(len(tasks)) as threads:
            return list(threads.map(work, tasks))


@pytest.mark.parametrize("bound", [1, 2, 8])
def test_run_works_on_a_bounded_number_of_tables(
    local_location: Location, monkeypatch: pytest.MonkeyPatch, bound: int
) -> None:
    names = [f"T{number}" for number in range(5)]
    schema = "".join(f"node {name} {{ slug: String @key  n: I32? @index }}\n" for name in names)
    graph = init(local_location.uri, schema, actor="tester")
    for row in ("a", "b"):
        inserts = " ".join(f'insert {name} {{ slug: "{row}", n: 1 }}' for name in names)
        graph.mutate(f"query add() {{ {inserts} }}")
    monkeypatch.setenv(CONCURRENCY_VARIABLE, str(bound))
    workers = Workers()
    before = len(list(graph.log(None)))
    rows = optimize_all_tables(Graph(local_location), OptimizeOptions(), workers.run)
    assert workers.functions == {rewrite_group.__name__, build_segments.__name__}
    assert max(map(len, workers.together)) == min(bound, len(names))
    fragments = [(row.fragments_removed, row.fragments_added) for row in rows if row.table_key.startswith("node:")]
    assert fragments == [(2, 1)] * len(names)
    assert len(list(graph.log(None))) == before + 1, "one commit, whatever the bound"
