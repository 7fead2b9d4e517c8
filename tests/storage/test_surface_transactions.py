"""What Lance does with transactions that were staged and committed separately. The write path depends on it.

Each docstring describes what to change when the test fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.fragment import RowIdSequence
from lance.optimize import Compaction

from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.stage import StagedTransaction, stage_upsert
from omnigraph.storage.location import Location
from tests.storage.raw_writes import stage_append, stage_delete, stage_overwrite
from tests.storage.samples import external_append, ids_of, make_people, people

REFUSED = re.compile("conflict|concurrent", re.IGNORECASE)


def _commit(dataset: Dataset, staged: StagedTransaction | None) -> lance.LanceDataset:
    assert staged is not None
    return lance.LanceDataset.commit(dataset.native, staged.native, max_retries=0)


def _restore(dataset: Dataset, version: int) -> lance.LanceDataset:
    transaction = lance.Transaction(dataset.version, LanceOperation.Restore(version))
    return lance.LanceDataset.commit(dataset.native, transaction, max_retries=0)


def test_an_append_is_rebased_over_an_append(local_location: Location) -> None:
    """If this fails: Lance became strict. Then `commit_staged` no longer needs to check for displaced commits."""
    dataset = make_people(local_location, ["a"])
    first, second = (stage_append(dataset, people([name])) for name in ("x", "y"))
    assert _commit(dataset, first).version == 2
    assert _commit(dataset, second).version == 3
    assert ids_of(dataset.newest()) == ["a", "x", "y"]


def test_committing_the_same_append_again_duplicates_its_rows(local_location: Location) -> None:
    """If this fails: replays are safe. Then recovery need not search for the uuid before it commits again."""
    dataset = make_people(local_location, ["a"])
    staged = stage_append(dataset, people(["x"]))
    _commit(dataset, staged)
    _commit(dataset, staged)
    assert ids_of(dataset.newest()) == ["a", "x", "x"]


def test_committing_the_same_update_again_is_rejected(local_location: Location) -> None:
    """If this fails: a replayed update may duplicate or lose rows.

    Recovery's search for the uuid must cover updates too.
    """
    dataset = make_people(local_location, ["a"])
    staged = stage_upsert(dataset, people(["a"], 7))
    _commit(dataset, staged)
    with pytest.raises(OSError, match=REFUSED):
        _commit(dataset, staged)


@pytest.mark.parametrize("first", ["Delete", "Update"])
@pytest.mark.parametrize("second", ["Delete", "Update"])
def test_two_changes_of_one_fragment_conflict(local_location: Location, first: str, second: str) -> None:
    """If this fails: Lance merges changes of different rows. Then busy updates of one table need fewer retries."""
    dataset = make_people(local_location, ["a", "b", "c"])

    def stage(name: str, key: str) -> StagedTransaction | None:
        if name == "Delete":
            return stage_delete(dataset, f"id = '{key}'")
        return stage_upsert(dataset, people([key], 7))

    earlier, later = stage(first, "a"), stage(second, "b")
    _commit(dataset, earlier)
    with pytest.raises(OSError, match=REFUSED):
        _commit(dataset, later)


FENCED: dict[str, Callable[[Dataset], StagedTransaction | None]] = {
    "Append": lambda d: stage_append(d, people(["x"])),
    "Update": lambda d: stage_upsert(d, people(["a", "x"], 7)),
    "Delete": lambda d: stage_delete(d, "id = 'a'"),
    "Overwrite": lambda d: stage_overwrite(d, people(["x"])),
}


@pytest.mark.parametrize("name", FENCED)
def test_restore_fences_transactions_staged_before(local_location: Location, name: str) -> None:
    """If this fails: a paused writer's commit survives recovery. Then the fence must be another operation."""
    dataset = make_people(local_location, ["a"], ["b"])
    staged = FENCED[name](dataset)
    _restore(dataset, 2)
    with pytest.raises(OSError, match=REFUSED):
        _commit(dataset, staged)
    assert ids_of(dataset.newest()) == ["a", "b"]


def test_restore_fences_a_compaction(local_location: Location) -> None:
    """If this fails: as above, for optimize."""
    dataset = make_people(local_location, ["a"], ["b"])
    plan = Compaction.plan(dataset.native, options={"target_rows_per_fragment": 10})
    results = [task.execute(dataset.native) for task in plan.tasks]
    _restore(dataset, 2)
    with pytest.raises(OSError, match=REFUSED):
        Compaction.commit(dataset.native_copy(), results)
    assert ids_of(dataset.newest()) == ["a", "b"]


def test_an_overwrite_with_retries_passes_the_fence(local_location: Location) -> None:
    """If this fails: retries became safe. Until then `max_retries=0` makes an overwrite stop at the fence."""
    dataset = make_people(local_location, ["a"])
    staged = stage_overwrite(dataset, people(["x"]))
    _restore(dataset, 1)
    lance.LanceDataset.commit(dataset.native, staged.native)
    assert ids_of(dataset.newest()) == ["x"]


def test_restore_is_never_rejected(local_location: Location) -> None:
    """If this fails: Lance rejects a late Restore. Then recovery need not check the versions below its own fence."""
    dataset = make_people(local_location, ["a"])
    external_append(dataset, ["x"])
    external_append(dataset, ["y"])
    assert _restore(dataset, 1).version == 4
    assert ids_of(dataset.newest()) == ["a"]


def test_config_change_is_never_rejected(local_location: Location) -> None:
    """If this fails: the removal of automatic cleanup may conflict and needs a retry."""
    dataset = make_people(local_location, ["a"])
    _restore(dataset, 1)
    dataset.native_copy().update_config({"a": "b"})
    assert dataset.newest().version == 3


def test_stale_delete_does_not_delete_rows_appended_since(local_location: Location) -> None:
    """If this fails: a staged delete depends on when it is committed; Check must then reject it after any append."""
    dataset = make_people(local_location, ["a"])
    staged = stage_delete(dataset, "count = 0")
    external_append(dataset, ["x"])
    _commit(dataset, staged)
    assert ids_of(dataset.newest()) == ["x"]


def test_an_append_staged_before_a_column_was_replaced_reads_as_null(local_location: Location) -> None:
    """If this fails: Lance rejects it or keeps the values. Until then Check compares schema hashes before a commit."""
    dataset = make_people(local_location, ["a"])
    staged = stage_append(dataset, people(["x"], 7))
    native = dataset.native_copy()
    native.drop_columns(["count"])
    native.add_columns(pa.field("count", pa.int64()))
    _commit(dataset, staged)
    assert dataset.newest().read(where="id = 'x'").to_pylist() == [{"id": "x", "count": None}]


def test_transaction_has_properties_but_no_message(local_location: Location) -> None:
    """If this fails: our properties cannot be stored in transaction_properties."""
    dataset = make_people(local_location, ["a"])
    staged = stage_append(dataset, people(["x"])).with_properties({"omnigraph:op": "1"})
    with pytest.raises(ValueError, match="message"):
        lance.LanceDataset.commit(dataset.native, staged.native, commit_message="hello")
    transaction = _commit(dataset, staged).read_transaction(2)
    assert transaction is not None
    assert transaction.transaction_properties == {"omnigraph:op": "1"}


def test_the_reader_cannot_show_a_compaction_of_an_index(local_location: Location) -> None:
    """If this fails: `transactions.py` may use Lance's own reader for Rewrite."""
    dataset = make_people(local_location, ["a"], ["b"])
    native = dataset.native_copy()
    native.create_scalar_index("id", "BTREE")
    native.optimize.compact_files()
    with pytest.raises(TypeError, match="RewrittenIndex"):
        native.read_transaction(native.latest_version)
    with pytest.raises(TypeError, match="RewrittenIndex"):
        native.get_transactions()


def test_the_reader_shows_two_operations_without_a_name(local_location: Location) -> None:
    """If this fails: `transactions.py` may use Lance's own reader for ReserveFragments and UpdateBases."""
    dataset = make_people(local_location, ["a"], ["b"])
    native = dataset.native_copy()
    native.optimize.compact_files()
    native = dataset.newest().native_copy()
    native.add_bases([lance.DatasetBasePath(f"{local_location.uri}-b", name="b")])
    for version in (3, 5):
        transaction = native.read_transaction(version)
        assert transaction is not None
        assert type(transaction.operation) is LanceOperation.BaseOperation


def test_handmade_update_keeps_row_identities(local_location: Location) -> None:
    """If this fails: bulk merges on Spark need another way to keep row ids."""
    dataset = make_people(local_location, ["a", "b"])
    old = dataset.native.scanner(columns=["id"], with_row_id=True, filter="id = 'b'").to_table()
    (row_id,) = [int(row["_rowid"]) for row in old.to_pylist()]
    deleted = dataset.native.get_fragments()[0].delete("id = 'b'")
    assert deleted is not None
    (changed,) = lance.fragment.write_fragments(people(["b"], 7), dataset.native)
    changed.row_id_meta = RowIdSequence([row_id]).to_inline_metadata()
    (added,) = lance.fragment.write_fragments(people(["c"]), dataset.native)
    update = LanceOperation.Update(
        updated_fragments=[deleted], new_fragments=[changed, added], fields_modified=[], removed_fragment_ids=[]
    )
    newest = lance.LanceDataset.commit(dataset.native, lance.Transaction(1, update), max_retries=0)
    rows = {row["id"]: row["_rowid"] for row in newest.scanner(with_row_id=True).to_table().to_pylist()}
    assert rows["b"] == row_id
    delta = newest.delta(compared_against=1)
    assert [row["id"] for row in delta.get_updated_rows().read_all().to_pylist()] == ["b"]
    assert [row["id"] for row in delta.get_inserted_rows().read_all().to_pylist()] == ["c"]
