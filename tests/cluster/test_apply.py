"""Apply on real files and graphs: convergence, migrations, approvals, drift, policies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.base.errors import RefusedError
from omnigraph.cluster.addressing import find_graph
from omnigraph.cluster.project import Cluster
from tests.cli.process import tree
from tests.cluster.conftest import ExampleCluster


def test_second_apply_writes_nothing(new: ExampleCluster) -> None:
    before = tree(new.path)
    assert new.run("cluster", "plan").exit_code == 0
    assert tree(new.path) == before
    first = new.apply()
    assert (first["exit"], first["converged"], first["state_written"], first["state_revision"]) == (0, True, True, 2)
    after = tree(new.path)
    second = new.apply()
    assert (second["exit"], second["changes"], second["state_written"]) == (0, [], False)
    assert tree(new.path) == after


def test_import_then_apply(new: ExampleCluster) -> None:
    outcome = new.run("cluster", "import", "--json")
    assert json.loads(outcome.stdout)["observations"] == {"graph.books": {"exists": False}}
    before = tree(new.path)
    assert {change["operation"] for change in json.loads(new.run("cluster", "plan", "--json").stdout)["changes"]} == {
        "create"
    }
    assert tree(new.path) == before
    assert new.apply()["converged"]


def test_existing_graph_is_imported(new: ExampleCluster) -> None:
    graph = omnigraph.init(new.graph, "node Author { name: String @key }", actor="eve")
    graph.mutate('query q() { insert Author { name: "le guin" } }', actor="eve")
    refused = new.run("cluster", "apply")
    assert refused.exit_code == 3
    assert "cluster import" in refused.stderr
    assert new.run("cluster", "import").exit_code == 0
    assert new.run("cluster", "import").exit_code == 3
    document = new.apply()
    assert document["converged"]
    assert [step["step"] for change in document["changes"] for step in change.get("migration", {}).get("steps", [])]
    assert graph.query("query q() { match { $a: Author } return { $a.name } }").to_pylist() == [{"a.name": "le guin"}]


def test_changed_schema_shows_its_steps_and_is_applied(applied: ExampleCluster) -> None:
    applied.edit("books.pg", lambda text: text.replace("year: I32?", "year: I32?\n  pages: I32?"))
    document = applied.apply()
    schema = next(change for change in document["changes"] if change["resource"] == "schema.books")
    assert [step["step"] for step in schema["migration"]["steps"]] == ["add_property"]
    assert document["converged"]
    assert "pages: I32?" in omnigraph.open(applied.graph, read_only=True).schema


def test_unsupported_schema_blocks_only_its_graph(applied: ExampleCluster) -> None:
    applied.edit("books.pg", lambda text: text.replace("year: I32?", "year: String?"))
    (applied.path / "other.pg").write_text("node Thing { name: String @key }")
    applied.edit("cluster.yaml", lambda text: text.replace("graphs:\n", "graphs:\n  other: { schema: other.pg }\n"))
    document = applied.apply()
    assert (document["exit"], document["converged"], document["applied_config_digest"]) == (3, False, None)
    statuses = document["resource_statuses"]
    assert statuses["schema.books"] == {"status": "blocked", "conditions": ["schema_unsupported"]}
    assert statuses["graph.other"] == {"status": "applied"}
    assert not applied.apply()["state_written"]


def test_rows_that_break_a_new_rule_fail_the_schema_change(applied: ExampleCluster) -> None:
    graph = omnigraph.open(applied.graph)
    graph.mutate('query q() { insert Book { title: "x" } }')
    applied.edit("books.pg", lambda text: text.replace("year: I32?", "year: I32"))
    document = applied.apply()
    assert document["exit"] == 1
    assert document["diagnostics"][0]["path"] == "schema.books"
    assert (
        "schema.books: the graph has a row that the new schema does not allow"
        in applied.run("cluster", "status").stderr
    )
    assert document["resource_statuses"]["graph.books"]["conditions"] == ["dependency_not_applied"]


def test_removed_graph_needs_an_approval(applied: ExampleCluster) -> None:
    applied.declare_no_graph()
    assert applied.apply()["exit"] == 3
    assert applied.graph.exists()
    assert applied.run("cluster", "approve", "graph.books", "--as", "ada").exit_code == 0
    applied.edit("cluster.yaml", lambda text: text.replace("library", "edited"))
    assert applied.apply()["exit"] == 3, "an edit voids the approval"
    applied.edit("cluster.yaml", lambda text: text.replace("edited", "library"))
    document = applied.apply()
    assert (document["exit"], document["converged"]) == (0, True)
    assert not applied.graph.exists()
    assert applied.run("cluster", "approve", "graph.books").exit_code == 2


def test_denied_delete_of_a_graph_keeps_what_it_uses(new: ExampleCluster) -> None:
    declared = (new.path / "cluster.yaml").read_text()
    provider = "providers: { embedding: { default: { kind: mock } } }\n"
    new.edit(
        "cluster.yaml", lambda text: text.replace("queries/ }", "queries/, embedding_provider: default }") + provider
    )
    assert new.apply()["converged"]
    (new.path / "cluster.yaml").write_text("version: 1\n")
    used = ("policy.base", "provider.embedding.default", "query.books.books_of")

    def require_kept(document: Any) -> None:
        assert document["exit"] == 3
        assert {document["resource_statuses"][address]["status"] for address in used} == {"blocked"}
        assert set(used) < set(find_graph(str(new.path)).ledger.resources)

    require_kept(new.apply())
    assert new.run("cluster", "approve", "graph.books", "--as", "ada").exit_code == 0
    denied = new.apply("bo")
    require_kept(denied)
    assert denied["resource_statuses"]["graph.books"]["conditions"] == ["policy_denied"]
    assert new.run("query", "books_of", "--cluster", ".", "--params", '{"author": "x"}').exit_code == 0
    (new.path / "cluster.yaml").write_text(declared)
    assert new.apply()["converged"], "a declared graph that no longer uses the provider"
    (new.path / "cluster.yaml").write_text("version: 1\n")
    assert new.run("cluster", "approve", "graph.books", "--as", "ada").exit_code == 0
    deleted = new.apply()
    assert (deleted["exit"], deleted["resource_statuses"]) == (0, {})


def test_renamed_graph_is_never_deployed_without_its_policy(applied: ExampleCluster) -> None:
    """The policy moves to the new graph when the old one is deleted, which needs an approval and a right."""
    applied.edit("cluster.yaml", lambda text: text.replace("books: {", "shelf: {").replace("[books]", "[shelf]"))
    waiting = applied.run("cluster", "apply", "--as", "ada")
    assert (waiting.exit_code, "`omnigraph cluster approve graph.books`" in waiting.stderr) == (3, True)
    assert applied.cluster.graphs() == ("books",)
    assert applied.run("cluster", "approve", "graph.books", "--as", "ada").exit_code == 0
    denied = applied.apply("bo")
    assert denied["resource_statuses"]["graph.books"]["conditions"] == ["policy_denied"]
    assert denied["resource_statuses"]["graph.shelf"]["conditions"] == ["dependency_not_applied"]
    assert applied.cluster.graphs() == ("books",)
    assert applied.apply("ada")["converged"]
    assert applied.cluster.graphs() == ("shelf",)


def test_approval_does_not_delete_another_graph_with_the_same_id(applied: ExampleCluster) -> None:
    applied.declare_no_graph()
    assert applied.run("cluster", "approve", "graph.books").exit_code == 0
    shutil.rmtree(applied.graph)
    elsewhere = applied.path / "elsewhere.omni"
    omnigraph.init(elsewhere, "node Other { name: String @key }")
    elsewhere.rename(applied.graph)
    document = applied.apply()
    assert document["exit"] == 3
    assert document["resource_statuses"]["graph.books"]["conditions"] == ["approval_required", "graph_replaced"]
    assert applied.graph.exists()


def test_drift_is_shown_and_corrected(applied: ExampleCluster) -> None:
    shutil.rmtree(applied.graph)
    [query, _] = sorted((applied.path / "__cluster" / "resources" / "query").rglob("*.gq"))
    query.write_text("altered")
    statuses = json.loads(applied.run("cluster", "status", "--json").stdout)["resource_statuses"]
    assert statuses["graph.books"] == {"status": "drifted", "conditions": ["graph_missing"]}
    assert statuses["query.books.add_author"] == {"status": "drifted", "conditions": ["resource_altered"]}
    assert applied.apply()["converged"]
    assert query.read_text() != "altered"
    assert {item.status for item in applied.cluster.status().resource_statuses.values()} == {"applied"}


def test_unreadable_graph_blocks_only_itself(applied: ExampleCluster) -> None:
    for path in (applied.graph / "__manifest" / "_versions").iterdir():
        path.write_bytes(b"damaged")
    applied.edit("server.policy.yaml", lambda text: text.replace("bo", "eve"))
    document = applied.apply()
    assert document["exit"] == 3
    assert document["resource_statuses"]["graph.books"]["conditions"] == ["graph_observation_error"]
    assert document["resource_statuses"]["policy.server"] == {"status": "applied"}
    for command in ("plan", "apply"):
        again = applied.run("cluster", command)
        assert (again.exit_code, again.stderr.count("graph.books: ")) == (3, 1), again
        assert "up to date" not in again.stderr


def test_graph_that_is_declared_again_after_an_interrupted_delete(applied: ExampleCluster) -> None:
    declared = (applied.path / "cluster.yaml").read_text()
    applied.declare_no_graph()
    assert applied.run("cluster", "approve", "graph.books", "--as", "ada").exit_code == 0
    removed = (applied.path / "cluster.yaml").read_text()
    for version in (applied.graph / "__manifest" / "_versions").iterdir():
        version.unlink()  # what an apply deletes first
    (applied.path / "cluster.yaml").write_text(declared)
    plan = applied.run("cluster", "plan")
    assert (plan.exit_code, "remove it from the files, apply, and declare it again" in plan.stderr) == (3, True)
    for text in (removed, declared):
        (applied.path / "cluster.yaml").write_text(text)
        assert applied.apply()["converged"]
    assert applied.run("snapshot", "--cluster", ".").exit_code == 0


def test_old_policy_authorizes_the_apply_that_installs_a_new_one(applied: ExampleCluster) -> None:
    applied.edit("base.policy.yaml", lambda text: text.replace("admins: [ada]", "admins: [bo]"))
    applied.edit("books.pg", lambda text: text.replace("year: I32?", "year: I32?\n  pages: I32?"))
    denied = applied.apply("bo")
    assert denied["resource_statuses"]["schema.books"]["conditions"] == ["policy_denied"]
    assert denied["exit"] == 3
    assert applied.apply("ada")["exit"] == 3, "the new policy is applied: now bo is the admin"
    assert applied.apply("bo")["converged"]


def test_actor_of_the_operator_file_applies(
    applied: ExampleCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    (tmp_path / "config.yaml").write_text("operator: { actor: bo }\n")
    applied.edit("books.pg", lambda text: text.replace("year: I32?", "year: I32?\n  pages: I32?"))
    denied = json.loads(applied.run("cluster", "apply", "--json").stdout)
    assert (denied["actor"], denied["converged"]) == ("bo", False)
    system = applied.run("cluster", "apply", "--as", "omnigraph:apply")
    assert (system.exit_code, "is an actor of the system" in system.stderr) == (2, True)


def test_secrets_are_in_no_file_and_no_output(new: ExampleCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIBRARY_KEY", "hunter2")
    provider = 'providers: { embedding: { default: { kind: openai, api_key: "${LIBRARY_KEY}" } } }\n'
    new.edit("cluster.yaml", lambda text: text + provider)
    new.edit("cluster.yaml", lambda text: text.replace("queries/ }", "queries/, embedding_provider: default }"))
    commands = ("validate", "plan", "status", "validate --json", "plan --json", "status --json")
    text = json.dumps(new.apply()) + "".join(str(new.run("cluster", *command.split())) for command in commands)
    assert "provider.embedding.default" in text
    assert "hunter2" not in text
    assert not any(b"hunter2" in (data or b"") for data in tree(new.path).values())


def test_only_the_newest_revisions_are_kept(applied: ExampleCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.base.limits.CLUSTER_REVISIONS_MAX", 2)
    for name in ("a", "b"):
        applied.edit("cluster.yaml", lambda text, name=name: text.replace("library", f"library{name}"))  # type: ignore[misc]
        assert applied.apply()["state_written"]
    names = sorted(path.name for path in (applied.path / "__cluster" / "state").iterdir())
    assert [int(name.partition(".")[0]) for name in names] == [3, 4]


def test_storage_elsewhere(new: ExampleCluster, tmp_path: Path) -> None:
    new.edit("cluster.yaml", lambda text: text + f"storage: {tmp_path / 'root'}\n")
    assert new.apply()["converged"]
    assert (tmp_path / "root" / "graphs" / "books.omni").is_dir()
    assert not (new.path / "__cluster").exists()
    root = Cluster(f"file://{tmp_path / 'root'}")
    assert root.graphs() == ("books",)
    assert root.status().observations["graph.books"].schema_matches


def test_managed_graph_is_changed_only_by_apply(applied: ExampleCluster) -> None:
    for arguments in (
        ("init", "--schema", "books.pg", "graphs/books.omni"),
        ("init", "--schema", "books.pg", "graphs/another.omni"),
        ("schema", "apply", "--schema", "books.pg", "graphs/books.omni"),
    ):
        refused = applied.run(*arguments)
        assert refused.exit_code == 3
        assert "cluster apply" in refused.stderr
    with pytest.raises(RefusedError, match="managed"):
        omnigraph.init(applied.path / "graphs" / "third.omni", "node A { name: String @key }")
    graph = omnigraph.open(applied.graph)
    with pytest.raises(RefusedError, match="managed"):
        graph.apply_schema(graph.schema)
    assert graph.mutate('query q() { insert Author { name: "x" } }').affected_nodes == 1
    (applied.path / "rows.ndjson").write_text('{"type": "Author", "data": {"name": "y"}}\n')
    assert applied.run("load", "graphs/books.omni", "--data", "rows.ndjson").exit_code == 0
    names = "query q() { match { $a: Author } return { $a.name } order { $a.name } }"
    rows = json.loads(applied.run("query", "-e", names, "graphs/books.omni", "--json").stdout)["rows"]
    assert rows == [{"a.name": "x"}, {"a.name": "y"}]
