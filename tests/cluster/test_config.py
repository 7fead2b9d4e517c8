"""`cluster validate` reports every problem of all files in one run, with file, line and code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from omnigraph.base import limits
from omnigraph.base.diagnostics import Diagnostics
from omnigraph.base.errors import UsageError
from omnigraph.cluster.config import parse_config, provider_settings
from omnigraph.cluster.project import Cluster
from omnigraph.cluster.resources import read_desired
from tests.cluster.conftest import ExampleCluster

HEAD = "version: 1\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the member 'version' is missing"),
        ("version: 2\n", 1, "unsupported version: expected 1, got 2"),
        (HEAD + "graph: {}\n", 2, "graph: unknown member"),
        (HEAD + "graphs: { a: { schema: a.pg }, a: { schema: b.pg } }\n", 2, "duplicate key 'a'"),
        (HEAD + "graphs: &x { a: { schema: a.pg } }\n", 2, "anchors and aliases are not allowed"),
        (HEAD + "graphs: !!map { a: { schema: a.pg } }\n", 2, "tag"),
        (HEAD + "graphs:\n  <<: { a: { schema: a.pg } }\n", 3, "merge keys are not allowed"),
        (HEAD + "? [a]\n: b\n", 2, "expected text as a key"),
        (HEAD + "graphs: { 1a: { schema: a.pg } }\n", 2, "invalid name '1a'"),
        (HEAD + "graphs: { cluster: { schema: a.pg } }\n", 2, "the name 'cluster' is the scope"),
        (HEAD + "graphs: { a: {} }\n", 2, "the member 'schema' is missing"),
        (HEAD + "graphs: { a: { schema: a.pg, embedding_provider: p } }\n", 2, "unknown embedding provider 'p'"),
        (HEAD + "policies: { p: { file: f, applies_to: [b] } }\n", 2, "unknown graph 'b'"),
        (HEAD + "policies: { p: { file: f, applies_to: [] } }\n", 2, "expected a list of graphs, or [cluster]"),
        (
            HEAD + "graphs: { a: { schema: a.pg } }\npolicies: { p: { file: f, applies_to: [a, cluster] } }\n",
            3,
            "a policy applies to graphs or to the cluster",
        ),
        (
            HEAD + "policies:\n  p: { file: f, applies_to: [cluster] }\n  q: { file: g, applies_to: [cluster] }\n",
            4,
            "the cluster already has the policy 'p': expected one policy",
        ),
        (
            HEAD
            + "graphs: { a: { schema: a.pg } }\n"
            + "policies:\n  p: { file: f, applies_to: [a] }\n  q: { file: g, applies_to: [a] }\n",
            5,
            "the graph 'a' already has the policy 'p': expected one policy",
        ),
        (HEAD + "storage: ftp://host/x\n", 2, "storage: unsupported URI scheme 'ftp'"),
        (HEAD + "providers: { embedding: { p: { model: m } } }\n", 2, "the member 'kind' is missing"),
        (HEAD + "providers: { embedding: { p: { kind: opnai } } }\n", 2, "unknown kind 'opnai': did you mean"),
        (HEAD + "providers: { embedding: { p: { kind: mock, batch: 0 } } }\n", 2, "invalid batch"),
        (HEAD + "---\n", 2, "expected a single document in the stream, but found another document"),
        ("[" * 5_000 + "]" * 5_000, None, "nested too deeply"),
    ],
)
def test_problems_of_the_configuration(text: str, line: int | None, message: str) -> None:
    problems = Diagnostics()
    parse_config(text, "cluster.yaml", problems)
    assert [item.code for item in problems.items[:1]] == ["invalid_cluster_yaml"]
    assert message in problems.items[0].message
    assert problems.items[0].line == line


def test_a_secret_in_the_file_is_rejected_and_not_shown() -> None:
    problems = Diagnostics()
    parse_config(HEAD + "providers: { embedding: { p: { kind: mock, api_key: hunter2 } } }\n", "c", problems)
    assert "${NAME}" in problems.items[0].message
    assert "hunter2" not in str(problems.items)


@pytest.mark.parametrize("url", ["https://ada:hunter2@host/v1", "https://host/v1?key=hunter2", "ftp://a:hunter2@host"])
def test_a_secret_in_an_address_is_rejected_and_not_shown(url: str) -> None:
    """The ledger contains the address."""
    problems = Diagnostics()
    profile = f"{{ kind: openai-compatible, model: m, base_url: '{url}' }}"
    parse_config(HEAD + f"providers: {{ embedding: {{ p: {profile} }} }}\n", "c", problems)
    assert [item.message for item in problems.items] == [
        "providers.embedding.p.base_url: expected an address without user, password and query: use api_key"
    ]


def test_every_scalar_is_text() -> None:
    problems = Diagnostics()
    config = parse_config(HEAD + "metadata: { name: no }\nstate: { x: 1 }\n", "c", problems)
    assert (config.name, problems.items) == ("no", [])


@pytest.mark.parametrize(
    ("profile", "url", "key"),
    [
        ({"kind": "openai"}, "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ({"kind": "gemini", "api_key": "${G}"}, "https://generativelanguage.googleapis.com/v1beta", "G"),
        ({"kind": "openai-compatible", "base_url": "http://h/v1", "model": "m"}, "http://h/v1", None),
    ],
)
def test_settings_of_a_provider(profile: dict[str, str], url: str, key: str | None) -> None:
    settings = provider_settings(profile)
    assert (settings.base_url, settings.key_variable) == (url, key)


INVALID_CONFIG: Final = """version: 1
extra: 1
storage: ftp://host
providers:
  embedding:
    hosted: { kind: opnai, batch: 0, timeout_ms: soon, base_url: nowhere, api_key: hunter2 }
graphs:
  books: { schema: books.pg, queries: queries/, embedding_provider: hosted }
  2nd: &anchor { schema: other.pg, queries: [other.gq] }
  3rd: *anchor
  fourth: { queries: [other.gq] }
policies:
  base: { file: base.policy.yaml, applies_to: [books, fifth] }
  "a b": { file: server.policy.yaml, applies_to: [cluster] }
  lost: { file: lost.yaml, applies_to: [fourth] }
"""
INVALID_FILES: Final = {
    "cluster.yaml": INVALID_CONFIG,
    "other.pg": "node A { name: Strng @key }",
    "other.gq": "query q( {}",
    "base.policy.yaml": """version: 1
groups: { team: [ada, *team] }
rules:
  - { id: r, allow: { actors: { group: tem }, actions: [raed] } }
cedar: [lost.cedar, extra.cedar]
""",
    "extra.cedar": '@id("a") permit(principal, action, resource) when { context.brnch == "x" };\npermit(;',
    "server.policy.yaml": "version: 1\ncedar: [extra.cedar]\n",
}
EXPECTED_PROBLEMS: Final = [
    "cluster.yaml:2: extra: unknown member",
    "cluster.yaml:3: storage: unsupported URI scheme 'ftp'",
    "cluster.yaml:6: providers.embedding.hosted.api_key: expected the name of a variable",
    "cluster.yaml:6: providers.embedding.hosted.timeout_ms: invalid timeout_ms",
    "cluster.yaml:6: providers.embedding.hosted.batch: invalid batch",
    "cluster.yaml:6: providers.embedding.hosted.base_url: invalid base_url",
    "cluster.yaml:6: providers.embedding.hosted.kind: unknown kind 'opnai': did you mean 'openai'?",
    "cluster.yaml:9: anchors and aliases are not allowed",
    "cluster.yaml:9: graphs.2nd: invalid name '2nd'",
    "cluster.yaml:10: anchors and aliases are not allowed",
    "cluster.yaml:10: graphs.3rd: expected a mapping",
    "cluster.yaml:10: graphs.3rd: invalid name '3rd'",
    "cluster.yaml:11: graphs.fourth: the member 'schema' is missing",
    "cluster.yaml:13: policies.base.applies_to[1]: unknown graph 'fifth'",
    "cluster.yaml:14: policies.a b: invalid name 'a b'",
    "cluster.yaml:15: policies.lost.file: the file 'lost.yaml' does not exist",
    "other.pg:1: node A: property `name`: unknown type `Strng`",
    "other.gq:1: ",
    "base.policy.yaml:2: anchors and aliases are not allowed",
    "base.policy.yaml:4: rules[0].allow.actions[0]: unknown action 'raed'",
    "base.policy.yaml:4: rules[0].allow.actors.group: unknown group 'tem'",
    "base.policy.yaml:5: cedar[0]: the file 'lost.cedar' cannot be used: it does not exist",
    "extra.cedar:1: policy 'a': attribute `brnch` in context not found",
    "extra.cedar:2: invalid Cedar: unexpected token `;`",
]


def test_all_files_are_reported_in_one_run(new: ExampleCluster) -> None:
    """Each problem once, by file and line, also those of files that two graphs or policies use."""
    for name, text in INVALID_FILES.items():
        (new.path / name).write_text(text)
    outcome = new.run("cluster", "validate", "--json")
    document = json.loads(outcome.stdout)
    assert (outcome.exit_code, document["ok"], document["config_dir"]) == (1, False, ".")
    lines = [f"{item['path']}:{item.get('line')}: {item['message']}" for item in document["diagnostics"]]
    missing = [problem for problem in EXPECTED_PROBLEMS if not any(line.startswith(problem) for line in lines)]
    assert (missing, len(lines)) == ([], len(EXPECTED_PROBLEMS)), "\n".join(lines)
    assert all(item["code"] for item in document["diagnostics"])
    assert "hunter2" not in outcome.stdout + outcome.stderr


def test_query_that_the_schema_breaks(new: ExampleCluster) -> None:
    new.edit("books.pg", lambda text: text.replace("year: I32?", "published: I32?"))
    for command in ("validate", "plan"):
        outcome = new.run("cluster", command)
        assert outcome.exit_code == 1
        assert "queries/books.gq:6" in outcome.stderr


def test_duplicate_query(new: ExampleCluster) -> None:
    (new.path / "queries" / "more.gq").write_text((new.path / "queries" / "books.gq").read_text())
    outcome = new.run("cluster", "validate")
    assert (
        "queries/more.gq:1: duplicate query 'books_of' of graph 'books': the first one is in 'queries/books.gq'"
        in outcome.stderr
    )


@pytest.mark.parametrize("name", ["../books.pg", "/etc/passwd", "link.pg", "linked/books.pg"])
def test_paths_outside_of_the_directory(new: ExampleCluster, name: str) -> None:
    (new.path / "link.pg").symlink_to("books.pg")
    (new.path / "linked").symlink_to(".")
    new.edit("cluster.yaml", lambda text: text.replace("books.pg", name))
    problems = Diagnostics()
    assert read_desired(new.path, problems) is None
    assert problems.items[0].code == "cluster_file"


def test_limits_of_files(new: ExampleCluster) -> None:
    comment = "// " + "x" * limits.CLUSTER_FILE_BYTES_MAX
    new.edit("books.pg", lambda text: text + comment)
    problems = Diagnostics()
    read_desired(new.path, problems)
    assert "is too large: expected at most 1,048,576 bytes" in problems.items[0].message


def test_policy_of_the_wrong_kind(new: ExampleCluster) -> None:
    new.edit("cluster.yaml", lambda text: text.replace("base.policy.yaml", "server.policy.yaml"))
    outcome = new.run("cluster", "validate")
    assert "expected rules about graphs, got rules about the server" in outcome.stderr


def test_cedar_policy_of_an_unknown_graph(new: ExampleCluster) -> None:
    (new.path / "f.cedar").write_text('@id("f") forbid(principal, action, resource == Omnigraph::Graph::"book");')
    new.edit("base.policy.yaml", lambda text: text + "cedar: [f.cedar]\n")
    outcome = new.run("cluster", "validate")
    assert (
        "is invalid: 1 problem:\n  f.cedar:1: policy 'f': unknown graph 'book': did you mean 'books'?" in outcome.stderr
    )
    new.edit("f.cedar", lambda text: text.replace('"book"', '"books"'))
    assert new.run("cluster", "validate").exit_code == 0


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[books]", "books", "cluster.yaml:7: policies.base.applies_to: expected a list"),
        ("[books]", "", "cluster.yaml:7: policies.base.applies_to: expected a list of graphs, or [cluster]"),
        ("queries/", "query", "cluster.yaml:5: graphs.books.queries: 'query' does not exist: expected a directory, or"),
        ("queries/", "books.pg", "cluster.yaml:5: graphs.books.queries: 'books.pg' is not a directory: expected a"),
        ("queries/", "[no.gq]", "cluster.yaml:5: graphs.books.queries[0]: the file 'no.gq' does not exist"),
        ("books.pg", "queries", "cluster.yaml:5: graphs.books.schema: the file 'queries' cannot be read: Is a"),
        ("  books", "\tbooks", "cluster.yaml:5: found character '\\t' that cannot start any token"),
    ],
)
def test_one_problem_has_one_message(new: ExampleCluster, before: str, after: str, message: str) -> None:
    new.edit("cluster.yaml", lambda text: text.replace(before, after))
    outcome = new.run("cluster", "validate")
    assert f"is invalid: 1 problem:\n  {message}" in outcome.stderr


def test_directory_without_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no cluster\.yaml"):
        Cluster(str(tmp_path)).plan()


def test_missing_directory(tmp_path: Path) -> None:
    problems = Diagnostics()
    assert read_desired(tmp_path, problems) is None
    assert problems.items[0].message == "the file does not exist"
