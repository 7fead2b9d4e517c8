"""Mutations with concurrent writers: what is staged again and what is reused; counts, Blobs and preconditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.graph import Graph
from omnigraph.base.errors import UsageError
from omnigraph.engine.mutation.run import BoundMutation, MutationRejectedError
from omnigraph.engine.mutation.stage import EntityCounts
from omnigraph.engine.mutation.text import MutationOptions, MutationResult, bind_mutation, mutate
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
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA)
    graph.mutate(
        'query a() { insert P { k: "a", n: 1, mail: "a@x", photo: "base64:aGk=" } insert P { k: "b", n: 2 } '
        'insert P { k: "c" } insert Knows { from: "a", to: "b" } }'
    )
    return graph


def rows(graph: Graph, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in graph.query(f"query q() {{ {query} }}").to_pylist()]


def people(graph: Graph) -> dict[str, int | None]:
    return dict(rows(graph, "match { $p: P } return { $p.k, $p.n }"))


def writer(graph: Graph, text: str) -> Callable[[], object]:
    return lambda: graph.mutate(text)


def run_with_concurrent_write(graph: Graph, text: str, other: Callable[[], object]) -> tuple[MutationResult, int]:
    """Run a mutation, with another write between its stage and its check; return the number of preparations too."""
    prepared = 0

    def prepare(snapshot: Snapshot) -> BoundMutation:
        nonlocal prepared
        prepared += 1
        bound = bind_mutation(snapshot, QuerySource(text), {}, datetime.now(UTC))
        if prepared == 1:
            other()
        return bound

    return mutate(graph.location, prepare, MutationOptions(actor="tester")), prepared


def test_insert_is_validated_again_but_not_run_again(graph: Graph) -> None:
    other = writer(graph, 'query o() { insert P { k: "o", mail: "o@x" } }')
    done, prepared = run_with_concurrent_write(graph, 'query i() { insert P { k: "i", mail: "i@x" } }', other)
    assert (done.nodes, prepared) == (EntityCounts(inserted=1), 1)
    assert people(graph).keys() == {"a", "b", "c", "i", "o"}


def test_insert_reuses_its_fragments(graph: Graph) -> None:
    def data_files() -> set[Path]:
        return set(Path(graph.uri).glob("nodes/*/data/*.lance"))

    before = data_files()
    other = writer(graph, 'query o() { insert P { k: "o" } }')
    run_with_concurrent_write(graph, 'query i() { insert P { k: "i" } }', other)
    assert len(data_files() - before) == 2


def test_insert_that_violates_a_rule_after_concurrent_write_is_rejected(graph: Graph) -> None:
    other = writer(graph, 'query o() { insert P { k: "o", mail: "same" } }')
    with pytest.raises(MutationRejectedError) as caught:
        run_with_concurrent_write(graph, 'query i() { insert P { k: "i", mail: "same" } }', other)
    assert [error.rule.code for error in caught.value.report.first] == ["V402"]
    assert people(graph).keys() == {"a", "b", "c", "o"}


def test_insert_becomes_upsert_after_concurrent_insert_of_same_key(graph: Graph) -> None:
    other = writer(graph, 'query o() { insert P { k: "i", n: 1 } }')
    done, _ = run_with_concurrent_write(graph, 'query i() { insert P { k: "i", n: 2 } }', other)
    assert done.nodes == EntityCounts(updated=1)
    assert people(graph)["i"] == 2
    assert_counts_are_exact(graph)


def test_edge_to_concurrently_deleted_node_is_rejected(graph: Graph) -> None:
    other = writer(graph, 'query o() { delete P where k = "c" }')
    with pytest.raises(MutationRejectedError):
        run_with_concurrent_write(graph, 'query i() { insert Knows { from: "a", to: "c" } }', other)
    assert rows(graph, "match { $p knows $q } return { $p.k, $q.k }") == [("a", "b")]


def test_update_runs_again_after_concurrent_write(graph: Graph) -> None:
    other = writer(graph, 'query o() { update P set { n: 5 } where k = "c" }')
    done, prepared = run_with_concurrent_write(graph, "query u() { update P set { mail: null } where n > 1 }", other)
    assert (done.nodes, prepared) == (EntityCounts(updated=2), 2)


def test_update_without_matches_after_concurrent_write_has_no_commit(graph: Graph) -> None:
    other = writer(graph, 'query o() { update P set { n: 9 } where k = "b" }')
    done, prepared = run_with_concurrent_write(graph, "query u() { update P set { mail: null } where n = 2 }", other)
    assert (done.nodes, done.edges, done.commit, prepared) == (EntityCounts(), EntityCounts(), None, 2)


def test_delete_removes_concurrently_inserted_edges(graph: Graph) -> None:
    other = writer(graph, 'query o() { insert Knows { from: "c", to: "b" } }')
    done, prepared = run_with_concurrent_write(graph, 'query d() { delete P where k = "b" }', other)
    assert (done.nodes, done.edges, prepared) == (EntityCounts(deleted=1), EntityCounts(deleted=2), 2)
    assert rows(graph, "match { $p $e:knows $q } return { count($e) as n }") == [(0,)]
    assert_counts_are_exact(graph)


def test_concurrent_write_of_other_table_is_ignored(graph: Graph) -> None:
    other = writer(graph, 'query o() { insert Note { text: "o" } }')
    _, prepared = run_with_concurrent_write(graph, 'query u() { update P set { n: 3 } where k = "a" }', other)
    assert prepared == 1


class TestIfCommit:
    def test_expected_head(self, graph: Graph) -> None:
        head = graph.snapshot().head
        done = graph.mutate('query i() { insert P { k: "i" } }', if_commit=head)
        assert done.commit is not None
        assert done.commit.parent == head

    def test_other_head_fails(self, graph: Graph) -> None:
        head = graph.snapshot().head
        graph.mutate('query i() { insert P { k: "i" } }')
        for text in ('query j() { insert P { k: "j" } }', 'query n() { delete P where k = "missing" }'):
            with pytest.raises(PreconditionFailedError) as caught:
                graph.mutate(text, if_commit=head)
            assert caught.value.facts["precondition_failure"] == {"expected": head, "actual": graph.snapshot().head}
        assert "j" not in people(graph)

    def test_head_moves_during_mutation(self, graph: Graph) -> None:
        head = graph.snapshot().head
        source = QuerySource('query j() { insert P { k: "j" } }')

        def prepare(snapshot: Snapshot) -> BoundMutation:
            graph.mutate('query o() { insert Note { text: "o" } }')
            return bind_mutation(snapshot, source, {}, datetime.now(UTC))

        with pytest.raises(PreconditionFailedError):
            mutate(graph.location, prepare, MutationOptions(actor="tester", if_commit=head))
        assert "j" not in people(graph)


class TestBlobs:
    def contents(self, graph: Graph) -> dict[str, bytes | None]:
        table = graph.snapshot().tables["node:P"]
        dataset = open_dataset(graph.location.child(table.path), version=table.pin.version)
        rows = dataset.read(["id"], with_addresses=True).to_pylist()
        blobs = read_blobs(dataset, "photo", [row[ADDRESS] for row in rows])
        return {str(row["id"]): blob for row, blob in zip(rows, blobs, strict=True)}

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("update P set { n: 7 } where true", {"a": b"hi", "b": None, "c": None}),
            ('update P set { n: 7 } where k = "a" insert P { k: "d" }', {"a": b"hi", "b": None, "c": None, "d": None}),
            ('update P set { photo: "base64:" } where k = "b"', {"a": b"hi", "b": b"", "c": None}),
            (
                'update P set { n: 7 } where photo is not null update P set { photo: "base64:eA==" } where n = 2',
                {"a": b"hi", "b": b"x", "c": None},
            ),
            ("update P set { photo: null } where true", {"a": None, "b": None, "c": None}),
            ('insert P { k: "a" }', {"a": None, "b": None, "c": None}),
        ],
    )
    def test_unset_blobs_are_kept(self, graph: Graph, text: str, expected: dict[str, bytes | None]) -> None:
        graph.mutate(f"query q() {{ {text} }}")
        assert self.contents(graph) == expected

    def test_external_uri_of_blob_is_rejected(self, graph: Graph) -> None:
        for text in ('insert P { k: "d", photo: "s3://b/x" }', 'update P set { photo: "s3://b/x" } where k = "a"'):
            with pytest.raises(MutationRejectedError) as caught:
                graph.mutate(f"query q() {{ {text} }}")
            assert [error.rule.code for error in caught.value.report.first] == ["V113"]


def test_more_rows_than_one_lookup_filter(graph: Graph) -> None:
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


def test_row_changed_by_several_statements_counts_once(graph: Graph) -> None:
    done = graph.mutate(
        'query i() { insert P { k: "a" } insert P { k: "new" } update P set { n: 5 } where true '
        'update P set { n: 6 } where k = "new" insert Knows { from: "new", to: "a" } }'
    )
    assert (done.nodes, done.edges) == (EntityCounts(1, 3, 0), EntityCounts(inserted=1))
    assert (done.affected_nodes, done.affected_edges) == (4, 1)
    assert done.commit is not None
    assert dict(done.commit.counts) == {"nodes": 4, "edges": 1}
    deleted = graph.mutate('query d() { delete P where k = "a" delete P where true }')
    assert (deleted.nodes, deleted.edges) == (EntityCounts(deleted=4), EntityCounts(deleted=2))


def test_mutation_is_one_commit(graph: Graph) -> None:
    before = graph.snapshot().head
    done = graph.mutate('query i() { insert P { k: "i" } insert Knows { from: "i", to: "a" } }', actor="eve")
    assert isinstance(done, MutationResult)
    assert done.commit is not None
    assert (done.commit.parent, done.commit.actor, done.commit.operation) == (before, "eve", "mutate")
    assert dict(done.commit.counts) == {"nodes": 1, "edges": 1}
    assert len(done.commit.tables) == 2
    assert graph.snapshot().head == done.commit.id


def test_now_is_the_same_in_all_statements(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "g.omni"), "node P { k: String @key  at: DateTime }")
    graph.mutate('query i() { insert P { k: "a", at: now() } insert P { k: "b", at: now() } }')
    assert rows(graph, "match { $p: P } return { count(distinct $p.at) as n }") == [(1,)]


def test_read_only_graph_and_read_query_are_rejected(graph: Graph) -> None:
    with pytest.raises(UsageError) as caught:
        og.open(graph.uri, read_only=True).mutate("query d() { delete P where true }")
    assert caught.value.code == "graph_read_only"
    with pytest.raises(UsageError) as caught:
        graph.mutate("query q() { match { $p: P } return { $p.k } }")
    assert caught.value.code == "query_is_read"


def assert_counts_are_exact(graph: Graph) -> None:
    snapshot = read_snapshot(graph.location)
    counts: Mapping[str, int] = {alias: table.row_count for alias, table in snapshot.tables.items()}
    for alias, table in snapshot.tables.items():
        dataset = open_dataset(graph.location.child(table.path), version=table.pin.version)
        assert dataset.count_rows() == counts[alias], alias
