from __future__ import annotations

import pickle

import pytest

from omnigraph.storage.commit import commit_branch, commit_staged
from omnigraph.storage.compaction import (
    CompactionSettings,
    commit_compaction_results,
    plan_compaction,
    run_compaction_task,
)
from omnigraph.storage.dataset import Dataset
from omnigraph.storage.failures import CommitRaceError
from omnigraph.storage.location import Location
from omnigraph.storage.staging import stage_append, stage_delete
from tests.storage.samples import ids_of, make_people, people

SETTINGS = CompactionSettings(rows_per_fragment=100)


def _row_ids(dataset: Dataset) -> dict[str, int]:
    rows = dataset.native.scanner(columns=["id"], with_row_id=True).to_table().to_pylist()
    return {str(row["id"]): int(row["_rowid"]) for row in rows}


@pytest.mark.parametrize("on_branch", [False, True], ids=["main", "branch"])
def test_tasks_travel_and_are_committed_together(store_location: Location, on_branch: bool) -> None:
    dataset = make_people(store_location, ["a"], ["b"], ["c"], ["d"])
    if on_branch:
        dataset = commit_branch(dataset, "g-1")
    tasks = plan_compaction(dataset, CompactionSettings(rows_per_fragment=2))
    assert [task.fragment_ids for task in tasks] == [(0, 1), (2, 3)]
    carried = pickle.loads(pickle.dumps(tasks))
    results = pickle.loads(pickle.dumps([run_compaction_task(dataset, task) for task in carried]))
    assert dataset.newest().version == dataset.version
    outcome = commit_compaction_results(dataset, results)
    assert (outcome.fragments_removed, outcome.fragments_added) == (4, 2)
    assert outcome.dataset.version == dataset.version + 2
    assert ids_of(outcome.dataset) == ["a", "b", "c", "d"]
    assert _row_ids(outcome.dataset) == _row_ids(dataset)
    assert plan_compaction(outcome.dataset, CompactionSettings(rows_per_fragment=2)) == ()


def test_the_settings_bound_a_plan(local_location: Location) -> None:
    dataset = make_people(local_location, ["a"], ["b"], ["c"], ["d"])
    bounded = CompactionSettings(rows_per_fragment=2, source_rows_max=2)
    assert [task.fragment_ids for task in plan_compaction(dataset, bounded)] == [(0, 1)]
    excluding = CompactionSettings(rows_per_fragment=100, excluded_fragment_ids=(1,))
    assert [task.fragment_ids for task in plan_compaction(dataset, excluding)] == [(2, 3)]


def test_deleted_rows_are_materialised(local_location: Location) -> None:
    dataset = make_people(local_location, [f"{number:02}" for number in range(20)])
    staged = stage_delete(dataset, "id < '05'")
    assert staged is not None
    dataset = commit_staged(dataset, staged)
    assert plan_compaction(dataset, CompactionSettings(100, deleted_share_min=0.5)) == ()
    (task,) = plan_compaction(dataset, SETTINGS)
    outcome = commit_compaction_results(dataset, [run_compaction_task(dataset, task)])
    assert outcome.dataset.native.get_fragments()[0].metadata.physical_rows == 15


def test_rows_appended_meanwhile_stay_and_a_changed_fragment_conflicts(local_location: Location) -> None:
    dataset = make_people(local_location, ["a", "a2"], ["b"])
    (task,) = plan_compaction(dataset, SETTINGS)
    result = run_compaction_task(dataset, task)
    appended = commit_staged(dataset, stage_append(dataset, people(["c"])))
    staged = stage_delete(appended, "id = 'a'")
    outcome = commit_compaction_results(dataset, [result])
    assert ids_of(outcome.dataset) == ["a", "a2", "b", "c"]
    assert staged is not None
    with pytest.raises(CommitRaceError):
        commit_staged(appended, staged)
    assert ids_of(dataset.newest()) == ["a", "a2", "b", "c"]


def test_a_delete_meanwhile_wins(local_location: Location) -> None:
    dataset = make_people(local_location, ["a", "a2"], ["b"])
    (task,) = plan_compaction(dataset, SETTINGS)
    result = run_compaction_task(dataset, task)
    staged = stage_delete(dataset, "id = 'a'")
    assert staged is not None
    commit_staged(dataset, staged)
    with pytest.raises(CommitRaceError):
        commit_compaction_results(dataset, [result])
    assert ids_of(dataset.newest()) == ["a2", "b"]
