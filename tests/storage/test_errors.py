"""Every kind of invalid location or damaged file gives exactly one of our errors, with a code and a hint."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.base.errors import ErrorKind, FormatError, InvariantError, NotFoundError, OmnigraphError, StorageError
from omnigraph.storage.errors import CommitRaceError, DatasetExistsError, translate_error, translate_errors
from omnigraph.storage.lance.commit import commit_branch
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.lance.stage import write_rows
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.conftest import S3Server
from tests.storage.accesses import ACCESSES
from tests.storage.samples import make_people, people
from tests.style.source import python_sources
from tests.waiting import SECONDS_MAX


def _bytes_of(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "three bytes": lambda data: data[:3],
    "half": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "garbage": lambda data: bytes(range(256)) * (len(data) // 256 + 1),
    "garbage with the right end": lambda data: b"\xff" * (len(data) - 4) + b"LANC",
    "garbage before the footer": lambda data: b"\xff" * (len(data) - 16) + data[-16:],
}


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "empty"])
def test_a_damaged_manifest(local_location: Location, damage: str) -> None:
    make_people(local_location, ["a"], ["b"])
    newest = min(Path(local_location.uri, "_versions").glob("*.manifest"))
    _bytes_of(newest, DAMAGES[damage])
    with pytest.raises(FormatError) as caught:
        open_dataset(local_location)
    _expect(caught.value, "dataset_unreadable", local_location.uri)


def test_empty_manifest_on_every_store(durable_location: Location) -> None:
    make_people(durable_location, ["a"], ["b"])
    store = ObjectStore(durable_location)
    newest = store.list("_versions")[0].path
    store.delete(newest)
    store.create(newest, b"")
    if durable_location.is_local:  # what a power cut leaves of a commit that was not acknowledged
        assert open_dataset(durable_location).version == 1
        return
    with pytest.raises(FormatError) as caught:
        open_dataset(durable_location)
    _expect(caught.value, "dataset_unreadable", durable_location.uri)
    assert "range" in str(caught.value.facts["cause"]).lower()


@pytest.mark.parametrize("damage", ["empty", "half", "garbage"])
def test_a_damaged_data_file(local_location: Location, damage: str) -> None:
    make_people(local_location, [f"{number}" * 50 for number in range(100)])
    (file,) = Path(local_location.uri, "data").glob("*.lance")
    _bytes_of(file, DAMAGES[damage])
    with pytest.raises(FormatError) as caught:
        open_dataset(local_location).read()
    _expect(caught.value, "dataset_unreadable", local_location.uri)


def test_missing_data_file_is_not_a_missing_dataset(durable_location: Location) -> None:
    dataset = make_people(durable_location, ["a"])
    store = ObjectStore(durable_location)
    for entry in store.list("data"):
        store.delete(entry.path)
    with pytest.raises(FormatError) as caught:
        dataset.newest().read()
    _expect(caught.value, "dataset_unreadable", durable_location.uri)
    assert "missing" in caught.value.message


@pytest.mark.parametrize("access", ACCESSES)
def test_a_missing_bucket(s3_server: S3Server, access: str) -> None:
    location = parse_location("s3://no-such-bucket/graph.omni", s3_server.options)
    with pytest.raises(NotFoundError) as caught:
        ACCESSES[access](location)
    _expect(caught.value, "bucket_missing", "s3://no-such-bucket/graph.omni")


@pytest.mark.parametrize("access", ["open", "object read", "object create", "object list"])
def test_unreachable_endpoint_fails_after_few_retries(access: str) -> None:
    location = parse_location(
        "s3://bucket/graph.omni",
        {
            "aws_access_key_id": "a",
            "aws_secret_access_key": "b",
            "aws_region": "us-east-1",
            "aws_endpoint": "http://127.0.0.1:1",
        },
    )
    limits = {"client_max_retries": "3", "client_retry_timeout": "5", "connect_timeout": "2s"}
    assert limits.items() <= (location.storage_options or {}).items()
    with pytest.raises(StorageError) as caught:
        ACCESSES[access](location)
    _expect(caught.value, "store_unreachable", "s3://bucket/graph.omni")


def test_unknown_region_of_a_bucket() -> None:
    """Lance looks up the region if none is set, which fails on a machine without a network."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.storage.accesses", "s3://bucket.invalid/graph.omni", "open"],
        cwd=Path(__file__).parents[2],
        env={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "HTTPS_PROXY": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert child.stdout == "open: store_unreachable\n", child.stderr
    made = translate_error(OSError("Generic S3 error: Failed to resolve region"), "open", "s3://bucket/graph.omni")
    assert "AWS_REGION" in made.hint
    assert "AWS_ENDPOINT_URL" in made.hint


def test_no_permission(tmp_path: Path) -> None:
    """In a child process that drops superuser permissions after its imports."""
    closed = tmp_path / "closed.omni"
    closed.mkdir()
    closed.chmod(0)
    child = subprocess.run(
        [sys.executable, "-m", "tests.storage.accesses", str(closed)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    closed.chmod(0o700)
    expected = [f"{access}: permission_denied" for access in ACCESSES]
    assert child.stdout.splitlines() == expected, child.stderr


@pytest.mark.parametrize("access", ["create", "object create", "open"])
def test_file_instead_of_a_directory(tmp_path: Path, access: str) -> None:
    (tmp_path / "file").write_text("not a directory")
    location = parse_location(str(tmp_path / "file" / "graph.omni"))
    with pytest.raises(StorageError) as caught:
        ACCESSES[access](location)
    _expect(caught.value, "path_is_file", location.uri)


def test_existing_branch_name_is_an_error(store_location: Location) -> None:
    dataset = make_people(store_location, ["a"])
    commit_branch(dataset, "g-1")
    with pytest.raises(DatasetExistsError):
        commit_branch(dataset, "g-1")


def test_interrupt_in_a_library_is_raised_as_keyboard_interrupt(local_location: Location) -> None:
    """Ctrl-C while Lance reads the next rows, and as pyarrow reports it during a read."""
    rows = people(["b"])
    dataset = make_people(local_location, ["a"])

    def interrupted() -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_rows(dataset, pa.RecordBatchReader.from_batches(rows.schema, interrupted()))
    with pytest.raises(KeyboardInterrupt), translate_errors("read", local_location.uri):
        raise pa.ArrowInvalid("External error: KeyboardInterrupt: ")


def test_invalid_internal_filter_is_an_invariant_error(local_location: Location) -> None:
    with pytest.raises(InvariantError) as caught:
        make_people(local_location, ["a"]).read(where="unknown = 1")
    assert caught.value.code == "filter_invalid"


@pytest.mark.parametrize(
    ("text", "error", "code"),
    [
        ("Commit conflict for version 7", CommitRaceError, "commit_race"),
        ("Too many concurrent writers", CommitRaceError, "commit_race"),
        ("Retryable commit conflict for version 3", CommitRaceError, "commit_race"),
        ("Commit result for version 2 is unknown: it may or may not", StorageError, "commit_unknown"),
        ("Server returned non-2xx status code: 403 Forbidden", StorageError, "permission_denied"),
        ("The AWS Access Key Id: InvalidAccessKeyId", StorageError, "credentials"),
        ("Failed to get AWS credentials: Forbidden", StorageError, "credentials"),
        ("No space left on device (os error 28)", StorageError, "disk_full"),
        ("Disk quota exceeded (os error 122)", StorageError, "disk_full"),
        ("Unable to copy data to file: Input/output error (os error 5)", StorageError, "io_error"),
        ("[Errno 5] Input/output error: 'nodes/a'", StorageError, "io_error"),
        ("LanceError(IO): File too large (os error 27)", StorageError, "file_too_large"),
        ("Unable to open file: Too many open files (os error 24)", StorageError, "too_many_open_files"),
        ("Too many open files in system (os error 23)", StorageError, "too_many_open_files"),
        ("failed to fill whole buffer (os error 55)", FormatError, "dataset_unreadable"),
        ("Server returned non-2xx status code: 503 Slow Down", StorageError, "store_unreachable"),
        ("operation timed out", StorageError, "store_unreachable"),
        ("Generic S3 error: Failed to resolve region for bucket 'b'", StorageError, "store_unreachable"),
        ("Generic S3 error: an unknown message", StorageError, "store_unreachable"),
        ("Generic S3 error: Server returned non-2xx status code: 416", FormatError, "dataset_unreadable"),
        (
            "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token - status code: 403",
            StorageError,
            "credentials",
        ),
        ("does not have sufficient data, len: 512", FormatError, "dataset_unreadable"),
    ],
)
def test_message_of_a_library_gives_the_error(text: str, error: type[OmnigraphError], code: str) -> None:
    made = translate_error(OSError(f"{text}, /build/lance/src/io.rs:12:34"), "read", "/data/graph.omni")
    assert type(made) is error
    assert made.code == code
    assert ".rs:" not in str(made.facts["cause"])


LIMITED = """
import os, resource, sys
from omnigraph.base.errors import OmnigraphError
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import parse_location
from omnigraph.storage.objects import ObjectStore

location, limit = parse_location(sys.argv[1]), sys.argv[2]
open_dataset(location).read()  # what the libraries open once is open from here on
used = max(map(int, os.listdir("/proc/self/fd"))) + 1
if limit == "files":
    resource.setrlimit(resource.RLIMIT_NOFILE, (used - 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
try:
    if limit == "files":
        open_dataset(location).read()
    else:
        ObjectStore(location).create("x", b"x" * 1_000)
except OmnigraphError as error:
    print(error.code)
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts the open files of Linux")
@pytest.mark.parametrize(("limit", "code"), [("files", "too_many_open_files"), ("bytes", "file_too_large")])
def test_limit_of_the_system_is_reported(local_location: Location, limit: str, code: str) -> None:
    make_people(local_location, ["a"])
    command = [sys.executable, "-c", LIMITED, local_location.uri, limit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == code, done.stderr


class PanicException(BaseException):
    """Has the name of the exception with which Lance reports a panic."""


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        ("Too many open files (os error 24)", "too_many_open_files"),
        ("Input/output error (os error 5)", "io_error"),
        ("No space left on device (os error 28)", "disk_full"),
        ("index out of bounds: the len is 3 but the index is 7", "dataset_unreadable"),
        ("Schema error: duplicate field", "dataset_unreadable"),
    ],
)
def test_cause_of_a_panic_is_in_its_message(cause: str, code: str) -> None:
    with pytest.raises(OmnigraphError) as caught, translate_errors("read", "/data/graph.omni"):
        raise PanicException(f"called `Result::unwrap()` on an `Err` value: {cause}")
    assert caught.value.code == code


def test_name_of_a_location_does_not_affect_its_errors() -> None:
    uri = "/data/connection timed out/permission denied.omni"
    made = translate_error(OSError(f"bad file {uri.strip('/')}/_versions/1.manifest"), "open", uri)
    assert made.code == "dataset_unreadable"


def test_every_storage_call_names_its_operation_and_location() -> None:
    """Both are strings, so type checks do not detect swapped arguments."""
    calls = [
        call.args
        for source in python_sources()
        if source.in_package
        for call in ast.walk(source.tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "translate_errors"
    ]
    assert len(calls) > 50
    for what, where in calls:
        assert isinstance(what, ast.Name | ast.Constant), ast.unparse(what)
        assert not isinstance(where, ast.Constant), ast.unparse(where)


def _expect(error: OmnigraphError, code: str, uri: str) -> None:
    assert error.code == code
    assert error.hint
    assert uri in error.message
    assert "\n" not in error.message
    assert ".rs:" not in error.message
    assert "Error" not in error.message
    assert error.kind is not ErrorKind.INTERNAL
