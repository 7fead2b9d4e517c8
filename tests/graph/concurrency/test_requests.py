"""The number of requests of one commit grows neither with the history nor with the number of other tables."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import lance
import pytest

from omnigraph.api.graph import Graph, init
from omnigraph.base import limits
from omnigraph.base.failpoints import observed
from omnigraph.storage.location import Location
from tests.conftest import S3Server
from tests.graph.writers import PERSON, SCHEMA, Change, create, run
from tests.s3_proxy import Fault, Mode, S3Proxy

METHODS: Final = ("GET", "PUT", "POST", "HEAD", "DELETE")
REQUESTS_MAX: Final = 32
WRITES: Final = {"PUT": 10, "POST": 3, "DELETE": 0}
"""PUT: the lock, its release and the intent; rows, transaction and version of the table; the same of the manifest, and
its deletion file. POST: the deletions of the intent and of two objects of the last epoch."""
SHORT_HISTORY: Final = 4
LONG_HISTORY: Final = 16
MEASURED: Final = 3
OTHER_TABLES: Final = 16


@pytest.fixture(scope="module")
def proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server).running() as running:
        yield running


def test_requests_of_a_commit_do_not_grow(proxy: S3Proxy) -> None:
    """Compare the smallest of several commits, because one of them may compact the manifest."""
    few = proxy.server.location(f"{uuid.uuid4().hex}/few.omni")
    create(few)
    _commit(few, SHORT_HISTORY)
    short = _count(proxy, few)
    _commit(few, LONG_HISTORY)
    long = _count(proxy, few)
    many = proxy.server.location(f"{uuid.uuid4().hex}/many.omni")
    types = "\n".join(f"node Other{number} {{ name: String @key }}" for number in range(OTHER_TABLES))
    schema = f"node Person {{ slug: String @key  age: I64? }}\n{types}"
    init(many.uri, schema, storage_options=dict(many.options), actor="tester")
    _commit(many, SHORT_HISTORY)
    wide = _count(proxy, many)
    print(f"\nrequests of a one-table commit: {short}, long history {long}, many tables {wide}")  # noqa: T201
    assert sum(short.values()) <= REQUESTS_MAX
    assert long == wide == short, "a process that is alone does not read the fragments of the manifest"
    for counted in (short, long, wide):
        assert {method: counted[method] for method in WRITES} == WRITES


def test_durable_calls_of_a_commit(local_location: Location) -> None:
    """Order: stage, lease (delete two objects of the last epoch), arm, commit, publish, disarm, release."""
    create(local_location)
    _commit(local_location, 2)
    calls: list[str] = []
    with observed(lambda effect, _: calls.append(effect)):
        _commit(local_location, 1)
    assert calls == [
        "dataset.stage",
        "object.create",
        "object.delete",
        "object.delete",
        "object.create",
        "dataset.commit",
        "dataset.stage",
        "dataset.commit",
        "object.delete",
        "object.create",
    ]


def test_opens_of_a_commit(local_location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that writes a table again brings its handles forward: it opens no dataset."""
    graph = init(local_location.uri, SCHEMA, actor="tester")
    review = graph.create_branch("review")
    opened: list[str] = []
    native_open = lance.dataset

    def counted(uri: str, *args: Any, **kwargs: Any) -> lance.LanceDataset:
        opened.append(uri)
        return native_open(uri, *args, **kwargs)

    def insert(target: Graph) -> list[str]:
        opened.clear()
        target.mutate("query add($slug: String) { insert Person { slug: $slug } }", {"slug": uuid.uuid4().hex})
        return list(opened)

    monkeypatch.setattr(lance, "dataset", counted)
    assert len(insert(graph)) == 1, "the table for its rows; `init` left the manifest"
    for _ in range(2 * limits.MANIFEST_FRAGMENTS_MAX):  # the manifest is compacted in between
        assert insert(graph) == []
    assert len(insert(review)) == 2, "the table of main for its checks, and the fork"
    assert (insert(review), insert(graph)) == ([], [])


def _commit(location: Location, times: int) -> None:
    for _ in range(times):
        run(location, [Change(PERSON, insert=(uuid.uuid4().hex,))])


def _count(proxy: S3Proxy, location: Location) -> dict[str, int]:
    counts = []
    counted = proxy.location(location.uri.removeprefix(f"s3://{proxy.server.bucket}/"))
    for _ in range(MEASURED):
        with ExitStack() as stack:
            counters = {
                method: stack.enter_context(proxy.fault(Fault(Mode.FAIL, "", method, times=0))) for method in METHODS
            }
            _commit(counted, 1)
        counts.append({method: counter.hits for method, counter in counters.items()})
    return min(counts, key=lambda count: sum(count.values()))
