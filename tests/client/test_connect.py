"""`og.connect` returns what `Graph` returns, and its examples run on a real server."""

from __future__ import annotations

import doctest
import inspect
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.base.errors import ErrorKind
from omnigraph.types import CommitRecord, EntityChange
from tests.api.test_examples import PEOPLE
from tests.api.test_examples import SCHEMA as PEOPLE_SCHEMA
from tests.server.process import serve

SCHEMA = """
node Person {
  slug: String @key
  age: I64?
  height: F32?
  born: Date?
  seen: DateTime?
  tags: [String]?
  days: [Date]?
  active: Bool?
}
edge Knows: Person -> Person { since: I32? }
"""
FILL = """
query fill() {
  insert Person {
    slug: "ada", age: 9007199254740993, height: 1.5, born: date("1815-12-10"), tags: ["x", "y"],
    seen: datetime("2026-05-31T12:00:00.5Z"), days: [date("2020-01-02")], active: true
  }
  insert Person { slug: "bob" }
  insert Knows { from: "ada", to: "bob", since: 1840 }
}
"""
ALL = """query q() {
  match { $p: Person }
  return { $p, $p.age, $p.height, $p.born, $p.seen, $p.tags, $p.days, $p.active, $p.slug as name }
  order { $p.slug }
}"""
Both = tuple[og.Graph, og.RemoteGraph]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    directory = tmp_path_factory.mktemp("connect")
    graph = og.init(directory / "graph.omni", SCHEMA)
    graph.mutate(FILL)
    graph.create_branch("review").mutate('query a() { update Person set { age: 2 } where slug = "bob" }')
    with serve(directory / "graph.omni", directory) as server:
        yield graph, og.connect(f"http://{server.address}")


def test_results_of_queries(both: Both) -> None:
    direct, served = (graph.query(ALL) for graph in both)
    assert served.schema == direct.schema
    assert served.to_pylist() == direct.to_pylist()
    assert served.to_json() == direct.to_json()
    assert served.to_arrow().equals(direct.to_arrow())
    assert (served.source.commit, served.source.branch) == (direct.source.commit, direct.source.branch)
    text = "query q($s: String) { match { $p: Person { slug: $s } } return { count($p) as n } }"
    first, second = (graph.query(text, {"s": "ada"}).to_pylist() for graph in both)
    assert first == second == [{"n": 1}]
    nothing = 'query q() { match { $p: Person { slug: "none" } } return { $p.born, $p.tags } }'
    assert both[1].query(nothing).to_arrow().equals(both[0].query(nothing).to_arrow())


def test_an_earlier_state(both: Both) -> None:
    graph, served = both
    first = graph.log(None)[-1].id
    assert served.query(ALL, as_of=first).to_pylist() == graph.query(ALL, as_of=first).to_pylist() == []


def test_history(both: Both) -> None:
    graph, served = both
    assert list(map(_shown, served.log())) == list(map(_shown, graph.log()))
    head = graph.log()[0].id
    assert _shown(served.get_commit(head)) == _shown(graph.get_commit(head))
    assert list(served.diff("HEAD")) == _known(graph.diff("HEAD"))
    assert list(served.diff("main", "review")) == _known(graph.diff("main", "review"))
    direct, remote = graph.changes(), served.changes()
    assert (remote.cursor, remote.has_more) == (direct.cursor, direct.has_more)
    assert [list(block.changes) for block in remote] == [_known(block.changes) for block in direct]
    page = served.changes(limit=1)
    assert (page.has_more, len(page), page.cursor) == (True, 1, graph.changes(limit=1).cursor)
    assert [block.commit.id for block in served.changes(page.cursor)] == [head]
    names = [(status.record.name, status.ahead, status.behind) for status in graph.list_branches()]
    assert [(status.record.name, status.ahead, status.behind) for status in served.list_branches()] == names


def test_writes(both: Both) -> None:
    graph, served = both
    branch = served.create_branch("writes")
    done = branch.mutate('query a() { insert Person { slug: "eve" } }')
    assert (done.affected_nodes, done.branch) == (1, "writes")
    assert done.commit is not None
    assert _shown(done.commit) == _shown(graph.checkout("writes").log()[0])
    nothing = branch.mutate('query a() { delete Person where slug = "none" }', if_commit=done.commit.id)
    assert nothing.commit is None
    loaded = branch.load([{"type": "Person", "data": {"slug": "eve", "age": 3}}], mode="merge")
    assert (loaded.total, loaded.changes["node:Person"].replaced) == (1, 1)
    file = io.BytesIO(b'{"type": "Person", "data": {"slug": "fay"}}\n')
    assert branch.load(file).counts == {"node:Person": 1}
    exported, direct = io.BytesIO(), io.BytesIO()
    branch.export(exported)
    graph.checkout("writes").export(direct, runner="local")
    assert exported.getvalue() == direct.getvalue()
    served.delete_branch("writes")
    assert "writes" not in [status.record.name for status in served.list_branches()]


def test_errors(both: Both) -> None:
    _, served = both
    calls: tuple[tuple[Callable[[], Any], ErrorKind], ...] = (
        (lambda: served.query("query q() { match { $p: Nope } return { $p } }"), ErrorKind.INVALID_CONTENT),
        (lambda: served.checkout("nope"), ErrorKind.NOT_FOUND),
        (lambda: served.create_branch("review"), ErrorKind.CONFLICT),
        (lambda: served.mutate(FILL, if_commit="01ARZ3NDEKTSV4RRFFQ69G5FAV"), ErrorKind.PRECONDITION_FAILED),
    )
    for call, kind in calls:
        with pytest.raises(og.OmnigraphError) as error:
            call()
        assert error.value.kind is kind


def test_address_and_token(both: Both) -> None:
    _, served = both
    assert served.uri.endswith("/graphs/default")
    assert "node Person" in served.schema
    with pytest.raises(og.UsageError):
        og.connect("http://graph.invalid", token="t")


DOCUMENTED = {
    name: member
    for name, member in [("connect", og.connect), *vars(og.RemoteGraph).items()]
    if inspect.isfunction(member) and not name.startswith("_")
}


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All examples run on one server, each on a graph that no other example changed."""
    monkeypatch.chdir(tmp_path)
    graph = og.init("people.omni", PEOPLE_SCHEMA)
    graph.mutate(PEOPLE)
    with serve(tmp_path / "people.omni", tmp_path) as server:
        url = f"http://{server.address}"
        for number, (name, member) in enumerate(DOCUMENTED.items()):
            served = og.connect(url)
            text = inspect.getdoc(member) or ""
            assert text.count("Example:\n") == 1, f"{name} needs one example"
            if name in ("mutate", "load"):
                served = served.create_branch(f"examples/{number}")
            test = doctest.DocTestParser().get_doctest(text, {"og": og, "served": served, "url": url}, name, None, None)
            output: list[str] = []
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            runner.run(test, out=output.append)
            assert (runner.failures, len(test.examples) > 0) == (0, True), "".join(output)
            for status in served.list_branches():
                if status.record.name != "main":
                    served.delete_branch(status.record.name)


def _known(changes: Iterable[EntityChange]) -> list[EntityChange]:
    """Return changes without what a server does not say."""
    return [replace(change, wide_properties=frozenset()) for change in changes]


def _shown(commit: CommitRecord) -> Any:
    """Return what a server says about a commit."""
    return (
        commit.id,
        commit.parent,
        commit.merged_parent,
        commit.branch,
        commit.actor,
        commit.operation,
        commit.created_us,
        dict(commit.counts),
        sorted(str(move) for move in commit.tables),
    )
