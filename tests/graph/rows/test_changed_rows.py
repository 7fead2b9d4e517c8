"""The locations of rows on two sides of a table, computed from the changes, are those that a scan finds."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.graph.manifest.records import Pin
from omnigraph.graph.rows.changed_rows import compare_pins, is_cheap_to_compare
from omnigraph.graph.rows.entity_rows import RowLocations, locate
from omnigraph.storage.lance.commit import commit_branch
from omnigraph.storage.lance.dataset import Dataset, create_dataset
from omnigraph.storage.location import parse_location
from tests.storage.row_operations import IDS, STEPS, contents, rows, run, upsert

EVERY: Any = pa.array(["missing", "kept", *IDS])


def pin(dataset: Dataset) -> Pin:
    return Pin(dataset.branch, dataset.version)


def assert_same(actual: RowLocations, expected: RowLocations) -> None:
    assert actual.present.tolist() == expected.present.tolist()
    for ours, theirs in ((actual.identities, expected.identities), (actual.addresses, expected.addresses)):
        assert np.array_equal(ours[actual.present], theirs[actual.present])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, STEPS, STEPS, st.sampled_from([(False, False), (True, False), (True, True)]))
def test_locations_are_those_of_a_scan(
    first: list[Any], left_steps: list[Any], right_steps: list[Any], forks: tuple[bool, bool]
) -> None:
    """On one branch, across a fork, and between two forks, in both directions."""
    with tempfile.TemporaryDirectory() as folder:
        location = parse_location(f"{folder}/t")
        start = run(create_dataset(location, rows({"r0": 0, "r1": 1, "r2": 2})), first)
        left = run(commit_branch(start, "left") if forks[0] else start, left_steps)
        right = run(commit_branch(start, "right") if forks[1] else start if forks[0] else left, right_steps)
        for before, after in ((left, right), (right, left)):
            compared = compare_pins(location, pin(before), pin(after))
            ids = compared.ids()
            rows_before, rows_after = contents(before), contents(after)
            differing = {
                name for name in rows_before.keys() | rows_after.keys() if rows_before.get(name) != rows_after.get(name)
            }
            assert differing <= set(ids.to_pylist())
            assert_same(compared.locate_left(ids), locate(before, None, ids))
            assert_same(compared.locate_right(ids), locate(after, None, ids))
            on_left = locate(before, None, EVERY)
            assert_same(compared.locate_right(EVERY, on_left), locate(after, None, EVERY))


def test_is_cheap_to_compare() -> None:
    with tempfile.TemporaryDirectory() as folder:
        location = parse_location(f"{folder}/t")
        start = create_dataset(location, rows({f"r{number}": number for number in range(50)}))
        later = upsert(commit_branch(start, "fork"), "r1", 5)
        assert is_cheap_to_compare(location, pin(start), pin(later), 2)
        assert not is_cheap_to_compare(location, pin(start), pin(later), 1)
        assert not is_cheap_to_compare(location, pin(start), Pin("missing", 3), 1_000)
