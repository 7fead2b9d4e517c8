"""What Lance does when a disk fails, and that it syncs nothing. `storage/lance/durability.py` depends on it.

Each docstring describes what to change when the test fails. The cases run in a process with a library that lets the
k-th write fail (`tests/file_faults.c`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.file_faults import built_library
from tests.style.source import ROOT

pytestmark = pytest.mark.skipif(built_library() is None, reason="needs a C compiler")

_PROGRAM = """
import json, os, shutil, sys
import lance, pyarrow as pa
from lance.blob import blob_array, blob_field
from lance.fragment import write_fragments
from tests.file_faults import arm, counted

location, action = sys.argv[1:]
rows = pa.table({"id": [f"a{i}" for i in range(1000)]})

def sizes(files):
    return [[size, os.path.getsize(path)] for path, size in files]

def data(dataset, fragments):
    files = [file for fragment in fragments for file in fragment.files]
    return sizes((f"{location}/data/{file.path}", file.file_size_bytes) for file in files)

def fragments(dataset):
    return data(dataset, write_fragments(rows, dataset, schema=dataset.schema))

def deletions(dataset):
    file = dataset.get_fragment(0).delete_rows([1, 2]).deletion_file
    return sizes([("/" + file.path(0, location).lstrip("/"), None)])

def segment(dataset, kind="BTREE"):
    made = dataset.create_index_uncommitted("id", kind, name="i", fragment_ids=[0])
    return made, sizes((f"{location}/_indices/{made.uuid}/{file.path}", file.size_bytes) for file in made.files)

def commit_index(dataset, made):
    dataset.commit_existing_index_segments("i", "id", [made])
    (index,) = dataset.read_transaction(dataset.version).operation.new_indices
    return sizes((f"{location}/_indices/{index.uuid}/{file.path}", file.size_bytes) for file in index.files)

def blobs(dataset):
    schema = pa.schema([pa.field("id", pa.utf8()), blob_field("b")])
    large = pa.Table.from_arrays([pa.array(["a"]), blob_array([b"l" * 6_000_000])], schema=schema)
    made = lance.write_dataset(large.slice(0, 0), location + "-b", data_storage_version="2.2")
    return lambda: write_fragments(large, made, schema=made.schema, data_storage_version="2.2") and []

outcomes = []
number = 0
while True:
    for directory in (location, location + "-b"):
        shutil.rmtree(directory, ignore_errors=True)
    dataset = lance.write_dataset(rows, location, enable_stable_row_ids=True)
    run = {
        "fragments": lambda: fragments(dataset),
        "deletions": lambda: deletions(dataset),
        "segment": lambda: segment(dataset)[1],
        "restore": lambda: dataset.restore() or [],
        "blobs": blobs(dataset) if action == "blobs" else None,
    }.get(action)
    if action == "index":
        made, _ = segment(dataset, "INVERTED")
        run = lambda: commit_index(dataset, made)
    arm(location, write=number)
    try:
        outcome = run()
    except Exception as error:
        outcome = str(error)
    writes, syncs = counted()
    arm("")
    if number > writes:
        break
    readable = lance.dataset(location).read_transaction(lance.dataset(location).version) is not None
    outcomes.append([outcome, syncs, readable])
    number += 1
json.dump(outcomes, sys.stdout)
"""


def _run(action: str, location: Path) -> list[tuple[Any, int, bool]]:
    """Return the outcome of the action without a fault, and then with each of its writes failing."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _PROGRAM, str(location), action],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(built_library()), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(outcome) for outcome in json.loads(done.stdout)]


def _is_silent(outcome: Any) -> bool:
    return isinstance(outcome, list)


@pytest.mark.parametrize("action", ["fragments", "segment", "deletions"])
def test_last_write_of_a_file_may_fail_silently(action: str, tmp_path: Path) -> None:
    """If this fails: Lance reports it. Then `make_durable` need not compare sizes, only sync."""
    (clean, _, _), *failed = _run(action, tmp_path / "d")
    silent = [outcome for outcome, _, _ in failed if _is_silent(outcome)]
    assert silent, "some write fails silently"
    whole = dict(enumerate(size for _, size in clean))
    for outcome in silent:
        assert any(size < whole[number] for number, (_, size) in enumerate(outcome))
        if action != "deletions":
            assert any(size < recorded for recorded, size in outcome)


def test_index_commit_records_the_size_on_disk(tmp_path: Path) -> None:
    """If this fails: it records what it wrote, or reports the failure.

    Then the end of an index file need not be read.
    """
    (clean, _, _), *failed = _run("index", tmp_path / "d")
    cut = [outcome for outcome, _, _ in failed if _is_silent(outcome) and sorted(outcome) != sorted(clean)]
    assert cut
    assert all(recorded == size for outcome in cut for recorded, size in outcome)


def test_failed_write_of_a_version_file_is_an_error(tmp_path: Path) -> None:
    """If this fails: a version file can be truncated too, or a commit needs its other files. Then check them too."""
    _, *failed = _run("restore", tmp_path / "d")
    assert [_is_silent(outcome) for outcome, _, _ in failed] == [True, False, True]
    assert all(readable for _, _, readable in failed)


def test_truncated_blob_is_an_error(tmp_path: Path) -> None:
    """If this fails: large values can be truncated silently. Then compare their sizes in `make_durable`."""
    _, *failed = _run("blobs", tmp_path / "d")
    assert len([outcome for outcome, _, _ in failed if not _is_silent(outcome)]) >= len(failed) - 1


@pytest.mark.parametrize("action", ["fragments", "restore"])
def test_lance_syncs_nothing(action: str, tmp_path: Path) -> None:
    """If this fails: Lance syncs. Then some of our syncs are not needed."""
    assert {syncs for _, syncs, _ in _run(action, tmp_path / "d")} == {0}
