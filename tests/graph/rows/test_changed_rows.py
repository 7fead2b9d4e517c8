"""Where rows lie on two sides of a table, found from what changed, is where a look through the table finds them."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.graph.manifest.records import Pin
from omnigraph.graph.rows.changed_rows import compare_pins, is_near
from omnigraph.graph.rows.entity_rows import RowLocations, locate
from omnigraph.storage.lance.commit import commit_branch
from omnigraph.storage.lance.dataset import Dataset, create_dataset
from omnigraph.storage.location import parse_location
from tests.storage.row_operations import IDS, STEPS, contents, rows, run, upsert

EVERY: Any = pa.array(["nowhere", "kept", *IDS])


def pin(dataset: Dataset) -> Pin:
    return Pin(dataset.branch, dataset.version)


def assert_same(found: RowLocations, wanted: RowLocations) -> None:
    assert found.present.tolist() == wanted.present.tolist()
    for ours, theirs in ((found.identities, wanted.identities), (found.addresses, wanted.addresses)):
        assert np.array_equal(ours[found.present], theirs[found.present])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, STEPS, STEPS, st.sampled_from([(False, False), (True, False), (True, True)]))
def test_places_are_those_that_a_scan_finds(
    first: list[Any], one: list[Any], two: list[Any], forks: tuple[bool, bool]
) -> None:
    """On one line, across a fork, and between two forks; one way and the other."""
    with tempfile.TemporaryDirectory() as folder:
        location = parse_location(f"{folder}/t")
        start = run(create_dataset(location, rows({"r0": 0, "r1": 1, "r2": 2})), first)
        left = run(commit_branch(start, "left") if forks[0] else start, one)
        right = run(commit_branch(start, "right") if forks[1] else start if forks[0] else left, two)
        for before, after in ((left, right), (right, left)):
            compared = compare_pins(location, pin(before), pin(after))
            ids = compared.ids()
            there, then = contents(before), contents(after)
            differing = {name for name in there.keys() | then.keys() if there.get(name) != then.get(name)}
            assert differing <= set(ids.to_pylist())
            assert_same(compared.locate_left(ids), locate(before, None, ids))
            assert_same(compared.locate_right(ids), locate(after, None, ids))
            on_left = locate(before, None, EVERY)
            assert_same(compared.locate_right(EVERY, on_left), locate(after, None, EVERY))


def test_near_is_what_reads_few_rows() -> None:
    with tempfile.TemporaryDirectory() as folder:
        location = parse_location(f"{folder}/t")
        start = create_dataset(location, rows({f"r{number}": number for number in range(50)}))
        later = upsert(commit_branch(start, "fork"), "r1", 5)
        assert is_near(location, pin(start), pin(later), 2)
        assert not is_near(location, pin(start), pin(later), 1)
        assert not is_near(location, pin(start), Pin("gone", 3), 1_000)
