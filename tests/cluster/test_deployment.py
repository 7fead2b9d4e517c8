"""A server follows the ledger: what happens to a graph that cannot be served, without sockets."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from omnigraph.api.graph import Graph
from omnigraph.base.errors import FormatError, MachineError, NotFoundError
from omnigraph.client.local import LocalGraph
from omnigraph.cluster.addressing import find_root
from omnigraph.cluster.ledger import LedgerStore
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.server.boot import AccessState
from omnigraph.server.deployment import Deployment, DeploymentSettings
from omnigraph.server.health import HealthCache
from omnigraph.server.logs import LOGGER
from omnigraph.storage.location import Location
from tests.cluster.conftest import ExampleCluster


def _open(location: Location, graph_id: str) -> LocalGraph:
    read_snapshot(location, MAIN)
    return LocalGraph(graph=Graph(location), uri=f"graphs/{graph_id}")


def _serve(cluster: ExampleCluster) -> Deployment:
    return Deployment(
        DeploymentSettings(
            store=LedgerStore(find_root(str(cluster.path))),
            open_graph=_open,
            decide_state=lambda _: AccessState.POLICY,
            access=AccessState.POLICY,
            check_health=lambda graph: HealthCache(graph.health),
            environment={},
            requires_all_graphs=False,
        )
    )


def _add_graph(cluster: ExampleCluster) -> None:
    (cluster.path / "other.pg").write_text("node Thing { name: String @key }")
    graphs = "graphs:\n  other: { schema: other.pg, embedding_provider: default }\n"
    provider = "providers: { embedding: { default: { kind: mock } } }\n"
    cluster.edit("cluster.yaml", lambda text: text.replace("graphs:\n", graphs) + provider)
    assert cluster.apply()["converged"]


def test_what_a_server_does_not_start_with(new: ExampleCluster) -> None:
    with pytest.raises(NotFoundError, match="has no ledger"):
        _serve(new)
    new.cluster.import_graphs(actor="ada")
    current = _serve(new).current()
    assert (current.revision, dict(current.graphs), dict(current.quarantined)) == (1, {}, {}), "a ledger without graphs"
    new.apply()
    moved = new.graph.rename(new.path / "moved")
    with pytest.raises(MachineError, match="1 of 1 graphs cannot be served: books"):
        _serve(new)
    moved.rename(new.graph)
    assert list(_serve(new).current().graphs) == ["books"]
    for stored in (new.path / "__cluster" / "resources" / "policy" / "base").iterdir():
        stored.write_text("altered")
    with pytest.raises(FormatError, match=r"'policy\.base' does not match its digest"):
        _serve(new)


def test_missing_provider_quarantines_only_its_graph(applied: ExampleCluster) -> None:
    _add_graph(applied)
    newest = max((applied.path / "__cluster" / "state").iterdir())
    ledger = json.loads(newest.read_text())
    del ledger["applied_revision"]["resources"]["provider.embedding.default"]
    newest.write_text(json.dumps(ledger))
    current = _serve(applied).current()
    assert (list(current.graphs), current.quarantined["other"].code) == (["books"], "resource_damaged")
    read = ("query", "-e", "query q() { match { $t: Thing } return { $t.name } }")
    outcome = applied.run(*read, "--cluster", ".", "--graph", "other", "--json")
    assert json.loads(outcome.stdout)["error_code"] == "resource_damaged"


def test_repaired_graph_is_served_in_the_same_revision(applied: ExampleCluster) -> None:
    _add_graph(applied)
    graph = applied.path / "graphs" / "other.omni"
    graph.rename(applied.path / "moved")
    deployment = _serve(applied)
    before = deployment.current()
    assert (list(before.graphs), list(before.quarantined)) == (["books"], ["other"])
    deployment.read_again()
    assert list(deployment.current().quarantined) == ["other"]
    (applied.path / "moved").rename(graph)
    deployment.read_again()
    after = deployment.current()
    assert (list(after.graphs), list(after.quarantined)) == (["books", "other"], [])
    assert (after.revision, after.graphs["books"]) == (before.revision, before.graphs["books"])


def test_two_policies_of_one_scope_are_an_error_until_the_next_apply(applied: ExampleCluster) -> None:
    """Only a ledger of another writer has them."""
    newest = max((applied.path / "__cluster" / "state").iterdir())
    ledger = json.loads(newest.read_text())
    resources = ledger["applied_revision"]["resources"]
    resources["policy.second"] = resources["policy.base"]
    newest.write_text(json.dumps(ledger))
    with pytest.raises(FormatError, match="several deployed policies apply to 'books': expected one"):
        _serve(applied)
    denied = applied.run("mutate", "-e", 'query q() { insert Author { name: "x" } }', "--cluster", ".", "--json")
    assert json.loads(denied.stdout)["error_code"] == "policy_repeated"
    assert applied.apply()["converged"]
    assert list(_serve(applied).current().graphs) == ["books"]


def test_rejected_revision_is_served_once_its_policy_is_restored(
    applied: ExampleCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cluster apply` stores the same resource again, so that the ledger has no new revision."""
    monkeypatch.setattr(LOGGER, "propagate", True)
    caplog.set_level(logging.INFO, LOGGER.name)
    deployment = _serve(applied)
    applied.edit("server.policy.yaml", lambda text: text.replace("[ada, bo]", "[eve]"))
    revision = applied.apply()["state_revision"]
    for stored in (applied.path / "__cluster" / "resources" / "policy" / "server").iterdir():
        stored.unlink()
    for _ in range(2):
        deployment.read_again()
        assert (deployment.current().revision, deployment.applied_revision()) == (revision - 1, revision)
    # Other threads may log too: those of servers of earlier tests, for example.
    own = [record.getMessage() for record in caplog.records if record.thread == threading.get_ident()]
    assert own.count("revision not served") == 1, "the same reason is logged once"
    repaired = applied.apply()
    assert (repaired["converged"], repaired["state_written"]) == (True, False)
    deployment.read_again()
    assert deployment.current().revision == revision


def test_unexpected_error_does_not_end_the_reading(applied: ExampleCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = _serve(applied)
    applied.edit("server.policy.yaml", lambda text: text.replace("[ada, bo]", "[eve]"))
    revision = applied.apply()["state_revision"]

    def fail(*_: object) -> None:
        raise KeyError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr("omnigraph.server.deployment.make_revision", fail)
        deployment.read_again()
    assert deployment.current().revision == revision - 1
    deployment.read_again()
    assert deployment.current().revision == revision
