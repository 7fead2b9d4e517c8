"""Every file that a version references is checked against one listing, on disk and in S3."""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import lance
import obstore
import pyarrow as pa
import pytest

from omnigraph.storage.files import list_files
from omnigraph.storage.lance.commit import commit_branch
from omnigraph.storage.lance.dataset import Dataset, create_dataset, open_dataset
from omnigraph.storage.lance.deletion_file import count_bitmap
from omnigraph.storage.lance.file_check import FileKind, FileProblem, check_files
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore, open_s3_store
from tests.conftest import S3Server
from tests.s3_proxy import Fault, Mode, S3Proxy

ROWS = 20_000
FEW = "id IN ('3', '4', '5')"
MANY = "CAST(id AS INT) % 3 = 0"
NEWEST = (None, None)
NOT_COMPRESSED = struct.pack("<q", -1)
"""What Arrow writes before a short buffer in place of its size."""


def make(location: Location, deleted: str = FEW) -> Dataset:
    """Create a dataset with two fragments, an index and deleted rows, and a branch with more of each."""
    create_dataset(location, pa.table({"id": [str(number) for number in range(ROWS)]}))
    main = open_dataset(location).native_copy()
    main.create_scalar_index("id", "BTREE")
    main.delete(deleted)
    branch = commit_branch(open_dataset(location), "b").native_copy()
    branch.insert(pa.table({"id": ["x", "y"]}))
    branch.delete("id IN ('x', '9')")
    return open_dataset(location)


def paths(location: Location, directory: str) -> list[str]:
    return [file.path for file in list_files(location) if file.path.startswith(directory)]


def overwrite(location: Location, path: str, data: bytes | None) -> None:
    """Replace a file; None deletes it."""
    if location.is_local:
        file = Path(location.uri, path)
        file.unlink() if data is None else file.write_bytes(data)
    elif data is None:
        obstore.delete(open_s3_store(location), path)
    else:
        obstore.put(open_s3_store(location), path, data)


def cut(location: Location, path: str, count: int = 1) -> int:
    """Cut bytes off the end of a file; return its previous size."""
    data = ObjectStore(location).read(path) or b""
    overwrite(location, path, data[:-count])
    return len(data)


def problems(location: Location, *versions: tuple[str | None, int | None], deep: bool = False) -> Sequence[FileProblem]:
    by_version = check_files(location, versions or [NEWEST], deep=deep).problems
    return [problem for version in versions or [NEWEST] for problem in by_version.get(version, ())]


@pytest.mark.parametrize("deleted", [FEW, MANY])
def test_valid_files_have_no_problems(durable_location: Location, deleted: str) -> None:
    make(durable_location, deleted)
    assert problems(durable_location, NEWEST, ("b", None), (None, 1), deep=True) == []


@dataclass(frozen=True, slots=True)
class Damage:
    """A way to damage a file, and the problem that is reported without and with `deep`."""

    directory: str
    kind: FileKind
    change: Callable[[bytes], bytes | None]
    problem: str
    deep_only: bool = False


def long_rows(data: bytes) -> bytes:
    """Make the deletion file record 2**63 - 1 bytes of rows."""
    start = data.rindex(NOT_COMPRESSED)
    return data[:start] + struct.pack("<q", 2**63 - 1) + data[start + 8 :]


DAMAGES = {
    "data truncated": Damage("data/", FileKind.DATA, lambda data: data[:-1], "has the wrong size"),
    "data too long": Damage("data/", FileKind.DATA, lambda data: data + b"x", "has the wrong size"),
    "data missing": Damage("data/", FileKind.DATA, lambda _: None, "is missing"),
    "data footer": Damage("data/", FileKind.DATA, lambda data: data[:-4] + b"XXXX", "is damaged (", True),
    "index truncated": Damage("_indices/", FileKind.INDEX, lambda data: data[:-1], "has the wrong size"),
    "index footer": Damage("_indices/", FileKind.INDEX, lambda data: data[:-4] + b"XXXX", "is damaged (", True),
    "index file missing": Damage("_indices/", FileKind.INDEX, lambda _: None, "has the wrong size"),
    "deletions truncated": Damage("_deletions/", FileKind.DELETIONS, lambda data: data[:-1], "is damaged ("),
    "deletions empty": Damage("_deletions/", FileKind.DELETIONS, lambda _: b"", "is damaged ("),
    "deletions too long": Damage("_deletions/", FileKind.DELETIONS, long_rows, "is damaged ("),
    "deletions missing": Damage("_deletions/", FileKind.DELETIONS, lambda _: None, "is missing"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_file_is_reported(durable_location: Location, name: str) -> None:
    damage = DAMAGES[name]
    make(durable_location)
    path = paths(durable_location, damage.directory)[0]
    before = ObjectStore(durable_location).read(path) or b""
    after = damage.change(before)
    overwrite(durable_location, path, after)
    shallow = problems(durable_location)
    if damage.deep_only:
        assert shallow == []
        (problem,) = problems(durable_location, deep=True)
    else:
        (problem,) = shallow
        assert {other.path for other in problems(durable_location, deep=True)} <= {path, problem.path}
    assert problem.kind is damage.kind
    assert problem.problem.startswith(damage.problem)
    assert path.startswith(problem.path)
    if damage.kind is FileKind.DATA and not damage.deep_only:
        assert (problem.expected_bytes, problem.actual_bytes) == (len(before), after and len(after))


PACKED, SINGLE = "1".ljust(32, "0"), "01".ljust(32, "0")
"""The names of the first two blob files of a data file."""


@pytest.mark.parametrize("name", [PACKED, SINGLE])
@pytest.mark.parametrize("content", [None, b"", b"short"])
def test_a_damaged_blob_file_is_found_with_deep(durable_location: Location, name: str, content: bytes | None) -> None:
    sizes = {"a": 10, "b": 100_000, "c": 5_000_000, "d": 200_000, "e": 300_000}
    expected = {PACKED: 300_000, SINGLE: 5_000_000}[name]
    blobs = lance.blob_array([*(b"x" * size for size in sizes.values()), None])
    create_dataset(durable_location, pa.table({"id": [*sizes, "f"], "blob": blobs}))
    dataset = open_dataset(durable_location)
    dataset.native_copy().delete("id = 'e'")
    commit_branch(open_dataset(durable_location), "b")
    assert problems(durable_location, NEWEST, ("b", None), deep=True) == []
    (path,) = [path for path in paths(durable_location, "data/") if path.endswith(f"/{name}.blob")]
    overwrite(durable_location, path, content)
    assert problems(durable_location) == []
    for version in (NEWEST, ("b", None)):
        (problem,) = problems(durable_location, version, deep=True)
        actual = None if content is None else len(content)
        assert (problem.path, problem.kind) == (path, FileKind.BLOBS)
        assert (problem.expected_bytes, problem.actual_bytes) == (expected, actual)


def test_missing_index_directory(durable_location: Location) -> None:
    make(durable_location)
    for path in paths(durable_location, "_indices/"):
        overwrite(durable_location, path, None)
    (problem,) = problems(durable_location)
    assert (problem.kind, problem.problem, problem.actual_bytes) == (FileKind.INDEX, "is missing", None)
    assert problem.expected_bytes


def test_branch_needs_its_own_files_and_those_of_its_parent(durable_location: Location) -> None:
    make(durable_location)
    own, shared = paths(durable_location, "tree/b/data/")[0], paths(durable_location, "data/")[0]
    for path in (own, shared):
        cut(durable_location, path)
    by_version = check_files(durable_location, [NEWEST, ("b", None)], deep=False).problems
    assert [problem.path for problem in by_version[NEWEST]] == [shared]
    assert {problem.path for problem in by_version["b", None]} == {shared, own}


@pytest.mark.parametrize("content", [b"", b"short", None])
def test_a_version_that_cannot_be_opened(durable_location: Location, content: bytes | None) -> None:
    dataset = make(durable_location)
    path = f"_versions/{2**64 - 1 - dataset.version:020d}.manifest"
    overwrite(durable_location, path, content)
    (problem,) = problems(durable_location, (None, dataset.version), deep=True)
    assert (problem.path, problem.kind) == (path, FileKind.VERSION)
    assert problem.problem.startswith("is missing" if content is None else "is damaged (")


def test_a_deletion_file_with_other_rows(local_location: Location) -> None:
    """As many bytes as before, but not the recorded number of rows."""
    make(local_location)
    (path,) = paths(local_location, "_deletions/")
    sink = pa.BufferOutputStream()
    table = pa.table({"row_id": pa.array([3, 4, ROWS], pa.uint32())})
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    overwrite(local_location, path, sink.getvalue().to_pybytes())
    (problem,) = problems(local_location)
    assert problem.problem == f"is damaged (a deleted row is not one of the {ROWS:,} rows)"


def test_one_listing_and_no_request_per_file(s3_server: S3Server) -> None:
    """Only deletion files are read, because Lance does not record their size."""
    counted = (
        Fault(Mode.FAIL, pattern, method="", times=0) for pattern in (r"\.(?:lance|idx)\b", r"\.(?:arrow|bin)\b")
    )
    with S3Proxy(s3_server).running() as proxy:
        location = proxy.location(f"{uuid.uuid4().hex}/t")
        make(location)
        with proxy.fault(next(counted)) as files, proxy.fault(next(counted)) as deletions:
            check_files(location, [NEWEST, ("b", None)], deep=False)
            assert (files.hits, deletions.hits) == (0, 3)
            check_files(location, [NEWEST], deep=True)
            assert files.hits


@pytest.mark.parametrize("count", [1, 3, 4_096, 4_097, 60_000])
@pytest.mark.parametrize("is_run", [False, True])
def test_bitmaps_of_lance_are_counted(tmp_path: Path, count: int, is_run: bool) -> None:
    """Bitmaps with several containers, of all three kinds; a missing or additional byte is damage."""
    rows = 300_000
    location = parse_location(str(tmp_path / "t"))
    native = lance.write_dataset(pa.table({"n": range(rows)}), location.uri, max_rows_per_file=rows)
    chosen = range(count) if is_run else random.Random(count).sample(range(rows), count)
    values = ", ".join(map(str, chosen))
    native.delete(f"n < {count}" if is_run else f"n IN ({values})")
    (path,) = paths(location, "_deletions/")
    data = Path(location.uri, path).read_bytes()
    if path.endswith(".bin"):
        assert count_bitmap(data) == count
        for wrong in (data[:-1], data + b"x", data[:5], b"", b"\xff" * len(data)):
            with pytest.raises(ValueError, match=r"."):
                count_bitmap(wrong)
    assert problems(location) == []
