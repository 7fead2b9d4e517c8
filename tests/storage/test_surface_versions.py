"""What Lance does with versions, their files, settings and handles.

Each docstring describes what to change when the test fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.base.errors import NotFoundError
from omnigraph.storage.lance.commit import commit_branch, commit_compaction
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.durability import file_path
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.storage.samples import external_append, ids_of, make_people, people

HINT = "_versions/latest_version_hint.json"


@pytest.mark.parametrize("hint", [b'{"version":1}', b'{"version":99}', b"no json", b""])
def test_wrong_version_hint_does_not_change_an_open(durable_location: Location, hint: bytes) -> None:
    """If this fails: an open may return an old version. Then `open_dataset` must list the versions itself."""
    dataset = make_people(durable_location, ["a"], ["b"], ["c"])
    store = ObjectStore(durable_location)
    store.delete(HINT)
    assert store.create(HINT, hint)
    assert open_dataset(durable_location).version == 3
    assert dataset.at_version(1).native.latest_version == 3
    assert external_append(dataset.at_version(1), ["d"]).version == 4


def test_location_of_the_version_hint(local_location: Location) -> None:
    """If this fails: Lance stores its hint elsewhere; find out where, and whether a wrong hint has an effect."""
    make_people(local_location, ["a"], ["b"])
    assert json.loads(Path(local_location.uri, HINT).read_text()) == {"version": 2}


@pytest.mark.parametrize("hinted", [1, 3, 6, 9])
def test_the_newest_version_is_found_beyond_gaps(local_location: Location, hinted: int) -> None:
    """If this fails: after a cleanup an open may stop at a gap. Then `open_dataset` must list the versions itself."""
    dataset = make_people(local_location, *([str(number)] for number in range(9)))
    dataset.native.cleanup_old_versions(versions=[2, 4, 5, 6, 7, 8])
    Path(local_location.uri, HINT).write_text(json.dumps({"version": hinted}))
    assert open_dataset(local_location).version == 9
    assert open_dataset(local_location, version=1).newest().version == 9
    assert dataset.newest().versions() == (1, 3, 9)


def test_retained_version_is_complete_after_a_cleanup(local_location: Location) -> None:
    """If this fails: cleanup deletes files that a retained version needs; disable cleanup."""
    dataset = make_people(local_location, ["a"], ["b"])
    native = dataset.native_copy()
    native.delete("id = 'a'")
    native.optimize.compact_files()
    dataset = dataset.newest()
    dataset.native.cleanup_old_versions(versions=[1, 3])
    assert ids_of(dataset.at_version(2)) == ["a", "b"]
    assert ids_of(dataset) == ["b"]


def test_a_collected_version_cannot_be_opened(local_location: Location) -> None:
    """If this fails: the errors changed.

    Check that `read_operation` and `open_dataset` still report a missing version.
    """
    dataset = make_people(local_location, ["a"], ["b"])
    dataset.native.cleanup_old_versions(versions=[1])
    with pytest.raises(ValueError, match=r"(?i)not found"):
        lance.dataset(local_location.uri, version=1)
    with pytest.raises(OSError, match=r"(?i)not found"):
        dataset.native.read_transaction(1)


def test_cleanup_deletes_transaction_files_of_kept_versions(local_location: Location) -> None:
    """If this fails: the files are kept. Then the transaction need not be read from the manifest."""
    dataset = make_people(local_location, ["a"], ["b"], ["c"])
    commit_branch(dataset.at_version(2), "g-1")
    dataset.native.cleanup_old_versions(versions=[1, 2])
    left = [path.name for path in Path(local_location.uri, "_transactions").iterdir()]
    assert not any(name.startswith("1-") for name in left)
    assert ids_of(dataset.at_version(2)) == ["a", "b"]


def test_automatic_cleanup_is_off(local_location: Location) -> None:
    """If this fails: every commit may delete old versions; create tables with automatic cleanup disabled."""
    assert make_people(local_location, ["a"]).config() == {}


def test_automatic_cleanup_deletes_versions(local_location: Location) -> None:
    """If this fails: the setting may no longer need to be removed."""
    dataset = make_people(local_location, ["a"])
    settings: dict[str, str | None] = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0ms"}
    dataset.native_copy().update_config(settings)
    for number in range(3):
        external_append(dataset, [f"x{number}"])
    assert len(dataset.newest().versions()) < 5


NO_OPS: dict[str, tuple[Callable[[lance.LanceDataset], object], bool]] = {
    "delete": (lambda native: native.delete("id = 'missing'"), True),
    "update": (lambda native: native.update({"count": "1"}, where="id = 'missing'"), True),
    "merge_insert": (
        lambda native: native.merge_insert("id").when_matched_update_all().execute(people(["missing"])),
        True,
    ),
    "compact": (lambda native: native.optimize.compact_files(), False),
    "optimize_indices": (lambda native: native.optimize.optimize_indices(), False),
}


@pytest.mark.parametrize("name", NO_OPS)
def test_operations_without_effect_may_create_a_version(local_location: Location, name: str) -> None:
    """If this fails: check the code that counts versions: `stage_delete` (returns None) and optimize without work."""
    action, makes_version = NO_OPS[name]
    dataset = make_people(local_location, ["a"])
    dataset.native_copy().create_scalar_index("id", "BTREE")
    dataset = dataset.newest()
    action(dataset.native_copy())
    assert dataset.newest().version == dataset.version + makes_version


MOVING: dict[str, Callable[[lance.LanceDataset], object]] = {
    "merge_insert": lambda native: native.merge_insert("id").when_not_matched_insert_all().execute(people(["x"])),
    "update_config": lambda native: native.update_config({"a": "b"}),
    "update_schema_metadata": lambda native: native.update_schema_metadata({"a": "b"}),
    "create_scalar_index": lambda native: native.create_scalar_index("id", "BTREE"),
}


@pytest.mark.parametrize("name", MOVING)
def test_these_calls_move_the_handle(local_location: Location, name: str) -> None:
    """If this fails: handles became immutable. Then remove `Dataset.native_copy`."""
    native = make_people(local_location, ["a"]).native_copy()
    MOVING[name](native)
    assert native.version == 2


def test_copied_handle_does_not_move_the_original(local_location: Location) -> None:
    """If this fails: `Dataset.native_copy` must open the version again."""
    dataset = make_people(local_location, ["a"])
    dataset.native_copy().update_config({"a": "b"})
    assert dataset.native.version == 1


def test_handle_that_is_brought_forward_is_the_one_that_an_open_returns(durable_location: Location) -> None:
    """If this fails: `checkout_latest` returns cached metadata. Then `Dataset.newest` must open the dataset."""
    handle = make_people(durable_location, ["a"], ["b"])
    external_append(open_dataset(durable_location), ["c"])
    forward = handle.newest()
    assert (handle.version, forward.version, ids_of(forward)) == (2, 3, ["a", "b", "c"])
    ObjectStore(durable_location).delete_below("")
    make_people(durable_location, ["x"], ["y"], ["z"])
    assert (forward.newest().version, ids_of(forward.newest())) == (3, ["x", "y", "z"])
    ObjectStore(durable_location).delete_below("")
    make_people(durable_location, ["p"])
    assert (forward.newest().version, ids_of(forward.newest())) == (1, ["p"])
    ObjectStore(durable_location).delete_below("")
    with pytest.raises(NotFoundError):
        forward.newest()


def test_newest_version_of_a_handle_on_a_branch(local_location: Location) -> None:
    """If this fails: `checkout_latest` leaves the Lance branch of the handle."""
    branch = commit_branch(make_people(local_location, ["a"]), "g-1")
    external_append(open_dataset(local_location), ["main"])
    external_append(open_dataset(local_location, branch="g-1"), ["b"])
    assert (branch.newest().branch, ids_of(branch.newest())) == ("g-1", ["a", "b"])


def test_newest_version_below_an_empty_version_file(local_location: Location) -> None:
    """If this fails: a power cut can make a table unreadable for a process that has it open."""
    handle = make_people(local_location, ["a"], ["b"])
    external_append(handle, ["c"])
    newest, *_ = sorted(Path(local_location.uri, "_versions").glob("*.manifest"))
    newest.write_bytes(b"")
    assert ids_of(handle.newest()) == ["a", "b"]


def test_path_of_a_data_file(local_location: Location) -> None:
    """If this fails: Lance renamed the attribute that `file_path` reads."""
    (fragment,) = make_people(local_location, ["a"]).native.get_fragments()
    assert [file_path(file) for file in fragment.data_files()] == [str(file.path) for file in fragment.data_files()]


def test_reading_a_transaction_reads_the_store(local_location: Location) -> None:
    """If this fails: it reads a cache, and `commit_staged` must verify with `read_operation` instead."""
    dataset = make_people(local_location, ["a"], ["b"])
    assert dataset.native.read_transaction(2) is not None
    for path in Path(local_location.uri, "_versions").glob("*.manifest"):
        path.unlink()
    with pytest.raises(OSError, match=r"(?i)not found"):
        dataset.native.read_transaction(2)


def test_each_metadata_call_creates_a_version(local_location: Location) -> None:
    """If this fails: the stamp's migration steps and repair's counts of versions change."""
    dataset = make_people(local_location, ["a"])
    native = dataset.native_copy()
    native.update_config({"a": "b"})
    native.update_metadata({"a": "b"})
    native.update_schema_metadata({"a": "b"})
    assert dataset.newest().version == 4


@pytest.mark.parametrize("change", ["append", "upsert", "overwrite", "compact", "branch", "restore"])
def test_the_primary_key_and_its_metadata_survive(local_location: Location, change: str) -> None:
    """If this fails: concurrent upserts of one key may both insert it. Then declare the key again."""
    dataset = make_people(local_location, ["a"], ["b"])
    native = dataset.native_copy()
    match change:
        case "append":
            lance.write_dataset(pa.table({"id": ["x"], "count": [1]}), native, mode="append")
        case "upsert":
            native.merge_insert("id").when_matched_update_all().execute(people(["a"], 1))
        case "overwrite":
            lance.write_dataset(people(["x"]), native, mode="overwrite")
        case "compact":
            commit_compaction(dataset, 10)
        case "branch":
            dataset = Dataset(local_location, "g-1", native.create_branch("g-1"))
        case _:
            dataset.at_version(1).native_copy().restore()  # type: ignore[no-untyped-call]
    field = dataset.newest().schema.field("id")
    assert field.metadata == {b"lance-schema:unenforced-primary-key": b"true"}
    assert not field.nullable
