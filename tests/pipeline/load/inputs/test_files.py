"""The files of a load: by name, directory and glob, on disk and on S3, and early errors for other names."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from omnigraph.base.errors import StorageError, UsageError
from omnigraph.pipeline.load.inputs.files import InputFormat, find_inputs
from omnigraph.storage.files import Compression
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.conftest import S3Server
from tests.s3_proxy import Fault, Mode, S3Proxy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.jsonl", "a.ndjson.gz", "sub/c.parquet", "d.csv", "notes.txt", ".hidden.jsonl", "_SUCCESS"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"12")
    return tmp_path


def names(*paths: str) -> list[str]:
    return [Path(file.location.uri).name for file in find_inputs(paths)]


def test_a_directory_gives_its_data_files_in_order(folder: Path) -> None:
    assert names(str(folder)) == ["a.ndjson.gz", "b.jsonl", "d.csv", "c.parquet"]


def test_a_glob_gives_what_it_matches(folder: Path) -> None:
    assert names(f"{folder}/*.jsonl") == ["b.jsonl"]
    assert names(f"{folder}/.*.jsonl") == [".hidden.jsonl"]
    assert names(f"{folder}/**/*.parquet") == ["c.parquet"]


def test_glob_skips_hidden_files(folder: Path) -> None:
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "half.jsonl").write_bytes(b"12")
    assert names(f"{folder}/**/*.jsonl") == ["b.jsonl"]
    assert names(f"{folder}/_*/*.jsonl") == ["half.jsonl"]
    assert names(f"{folder}/_temporary/*.jsonl") == ["half.jsonl"]


def test_folder_named_like_a_glob_is_a_folder(tmp_path: Path) -> None:
    odd = tmp_path / "a[1]"
    odd.mkdir()
    (odd / "b.jsonl").write_bytes(b"12")
    assert names(f"{odd}/*.jsonl") == ["b.jsonl"]
    with pytest.raises(UsageError, match="no data"):
        find_inputs([f"{odd}/missing.jsonl"])


def test_folder_named_like_a_glob_is_one_of_its_matches(tmp_path: Path) -> None:
    for name in ("x*/a[1]/i.jsonl", "x*/a[1]/_log.jsonl", "x1/a1/j.jsonl", "y/a1/k.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12")
    assert names(f"{tmp_path}/x*/*/*.jsonl") == ["i.jsonl", "j.jsonl"]
    assert names(f"{tmp_path}/x*/a[1]/*.jsonl") == ["i.jsonl", "j.jsonl"]


def test_working_directory_is_not_a_glob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("x*/i.jsonl", "x1/j.jsonl"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"12")
    monkeypatch.chdir(tmp_path / "x*")
    assert names("*.jsonl") == ["i.jsonl"]
    assert names("../x*/*.jsonl") == names(f"file://{tmp_path}/x*/*.jsonl") == ["i.jsonl", "j.jsonl"]


def test_duplicate_name_is_read_once(folder: Path) -> None:
    assert names(f"{folder}/b.jsonl", str(folder / "sub" / ".." / "b.jsonl")) == ["b.jsonl"]


def test_format_and_compression_follow_the_name(folder: Path) -> None:
    formats = {Path(file.location.uri).name: (file.format, file.compression) for file in find_inputs([str(folder)])}
    assert formats["a.ndjson.gz"] == (InputFormat.NDJSON, Compression.GZIP)
    assert formats["c.parquet"] == (InputFormat.PARQUET, Compression.NONE)
    assert formats["d.csv"] == (InputFormat.CSV, Compression.NONE)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("missing.jsonl", "input_missing"),
        ("*.nothing", "input_missing"),
        ("notes.txt", "input_format"),
        ("ftp://x/y.jsonl", "uri_scheme"),
    ],
)
def test_invalid_inputs_are_rejected(folder: Path, name: str, code: str) -> None:
    with pytest.raises(UsageError) as refused:
        find_inputs([name if "://" in name else f"{folder}/{name}"])
    assert refused.value.code == code
    assert refused.value.hint


def test_s3_has_files_folders_and_globs(s3_location: Location) -> None:
    store = ObjectStore(s3_location)
    for path in (
        "in/b.jsonl",
        "in/a.jsonl",
        "in/deep/c.jsonl",
        "in/notes.txt",
        "in/_tmp/d.jsonl",
        "in/.e.jsonl",
        "_up/f.jsonl",
        "_up/_tmp/g.jsonl",
    ):
        store.create(path, path.encode())
    options = dict(s3_location.options)
    uri = s3_location.uri

    def found(name: str) -> list[str]:
        return [file.location.uri.removeprefix(f"{uri}/") for file in find_inputs([name], options)]

    assert found(f"{uri}/in/a.jsonl") == ["in/a.jsonl"]
    assert found(f"{uri}/in") == ["in/a.jsonl", "in/b.jsonl", "in/deep/c.jsonl"]
    assert found(f"{uri}/in/*.jsonl") == ["in/a.jsonl", "in/b.jsonl", "in/deep/c.jsonl"]
    assert found(f"{uri}/_up") == found(f"{uri}/_up/*.jsonl") == ["_up/f.jsonl"]
    assert find_inputs([f"{uri}/in/a.jsonl"], options)[0].size == len("in/a.jsonl")
    with pytest.raises(UsageError):
        found(f"{uri}/in/none.jsonl")


def test_folder_is_listed_although_s3_denies_a_file(s3_server: S3Server) -> None:
    """AWS answers so for a key that does not exist, if only some folders may be listed."""
    with S3Proxy(s3_server).running() as proxy:
        place = proxy.location(uuid.uuid4().hex)
        ObjectStore(place).create("in/a.jsonl", b"12")
        options = dict(place.options)
        with proxy.fault(Fault(Mode.FORBID, "", "HEAD", times=3)) as refused:
            inputs = find_inputs([f"{place.uri}/in"], options)
            assert [file.name for file in inputs] == [f"{place.uri}/in/a.jsonl"]
            with pytest.raises(StorageError, match=r"no permission to find an object at .*/none\b"):
                find_inputs([f"{place.uri}/none"], options)
            with (
                proxy.fault(Fault(Mode.FORBID, "", "GET")),
                pytest.raises(StorageError, match=r"no permission to find an object at .*/in\b"),
            ):
                find_inputs([f"{place.uri}/in"], options)
            assert len(refused.acted) == 3
