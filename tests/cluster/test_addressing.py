"""The flags `--cluster X --graph Y` find a deployed graph by the ledger alone; its policy decides about data writes."""

from __future__ import annotations

import doctest
import inspect
import json
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Final

import pytest

import omnigraph as og
from omnigraph.base.authorization import AccessDeniedError
from omnigraph.cli.command import Capability
from omnigraph.cluster.config import parse_root
from omnigraph.cluster.project import Cluster
from tests.cli.process import tree
from tests.cli.test_flags_of_scopes import COMMANDS
from tests.cluster.conftest import ExampleCluster

HERE = ("--cluster", ".", "--graph", "books")
ADD = 'query add() { insert Author { name: "le guin" } }'


AUTHORS: Final = "query q() { match { $a: Author } return { $a.name } }"
ARGUMENTS: Final = {
    # In this order: later commands need what earlier ones wrote.
    "snapshot": (),
    "schema show": (),
    "schema plan": ("--schema", "books.pg"),
    "branch create": ("review/1", "--as", "bo"),
    "load": ("--data", "rows.ndjson", "--branch", "review/1", "--mode", "append", "--as", "bo"),
    "mutate": ("-e", ADD, "--branch", "review/1", "--as", "bo"),
    "embed": ("--branch", "review/1", "--as", "bo"),
    "commit revert": ("HEAD", "--branch", "review/1", "--as", "bo"),
    "branch merge": ("review/1", "--as", "ada"),
    "branch delete": ("review/1", "--as", "bo"),
    "branch list": (),
    "query": ("-e", AUTHORS),
    "explain": ("-e", AUTHORS),
    "lint": ("--query", "queries/books.gq"),
    "export": ("--out", "all.jsonl"),
    "commit list": (),
    "commit show": ("HEAD",),
    "commit changes": ("HEAD",),
    "changes poll": (),
    "diff": ("main", "main"),
    "log": (),
    "index status": (),
    "recovery list": (),
    "doctor": (),
    "optimize": (),
    "repair": (),
    "cleanup": ("--keep", "1"),
    "maintain": (),
    "mcp": (),
}
"""Every command on a graph, except those that fail."""
FAILING: Final = {
    "blob get": (("node", "Book", "x", "title"), 2, "'title' is not a Blob property of 'node:Book'"),
    "blob stat": (("node", "Book", "x", "title"), 2, "'title' is not a Blob property of 'node:Book'"),
    "init": (("--schema", "books.pg"), 3, "run `omnigraph cluster apply`"),
    "schema apply": (("--schema", "books.pg"), 3, "run `omnigraph cluster apply`"),
    "serve": ((), 2, "a cluster declares its graphs"),
}


def test_every_command_on_a_graph_finds_it_in_the_cluster(
    applied_in_place: ExampleCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO()))  # of `mcp`
    on_graphs = {name for name, item in COMMANDS.items() if item.capability in (Capability.ANY, Capability.DIRECT)}
    assert on_graphs == {*ARGUMENTS, *FAILING}
    (applied_in_place.path / "rows.ndjson").write_text('{"type": "Author", "data": {"name": "ursula"}}\n')
    for name, arguments in ARGUMENTS.items():
        unknown = applied_in_place.run(*name.split(), *arguments, "--cluster", ".", "--graph", "book")
        assert unknown.exit_code == 1, (name, unknown)
        assert "the cluster has no graph 'book': applied are books" in unknown.stderr
        outcome = applied_in_place.run(*name.split(), *arguments, *HERE)
        assert outcome.exit_code == 0, (name, outcome)
    authors = og.open(applied_in_place.graph, read_only=True).query(AUTHORS)
    assert authors.to_pylist() == [{"a.name": "ursula"}], "loaded, mutated, reverted and merged"
    for name, (arguments, exit_code, message) in FAILING.items():
        outcome = applied_in_place.run(*name.split(), *arguments, *HERE)
        assert (outcome.exit_code, message in outcome.stderr) == (exit_code, True), (name, outcome)


def test_stored_queries_by_name(applied: ExampleCluster) -> None:
    add = ("mutate", "add_author", *HERE, "--params", '{"name": "le guin"}')
    assert applied.run(*add, "--as", "ada").exit_code == 1, "main is protected"
    og.open(applied.graph).mutate(ADD)
    books = applied.run("query", "books_of", *HERE, "--params", '{"author": "le guin"}', "--json")
    assert json.loads(books.stdout)["query_name"] == "books_of"
    assert "a stored query: add_author, books_of" in applied.run("query", *HERE).stderr
    unknown = applied.run("query", "book_of", *HERE)
    assert unknown.exit_code == 1
    assert "did you mean 'books_of'?" in unknown.stderr


def test_only_graph_needs_no_name(applied: ExampleCluster) -> None:
    assert applied.run("snapshot", "--cluster", ".").exit_code == 0
    (applied.path / "other.pg").write_text("node Thing { name: String @key }")
    applied.edit("cluster.yaml", lambda text: text.replace("graphs:\n", "graphs:\n  other: { schema: other.pg }\n"))
    applied.apply()
    several = applied.run("snapshot", "--cluster", ".")
    assert several.exit_code == 2
    assert "applied are books, other" in several.stderr
    maintained = applied.run("maintain", "--cluster", ".", "--json")
    assert maintained.exit_code == 0
    assert len(json.loads(maintained.stdout)["graphs"]) == 2


def test_unknown_graph_lists_the_applied_ones(applied: ExampleCluster) -> None:
    outcome = applied.run("optimize", "--cluster", ".", "--graph", "book")
    assert outcome.exit_code == 1
    assert "the cluster has no graph 'book': applied are books" in outcome.stderr


def test_old_spelling_names_the_new_one(applied: ExampleCluster) -> None:
    outcome = applied.run("optimize", "--cluster", ".", "--cluster-graph", "books")
    assert outcome.exit_code == 2
    assert "`--cluster-graph` was renamed to `--graph`" in outcome.stderr


def test_damaged_files_and_resources_do_not_prevent_maintenance(applied: ExampleCluster) -> None:
    applied.edit("cluster.yaml", lambda text: text + "unknown: [member\n")
    for path in (applied.path / "__cluster" / "resources").rglob("*.*"):
        path.write_text("damaged")
    assert applied.run("snapshot", "--cluster", f"file://{applied.path}").exit_code == 0
    applied.edit("cluster.yaml", lambda text: text.replace("unknown: [member\n", "unknown: member\n"))
    assert applied.run("repair", *HERE).exit_code == 0
    assert applied.run("optimize", *HERE).exit_code == 0
    write = applied.run("mutate", "-e", ADD, *HERE, "--as", "ada", "--json")
    assert json.loads(write.stdout)["error_code"] == "resource_damaged"


@pytest.mark.parametrize("text", ["storage: ../other\ngraphs: {\n", "storage: [x]\n", "storage:\n"])
def test_unknown_storage_selects_no_root(applied: ExampleCluster, text: str) -> None:
    (applied.path / "cluster.yaml").write_text(f"version: 1\n{text}")
    outcome = applied.run("snapshot", *HERE, "--json")
    assert json.loads(outcome.stdout)["error_code"] == "invalid_cluster_yaml"


def test_denied_load_writes_nothing(applied_in_place: ExampleCluster) -> None:
    applied = applied_in_place
    (applied.path / "rows.ndjson").write_text('{"type": "Author", "data": {"name": "le guin"}}\n')
    before = tree(applied.graph)
    denied = applied.run("load", *HERE, "--data", "rows.ndjson", "--as", "bo", "--json")
    document = json.loads(denied.stdout)
    assert (denied.exit_code, document["error_code"]) == (1, "policy_denied")
    assert document["error"] == "policy denied action 'change' on branch 'main' for actor 'bo'"
    assert tree(applied.graph) == before
    created = ("load", *HERE, "--data", "rows.ndjson", "--branch", "review/2", "--from", "main", "--as")
    assert applied.run(*created, "eve").exit_code == 1
    assert applied.run(*created, "bo").exit_code == 0
    assert applied.run("branch", "delete", "review/2", *HERE, "--as", "eve").exit_code == 1
    assert applied.run("branch", "delete", "review/2", *HERE, "--as", "bo").exit_code == 0


def test_gate_of_python(applied_in_place: ExampleCluster) -> None:
    applied = applied_in_place
    graph = og.cluster(str(applied.path)).open("books", actor="bo")
    for write in (
        lambda: graph.mutate(ADD),
        lambda: graph.load([{"name": "x"}], type="Author"),
        lambda: graph.create_branch("main2", actor="eve"),
        lambda: graph.revert("HEAD"),
    ):
        with pytest.raises(AccessDeniedError):
            write()
    review = graph.create_branch("review/1")
    for stored in (applied.path / "__cluster" / "resources" / "policy").rglob("*.json"):
        stored.unlink()  # the policy of an opened graph is read once
    assert review.mutate(ADD).affected_nodes == 1
    with pytest.raises(AccessDeniedError):
        graph.merge("review/1")
    assert graph.merge("review/1", actor="ada").commit is not None


def test_applied_policy_is_explained_and_tested(applied: ExampleCluster) -> None:
    request = ("--actor", "bo", "--action", "change", "--branch", "review/1", "--json")
    explained = json.loads(applied.run("policy", "explain", *HERE, *request).stdout)
    assert (explained["allowed"], explained["rule"], explained["graph"]) == (True, "team-writes-on-branches", "books")
    assert applied.run("policy", "test", *HERE, "--tests", "base.tests.yaml").exit_code == 0
    assert applied.run("policy", "validate", *HERE).exit_code == 0
    both = applied.run("policy", "validate", *HERE, "--file", "base.policy.yaml")
    assert both.exit_code == 2


def test_applied_provider_creates_vectors(new: ExampleCluster) -> None:
    schema = 'node Doc { name: String @key  vec: Vector(4)? @embed("name") }'
    (new.path / "books.pg").write_text(schema)
    (new.path / "queries" / "books.gq").write_text(
        'query near() { match { $d: Doc } return { $d.name } order { nearest($d.vec, "text") } limit 1 }'
    )
    new.edit("cluster.yaml", lambda text: text.replace("queries/ }", "queries/, embedding_provider: mock }"))
    provider = "providers: { embedding: { mock: { kind: mock, model: of-the-cluster } } }\n"
    new.edit("cluster.yaml", lambda text: text + provider)
    assert new.apply()["converged"]
    og.open(new.graph).load([{"name": "a", "vec": [1.0, 0.0, 0.0, 0.0]}], type="Doc")
    near = new.run("query", "near", *HERE, "--json")
    assert json.loads(near.stdout)["rows"] == [{"d.name": "a"}], near.stderr
    streamed = new.run("query", "near", *HERE, "--format", "jsonl")
    assert json.loads(streamed.stdout) == {"d.name": "a"}, streamed.stderr
    assert new.run("explain", "near", *HERE, "--analyze").exit_code == 0
    graph = og.cluster(str(new.path)).open("books")
    text = (new.path / "queries" / "books.gq").read_text()
    assert graph.query(text).to_pylist() == graph.prepare(text).run().to_pylist() == [{"d.name": "a"}]
    og.open(new.graph).load([{"name": "b"}], type="Doc")
    assert new.run("branch", "create", "review/1", *HERE, "--as", "bo").exit_code == 0
    assert graph.checkout("review/1").embed(actor="bo", dry_run=True).pending == 1
    embedded = new.run("embed", *HERE, "--branch", "review/1", "--json", "--as", "bo")
    [stats] = json.loads(embedded.stdout)["properties"]
    assert (stats["embedded"], stats["model"]) == (1, "of-the-cluster"), embedded.stderr


def test_not_a_cluster(tmp_path: Path, applied: ExampleCluster) -> None:
    outcome = applied.run("snapshot", "--cluster", str(tmp_path))
    assert outcome.exit_code == 2
    assert "it has no cluster.yaml and no ledger" in outcome.stderr


def test_root_may_be_a_bucket() -> None:
    assert parse_root("s3://bucket").uri == "s3://bucket"
    assert parse_root("s3://bucket/a/b").uri == "s3://bucket/a/b"


@pytest.mark.parametrize("name", [name for name in vars(Cluster) if not name.startswith("_") and name != "address"])
def test_examples(name: str, applied: ExampleCluster) -> None:
    text = inspect.getdoc(getattr(Cluster, name)) or ""
    test = doctest.DocTestParser().get_doctest(text, {"cluster": applied.cluster}, name, None, None)
    assert test.examples
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=output.append)
    assert runner.failures == 0, "".join(output)
