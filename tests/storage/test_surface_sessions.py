"""What Lance caches in a shared session, and that none of it is used for another dataset at the same path.

Each docstring describes what to change when the test fails.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import lance

from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.commit import commit_restore
from omnigraph.storage.lance.dataset import Dataset, open_dataset, shared_session
from omnigraph.storage.lance.indexes import IndexSpec
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.storage.raw_writes import commit_index
from tests.storage.samples import external_append, make_people, people


def _versions(location: Location, *groups: list[str]) -> int:
    """Write fragments, an index and a deletion: one version each. Return the newest."""
    make_people(location, *groups)
    indexed = commit_index(open_dataset(location), IndexSpec("id", IndexKind.BTREE))
    assert isinstance(indexed, Dataset)
    indexed.native_copy().delete(f"id = '{groups[0][1]}'")
    return open_dataset(location).version


def _contents(dataset: Dataset) -> dict[str, object]:
    """Return values that depend on each kind of metadata: manifest, row ids, deletions, indexes, transactions."""
    native = dataset.native
    rows = native.scanner(columns=["id"], with_row_id=True, with_row_address=True).to_table()
    transaction = native.read_transaction(dataset.version)
    return {
        "rows": rows.to_pydict(),
        "taken": native.take([0], columns=["id"]).to_pydict(),
        "filtered": {name: dataset.count_rows(f"id = '{name}'") for name in ("a1", "b1", "b2", "c1")},
        "indexes": [
            (index.name, [str(segment.uuid) for segment in index.segments]) for index in native.describe_indices()
        ],
        "transaction": None if transaction is None else transaction.uuid,
    }


def _with_own_session(location: Location, version: int) -> dict[str, object]:
    native = lance.dataset(location.lance_uri, version=version, storage_options=location.storage_options)
    return _contents(Dataset(location, None, native))


def test_replaced_dataset_at_the_same_path_is_read_again(durable_location: Location) -> None:
    """If this fails: Lance uses cached metadata of another dataset at the same path.

    Then `open_dataset` needs a separate session for each identity of a graph, or none.
    """
    newest = _versions(durable_location, ["a1", "a2", "a3"], ["a4"])
    before = [_contents(open_dataset(durable_location, version=version)) for version in range(1, newest + 1)]
    ObjectStore(durable_location).delete_below("")
    assert _versions(durable_location, ["b1", "b2"], ["b3", "b4", "b5"]) == newest
    for version in range(1, newest + 1):
        now = _contents(open_dataset(durable_location, version=version))
        assert now == _with_own_session(durable_location, version)
        assert now != before[version - 1]
    assert open_dataset(durable_location).read(["id"]).num_rows == 4


def test_no_fragment_id_is_reused_in_a_dataset(local_location: Location) -> None:
    """If this fails: Lance caches the row ids of a fragment by its id, so versions must no longer share a session."""
    make_people(local_location, ["a1", "a2"], ["a3"])
    numbers = set(open_dataset(local_location).fragment_rows())
    commit_restore(open_dataset(local_location), 1, {})
    appended = external_append(open_dataset(local_location), ["b1", "b2", "b3"])
    assert not (set(appended.fragment_rows()) - {0}) & numbers
    lance.write_dataset(people(["c1", "c2"]), local_location.lance_uri, mode="overwrite")
    newest = open_dataset(local_location)
    assert not set(newest.fragment_rows()) & (numbers | set(appended.fragment_rows()))
    for version in newest.versions():
        handle = open_dataset(local_location, version=version)
        assert _contents(handle) == _with_own_session(local_location, version)


def _is_shared(native: Any) -> bool:
    return bool(native.session().is_same_as(shared_session()))


def test_handles_of_a_process_share_one_session(local_location: Location) -> None:
    made = make_people(local_location, ["a1"], ["a2"])
    handles = [made.at_version(1), made.at_version(2), made.at_version(1).newest()]
    assert all(_is_shared(handle.native) for handle in handles)
    assert _is_shared(commit_restore(handles[-1], 1, {}).native)
    assert _is_shared(handles[-1].native_copy())


def test_metadata_of_a_file_is_cached_once(local_location: Location) -> None:
    """If this fails: a session caches more for each version than its manifest.

    Then find out what `size_bytes` counts.
    """
    names = [[f"a{number}"] for number in range(40)]
    newest = make_people(local_location, *names)
    newest.read()
    first = newest.at_version(40)
    first.read()
    size = shared_session().size_bytes()
    for version in range(30, 40):
        newest.at_version(version).read()
    grown = shared_session().size_bytes() - size
    own = lance.dataset(local_location.lance_uri)
    own.to_table()
    assert grown < 10 * own.session().size_bytes() / 2


def test_forked_process_has_its_own_session() -> None:
    program = (
        "import os\n"
        "from omnigraph.storage.lance.dataset import shared_session\n"
        "mine = shared_session()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(3 if shared_session().is_same_as(mine) else 4)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4\n"
        "assert shared_session().is_same_as(mine)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)
