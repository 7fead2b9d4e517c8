"""A publish on S3 whose response is lost, late or an error: the stored state decides what is reported."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.base.errors import Applied, StorageError
from omnigraph.graph.branches import create_branch, delete_branch
from omnigraph.graph.manifest.publish import ManifestChange, PublishUnknownError, publish
from omnigraph.graph.manifest.requirements import HeadIs
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.storage.location import Location
from tests.conftest import S3Server
from tests.graph.publishing import make_graph, moved, new_draft, newest, target_of
from tests.graph.writers import PERSON
from tests.s3_proxy import Fault, Mode, S3Proxy
from tests.waiting import SECONDS_MAX, wait_until

VERSION_FILE = r"/__manifest/_versions/\d+\.manifest"
LOST = (Mode.DROP_RESPONSE, Mode.FAIL_APPLIED)


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server).running() as running:
        yield running


def _location(proxy: S3Proxy, retries: int) -> Location:
    return proxy.location(f"{uuid.uuid4().hex}/graph.omni", client_max_retries=str(retries))


@pytest.mark.parametrize("retries", [0, 3])
@pytest.mark.parametrize("mode", LOST)
def test_lost_response_is_found_to_be_published(proxy: S3Proxy, mode: Mode, retries: int) -> None:
    location = _location(proxy, retries)
    first = make_graph(location)
    change = ManifestChange(commit=new_draft(), tables=(moved(first.tables[PERSON]),))
    with proxy.fault(Fault(mode, VERSION_FILE)) as fault:
        published = publish(target_of(first), change, (HeadIs(first.head),))
    assert len(fault.acted) == 1
    assert published is not None
    assert published.parent == first.head
    commits = newest(location).read_commits()
    assert sorted(commit.id for commit in commits) == sorted([first.head, published.id])
    assert read_snapshot(location).tables[PERSON].pin.version == 2


def test_error_that_was_not_applied_is_retried_by_the_client(proxy: S3Proxy) -> None:
    location = _location(proxy, 3)
    first = make_graph(location)
    with proxy.fault(Fault(Mode.FAIL, VERSION_FILE)) as fault:
        publish(target_of(first), ManifestChange(commit=new_draft()))
    assert fault.hits == 2
    assert len(newest(location).read_commits()) == 2


def test_error_without_retries_is_raised_and_not_applied(proxy: S3Proxy) -> None:
    location = _location(proxy, 0)
    first = make_graph(location)
    draft = new_draft()
    with proxy.fault(Fault(Mode.FAIL, VERSION_FILE)), pytest.raises(StorageError) as caught:
        publish(target_of(first), ManifestChange(commit=draft))
    assert caught.value.applied is Applied.UNKNOWN
    assert newest(location).find_commit(draft.id) is None
    publish(target_of(first), ManifestChange(commit=draft), (HeadIs(first.head),))
    assert read_snapshot(location).head == draft.id


def test_store_that_stops_responding_is_applied_unknown(proxy: S3Proxy) -> None:
    location = _location(proxy, 0)
    first = make_graph(location)
    lost = Fault(Mode.DROP_RESPONSE, VERSION_FILE)
    silence = _After(lost, Mode.FAIL, r"__manifest|list-type")
    draft = new_draft()
    with proxy.fault(lost), proxy.fault(silence), pytest.raises(PublishUnknownError) as caught:
        publish(target_of(first), ManifestChange(commit=draft))
    assert caught.value.applied is Applied.UNKNOWN
    assert caught.value.facts == {"commit": draft.id, "recovery_required": {"operation_id": draft.operation_id}}
    assert len(newest(location).read_commits()) == 2


class _After(Fault):
    """A fault of reads that begins after another fault has acted."""

    def __init__(self, other: Fault, mode: Mode, path: str) -> None:
        super().__init__(mode, path, "GET", times=1000)
        self._other = other

    def takes(self, method: str, path: str) -> bool:
        return bool(self._other.acted) and super().takes(method, path)


def test_late_response_is_applied_once(proxy: S3Proxy) -> None:
    location = _location(proxy, 3)
    first = make_graph(location)
    with proxy.fault(Fault(Mode.HOLD, VERSION_FILE)) as fault, ThreadPoolExecutor(1) as pool:
        publishing = pool.submit(publish, target_of(first), ManifestChange(commit=new_draft()))
        wait_until(lambda: fault.acted, "the request is held")
        assert not publishing.done()
        fault.gate.set()
        publishing.result(SECONDS_MAX)
    assert fault.hits == 1
    assert newest(location).version == 2


@pytest.mark.parametrize("mode", LOST)
def test_branches_are_created_and_deleted_after_a_lost_response(proxy: S3Proxy, mode: Mode) -> None:
    location = _location(proxy, 3)
    make_graph(location)
    with proxy.fault(Fault(mode, VERSION_FILE)) as fault:
        record = create_branch(location, "x", "me", read_snapshot(location))
    assert newest(location).read_state().branches["x"] == record
    with proxy.fault(Fault(mode, VERSION_FILE)) as again:
        delete_branch(location, "x")
    assert "x" not in newest(location).read_state().branches
    assert len(fault.acted) == len(again.acted) == 1
