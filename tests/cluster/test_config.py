"""`cluster validate` reports every problem of all files in one run, with file, line and code."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.base import limits
from omnigraph.base.diagnostics import Diagnostics
from omnigraph.cluster.config import parse_config, provider_settings
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
            "'cluster' already has the policy 'p'",
        ),
        (HEAD + "providers: { embedding: { p: { model: m } } }\n", 2, "the member 'kind' is missing"),
        (HEAD + "providers: { embedding: { p: { kind: opnai } } }\n", 2, "unknown provider 'opnai'"),
        (HEAD + "providers: { embedding: { p: { kind: mock, batch: 0 } } }\n", 2, "invalid batch"),
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


def test_all_files_are_reported_in_one_run(new: ExampleCluster) -> None:
    new.edit("cluster.yaml", lambda text: text + "extra: 1\n")
    new.edit("books.pg", lambda text: text.replace("I32?", "I99?"))
    new.edit("base.policy.yaml", lambda text: text.replace("branch_scope: any", "branchscope: any"))
    (new.path / "server.policy.yaml").unlink()
    outcome = new.run("cluster", "validate", "--json")
    assert outcome.exit_code == 1
    for expected in ("cluster.yaml:9: extra", "books.pg:5", "base.policy.yaml:9", "'server.policy.yaml' does not"):
        assert expected in outcome.stderr


def test_query_that_the_schema_breaks(new: ExampleCluster) -> None:
    new.edit("books.pg", lambda text: text.replace("year: I32?", "published: I32?"))
    for command in ("validate", "plan"):
        outcome = new.run("cluster", command)
        assert outcome.exit_code == 1
        assert "queries/books.gq:6" in outcome.stderr


def test_duplicate_query(new: ExampleCluster) -> None:
    (new.path / "queries" / "more.gq").write_text((new.path / "queries" / "books.gq").read_text())
    outcome = new.run("cluster", "validate")
    assert "duplicate query 'books_of' of graph 'books': the first one is in 'queries/books.gq'" in outcome.stderr


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
    assert "expected rules about graphs, got rules about server" in outcome.stderr


def test_missing_directory(tmp_path: Path) -> None:
    problems = Diagnostics()
    assert read_desired(tmp_path, problems) is None
    assert problems.items[0].message == "the file does not exist"
