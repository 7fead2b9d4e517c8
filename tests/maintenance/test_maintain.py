"""One round of maintenance: what it finds, does and leaves; and that one process maintains a graph at a time."""

from __future__ import annotations

import lance
import pytest

import omnigraph as og
from omnigraph.base import limits
from omnigraph.graph.coordination.lease import LeaseBusyError, LeaseTerms, acquire_lease, hold_lease
from omnigraph.maintenance.doctor.findings import CLEANUP, REPAIR, Check, Finding, Health, optimize_branch
from omnigraph.maintenance.maintain import MAINTAIN_LOCK, branches_to_optimize
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

SCHEMA = "node Person { slug: String @key  name: String? @index }"


def insert(graph: og.Graph, slug: str) -> None:
    graph.mutate("query m($s: String) { insert Person { slug: $s } }", {"s": slug})


@pytest.fixture
def graph(durable_location: Location, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    monkeypatch.setattr(limits, "HEALTHY_SMALL_FRAGMENTS_MAX", 4)  # fewer commits
    options = dict(durable_location.options)
    og.init(durable_location.uri, SCHEMA, storage_options=options)
    graph = og.open(durable_location.uri, storage_options=options)
    for number in range(limits.HEALTHY_SMALL_FRAGMENTS_MAX + 2):
        insert(graph, f"p{number}")
    return graph


def finding(check: Check, branch: str, *, health: Health = Health.NOTICE, fix: object = None) -> Finding:
    return Finding(check, health, "text", where="node:Person", branch=branch, fix=fix or optimize_branch(branch))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("findings", "branches"),
    [
        ([], ()),
        ([finding(Check.FRAGMENTS, "main")], ("main",)),
        ([finding(Check.INDEXES, "b"), finding(Check.FRAGMENTS, "main"), finding(Check.FRAGMENTS, "b")], ("b", "main")),
        ([finding(Check.DRIFT, "main", fix=REPAIR)], ()),
        ([finding(Check.ORPHANS, "main", fix=CLEANUP)], ()),
        ([finding(Check.RECOVERY, "main")], ()),
    ],
)
def test_branches_that_need_optimize(findings: list[Finding], branches: tuple[str, ...]) -> None:
    assert branches_to_optimize(findings) == branches


def test_round_optimizes_and_a_second_has_nothing_to_do(graph: og.Graph) -> None:
    rows = graph.query("query q() { match { $p: Person } return { $p.slug } }").to_pylist()
    first = graph.maintain()
    assert list(first.optimized) == ["main"]
    assert any(row.committed for row in first.optimized["main"])
    assert [left for left in first.left if left.check in (Check.FRAGMENTS, Check.INDEXES)] == []
    assert first.runner == "local"
    assert [finding for finding in first.problems if finding.check is Check.LOCKS] == []  # the lock of the round itself
    head = graph.snapshot().head
    second = graph.maintain()
    assert second.optimized == {}
    assert graph.snapshot().head == head
    assert sorted(map(str, graph.query("query q() { match { $p: Person } return { $p.slug } }").to_pylist())) == sorted(
        map(str, rows)
    )


def test_cleanup_deletes_only_with_a_confirmation(graph: og.Graph) -> None:
    versions = len(graph.table("Person").versions())
    preview = graph.maintain(keep=1, older_than=None)
    assert preview.cleaned is not None
    assert len(graph.table("Person").versions()) >= versions
    without = graph.maintain(cleanup=False)
    assert without.cleaned is None


def test_drift_is_reported_and_not_repaired(local_location: Location) -> None:
    og.init(local_location.uri, SCHEMA)
    graph = og.open(local_location.uri)
    insert(graph, "a")
    path = graph.snapshot().tables["node:Person"].path
    lance.dataset(f"{local_location.uri}/{path}").delete("slug = 'a'")
    result = graph.maintain(cleanup=False)
    assert result.needs_repair
    assert graph.query("query q() { match { $p: Person } return { $p.slug } }").to_pylist() == [{"p.slug": "a"}]


def test_unknown_branch_is_an_error(graph: og.Graph) -> None:
    with pytest.raises(og.OmnigraphError, match="no branch 'nowhere'"):
        graph.maintain(branches=["nowhere"])


def test_second_maintainer_names_the_first(local_location: Location) -> None:
    og.init(local_location.uri, SCHEMA)
    store = ObjectStore(local_location)
    with hold_lease(store, MAINTAIN_LOCK, "maintain"), pytest.raises(LeaseBusyError, match="maintain by process"):
        acquire_lease(store, MAINTAIN_LOCK, "maintain", LeaseTerms(wait_seconds=0.1))


def test_writers_are_not_blocked(local_location: Location) -> None:
    og.init(local_location.uri, SCHEMA)
    with hold_lease(ObjectStore(local_location), MAINTAIN_LOCK, "maintain"):
        insert(og.open(local_location.uri), "a")
