"""The crash matrix: every writer kind is killed with SIGKILL at every hit of every failpoint that it reaches.

Then the graph has exactly the state before or the state after the write, as the failpoint requires. A second recovery
changes no file, the next write works, no lock or intent is left, and every head is its pin. A cell whose process was
not killed at its failpoint fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from _pytest.mark.structures import ParameterSet

from omnigraph.base.failpoints import Failpoint
from omnigraph.storage.location import Location
from tests.conftest import S3Server
from tests.graph.crash.killer import Killer
from tests.graph.crash.observe import observe
from tests.graph.crash.scenarios import SCENARIOS, is_done_at
from tests.graph.crash.traces import read_traces, write_trace
from tests.graph.crash.verdict import Expected, violations

TRACES = read_traces()
CELLS = [(scenario, cell) for scenario, hits in TRACES.items() for cell in hits]
S3_CELLS = [
    ("init", "init.manifest.before@1"),
    ("load", "arm.after@1"),
    ("load", "commit.after@2"),
    ("load", "commit.after@3"),
    ("load", "publish.after@1"),
    ("load", "lease.release.before@1"),
    ("optimize", "commit.after@1"),
    ("repair_force", "publish.before@1"),
    ("repair_discard", "commit.after@1"),
    ("schema_apply", "commit.after@1"),
    ("schema_apply", "publish.before@1"),
    ("fork", "commit.before@2"),
    ("fork", "publish.before@1"),
    ("branch_create", "branch.row.before@1"),
    ("branch_delete", "branch.remove.before@1"),
    ("merge", "commit.after@1"),
    ("merge", "publish.before@1"),
    ("merge_into_branch", "publish.before@1"),
    ("merge_schema", "commit.between@2"),
    ("revert", "commit.after@2"),
    ("recover_back", "recovery.rollback.after@1"),
    ("recover_forward", "recovery.delete.before@1"),
]
S3_FIRST = frozenset(
    {
        ("load", "commit.after@2"),
        ("schema_apply", "commit.after@1"),
        ("merge", "publish.before@1"),
        ("recover_back", "recovery.rollback.after@1"),
    }
)
"""One cell of each kind; `make soak` runs the others."""
LONG = frozenset(
    {
        "compact",
        "merge_into_branch",
        "merge_schema",
        "recover_merge",
        "recover_merge_schema",
        "revert",
        "renew",
        "repair",
        "repair_force_settings",
        "recover_discard",
        "recover_finished",
        "recover_half_back",
        "recover_mutate",
        "recover_optimize",
        "recover_optimize_beside",
        "optimize_beside",
        "recover_ensure_indices",
        "schema_apply_hard",
        "schema_apply_on_branch",
    }
)
"""Scenarios that only `make soak` runs: others do the same in another order or for another writer."""
ALIKE = ("lease.", "check.done", "arm.before", "disarm.after", "publish.after")
"""Points with the same files for every writer. `make test` kills a load and a recovery there, `make soak` all.

Of a point that a writer hits often, `make test` kills the first two hits and the last one.
"""
KILLED_THERE = frozenset({"load", "recover_forward"})
Note = Callable[[str, object], None]


def _cell(scenario: str, cell: str) -> ParameterSet:
    is_repeated = cell.startswith(ALIKE) and scenario not in KILLED_THERE
    is_long = scenario in LONG and not cell.startswith(("commit.between", "rewrite."))
    point, _, hit = cell.partition("@")
    is_in_series = int(hit) > 2 and f"{point}@{int(hit) + 1}" in TRACES[scenario]
    marks = (pytest.mark.soak,) if is_long or is_repeated or is_in_series else ()
    return pytest.param(scenario, cell, id=f"{scenario}-{cell}", marks=marks)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_writer_follows_its_golden_trace(scenario: str, killer: Killer, update_golden: bool) -> None:
    hits, _ = killer.trace(scenario, killer.prepare_graph(scenario))
    if update_golden:
        write_trace(scenario, hits)
    assert hits == read_traces()[scenario]


def test_every_failpoint_is_in_the_matrix() -> None:
    reached = {Failpoint(cell.partition("@")[0]) for _, cell in CELLS}
    # tests/cluster and tests/maintenance/test_relocation.py kill at the others.
    elsewhere = {point for point in Failpoint if point.startswith("cluster.")} | {Failpoint.ROOT_BEFORE}
    assert set(Failpoint) - elsewhere == reached
    assert set(TRACES) == set(SCENARIOS)


@pytest.mark.parametrize(("scenario", "cell"), [_cell(*cell) for cell in CELLS])
def test_crash_loses_nothing(scenario: str, cell: str, killer: Killer, record_property: Note) -> None:
    problems = _run_cell(scenario, cell, killer, killer.prepare_graph(scenario))
    record_property("crash_cell", len(problems))
    assert problems == []


@pytest.mark.parametrize(
    ("scenario", "cell"),
    [
        pytest.param(*cell, id=f"{cell[0]}-{cell[1]}", marks=() if cell in S3_FIRST else pytest.mark.soak)
        for cell in S3_CELLS
    ],
)
def test_crash_on_s3_loses_nothing(
    scenario: str, cell: str, killer: Killer, s3_server: S3Server, record_property: Note
) -> None:
    location = s3_server.location(f"crash/{scenario}/{cell.replace('@', '-')}.omni")
    SCENARIOS[scenario].prepare(location, killer.kill)
    problems = _run_cell(scenario, cell, killer, location)
    record_property("crash_cell", len(problems))
    assert problems == []


def _run_cell(scenario: str, cell: str, killer: Killer, location: Location) -> list[str]:
    definition = SCENARIOS[scenario]
    before = observe(location, definition.environment)
    if definition.concurrent_write is not None:
        before = definition.concurrent_write(before)
    point, _, hit = cell.partition("@")
    killer.kill(scenario, location, point, int(hit))
    state = definition.after(before) if is_done_at(definition, TRACES[scenario], cell) else before
    expected = Expected((state,), definition.environment, definition.heads_ahead)
    if definition.redo is not None:
        expected = replace(expected, redo=definition.redo.act, redone=definition.redo.after(before))
    return violations(location, expected)
