"""Files outside of a graph: complete or missing."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from omnigraph.base.errors import StorageError
from omnigraph.storage.files import file_exists, move_file, read_bytes, write_file
from omnigraph.storage.location import Location, parse_location


@pytest.fixture
def directory(durable_location: Location) -> Location:
    if durable_location.is_local:
        Path(durable_location.uri).mkdir()
    return durable_location


def test_file_is_complete_or_missing(directory: Location) -> None:
    file = directory.child("dump.jsonl")
    with write_file(file) as sink:
        sink.write(b"one\n")
        assert not file_exists(file)
        sink.write(b"two\n")
    assert file_exists(file)
    assert read_bytes(file, 0, 100) == b"one\ntwo\n"
    with write_file(file) as sink:
        sink.write(b"three\n")
    assert read_bytes(file, 0, 100) == b"three\n"
    if directory.is_local:
        assert [path.name for path in Path(directory.uri).iterdir()] == ["dump.jsonl"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device")])
def test_an_error_leaves_nothing(directory: Location, error: BaseException) -> None:
    file = directory.child("dump.jsonl")

    def fail() -> None:
        with write_file(file) as sink:
            sink.write(b"half")
            raise error

    with pytest.raises((KeyboardInterrupt, StorageError)):
        fail()
    assert not file_exists(file)
    if directory.is_local:
        assert list(Path(directory.uri).iterdir()) == []


def test_a_move_replaces(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    move_file(parse_location(str(tmp_path / "new")), parse_location(str(tmp_path / "old")))
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == "new"
