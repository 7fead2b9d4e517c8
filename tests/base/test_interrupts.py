"""A signal whose exception a library ignored still ends the command before its commit."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.base.failpoints import observed
from omnigraph.base.interrupts import MAY_BE_COMMITTED, received_signals
from omnigraph.pipeline.runner import LocalRunner, TaskSize, task

SCHEMA = "node Person { slug: String @key }"


@pytest.fixture
def ignored_signal() -> Iterator[list[int]]:
    received_signals.append(signal.SIGTERM)
    yield received_signals
    received_signals.clear()


@task("count", lambda number: TaskSize(rows=number))
def _count(number: int) -> int:
    return number


def test_no_write_is_committed(tmp_path: Path, ignored_signal: list[int]) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA)
    for write in (
        lambda: graph.mutate('query q() { insert Person { slug: "ada" } }'),
        lambda: graph.load([{"slug": "ada"}], type="Person"),
    ):
        with pytest.raises(KeyboardInterrupt):
            write()
    ignored_signal.clear()
    assert len(graph.log()) == 1
    graph.mutate('query q() { insert Person { slug: "ada" } }')
    assert graph.snapshot().tables["node:Person"].row_count == 1


def test_interrupt_of_a_commit_has_a_note(tmp_path: Path) -> None:
    """Before the first durable step of the commit there is none: nothing was written."""
    graph = og.init(tmp_path / "graph.omni", SCHEMA)
    for effect, notes in (("dataset.stage", []), ("dataset.commit", [MAY_BE_COMMITTED])):

        def interrupt(announced: str, _: str, effect: str = effect) -> None:
            if announced == effect:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as raised, observed(interrupt):
            graph.mutate('query q() { insert Person { slug: "ada" } }')
        assert getattr(raised.value, "__notes__", []) == notes


def test_tasks_end(ignored_signal: list[int]) -> None:
    with pytest.raises(KeyboardInterrupt):
        LocalRunner()(_count, [1, 2, 3])
