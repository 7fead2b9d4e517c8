"""`og.connect` returns what `Graph` returns, and its examples run on a real server."""

from __future__ import annotations

import doctest
import inspect
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import omnigraph as og
from omnigraph.base.authorization import AccessDeniedError
from omnigraph.base.errors import Applied, ErrorKind, FormatError, InvariantError
from omnigraph.client.errors import error_of_document
from omnigraph.types import CommitRecord, EntityChange
from omnigraph.wire.commits import SnapshotOutput
from tests.api.test_examples import PEOPLE
from tests.api.test_examples import SCHEMA as PEOPLE_SCHEMA
from tests.client.listener import Reply, listen
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
    lists = "query q() { match { $p: Person } return { collect($p) as all } }"
    no_lists = "query q() { match { $p: Person } return { case when count(*) > 9 then collect($p) end as all } }"
    for text in (lists, no_lists):
        assert both[1].query(text).to_arrow().equals(both[0].query(text).to_arrow())
        assert both[1].query(text).to_pylist() == both[0].query(text).to_pylist()
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
    changes = served.diff("main", "review")
    assert (len(changes), changes[-1:]) == (len(graph.diff("main", "review")), list(changes)[-1:])
    direct, remote = graph.changes(), served.changes()
    assert len(remote[-1].changes) == len(direct[-1].changes)
    assert (remote.cursor, remote.has_more) == (direct.cursor, direct.has_more)
    assert [list(block.changes) for block in remote] == [_known(block.changes) for block in direct]
    page = served.changes(limit=1)
    assert (page.has_more, len(page), page.cursor) == (True, 1, graph.changes(limit=1).cursor)
    assert [block.commit.id for block in served.changes(page.cursor)] == [head]
    names = [(status.record.name, status.ahead, status.behind) for status in graph.list_branches()]
    assert [(status.record.name, status.ahead, status.behind) for status in served.list_branches()] == names


def test_explain(both: Both) -> None:
    direct, served = (graph.explain(ALL) for graph in both)
    assert served == direct
    assert any(step.figures.rows is not None for step in both[1].explain(ALL, analyze=True).steps)


def test_feed_with_schema_steps(both: Both) -> None:
    graph = both[0].create_branch("steps")
    changed = SCHEMA.replace("age: I64?", 'years: I64? @rename_from("age")\n  email: String?')
    graph.apply_schema(f"{changed}node Team {{}}")
    head = graph.log()[1].id
    (direct,), (served,) = graph.changes(head), both[1].checkout("steps").changes(head)
    assert len(direct.schema_steps) >= 3
    assert served.schema_steps == direct.schema_steps
    assert _shown(served.commit) == _shown(direct.commit)
    assert served.table_names.items() <= direct.table_names.items()
    both[0].delete_branch("steps")


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
    results = [branch.export(exported), graph.checkout("writes").export(direct, runner="local")]
    assert exported.getvalue() == direct.getvalue()
    assert results[0] == results[1]
    served.delete_branch("writes")
    assert "writes" not in [status.record.name for status in served.list_branches()]


def test_an_incomplete_export_leaves_the_file_that_existed(tmp_path: Path) -> None:
    snapshot = SnapshotOutput(
        graph_branch="main",
        graph_commit_id="c",
        graph_manifest_version=1,
        internal_schema_version=1,
        schema_hash="h",
        datasets=[],
    )
    replies = {"GET": Reply(body=msgspec.json.encode(snapshot)), "POST": Reply(body=b'{"type":"Per', missing_bytes=9)}
    out = tmp_path / "out.jsonl"
    out.write_text("before")
    with listen(lambda request: replies[request.method]) as listener, pytest.raises(og.OmnigraphError) as failed:
        og.connect(listener.url, graph="g").export(out, force=True)
    assert failed.value.code == "server_unreachable"
    assert (list(tmp_path.iterdir()), out.read_text()) == ([out], "before")


def test_merges(both: Both) -> None:
    graph, served = both
    for name, age in (("left", 3), ("right", 4), ("added", 0)):
        branch = served.create_branch(f"merge/{name}")
        branch.mutate(f'query a() {{ update Person set {{ age: {age} }} where slug = "bob" }}')
    graph.checkout("merge/added").apply_schema(f"{SCHEMA}node Team {{}}")
    direct, remote = graph.checkout("merge/left"), served.checkout("merge/left")
    results = [side.merge("merge/right", dry_run=True) for side in (direct, remote)]
    assert results[1]._summary() == results[0]._summary()
    conflicts = [[conflict.to_json() for conflict in result.conflicts] for result in results]
    assert conflicts[0] == conflicts[1] != []
    errors = []
    for side in (direct, remote):
        with pytest.raises(og.MergeConflictError) as raised:
            side.merge("merge/right")
        errors.append(raised.value)
    assert [str(error) for error in errors] == [str(errors[0])] * 2
    assert [[conflict.to_json() for conflict in error.conflicts] for error in errors] == conflicts
    merged = remote.merge("merge/right", resolve={("Person", "bob"): "theirs"})
    assert (merged.outcome.value, merged.tables[0].updated) == ("merged", 1)
    assert merged.source_head == graph.checkout("merge/right").log()[0].id
    assert merged.commit is not None
    assert _shown(merged.commit) == _shown(direct.log()[0])
    steps = [step.step.describe() for step in remote.merge("merge/added", strategy="ours").schema_steps]
    assert steps == [step.planned.step.describe() for step in next(iter(direct.changes(merged.commit.id))).schema_steps]
    wrong: list[dict[str, Any]] = [{"strategy": "mine"}, {"resolve": {("Person", "bob"): "mine"}}]
    for arguments in wrong:
        for side in (direct, remote):
            with pytest.raises(og.UsageError):
                side.merge("merge/right", **arguments)
    for name in ("left", "right", "added"):
        served.delete_branch(f"merge/{name}")


CALLS: dict[str, Callable[[Any], Any]] = {
    "bad_request of a branch": lambda graph: graph.create_branch("a b"),
    "bad_request of a mode": lambda graph: graph.load([], mode="never"),
    "bad_request of a file": lambda graph: graph.load("none.jsonl"),
    "bad_request of parameters": lambda graph: graph.query(ALL, {"x": 1}),
    "bad_request of a mutation": lambda graph: graph.query(FILL),
    "invalid_content of a text": lambda graph: graph.query("query q() { match { $p: Nope } return { $p } }"),
    "invalid_content of rows": lambda graph: graph.load([{"type": "Person", "data": {"slug": "x", "age": "y"}}]),
    "invalid_content of a change": lambda graph: graph.mutate('query a() { insert Knows { from: "ada", to: "x" } }'),
    "invalid_content of a run": lambda graph: graph.query(
        "query q() { match { $p: Person } return { $p.age * 9000 as n } }"
    ).to_pylist(),
    "limit_exceeded": lambda graph: graph.query(f"query {'q' * 200}() {{ match {{ $p: Person }} return {{ $p }} }}"),
    "not_found of a branch": lambda graph: graph.checkout("nope").log(),
    "not_found of a commit": lambda graph: graph.get_commit("zzzz"),
    "not_found of a state": lambda graph: graph.query(ALL, as_of="zzzz"),
    "not_found of a diff": lambda graph: list(graph.diff("main", "nope")),
    "not_found of a feed": lambda graph: graph.checkout("nope").changes(),
    "conflict of a cursor": lambda graph: graph.changes("zzzz"),
    "conflict of a branch": lambda graph: graph.create_branch("review"),
    "conflict of keys": lambda graph: graph.load([{"type": "Person", "data": {"slug": "ada"}}]),
    "conflict of a feed": lambda graph: graph.changes(graph.checkout("review").log()[0].id),
    "precondition_failed": lambda graph: graph.mutate(FILL, if_commit="01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    "refused": lambda graph: graph.delete_branch("main"),
    "refused of the first commit": lambda graph: list(graph.diff(graph.log()[-1].id)),
}
"""What fails, by its kind and what it is about."""
OTHER_CODES = ("bad_request of a file", "not_found of a commit", "not_found of a state")
"""Errors with other words: a server loads only files of lines, and its names are of a branch or a commit."""


@pytest.mark.parametrize("name", CALLS)
def test_errors_are_of_the_same_classes(both: Both, name: str) -> None:
    errors: list[og.OmnigraphError] = []
    for graph in both:
        with pytest.raises(og.OmnigraphError) as raised:
            CALLS[name](graph)
        errors.append(raised.value)
    direct, served = errors
    assert direct.kind.value == name.split(maxsplit=1)[0]
    assert isinstance(served, type(direct))
    assert type(served).__name__ == type(direct).__name__
    assert (served.kind, served.applied) == (direct.kind, direct.applied)
    if name in OTHER_CODES:
        return
    assert served.code == direct.code
    assert served.facts.keys() == direct.facts.keys()
    assert served.hint == direct.hint
    if isinstance(direct, og.ValidationError) and isinstance(served, og.ValidationError):
        rules = [[(row.line, row.rule, row.value) for row in error.report.first] for error in (direct, served)]
        assert rules[0] == rules[1]


@pytest.mark.parametrize(
    ("kind", "local"),
    [
        (ErrorKind.FORBIDDEN, AccessDeniedError),
        (ErrorKind.INTERNAL, InvariantError),
        (ErrorKind.LIMIT_EXCEEDED, og.LimitExceededError),
        (ErrorKind.UNAVAILABLE, og.StorageError),
        (ErrorKind.UNREADABLE, FormatError),
        (ErrorKind.TOO_MANY_REQUESTS, og.OmnigraphError),
        (ErrorKind.UNAUTHORIZED, og.OmnigraphError),
    ],
)
def test_errors_of_a_server_that_fails(kind: ErrorKind, local: type[og.OmnigraphError]) -> None:
    document = {"kind": kind.value, "error_code": "x", "hint": "Wait.", "applied": "unknown", "more": 1}
    error = error_of_document("no", document, 500)
    assert isinstance(error, local)
    assert (error.kind, error.code, error.hint, error.message) == (kind, "x", "Wait.", "no")
    assert (error.applied, dict(error.facts)) == (Applied.UNKNOWN, {"more": 1})


def test_address_and_token(both: Both) -> None:
    _, served = both
    assert served.uri.endswith("/graphs/default")
    assert "node Person" in served.schema
    with pytest.raises(og.UsageError):
        og.connect("http://graph.invalid", token="t")


DOCUMENTED = {
    name: member
    for name, member in [("connect", og.connect), ("RemoteGraph", og.RemoteGraph), *vars(og.RemoteGraph).items()]
    if callable(member) and not name.startswith("_") and name != "summary"
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
