"""Mutations beside other writers, and over rows of every kind: what is staged again, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.graph import Graph
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.errors import UsageError
from omnigraph.base.ids import CommitId
from omnigraph.engine.mutation.run import BoundMutation, MutationRejectedError
from omnigraph.engine.mutation.stage import EntityCounts, Mutated, MutationRequest, mutate
from omnigraph.engine.mutation.text import MutationResult, PreparedMutation
from omnigraph.engine.prepare import QuerySource
from omnigraph.graph.manifest.requirements import PreconditionFailedError
from omnigraph.graph.manifest.snapshot import Snapshot, read_snapshot
from omnigraph.storage.lance.dataset import ADDRESS, open_dataset
from omnigraph.storage.lance.read import read_blobs

SCHEMA = """\
node P { k: String @key  n: I64?  mail: String? @unique  photo: Blob? }
node Note { text: String }
edge Knows: P -> P
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = og.init(str(tmp_path / "graph.omni"), SCHEMA)
    made.mutate(
        'query a() { insert P { k: "a", n: 1, mail: "a@x", photo: "base64:aGk=" } insert P { k: "b", n: 2 } '
        'insert P { k: "c" } insert Knows { from: "a", to: "b" } }'
    )
    return made


def rows(graph: Graph, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in graph.query(f"query q() {{ {query} }}").to_pylist()]


def people(graph: Graph) -> dict[str, int | None]:
    return dict(rows(graph, "match { $p: P } return { $p.k, $p.n }"))


def writer(graph: Graph, text: str) -> Callable[[], object]:
    return lambda: graph.mutate(text)


def beside(graph: Graph, text: str, other: Callable[[], object]) -> tuple[Mutated, int]:
    """Run a mutation while another write lands between its Stage and its Check; how often it was prepared."""
    preparing = PreparedMutation(QuerySource(text), {}, SYSTEM_CLOCK)
    prepared = 0

    def prepare(snapshot: Snapshot) -> BoundMutation:
        nonlocal prepared
        prepared += 1
        bound = preparing.prepare(snapshot)
        if prepared == 1:
            other()
        return bound

    return mutate(graph.location, MutationRequest(prepare, "tester")), prepared


def test_an_insert_is_checked_again_and_not_run_again(graph: Graph) -> None:
    other = writer(graph, 'query o() { insert P { k: "o", mail: "o@x" } }')
    done, prepared = beside(graph, 'query i() { insert P { k: "i", mail: "i@x" } }', other)
    assert (done.nodes, prepared) == (EntityCounts(inserted=1), 1)
    assert people(graph).keys() == {"a", "b", "c", "i", "o"}


def test_an_insert_keeps_the_fragments_it_wrote(graph: Graph) -> None:
    def data_files() -> set[Path]:
        return set(Path(graph.uri).glob("nodes/*/data/*.lance"))

    before = data_files()
    other = writer(graph, 'query o() { insert P { k: "o" } }')
    beside(graph, 'query i() { insert P { k: "i" } }', other)
    assert len(data_files() - before) == 2


def test_an_insert_that_breaks_a_rule_by_now_is_refused(graph: Graph) -> None:
    other = writer(graph, 'query o() { insert P { k: "o", mail: "same" } }')
    with pytest.raises(MutationRejectedError) as refused:
        beside(graph, 'query i() { insert P { k: "i", mail: "same" } }', other)
    assert [found.rule.code for found in refused.value.report.first] == ["V402"]
    assert people(graph).keys() == {"a", "b", "c", "o"}


def test_an_insert_becomes_an_upsert_when_its_key_is_there_by_now(graph: Graph) -> None:
    other = writer(graph, 'query o() { insert P { k: "i", n: 1 } }')
    done, _ = beside(graph, 'query i() { insert P { k: "i", n: 2 } }', other)
    assert done.nodes == EntityCounts(updated=1)
    assert people(graph)["i"] == 2
    assert_counts_are_exact(graph)


def test_an_edge_whose_end_is_gone_by_now_is_refused(graph: Graph) -> None:
    other = writer(graph, 'query o() { delete P where k = "c" }')
    with pytest.raises(MutationRejectedError):
        beside(graph, 'query i() { insert Knows { from: "a", to: "c" } }', other)
    assert rows(graph, "match { $p knows $q } return { $p.k, $q.k }") == [("a", "b")]


def test_an_update_runs_again(graph: Graph) -> None:
    other = writer(graph, 'query o() { update P set { n: 5 } where k = "c" }')
    done, prepared = beside(graph, "query u() { update P set { mail: null } where n > 1 }", other)
    assert (done.nodes, prepared) == (EntityCounts(updated=2), 2)


def test_an_update_that_matches_nothing_by_now(graph: Graph) -> None:
    other = writer(graph, 'query o() { update P set { n: 9 } where k = "b" }')
    done, prepared = beside(graph, "query u() { update P set { mail: null } where n = 2 }", other)
    assert (done, prepared) == (Mutated(), 2)


def test_a_delete_takes_edges_along_that_came_meanwhile(graph: Graph) -> None:
    other = writer(graph, 'query o() { insert Knows { from: "c", to: "b" } }')
    done, prepared = beside(graph, 'query d() { delete P where k = "b" }', other)
    assert (done.nodes, done.edges, prepared) == (EntityCounts(deleted=1), EntityCounts(deleted=2), 2)
    assert rows(graph, "match { $p $e:knows $q } return { count($e) as n }") == [(0,)]
    assert_counts_are_exact(graph)


def test_writes_of_other_tables_do_not_disturb(graph: Graph) -> None:
    other = writer(graph, 'query o() { insert Note { text: "o" } }')
    _, prepared = beside(graph, 'query u() { update P set { n: 3 } where k = "a" }', other)
    assert prepared == 1


class TestIfCommit:
    def test_the_head_is_the_one(self, graph: Graph) -> None:
        head = graph.snapshot().head
        done = graph.mutate('query i() { insert P { k: "i" } }', if_commit=head)
        assert done.commit is not None
        assert done.commit.parent == head

    def test_the_head_is_another_one(self, graph: Graph) -> None:
        head = graph.snapshot().head
        graph.mutate('query i() { insert P { k: "i" } }')
        for text in ('query j() { insert P { k: "j" } }', 'query n() { delete P where k = "nobody" }'):
            with pytest.raises(PreconditionFailedError) as failed:
                graph.mutate(text, if_commit=head)
            assert failed.value.facts["precondition_failure"] == {
                "expected": head,
                "actual": graph.snapshot().head,
            }
        assert "j" not in people(graph)

    def test_the_head_moves_meanwhile(self, graph: Graph) -> None:
        head = graph.snapshot().head
        preparing = PreparedMutation(QuerySource('query j() { insert P { k: "j" } }'), {}, SYSTEM_CLOCK)

        def prepare(snapshot: Snapshot) -> BoundMutation:
            graph.mutate('query o() { insert Note { text: "o" } }')
            return preparing.prepare(snapshot)

        with pytest.raises(PreconditionFailedError):
            mutate(graph.location, MutationRequest(prepare, "tester", if_commit=CommitId(head)))
        assert "j" not in people(graph)


class TestBlobs:
    def contents(self, graph: Graph) -> dict[str, bytes | None]:
        table = graph.snapshot().tables["node:P"]
        dataset = open_dataset(graph.location.child(table.path), version=table.pin.version)
        found = dataset.read(["id"], with_addresses=True).to_pylist()
        blobs = read_blobs(dataset, "photo", [row[ADDRESS] for row in found])
        return {str(row["id"]): blob for row, blob in zip(found, blobs, strict=True)}

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("update P set { n: 7 } where true", {"a": b"hi", "b": None, "c": None}),
            (
                'update P set { n: 7 } where k = "a" insert P { k: "d" }',
                {"a": b"hi", "b": None, "c": None, "d": None},
            ),
            ('update P set { photo: "base64:" } where k = "b"', {"a": b"hi", "b": b"", "c": None}),
            (
                'update P set { n: 7 } where photo is not null update P set { photo: "base64:eA==" } where n = 2',
                {"a": b"hi", "b": b"x", "c": None},
            ),
            ("update P set { photo: null } where true", {"a": None, "b": None, "c": None}),
            ('insert P { k: "a" }', {"a": None, "b": None, "c": None}),
        ],
    )
    def test_what_no_statement_sets_stays(
        self, graph: Graph, text: str, expected: dict[str, bytes | None]
    ) -> None:
        graph.mutate(f"query q() {{ {text} }}")
        assert self.contents(graph) == expected

    def test_an_address_outside_of_the_graph_is_refused(self, graph: Graph) -> None:
        for text in (
            'insert P { k: "d", photo: "s3://b/x" }',
            'update P set { photo: "s3://b/x" } where k = "a"',
        ):
            with pytest.raises(MutationRejectedError) as refused:
                graph.mutate(f"query q() {{ {text} }}")
            assert [found.rule.code for found in refused.value.report.first] == ["V113"]


def test_many_rows(graph: Graph) -> None:
    """More rows than are looked up by a filter."""
    inserts = " ".join(f'insert P {{ k: "k{number}", n: {number} }}' for number in range(1000))
    edges = " ".join(f'insert Knows {{ from: "k{number}", to: "a" }}' for number in range(1000))
    graph.mutate(f"query i() {{ {inserts} }}")
    graph.mutate(f"query i() {{ {inserts.replace('k', 'm')} }}".replace("m:", "k:"))
    graph.mutate(f"query e() {{ {edges} }}")
    assert graph.mutate("query u() { update P set { n: 0 } where n >= 10 }").affected_nodes == 1980
    assert rows(graph, "match { $p: P { n: 0 } } return { count($p) as n }") == [(1982,)]
    done = graph.mutate('query d() { delete P where k starts_with "k" or k starts_with "m" }')
    assert (done.affected_nodes, done.affected_edges) == (2000, 1000)
    assert_counts_are_exact(graph)
    assert people(graph).keys() == {"a", "b", "c"}


def test_what_several_statements_touch_counts_once(graph: Graph) -> None:
    done = graph.mutate(
        'query i() { insert P { k: "a" } insert P { k: "new" } update P set { n: 5 } where true '
        'update P set { n: 6 } where k = "new" insert Knows { from: "new", to: "a" } }'
    )
    assert (done.nodes, done.edges) == (EntityCounts(1, 3, 0), EntityCounts(inserted=1))
    assert (done.affected_nodes, done.affected_edges) == (4, 1)
    assert done.commit is not None
    assert dict(done.commit.counts) == {"nodes": 4, "edges": 1}
    gone = graph.mutate('query d() { delete P where k = "a" delete P where true }')
    assert (gone.nodes, gone.edges) == (EntityCounts(deleted=4), EntityCounts(deleted=2))


def test_a_mutation_is_one_commit(graph: Graph) -> None:
    before = graph.snapshot().head
    done = graph.mutate('query i() { insert P { k: "i" } insert Knows { from: "i", to: "a" } }', actor="eve")
    assert isinstance(done, MutationResult)
    assert done.commit is not None
    assert (done.commit.parent, done.commit.actor, done.commit.operation) == (before, "eve", "mutate")
    assert dict(done.commit.counts) == {"nodes": 1, "edges": 1}
    assert len(done.commit.tables) == 2
    assert graph.snapshot().head == done.commit.id


def test_the_moment_is_the_same_for_all_statements(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "g.omni"), "node P { k: String @key  at: DateTime }")
    graph.mutate('query i() { insert P { k: "a", at: now() } insert P { k: "b", at: now() } }')
    assert rows(graph, "match { $p: P } return { count(distinct $p.at) as n }") == [(1,)]


def test_what_cannot_be_run(graph: Graph) -> None:
    with pytest.raises(UsageError) as refused:
        og.open(graph.uri, read_only=True).mutate("query d() { delete P where true }")
    assert refused.value.code == "graph_read_only"
    with pytest.raises(UsageError) as refused:
        graph.mutate("query q() { match { $p: P } return { $p.k } }")
    assert refused.value.code == "query_is_read"


def assert_counts_are_exact(graph: Graph) -> None:
    snapshot = read_snapshot(graph.location)
    counts: Mapping[str, int] = {alias: table.row_count for alias, table in snapshot.tables.items()}
    for alias, table in snapshot.tables.items():
        dataset = open_dataset(graph.location.child(table.path), version=table.pin.version)
        assert dataset.count_rows() == counts[alias], alias
