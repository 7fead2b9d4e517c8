"""Which graph a command uses: the order of arguments, variables and settings, and errors for what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph.base.errors import UsageError
from omnigraph.cli.query_options import split_words
from omnigraph.cli.target import (
    ClusterScope,
    Scope,
    ScopeNames,
    ServerScope,
    StoreScope,
    resolve_scope,
    scope_arguments,
)
from omnigraph.client.operator_file import OperatorFile, Profile

SETTINGS = OperatorFile(
    path=Path("config.yaml"),
    defaults=Profile(server="prod", default_graph="knowledge"),
    servers={"prod": "https://graph.example.com/", "dev": "http://127.0.0.1:8080/prefix"},
    profiles={
        "admin": Profile(cluster="s3://acme/brain", default_graph="knowledge"),
        "store": Profile(store="s3://acme/dev.omni"),
        "dev": Profile(server="dev"),
        "direct": Profile(server="https://other.example.com", default_graph="g"),
        "two": Profile(server="dev", store="a"),
        "none": Profile(),
        "unknown": Profile(server="nope"),
    },
)
EMPTY = OperatorFile(path=Path("config.yaml"))
PROD = ServerScope("https://graph.example.com", "prod", "knowledge")
DEV = ServerScope("http://127.0.0.1:8080/prefix", "dev")
BRAIN = ClusterScope("s3://acme/brain", "knowledge")


@pytest.mark.parametrize(
    ("names", "environment", "settings", "scope"),
    [
        ({"uri": "a.omni"}, {}, SETTINGS, StoreScope("a.omni")),
        ({"uri": ""}, {}, SETTINGS, StoreScope("")),
        ({"store": "a.omni"}, {}, EMPTY, StoreScope("a.omni")),
        ({"store": "a.omni", "profile": "admin"}, {"OMNIGRAPH_STORE": "b"}, SETTINGS, StoreScope("a.omni")),
        ({"server": "prod"}, {"OMNIGRAPH_PROFILE": "admin"}, SETTINGS, PROD),
        ({"server": "https://graph.example.com"}, {}, SETTINGS, PROD),
        ({"server": "prod", "graph": "x"}, {}, SETTINGS, ServerScope("https://graph.example.com", "prod", "x")),
        ({"server": "dev"}, {}, SETTINGS, DEV),
        ({"server": "http://127.0.0.1:8080/prefix/"}, {}, SETTINGS, DEV),
        ({"server": "http://127.0.0.1:8080"}, {}, SETTINGS, ServerScope("http://127.0.0.1:8080")),
        (
            {"server": "http://127.0.0.1:8080/prefix.evil"},
            {},
            SETTINGS,
            ServerScope("http://127.0.0.1:8080/prefix.evil"),
        ),
        ({"server": "https://h", "graph": "g"}, {}, EMPTY, ServerScope("https://h", None, "g")),
        ({"cluster": "dir"}, {}, SETTINGS, ClusterScope("dir")),
        ({"cluster": "dir", "graph": "g"}, {}, SETTINGS, ClusterScope("dir", "g")),
        ({"profile": "admin"}, {}, SETTINGS, BRAIN),
        ({"profile": "admin", "graph": "g"}, {}, SETTINGS, ClusterScope("s3://acme/brain", "g")),
        ({"profile": "admin"}, {"OMNIGRAPH_PROFILE": "dev"}, SETTINGS, BRAIN),
        ({}, {"OMNIGRAPH_PROFILE": "dev", "OMNIGRAPH_STORE": "b"}, SETTINGS, DEV),
        ({"profile": "dev"}, {"OMNIGRAPH_STORE": "b"}, SETTINGS, DEV),
        ({"profile": "direct"}, {}, SETTINGS, ServerScope("https://other.example.com", None, "g")),
        ({}, {"OMNIGRAPH_STORE": "b"}, SETTINGS, StoreScope("b")),
        ({}, {"OMNIGRAPH_STORE": ""}, SETTINGS, PROD),
        ({}, {}, SETTINGS, PROD),
        ({"graph": "g"}, {}, SETTINGS, ServerScope("https://graph.example.com", "prod", "g")),
        ({}, {}, OperatorFile(path=Path("c"), defaults=Profile(store="s")), StoreScope("s")),
        ({}, {}, EMPTY, None),
    ],
)
def test_the_first_that_applies(
    names: dict[str, Any], environment: dict[str, str], settings: OperatorFile, scope: Scope | None
) -> None:
    assert resolve_scope(ScopeNames(**names), environment, settings) == scope


@pytest.mark.parametrize(
    ("names", "environment", "settings", "code"),
    [
        ({"uri": "a", "store": "a"}, {}, EMPTY, "scope_twice"),
        ({"uri": "a", "server": "prod"}, {}, SETTINGS, "scope_twice"),
        ({"store": "a", "cluster": "b"}, {}, SETTINGS, "scope_twice"),
        ({"server": "a", "cluster": "b"}, {}, SETTINGS, "scope_twice"),
        ({"server": "nope"}, {}, SETTINGS, "server_unknown"),
        ({"server": "nope"}, {}, EMPTY, "server_unknown"),
        ({"profile": "nope"}, {}, SETTINGS, "profile_unknown"),
        ({}, {"OMNIGRAPH_PROFILE": "nope"}, SETTINGS, "profile_unknown"),
        ({"profile": "two"}, {}, SETTINGS, "profile_invalid"),
        ({"profile": "none"}, {}, SETTINGS, "profile_invalid"),
        ({"profile": "unknown"}, {}, SETTINGS, "server_unknown"),
        ({"uri": "a", "graph": "g"}, {}, SETTINGS, "graph_of_store"),
        ({"graph": "g"}, {"OMNIGRAPH_STORE": "b"}, SETTINGS, "graph_of_store"),
        ({"profile": "store", "graph": "g"}, {}, SETTINGS, "graph_of_store"),
        ({}, {}, OperatorFile(path=Path("c"), defaults=Profile(store="s", server="t")), "profile_invalid"),
    ],
)
def test_errors(names: dict[str, Any], environment: dict[str, str], settings: OperatorFile, code: str) -> None:
    with pytest.raises(UsageError) as error:
        resolve_scope(ScopeNames(**names), environment, settings)
    assert error.value.code == code
    assert error.value.hint


@pytest.mark.parametrize(
    ("scope", "arguments"),
    [
        (StoreScope("my graph.omni"), ("my graph.omni",)),
        (BRAIN, ("--cluster", "s3://acme/brain", "--graph", "knowledge")),
        (PROD, ("--server", "prod", "--graph", "knowledge")),
        (ServerScope("https://h"), ("--server", "https://h")),
    ],
)
def test_arguments_of_a_scope(scope: Scope, arguments: tuple[str, ...]) -> None:
    assert scope_arguments(scope) == arguments


@pytest.mark.parametrize(
    ("words", "name", "graph"),
    [
        ([], None, None),
        (["friends"], "friends", None),
        (["graph.omni"], None, "graph.omni"),
        (["s3://bucket/graph"], None, "s3://bucket/graph"),
        (["./graph"], None, "./graph"),
        (["existing"], None, "existing"),
        (["friends", "graph.omni"], "friends", "graph.omni"),
        (["graph.omni", "friends"], "friends", "graph.omni"),
        (["friends", "existing"], "friends", "existing"),
    ],
)
def test_positional_arguments_of_a_query(words: list[str], name: str | None, graph: str | None) -> None:
    assert split_words(words, lambda word: word == "existing") == (name, graph)


@pytest.mark.parametrize(("words", "code"), [(["a.omni", "b.omni"], "scope_twice"), (["a", "b"], "usage")])
def test_two_of_the_same(words: list[str], code: str) -> None:
    with pytest.raises(UsageError) as error:
        split_words(words, lambda _: False)
    assert error.value.code == code
