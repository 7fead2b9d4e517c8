"""The figures of a server for Prometheus: requests, their time, what runs, and the memory of the cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from omnigraph.engine.cache import SHARED_CACHE
from omnigraph.server.admission import Admission
from omnigraph.server.waiting import Waiting

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The figures of one server."""

    def __init__(self, admission: Admission, waiting: Waiting, read_revision: Callable[[], int] = lambda: 0) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "omnigraph_requests", "Answered requests", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "omnigraph_request_seconds", "How long requests took", ("method", "route"), registry=self._registry
        )
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._commits = Counter("omnigraph_commits", "Commits of this server", registry=self._registry)
        running = Gauge("omnigraph_running", "Running requests by kind", ("kind",), registry=self._registry)
        for lane in (admission.reads, admission.writes, admission.streams):
            running.labels(lane.name).set_function(partial(getattr, lane, "running"))
        running.labels("wait").set_function(lambda: waiting.count)
        cache = Gauge("omnigraph_cache_bytes", "Bytes of the cache of queries", registry=self._registry)
        cache.set_function(lambda: SHARED_CACHE.nbytes)
        revision = Gauge(
            "omnigraph_serving_revision", "Revision of the cluster that is served", registry=self._registry
        )
        revision.set_function(read_revision)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        labels = method, route, status
        if labels not in self._children:
            self._children[labels] = self._requests.labels(*labels), self._seconds.labels(method, route)
        requests, times = self._children[labels]
        requests.inc()
        times.observe(seconds)

    def count_commit(self) -> None:
        """Count a commit."""
        self._commits.inc()

    def render(self) -> bytes:
        """Return the figures as text."""
        return generate_latest(self._registry)
