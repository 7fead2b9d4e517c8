"""The number of requests of a warm query does not grow with the history of the graph."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from omnigraph.engine.cache import Cache
from omnigraph.engine.options import EngineOptions, TraversalMode
from omnigraph.engine.run import QueryRunOptions
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.indexes import IndexSpec
from omnigraph.storage.location import Location
from tests.conftest import S3Server
from tests.engine.running import PlannedText
from tests.graph.writers import COMPANY, KNOWS, PERSON, Change, create, run, run_index
from tests.s3_proxy import Fault, Mode, S3Proxy

QUERIES: Final = {
    "point lookup": 'query q() { match { $p: Person { slug: "a" } } return { $p.age } }',
    "one hop": 'query q() { match { $p: Person { slug: "a" } $p knows $f } return { $f.age } }',
    "filter": "query q() { match { $p: Person  $p.age is null } return { $p.slug } }",
}
WARM_MAX: Final = 2
"""A warm query only checks for a newer manifest; everything else is in memory."""
FROM_STORAGE_MAX: Final = {"point lookup": 3, "one hop": 5, "filter": 3}
"""The same without cached columns: open handles and indexes are cached, rows are read."""
HISTORY: Final = 12


@pytest.fixture(scope="module")
def proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    with S3Proxy(s3_server).running() as running:
        yield running


def test_requests_of_warm_query_do_not_grow_with_history(proxy: S3Proxy) -> None:
    direct = proxy.server.location(f"{uuid.uuid4().hex}/graph.omni")
    create(direct)
    run(direct, [Change(PERSON, insert=("a", "b", "c")), Change(KNOWS, insert=("a", "b"))])
    run_index(direct, PERSON, [IndexSpec("id", IndexKind.BTREE), IndexSpec("slug", IndexKind.BTREE)])
    run_index(direct, KNOWS, [IndexSpec("src", IndexKind.BTREE)])
    counted_location = proxy.location(direct.uri.removeprefix(f"s3://{proxy.server.bucket}/"))
    column_cache, handle_cache = Cache(), Cache()
    warm = QueryRunOptions(EngineOptions(), column_cache)
    stored = QueryRunOptions(EngineOptions(mode=TraversalMode.INDEXED, cached=False), handle_cache)
    short = {
        name: (_requests(proxy, counted_location, name, warm), _requests(proxy, counted_location, name, stored))
        for name in QUERIES
    }
    for _ in range(HISTORY):
        run(direct, [Change(COMPANY, insert=(uuid.uuid4().hex,))])
    long = {
        name: (_requests(proxy, counted_location, name, warm), _requests(proxy, counted_location, name, stored))
        for name in QUERIES
    }
    print(f"\nrequests of warm queries, from memory and from storage: {short}, after a history {long}")  # noqa: T201
    assert long == short
    for name, (from_memory, from_storage) in short.items():
        assert from_memory <= WARM_MAX
        assert from_storage <= FROM_STORAGE_MAX[name]


def _requests(proxy: S3Proxy, location: Location, name: str, options: QueryRunOptions) -> int:
    """Return the number of requests of a query after the same query ran before."""
    query = PlannedText(QUERIES[name])
    for _ in range(4):
        assert query.run(read_snapshot(location, MAIN), None, options).to_arrow().num_rows
    with ExitStack() as stack:
        counters = [
            stack.enter_context(proxy.fault(Fault(Mode.FAIL, "", method, times=0)))
            for method in ("GET", "HEAD", "PUT", "POST", "DELETE")
        ]
        query.run(read_snapshot(location, MAIN), None, options).to_arrow()
    assert [counter.hits for counter in counters[2:]] == [0, 0, 0]
    return sum(counter.hits for counter in counters)
