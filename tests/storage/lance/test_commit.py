from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from lance import LanceOperation

from omnigraph.base.failpoints import observed
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.errors import CommitRaceError
from omnigraph.storage.lance.commit import (
    DisplacedCommitError,
    commit_branch,
    commit_compaction,
    commit_restore,
    commit_schema_metadata,
    commit_staged,
    commit_strip_auto_cleanup,
)
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.indexes import IndexSpec
from omnigraph.storage.lance.stage import StagedTransaction, stage_fragments, stage_upsert
from omnigraph.storage.lance.transactions import Operation, TransactionRecord, read_operation, read_operations
from omnigraph.storage.location import Location
from tests.s3_proxy import Fault, Mode, S3Proxy
from tests.storage.raw_writes import commit_index, commit_upsert, stage_append, stage_delete, stage_overwrite
from tests.storage.samples import external_append, ids_of, make_people, people

Stage = Callable[[Dataset], StagedTransaction | None]

STAGES: dict[str, tuple[Stage, list[str]]] = {
    "Append": (lambda d: stage_append(d, people(["x"])), ["a", "b", "x"]),
    "Overwrite": (lambda d: stage_overwrite(d, people(["x"])), ["x"]),
    "Delete": (lambda d: stage_delete(d, "id = 'a'"), ["b"]),
    "Update": (lambda d: stage_upsert(d, people(["a", "x"], 7)), ["a", "b", "x"]),
}


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("on_branch", [False, True], ids=["main", "branch"])
def test_staged_transaction_is_committed_above_its_base(store_location: Location, name: str, on_branch: bool) -> None:
    stage, expected = STAGES[name]
    dataset = make_people(store_location, ["a"], ["b"])
    if on_branch:
        dataset = commit_branch(dataset, "g-1")
    staged = stage(dataset)
    assert staged is not None
    assert dataset.newest().version == dataset.version
    travelled = pickle.loads(pickle.dumps(staged.with_properties({"omnigraph:op": "1"})))
    committed = commit_staged(dataset, travelled)
    assert committed.version == dataset.version + 1
    assert ids_of(committed) == expected
    record = read_operation(committed, committed.version)
    assert isinstance(record, TransactionRecord)
    assert (record.operation.value, record.uuid) == (name, staged.uuid)
    assert (record.read_version, record.properties) == (dataset.version, {"omnigraph:op": "1"})


def test_a_delete_that_matches_nothing_stages_nothing(store_location: Location) -> None:
    dataset = make_people(store_location, ["a"])
    assert stage_delete(dataset, "id = 'zzz'") is None


def test_a_delete_may_remove_whole_fragments(store_location: Location) -> None:
    dataset = make_people(store_location, ["a", "b"], ["c"], ["d"])
    staged = stage_delete(dataset, "id IN ('b', 'c')")
    assert staged is not None
    committed = commit_staged(dataset, staged)
    assert ids_of(committed) == ["a", "d"]
    assert list(committed.fragment_rows().values()) == [1, 1]


def test_fragments_written_elsewhere_are_appended(store_location: Location) -> None:
    dataset = make_people(store_location, ["a"])
    operation = stage_append(dataset, people(["x"])).native.operation
    assert isinstance(operation, LanceOperation.Append)
    written = operation.fragments
    committed = commit_staged(dataset, stage_fragments(dataset, pickle.loads(pickle.dumps(written))))
    assert ids_of(committed) == ["a", "x"]


def test_concurrent_external_append_is_reported(store_location: Location) -> None:
    """Lance rebases the append and reports success, two versions above the base."""
    dataset = make_people(store_location, ["a"])
    staged = stage_append(dataset, people(["mine"]))
    external_append(dataset, ["theirs"])
    with pytest.raises(DisplacedCommitError) as caught:
        commit_staged(dataset, staged)
    assert caught.value.facts["expected"] == 2
    assert caught.value.facts["actual"] == 3


def test_rejected_commit_is_a_race_and_changes_nothing(store_location: Location) -> None:
    dataset = make_people(store_location, ["a", "b"])
    staged = stage_upsert(dataset, people(["a"], 1))
    commit_staged(dataset, stage_upsert(dataset, people(["a"], 2)))
    with pytest.raises(CommitRaceError):
        commit_staged(dataset, staged)
    assert dataset.newest().version == 2
    assert dataset.newest().count_rows("count = 2") == 1


def test_committing_again_finds_the_first_commit(store_location: Location) -> None:
    """Lance rejects a second commit of the same update, but the transaction is in the expected version."""
    dataset = make_people(store_location, ["a"])
    staged = stage_upsert(dataset, people(["a"], 1))
    commit_staged(dataset, staged)
    assert commit_staged(dataset, staged).version == 2
    assert dataset.newest().version == 2


def test_a_restore_makes_an_older_version_the_newest(store_location: Location) -> None:
    dataset = make_people(store_location, ["a"], ["b"])
    restored = commit_restore(dataset, 1, {"omnigraph:op": "9"})
    assert ids_of(restored) == ["a"]
    record = read_operation(restored, 3)
    assert isinstance(record, TransactionRecord)
    assert (record.operation, record.restored_version) == (Operation.RESTORE, 1)
    assert record.properties == {"omnigraph:op": "9"}


def test_two_upserts_of_one_key_conflict(store_location: Location) -> None:
    first = make_people(store_location, ["a"])
    second = open_dataset(store_location)
    commit_upsert(first, people(["a", "b"], 1), "id")
    with pytest.raises(CommitRaceError):
        commit_upsert(second, people(["a"], 2), "id")
    assert ids_of(first.newest()) == ["a", "b"]


def test_compaction_keeps_rows_and_counts_fragments(store_location: Location) -> None:
    dataset = make_people(store_location, ["a"], ["b"], ["c"])
    outcome = commit_compaction(dataset, 100)
    assert (outcome.fragments_removed, outcome.fragments_added) == (3, 1)
    assert ids_of(outcome.dataset) == ["a", "b", "c"]
    operations = read_operations(outcome.dataset, 3, outcome.dataset.version)
    assert [record.operation.value for record in operations if isinstance(record, TransactionRecord)] == [
        "ReserveFragments",
        "Rewrite",
    ]
    again = commit_compaction(outcome.dataset, 100)
    assert (again.fragments_removed, again.dataset.version) == (0, outcome.dataset.version)


def test_schema_metadata_creates_one_version(store_location: Location) -> None:
    dataset = make_people(store_location, ["a"])
    changed = commit_schema_metadata(dataset, {"stamp": "1"})
    assert changed.metadata["stamp"] == "1"
    assert changed.version == 2
    assert "stamp" not in dataset.metadata


MOVES: dict[str, Callable[[Dataset], object]] = {
    "upsert": lambda d: commit_upsert(d, people(["x"]), "id"),
    "compaction": lambda d: commit_compaction(d, 100),
    "metadata": lambda d: commit_schema_metadata(d, {"a": "b"}),
    "strip": commit_strip_auto_cleanup,
    "restore": lambda d: commit_restore(d, 2, {}),
    "index": lambda d: commit_index(d, IndexSpec("id", IndexKind.BTREE)),
}


@pytest.mark.parametrize("name", MOVES)
def test_handle_is_pinned_to_its_version(local_location: Location, name: str) -> None:
    """Many of Lance's calls move their handle; a `Dataset` is pinned."""
    dataset = make_people(local_location, ["a"], ["b"])
    dataset.native_copy().update_config({"lance.auto_cleanup.interval": "1"})
    dataset = dataset.newest()
    MOVES[name](dataset)
    assert dataset.version == 3
    assert dataset.newest().version > 3


def test_every_step_is_announced(local_location: Location) -> None:
    seen: list[str] = []
    with observed(lambda effect, _: seen.append(effect)):
        dataset = make_people(local_location, ["a"])
        commit_staged(dataset, stage_append(dataset, people(["b"])))
        commit_branch(dataset, "g-1")
    assert seen == ["dataset.create", "dataset.stage", "dataset.commit", "dataset.branch"]


def test_commit_with_lost_acknowledgement_is_found(s3_proxy: S3Proxy) -> None:
    """The server applies the write and responds with 500; the client's retry then finds its own manifest."""
    dataset = make_people(s3_proxy.location("lost-commit"), ["a"])
    staged = stage_append(dataset, people(["b"]))
    with s3_proxy.fault(Fault(Mode.FAIL_APPLIED, "_versions/")) as lost:
        committed = commit_staged(dataset, staged)
    assert len(lost.acted) == 1
    assert (committed.version, ids_of(committed)) == (2, ["a", "b"])
    assert dataset.newest().version == 2


def test_applied_commit_is_found_after_an_error_of_lance(s3_proxy: S3Proxy) -> None:
    """Without the client's retries Lance only sees the 500, although the version exists."""
    dataset = make_people(s3_proxy.location("failed-commit", client_max_retries="0"), ["a"])
    staged = stage_append(dataset, people(["b"]))
    with s3_proxy.fault(Fault(Mode.FAIL_APPLIED, "_versions/")) as lost:
        committed = commit_staged(dataset, staged)
    assert len(lost.acted) == 1
    assert (committed.version, ids_of(committed)) == (2, ["a", "b"])
