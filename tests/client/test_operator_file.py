"""The operator file: settings, warnings about unknown keys, and errors with the path of a wrong value."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.base.errors import UsageError
from omnigraph.client.operator_file import OperatorFile, Profile, parse_operator_file, read_operator_file

PATH = Path("config.yaml")
FULL = """
operator: { actor: act-ada }
defaults: { output: table, server: prod, default_graph: knowledge }
servers:  { prod: { url: "https://graph.example.com" } }
profiles:
  admin:  { cluster: "s3://acme/clusters/brain", default_graph: knowledge }
  dev:    { store: "s3://acme/dev.omni" }
"""


def test_every_setting() -> None:
    assert parse_operator_file(FULL, PATH) == OperatorFile(
        path=PATH,
        actor="act-ada",
        output="table",
        defaults=Profile(server="prod", default_graph="knowledge"),
        servers={"prod": "https://graph.example.com"},
        profiles={
            "admin": Profile(cluster="s3://acme/clusters/brain", default_graph="knowledge"),
            "dev": Profile(store="s3://acme/dev.omni"),
        },
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "servers:\n"])
def test_empty_files(text: str) -> None:
    assert parse_operator_file(text, PATH) == OperatorFile(path=PATH)


def test_no_file(tmp_path: Path) -> None:
    assert read_operator_file({"OMNIGRAPH_HOME": str(tmp_path)}).servers == {}


def test_unknown_keys_are_warnings() -> None:
    servers, profiles = "{a: {url: 'http://a', port: 1}}", "{p: {shop: x, store: s}}"
    text = f"color: red\ndefaults: {{outpt: json}}\nservers: {servers}\nprofiles: {profiles}"
    parsed = parse_operator_file(text, PATH)
    paths = ["color", "defaults.outpt", "servers.a.port", "profiles.p.shop"]
    assert parsed.warnings == tuple(f"config.yaml: unknown key '{path}' is ignored" for path in paths)
    assert parsed.servers == {"a": "http://a"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "the file: expected a mapping"),
        ("operator: ada", "operator: expected a mapping, got str 'ada'"),
        ("operator: {actor: 7}", "operator.actor: expected text, got int 7"),
        ("defaults: {output: xml}", "defaults.output: expected one of table"),
        ("servers: {a: {}}", "servers.a.url: expected the address"),
        ("servers: {a: {url: [x]}}", "servers.a.url: expected text"),
        ("profiles: {a: x}", "profiles.a: expected a mapping"),
        ("a: 1\na: 2", "config.yaml:2:1: duplicate key 'a'"),
        ("a: &x 1\nb: *x", "config.yaml:1:4: anchors and aliases are not allowed"),
        ("1: x", "config.yaml:1:1: expected text as a key, got 1"),
        ("a: !!python/object:os.system x", "the tag"),
        ("a: [", "config.yaml:1:5: "),
    ],
)
def test_errors_name_the_place(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_operator_file(text, PATH)
    assert message in error.value.message


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        (Profile(server="a"), None),
        (Profile(store="a"), None),
        (Profile(cluster="a", default_graph="g"), None),
        (Profile(), "expected exactly one"),
        (Profile(server="a", store="b"), "expected exactly one"),
        (Profile(store="a", default_graph="g"), "default_graph"),
    ],
)
def test_profiles(profile: Profile, problem: str | None) -> None:
    assert (profile.problem() or "").startswith(problem or "")
    assert (profile.problem() is None) == (problem is None)
