"""Create a graph: all of it or nothing, whatever fails, stops or runs at the same time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from omnigraph.base.errors import OmnigraphError
from omnigraph.base.failpoints import ENVIRONMENT_VARIABLE, Failpoint
from omnigraph.graph.create import NewGraph, create_graph
from omnigraph.graph.manifest.layout import INIT_MARKERS
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.schema.build import build_catalog
from omnigraph.schema.parser import parse_schema
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.objects import ObjectStore
from tests.graph.publishing import make_graph, tree
from tests.graph.writers import PERSON, SCHEMA, TABLES, Change, read_contents, run
from tests.style.source import ROOT
from tests.waiting import SECONDS_MAX, wait_until

BEFORE_THE_MANIFEST = (Failpoint.INIT_MARK_BEFORE, Failpoint.INIT_TABLE_BEFORE, Failpoint.INIT_MANIFEST_BEFORE)
AFTER_THE_MANIFEST = (Failpoint.INIT_UNMARK_BEFORE, Failpoint.INIT_DONE)


@pytest.fixture
def location(request: pytest.FixtureRequest) -> Location:
    """Return an empty location in the store of the test. All failpoints run on disk, the decisive ones on S3 too."""
    location = request.getfixturevalue(f"{request.param}_location")
    assert isinstance(location, Location)
    return location


def _at_failpoints(on_disk: Sequence[str], on_s3: Sequence[str]) -> pytest.MarkDecorator:
    cases = [("local", point) for point in on_disk] + [("s3", point) for point in on_s3]
    return pytest.mark.parametrize(("location", "point"), cases, indirect=["location"])


def test_every_init_failpoint_is_tested() -> None:
    named = {point for point in Failpoint if point.startswith("init.")}
    assert named == {*BEFORE_THE_MANIFEST, *AFTER_THE_MANIFEST, Failpoint.INIT_REMOVE_BEFORE}


def test_new_graph_is_complete(store_location: Location) -> None:
    snapshot = make_graph(store_location)
    assert set(snapshot.tables) == set(TABLES)
    assert read_contents(store_location) == {alias: {} for alias in TABLES}
    assert [path for path in tree(store_location) if path.startswith(INIT_MARKERS)] == []
    run(store_location, [Change(PERSON, insert=("a",))])
    assert set(read_contents(store_location)[PERSON]) == {"a"}


@_at_failpoints([*BEFORE_THE_MANIFEST, "init.table.before@3"], [Failpoint.INIT_MANIFEST_BEFORE])
def test_init_after_a_killed_init(location: Location, point: str) -> None:
    store = ObjectStore(location)
    killed = start_init(location, f"{point}=kill")
    assert killed.returncode == -signal.SIGKILL
    if point != Failpoint.INIT_MARK_BEFORE:
        assert len(store.list(INIT_MARKERS)) == 1
        with pytest.raises(OmnigraphError) as caught:
            read_snapshot(location)
        assert caught.value.code == "init_unfinished"
    make_graph(location)
    _require_complete_graph(location)


@_at_failpoints(["init.remove.before@2", "init.unmark.before"], [])
def test_init_after_an_init_that_was_killed_while_it_deleted(location: Location, point: str) -> None:
    start_init(location, "init.manifest.before=kill")
    assert start_init(location, f"{point}=kill").returncode == -signal.SIGKILL
    make_graph(location)
    _require_complete_graph(location)


@_at_failpoints(AFTER_THE_MANIFEST, [Failpoint.INIT_UNMARK_BEFORE])
def test_graph_exists_if_init_was_killed_after_the_manifest(location: Location, point: str) -> None:
    assert start_init(location, f"{point}=kill").returncode == -signal.SIGKILL
    assert set(read_snapshot(location).tables) == set(TABLES)
    assert start_init(location).stdout == "graph_exists"
    run(location, [Change(PERSON, insert=("a",))])
    _require_complete_graph(location)


@_at_failpoints(["init.mark.before", "init.table.before@2", "init.manifest.before"], ["init.manifest.before"])
def test_failed_init_leaves_nothing(location: Location, tmp_path: Path, point: str) -> None:
    deep = parse_location(f"{location.uri}/deep/er", dict(location.options))
    assert start_init(deep, f"{point}=raise").stdout == "failpoint"
    assert tree(deep) == {}
    assert not [path for path in tmp_path.rglob("*") if "graph.omni" in path.parts]
    make_graph(deep)
    _require_complete_graph(deep)


def test_failed_init_keeps_other_files(tmp_path: Path) -> None:
    """A file at the path of a directory: with force the error is raised late."""
    (tmp_path / "nodes").write_text("mine")
    (tmp_path / "notes.txt").write_text("mine too")
    location = parse_location(str(tmp_path))
    catalog = build_catalog(parse_schema(SCHEMA, "s"))
    with pytest.raises(OmnigraphError):
        create_graph(location, NewGraph(SCHEMA, catalog, "me", allow_other_files=True))
    assert tree(location) == {"nodes": 4, "notes.txt": 8}
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["nodes", "notes.txt"]


def test_other_files_are_rejected_and_kept_with_force(durable_location: Location) -> None:
    store = ObjectStore(durable_location)
    store.create("nodes/notes.txt", b"mine")
    with pytest.raises(OmnigraphError) as caught:
        make_graph(durable_location)
    assert caught.value.code == "directory_not_empty"
    assert list(tree(durable_location)) == ["nodes/notes.txt"]
    catalog = build_catalog(parse_schema(SCHEMA, "s"))
    create_graph(durable_location, NewGraph(SCHEMA, catalog, "me", allow_other_files=True))
    assert store.read("nodes/notes.txt") == b"mine"
    assert set(read_snapshot(durable_location).tables) == set(TABLES)


@pytest.mark.parametrize(
    "marker",
    [b"garbage", b'{"v":9}', b'{"v":1,"op_id":"X","host":"h","boot_id":"b","pid_namespace":"n","pid":1,'
     b'"started":"1","paths":["../../precious"]}'],
)  # fmt: skip
def test_invalid_marker_deletes_nothing(durable_location: Location, marker: bytes) -> None:
    store = ObjectStore(durable_location)
    store.create(f"{INIT_MARKERS}/X.json", marker)
    store.create("precious/file", b"mine")
    with pytest.raises(OmnigraphError) as caught:
        make_graph(durable_location)
    assert caught.value.code == "directory_not_empty"
    assert len(tree(durable_location)) == 2


def test_existing_graph_is_never_replaced(durable_location: Location) -> None:
    make_graph(durable_location)
    run(durable_location, [Change(PERSON, insert=("a",))])
    before = tree(durable_location)
    catalog = build_catalog(parse_schema(SCHEMA, "s"))
    for force in (False, True):
        with pytest.raises(OmnigraphError) as caught:
            create_graph(durable_location, NewGraph(SCHEMA, catalog, "me", allow_other_files=force))
        assert caught.value.code == "graph_exists"
    assert tree(durable_location) == before


def test_one_of_two_concurrent_inits_succeeds(durable_location: Location, tmp_path: Path) -> None:
    gates = [tmp_path / f"gate-{number}" for number in range(2)]
    answers: dict[int, str] = {}

    def start(number: int) -> None:
        done = start_init(durable_location, f"init.manifest.before=hold:{gates[number]}")
        answers[number] = done.stdout or done.stderr

    threads = [threading.Thread(target=start, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    _wait_for([gate.with_name(f"{gate.name}.reached") for gate in gates])
    for gate in gates:
        gate.touch()
    for thread in threads:
        thread.join(SECONDS_MAX)
    assert sorted(answers.values()) == ["graph_exists", "made"]
    run(durable_location, [Change(PERSON, insert=("a",))])
    _require_complete_graph(durable_location)


def _require_complete_graph(location: Location) -> None:
    """Require that the graph is readable and that no other table or marker exists."""
    snapshot = read_snapshot(location)
    assert read_contents(location).keys() == set(TABLES)
    paths = {"/".join(path.split("/")[:2]) for path in tree(location) if path.startswith(("nodes/", "edges/"))}
    assert paths == {table.path for table in snapshot.tables.values()}
    assert [path for path in tree(location) if path.startswith(INIT_MARKERS)] == []


class TestOtherMachine:
    """A machine or container with our host name and another boot id: its `init` may run, whatever `/proc` shows."""

    @_at_failpoints([Failpoint.INIT_MANIFEST_BEFORE], [Failpoint.INIT_MANIFEST_BEFORE])
    def test_running_init_is_not_disturbed(self, location: Location, point: str, tmp_path: Path) -> None:
        with _hold_init(location, point, tmp_path, boot_id="another boot") as (other, finish):
            before = tree(location)
            assert start_init(location, f"{point}=raise").stdout == "failpoint"
            assert tree(location) == before
            assert finish() == "made"
        assert other.returncode == 0
        _require_complete_graph(location)

    def test_files_of_a_killed_init_do_not_prevent_a_new_one(self, local_location: Location) -> None:
        killed = start_init(local_location, f"{Failpoint.INIT_MANIFEST_BEFORE}=kill", "another boot")
        assert killed.returncode == -signal.SIGKILL
        left = tree(local_location)
        make_graph(local_location)
        run(local_location, [Change(PERSON, insert=("a",))])
        assert left.items() <= tree(local_location).items()

    def test_marker_of_an_earlier_release_is_kept(self, local_location: Location) -> None:
        """It does not name the machine and the user of its process."""
        start_init(local_location, f"{Failpoint.INIT_MANIFEST_BEFORE}=kill")
        store = ObjectStore(local_location)
        path = store.list(INIT_MARKERS)[0].path
        marker = json.loads(store.read(path) or b"")
        del marker["machine_id"], marker["uid"]
        store.delete(path)
        store.create(path, json.dumps(marker).encode())
        left = tree(local_location)
        make_graph(local_location)
        assert left.items() <= tree(local_location).items()


@_at_failpoints([Failpoint.INIT_MANIFEST_BEFORE], [Failpoint.INIT_MANIFEST_BEFORE])
def test_init_fails_if_tables_are_deleted(location: Location, point: str, tmp_path: Path) -> None:
    """Another process deletes a table while `init` runs: no graph is created, and the next `init` works."""
    with _hold_init(location, point, tmp_path) as (_, finish):
        store = ObjectStore(location)
        table = next(entry.path for entry in store.list("nodes"))
        store.delete_below("/".join(table.split("/")[:2]))
        assert finish() == "init_tables_deleted"
    assert tree(location) == {}
    make_graph(location)
    _require_complete_graph(location)


def test_error_after_the_graph_is_visible_deletes_nothing(local_location: Location, tmp_path: Path) -> None:
    """Another process may have loaded rows."""
    with _hold_init(local_location, Failpoint.INIT_MANIFEST_BEFORE, tmp_path) as (_, finish):
        tables = {path for path in tree(local_location) if path.startswith("nodes")}
        damaged = next(path for path in sorted(tables) if path.endswith(".manifest"))
        Path(local_location.uri, damaged).write_bytes(b"not")
        assert finish() == "dataset_unreadable"
    assert tables <= set(tree(local_location))
    assert start_init(local_location).stdout == "graph_exists"


@contextmanager
def _hold_init(
    location: Location, point: str, folder: Path, boot_id: str = ""
) -> Iterator[tuple[subprocess.Popen[str], Callable[[], str]]]:
    """Run `init` in a process that waits at a failpoint; yield it and a function that continues it."""
    gate = folder / "gate"
    environment = {**os.environ, ENVIRONMENT_VARIABLE: f"{point}=hold:{gate}"}
    command = _command(location, boot_id)
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            _wait_for([gate.with_name(f"{gate.name}.reached")])

            def finish() -> str:
                gate.touch()
                return process.communicate(timeout=SECONDS_MAX)[0]

            yield process, finish
        finally:
            process.kill()


def _command(location: Location, boot_id: str) -> list[str]:
    module = "tests.graph.init_process"
    return [sys.executable, "-m", module, location.uri, json.dumps(dict(location.options)), boot_id]


def start_init(location: Location, failpoints: str = "", boot_id: str = "") -> subprocess.CompletedProcess[str]:
    """Create a graph in its own process and wait for it."""
    command = _command(location, boot_id)
    environment = {**os.environ, ENVIRONMENT_VARIABLE: failpoints}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )


def _wait_for(files: list[Path]) -> None:
    wait_until(lambda: all(file.exists() for file in files), f"{files} are reached")


def _create_uncommitted_manifest(location: Location) -> None:
    """Create what a writer that dies while Lance creates the manifest leaves: files without a version."""
    ObjectStore(location).create("__manifest/data/unexpected.lance", b"rows that were never committed")


@_at_failpoints([Failpoint.INIT_MANIFEST_BEFORE], [Failpoint.INIT_MANIFEST_BEFORE])
def test_files_of_an_init_killed_while_it_wrote_the_manifest_are_deleted(location: Location, point: Failpoint) -> None:
    assert start_init(location, f"{point}=kill").returncode == -signal.SIGKILL
    _create_uncommitted_manifest(location)
    snapshot = make_graph(location)
    assert set(snapshot.tables) == set(TABLES)
    left = [path for path in tree(location) if "unexpected" in path or path.startswith(INIT_MARKERS)]
    assert left == []
    assert len({path.split("/")[1] for path in tree(location) if path.startswith("nodes/")}) == 2


def test_manifest_files_are_kept_while_another_init_may_need_them(local_location: Location) -> None:
    assert start_init(local_location, f"{Failpoint.INIT_MANIFEST_BEFORE}=kill").returncode == -signal.SIGKILL
    _create_uncommitted_manifest(local_location)
    store = ObjectStore(local_location)
    other = json.loads(store.read(store.list(INIT_MARKERS)[0].path) or b"")
    elsewhere = {**other, "op_id": "0" * 26, "host": "elsewhere", "paths": []}
    store.create(f"{INIT_MARKERS}/{'0' * 26}.json", json.dumps(elsewhere).encode())
    make_graph(local_location)
    assert store.read("__manifest/data/unexpected.lance") is not None
