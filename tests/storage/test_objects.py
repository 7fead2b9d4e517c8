from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.base.errors import OmnigraphError
from omnigraph.base.failpoints import observed
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectEntry, ObjectStore
from tests.s3_proxy import Fault, Mode, S3Proxy


def test_an_object_is_created_once(store_location: Location) -> None:
    store = ObjectStore(store_location)
    assert store.create("locks/1.json", b"one")
    assert not store.create("locks/1.json", b"two")
    assert store.read("locks/1.json") == b"one"


def test_creating_again_with_the_same_bytes_succeeds(store_location: Location) -> None:
    """After a lost acknowledgement the client's retry finds an object: its bytes show whose it is."""
    store = ObjectStore(store_location)
    assert store.create("locks/1.json", b"mine")
    assert store.create("locks/1.json", b"mine")


def test_missing_objects_are_not_listed_or_read(store_location: Location) -> None:
    store = ObjectStore(store_location)
    assert store.list("") == ()
    assert store.list("locks") == ()
    assert store.list_names() == ()
    assert store.create("a", b"")
    assert store.read("b") is None
    assert store.read("a") == b""


def test_listing_is_ordered_and_only_below_the_directory(store_location: Location) -> None:
    store = ObjectStore(store_location)
    for path in ("locks/10.json", "locks/9.json", "locks/a/1.json", "locks2/1.json", "top.json"):
        assert store.create(path, path.encode())
    assert [entry.path for entry in store.list("locks")] == ["locks/10.json", "locks/9.json", "locks/a/1.json"]
    assert store.list("top") == ()
    assert store.list("")[-1] == ObjectEntry("top.json", 8)
    assert store.list_names() == ("locks", "locks2", "top.json")


def test_deleting_can_be_repeated(store_location: Location) -> None:
    store = ObjectStore(store_location)
    store.create("a/1", b"x")
    store.delete("a/1")
    store.delete("a/1")
    assert store.read("a/1") is None
    assert store.create("a/1", b"y")


def test_deleting_below_a_directory_keeps_its_neighbours(store_location: Location) -> None:
    store = ObjectStore(store_location)
    for path in ("a/1", "a/b/2", "ab/3"):
        store.create(path, b"x")
    assert store.delete_below("a") == 2
    assert store.delete_below("a") == 0
    assert [entry.path for entry in store.list("")] == ["ab/3"]
    assert store.list_names() == ("ab",)


def test_every_change_is_announced_and_no_read_is(store_location: Location) -> None:
    store = ObjectStore(store_location)
    seen: list[tuple[str, str]] = []
    with observed(lambda effect, target: seen.append((effect, target))):
        store.create("a", b"x")
        store.read("a")
        store.list("")
        store.delete("a")
    assert seen == [("object.create", "a"), ("object.delete", "a")]


def test_names_with_special_characters(store_location: Location) -> None:
    store = ObjectStore(store_location)
    path = "branch/ä b%20+.json"
    assert store.create(path, b"x")
    assert [entry.path for entry in store.list("branch")] == [path]
    assert store.read(path) == b"x"


def test_killed_local_put_leaves_no_listed_object(local_location: Location) -> None:
    """Kill the process before the temporary file gets its name: nothing is listed, and the path is free."""
    code = (
        "import sys; from omnigraph.storage.objects import ObjectStore;"
        "from omnigraph.storage.location import parse_location;"
        "ObjectStore(parse_location(sys.argv[1])).create('locks/1.json', bytes(64 * 1024 * 1024))"
    )
    root = Path(local_location.uri)
    with subprocess.Popen([sys.executable, "-c", code, local_location.uri]) as child:
        while child.poll() is None and not list(root.glob("locks/*")):
            pass
        os.kill(child.pid, signal.SIGKILL)
    left = [path.name for path in root.glob("locks/*")]
    assert left
    if "1.json" in left:
        pytest.skip("the child was faster than the signal")
    store = ObjectStore(local_location)
    assert store.list("locks") == ()
    assert store.create("locks/1.json", b"next")


def test_a_temporary_file_of_a_killed_put_is_not_listed(local_location: Location) -> None:
    store = ObjectStore(local_location)
    store.create("locks/1.json", b"x")
    (Path(local_location.uri) / "locks" / "2.json#1").write_bytes(b"half")
    assert [entry.path for entry in store.list("locks")] == ["locks/1.json"]
    assert store.create("locks/2.json", b"whole")
    assert store.read("locks/2.json") == b"whole"
    assert store.delete_below("locks") == 2


def test_create_with_lost_acknowledgement_succeeds(s3_proxy: S3Proxy) -> None:
    """The server applies the write and responds with 500; the client's retry then finds its own object."""
    store = ObjectStore(s3_proxy.location("lost-create"))
    with s3_proxy.fault(Fault(Mode.FAIL_APPLIED, "locks/1.json")) as lost:
        assert store.create("locks/1.json", b"mine")
    assert len(lost.acted) == 1
    assert store.read("locks/1.json") == b"mine"
    assert not store.create("locks/1.json", b"theirs")


def test_concurrent_changes_of_directories_are_not_errors(local_location: Location) -> None:
    store = ObjectStore(local_location)
    store.remove_empty_directory("never/made")
    store.remove_empty_directories("never/made")
    store.create("locks/a/1", b"x")
    Path(local_location.uri, "locks/b/c").mkdir(parents=True)
    store.remove_empty_directory("locks")
    store.remove_empty_directories("locks")
    assert [entry.path for entry in store.list("")] == ["locks/a/1"]
    assert not Path(local_location.uri, "locks/b").exists()


def test_directory_name_too_long_for_the_disk(local_location: Location) -> None:
    store = ObjectStore(local_location)
    store.create("a", b"x")
    with pytest.raises(OmnigraphError):
        store.remove_empty_directory("x" * 300)


def test_files_of_an_existing_directory_end_when_it_is_renamed(local_location: Location) -> None:
    store, inside = ObjectStore(local_location), ObjectStore(local_location.child("a/b"))
    assert store.create("top", b"")
    assert store.create_directory("a/b")
    inside.create_inside("1", b"x")
    store.rename_directory("a/b", "a/c")
    with pytest.raises(OmnigraphError):
        inside.create_inside("2", b"y")
    store.rename_directory("a/b", "a/d")
    assert [(entry.path, store.read(entry.path)) for entry in store.list("a")] == [("a/c/1", b"x")]
    assert sorted(path.name for path in Path(local_location.uri, "a").iterdir()) == ["c"]


def test_directory_is_not_created_where_that_is_impossible(store_location: Location) -> None:
    store = ObjectStore(store_location)
    assert not store.create_directory("a/b")  # the root does not exist, or is not on a disk
    assert store.create("file", b"")
    assert not store.create_directory("file/b")
    assert store.create_directory("a/b") == store_location.is_local


def test_unfinished_files_are_deleted_with_their_directory(local_location: Location) -> None:
    store = ObjectStore(local_location)
    store.create("a/1", b"x")
    Path(local_location.uri, "a", "2#123").write_bytes(b"part")
    assert store.delete_below("a") == 1
    assert not Path(local_location.uri, "a").exists()
