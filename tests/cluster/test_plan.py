"""The plan is a pure function of files, ledger and observations: tables, and golden plans of real files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from omnigraph.base.diagnostics import Diagnostics
from omnigraph.cluster.ledger import AppliedResource, AppliedRevision, Ledger, next_ledger
from omnigraph.cluster.observe import GraphObservation, Observations
from omnigraph.cluster.plan import make_plan
from omnigraph.cluster.resources import DesiredState, read_desired
from omnigraph.wire.cluster import MigrationOutput
from tests.cli.process import normalise
from tests.cluster.conftest import EXAMPLE, ExampleCluster

SAME = MigrationOutput(supported=True, steps=[], unsupported=[])
STEPS = MigrationOutput(supported=True, steps=[{"text": "add"}], unsupported=[])
UNSUPPORTED = MigrationOutput(supported=False, steps=[], unsupported=[{"text": "no"}])
LIVE = GraphObservation(exists=True, first_commit_id="C1", migration=SAME)
ABSENT = GraphObservation(exists=False)
BROKEN = GraphObservation(exists=True, error="damaged")


def _desired(path: Path = EXAMPLE) -> DesiredState:
    problems = Diagnostics()
    desired = read_desired(path, problems)
    assert desired is not None, problems.items
    return desired


def _ledger(desired: DesiredState, **changed: AppliedResource | None) -> Ledger:
    """Return the ledger of a deployed configuration, with other resources (`graph__books` is `graph.books`)."""
    resources = {
        address: AppliedResource(
            digest=item.digest,
            applies_to=list(item.applies_to) or None,
            first_commit_id="C1" if item.kind == "graph" else None,
        )
        for address, item in desired.resources.items()
    }
    for name, resource in changed.items():
        address = name.replace("__", ".")
        resources.pop(address, None)
        if resource is not None:
            resources[address] = resource
    return next_ledger(None, "ada", AppliedRevision(config_digest=None, resources=resources), {})


def _rows(ledger: Ledger | None, graph: GraphObservation, **observed: Any) -> list[str]:
    plan = make_plan(_desired(), ledger, Observations(graphs={"books": graph, **observed.pop("more", {})}, **observed))
    return [
        " ".join(filter(None, [change.operation, change.resource, change.disposition, change.reason]))
        for change in plan.changes
    ]


OTHER = AppliedResource(digest="0" * 64)
QUERIES = ["query.books.add_author", "query.books.books_of"]


def test_everything_is_new() -> None:
    rows = _rows(None, ABSENT)
    assert rows == [
        f"create {address} applied"
        for address in ("graph.books", "schema.books", *QUERIES, "policy.base", "policy.server")
    ]


def test_nothing_differs() -> None:
    assert _rows(_ledger(_desired()), LIVE) == []


@pytest.mark.parametrize(
    ("changed", "graph", "rows"),
    [
        (
            {"graph__books": None, "schema__books": None},
            LIVE,
            ["create graph.books applied root_exists", "create schema.books applied root_exists"],
        ),
        ({}, ABSENT, ["create graph.books applied graph_missing", "create schema.books applied graph_missing"]),
        (
            {},
            GraphObservation(exists=True, first_commit_id="C2", migration=SAME),
            ["update graph.books applied graph_replaced"],
        ),
        (
            {},
            GraphObservation(exists=True, first_commit_id="C1", migration=STEPS),
            ["update schema.books applied schema_drifted"],
        ),
        (
            {"schema__books": OTHER, "query__books__books_of": OTHER},
            GraphObservation(exists=True, first_commit_id="C1", migration=UNSUPPORTED),
            [
                "update schema.books blocked schema_unsupported",
                "update query.books.books_of blocked dependency_not_applied",
            ],
        ),
        ({"query__books__books_of": OTHER}, BROKEN, ["update query.books.books_of blocked graph_observation_error"]),
        ({"schema__books": OTHER}, LIVE, ["update schema.books applied"]),
        ({"query__books__old": OTHER}, LIVE, ["delete query.books.old applied"]),
        ({"policy__base": OTHER}, LIVE, ["update policy.base applied"]),
        ({"policy__old": OTHER}, LIVE, ["delete policy.old applied"]),
        ({"provider__embedding__old": OTHER}, LIVE, ["delete provider.embedding.old applied"]),
    ],
)
def test_findings(changed: dict[str, AppliedResource | None], graph: GraphObservation, rows: list[str]) -> None:
    assert _rows(_ledger(_desired(), **changed), graph) == rows


@pytest.mark.parametrize(
    ("observed", "approved", "outcome"),
    [
        (LIVE, {"old"}, "applied"),
        (LIVE, set(), "blocked approval_required"),
        (ABSENT, set(), "blocked approval_required"),
        (BROKEN, {"old"}, "blocked graph_observation_error"),
    ],
)
def test_removed_graph(observed: GraphObservation, approved: set[str], outcome: str) -> None:
    ledger = _ledger(_desired(), graph__old=OTHER, schema__old=OTHER, query__old__q=OTHER)
    rows = _rows(ledger, LIVE, more={"old": observed}, approved_graphs=frozenset(approved))
    assert rows == [f"delete {address} {outcome}" for address in ("graph.old", "query.old.q", "schema.old")]


def test_damaged_resource_is_stored_again() -> None:
    rows = _rows(_ledger(_desired()), LIVE, damaged={"policy.base": "resource_missing"})
    assert rows == ["update policy.base applied resource_missing"]


def test_only_the_bindings_of_a_policy_differ() -> None:
    desired = _desired()
    base = AppliedResource(digest=desired.resources["policy.base"].digest, applies_to=["other"])
    plan = make_plan(desired, _ledger(desired, policy__base=base), Observations(graphs={"books": LIVE}))
    assert [(change.resource, change.metadata_change) for change in plan.changes] == [("policy.base", True)]


@pytest.mark.parametrize(
    ("approved", "rows"),
    [
        (
            {"old"},
            ["create policy.base applied", "update policy.server applied", "delete policy.team applied", "applied"],
        ),
        (
            set(),
            [
                "create policy.base blocked dependency_not_applied",
                "update policy.server blocked dependency_not_applied",
                "delete policy.team blocked dependency_not_applied",
                "blocked approval_required",
            ],
        ),
    ],
)
def test_a_scope_never_has_two_policies(approved: set[str], rows: list[str]) -> None:
    """A new policy waits for the one that a graph without an approval still needs, and so does what waits for it."""
    team = AppliedResource(digest="0" * 64, applies_to=["cluster", "old"])
    server = AppliedResource(digest="0" * 64, applies_to=["books"])
    ledger = _ledger(_desired(), policy__base=None, policy__team=team, policy__server=server, graph__old=OTHER)
    changes = _rows(ledger, LIVE, more={"old": LIVE}, approved_graphs=frozenset(approved))
    assert changes == [*rows[:3], f"delete graph.old {rows[3]}"]


def test_a_new_graph_waits_for_its_policy() -> None:
    """Its policy still belongs to a graph whose deletion is not approved. Without one everyone could use it."""
    base = AppliedResource(digest="0" * 64, applies_to=["old"])
    new = {address.replace(".", "__"): None for address in ("graph.books", "schema.books", *QUERIES)}
    ledger = _ledger(_desired(), **new, policy__base=base, graph__old=OTHER)
    assert {row.split()[-1] for row in _rows(ledger, ABSENT, more={"old": LIVE})} == {
        "dependency_not_applied",
        "approval_required",
    }
    approved = _rows(ledger, ABSENT, more={"old": LIVE}, approved_graphs=frozenset({"old"}))
    assert {row.split()[-1] for row in approved} == {"applied"}


def test_digests_follow_the_content(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "c")
    (tmp_path / "c" / "queries" / "books.gq").write_text("query q() { match { $b: Book } return { $b.title } }")
    before, after = _desired(), _desired(tmp_path / "c")
    changed = {
        address
        for address in {*before.resources, *after.resources}
        if before.resources.get(address) != after.resources.get(address)
    }
    assert changed == {"graph.books", "query.books.q", *QUERIES}
    assert before.config_digest != after.config_digest


# Golden plans of real files and graphs


def _grow(cluster: ExampleCluster) -> None:
    cluster.edit("books.pg", lambda text: text.replace("year: I32?", "year: I32?\n  pages: I32?"))


def _break(cluster: ExampleCluster) -> None:
    cluster.edit("books.pg", lambda text: text.replace("year: I32?", "year: String?"))


def _remove(cluster: ExampleCluster) -> None:
    cluster.declare_no_graph()


def _lose(cluster: ExampleCluster) -> None:
    shutil.rmtree(cluster.graph)


@pytest.mark.parametrize("change", [_grow, _break, _remove, _lose])
def test_golden_plans(applied: ExampleCluster, change: Any, update_golden: bool) -> None:
    change(applied)
    before = sorted(path for path in applied.path.rglob("*"))
    text = applied.run("cluster", "plan").transcript(applied.path)
    document = json.loads(applied.run("cluster", "plan", "--json").stdout)
    text += "--- json\n" + normalise(json.dumps(document, indent=2), applied.path) + "\n"
    golden = Path(__file__).parent / "golden" / f"plan{change.__name__}.txt"
    if update_golden:
        golden.write_text(text)
    assert text == golden.read_text()
    assert sorted(path for path in applied.path.rglob("*")) == before
