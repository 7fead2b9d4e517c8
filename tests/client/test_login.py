"""`login`, `logout`, `whoami`, `graphs list` and `profile list` with a real server; which token goes where."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.process import CommandResult, run_in_process
from tests.client.listener import Reply, listen
from tests.server.process import ALL_PEOPLE, SCHEMA, ServerProcess, serve

ADD = 'query add() { insert Person { slug: "eve" } }'

GRAPHS = b'{"graphs": [{"graph_id": "default", "uri": "graphs/default"}]}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("login")
    og.init(directory / "graph.omni", SCHEMA)
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"ada": "token-of-ada"}'}
    with serve(directory / "graph.omni", directory, "--access", "write", environment=tokens) as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory for the operator file and the credentials."""
    for name in ("OMNIGRAPH_BEARER_TOKEN", "OMNIGRAPH_TOKEN_PROD", "OMNIGRAPH_PROFILE", "OMNIGRAPH_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    return tmp_path


def configure(home: Path, url: str, more: str = "") -> None:
    (home / "config.yaml").write_text(f"servers: {{ prod: {{ url: '{url}' }} }}\n{more}")


def run(home: Path, *words: str) -> CommandResult:
    return run_in_process(*words, cwd=home)


def code(outcome: CommandResult) -> str:
    return str(json.loads(outcome.stdout)["error_code"])


def test_login_whoami_logout(server: ServerProcess, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(home, f"http://{server.address}")
    query = ("query", "--server", "prod", "-e", ALL_PEOPLE, "--json")
    assert code(run(home, *query)) == "credentials_missing"
    assert code(run(home, "login", "prod", "--token", "wrong", "--json")) == "token_invalid"
    assert not (home / "credentials").exists()
    monkeypatch.setattr("sys.stdin", StringIO("token-of-ada\nmore\n"))
    done = run(home, "login", "prod", "--json")
    assert (done.exit_code, json.loads(done.stdout)["actor_id"]) == (0, "ada")
    assert "token-of-ada" not in done.stdout + done.stderr
    assert stat.S_IMODE((home / "credentials").stat().st_mode) == 0o600
    assert run(home, *query).exit_code == 0
    identity = json.loads(run(home, "whoami", "--server", "prod", "--json").stdout)
    assert (identity["actor_id"], identity["state"]) == ("ada", "write")
    assert run(home, "whoami", "--server", "prod").stdout.startswith("actor  ada\nstate  write\n")
    assert (
        json.loads(run(home, "graphs", "list", "--server", "prod", "--json").stdout)["graphs"][0]["graph_id"]
        == "default"
    )
    added = run(home, "mutate", "--server", "prod", "-e", 'query a() { insert Person { slug: "z" } }', "--json")
    assert json.loads(added.stdout)["actor_id"] == "ada"
    for deleted in (True, False):
        assert json.loads(run(home, "logout", "prod", "--json").stdout) == {"server": "prod", "deleted": deleted}
    assert code(run(home, *query)) == "credentials_missing"


@pytest.mark.parametrize("token", ["", "a b", "a\tb", "ä"])
def test_invalid_tokens(home: Path, token: str) -> None:
    configure(home, "http://127.0.0.1:9")
    outcome = run(home, "login", "prod", "--no-check", "--json", "--token", token)
    assert (outcome.exit_code, code(outcome)) == (2, "credentials_missing")


def test_unknown_server(home: Path) -> None:
    assert code(run(home, "login", "nope", "--token", "t", "--json")) == "server_unknown"


def test_a_named_token_reaches_only_its_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listen(lambda _: Reply(body=GRAPHS)) as other:
        redirect = Reply(307, b"", {"Location": f"{other.url}/graphs"})
        with listen(lambda request: Reply(body=GRAPHS) if "/prefix/" in request.path else redirect) as prod:
            configure(home, f"{prod.url}/prefix")
            assert run(home, "login", "prod", "--token", "secret", "--no-check").exit_code == 0
            assert run(home, "graphs", "list", "--server", "prod").exit_code == 0
            assert run(home, "graphs", "list", "--server", f"{prod.url}/prefix/").exit_code == 0
            run(home, "graphs", "list", "--server", f"{prod.url}/prefixes")
            run(home, "graphs", "list", "--server", other.url)
            sent = [request.headers.get("Authorization") for request in prod.received]
            assert sent == ["Bearer secret", "Bearer secret", None]
            configure(home, prod.url)
            assert code(run(home, "graphs", "list", "--server", "prod", "--json")) == "server_answer"
            assert prod.received[-1].headers["Authorization"] == "Bearer secret"
        assert [request.headers.get("Authorization") for request in other.received] == [None]
        monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", "any")
        run(home, "graphs", "list", "--server", other.url)
        assert other.received[-1].headers["Authorization"] == "Bearer any"


def test_no_token_over_plain_http_to_another_host(home: Path) -> None:
    configure(home, "http://graph.invalid")
    assert run(home, "login", "prod", "--token", "t", "--no-check").exit_code == 0
    for words in (("whoami",), ("graphs", "list"), ("snapshot",), ("query", "-e", ALL_PEOPLE)):
        outcome = run(home, *words, "--server", "prod", "--json")
        assert (outcome.exit_code, code(outcome)) == (2, "token_unencrypted")
    # Allowed, but the name does not exist.
    assert code(run(home, "whoami", "--server", "prod", "--insecure", "--json")) == "server_unreachable"


def test_a_file_that_others_can_read(home: Path) -> None:
    configure(home, "http://127.0.0.1:9")
    run(home, "login", "prod", "--token", "t", "--no-check")
    (home / "credentials").chmod(0o640)
    outcome = run(home, "whoami", "--server", "prod")
    assert (outcome.exit_code, "chmod 600" in outcome.stderr) == (2, True)


def test_profiles(home: Path, monkeypatch: pytest.MonkeyPatch, server: ServerProcess) -> None:
    valid = "dev: { store: x.omni }, prod: { server: prod }"
    profiles = f"profiles: {{ {valid}, bad: {{ server: prod, store: x }}, lost: {{ server: nowhere }} }}\n"
    configure(home, f"http://{server.address}", f"{profiles}color: red\n")
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "prod")
    monkeypatch.setenv("OMNIGRAPH_TOKEN_PROD", "token-of-ada")
    listed = run(home, "profile", "list", "--json")
    assert listed.stderr.count("warning: ") == 1
    rows = {row["name"]: row for row in json.loads(listed.stdout)["profiles"]}
    assert [name for name, row in rows.items() if row["valid"]] == ["dev", "prod"]
    assert [name for name, row in rows.items() if row["active"]] == ["prod"]
    assert all(rows[name]["error"] for name in ("bad", "lost"))
    assert (rows["dev"]["scope_kind"], rows["dev"]["target"]) == ("store", "x.omni")
    read = run(home, "query", "-e", ALL_PEOPLE, "--json")
    assert (read.exit_code, read.stderr.count("warning: ")) == (0, 1)
    assert code(run(home, "query", "-e", ALL_PEOPLE, "--profile", "bad", "--json")) == "profile_invalid"


def test_actor_and_output_of_the_operator_file(home: Path) -> None:
    og.init(home / "graph.omni", SCHEMA)
    (home / "config.yaml").write_text("operator: { actor: act-ada }\ndefaults: { output: csv, store: graph.omni }\n")
    added = run(home, "mutate", "-e", 'query a() { insert Person { slug: "z" } }', "--json")
    assert json.loads(added.stdout)["actor_id"] == "act-ada"
    assert run(home, "query", "-e", ALL_PEOPLE).stdout == "p.slug\nz\n"
    assert run(home, "query", "-e", ALL_PEOPLE, "--format", "jsonl").stdout == '{"p.slug": "z"}\n'


def test_a_server_of_the_defaults_is_refused_by_direct_commands(home: Path) -> None:
    configure(home, "http://127.0.0.1:9", "defaults: { server: prod }\n")
    outcome = run(home, "optimize", "--json")
    assert (outcome.exit_code, code(outcome)) == (2, "server_unsupported")


def test_a_lost_response_of_a_write(home: Path) -> None:
    with listen(lambda request: Reply(body=GRAPHS) if request.method == "GET" else Reply(0)) as listener:
        outcome = run(home, "mutate", "--server", listener.url, "-e", ADD, "--json")
        assert [request.method for request in listener.received] == ["GET", "POST"]
    document = json.loads(outcome.stdout)
    assert (outcome.exit_code, document["applied"], document["error_code"]) == (1, "unknown", "server_unreachable")
    assert "omnigraph commit list" in document["hint"]


def test_a_load_that_is_too_long_is_not_sent(home: Path) -> None:
    with (home / "large.jsonl").open("wb") as file:
        file.truncate(32 * 1024**2 + 1)
    with listen(lambda _: Reply(body=GRAPHS)) as listener:
        outcome = run(home, "load", "--server", listener.url, "--data", "large.jsonl", "--json")
        assert [request.method for request in listener.received] == ["GET"]
    assert (outcome.exit_code, code(outcome)) == (1, "body_too_long")
    assert "`omnigraph load --data large.jsonl --mode append --store URI`" in json.loads(outcome.stdout)["hint"]
