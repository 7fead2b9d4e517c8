"""Tokens and what they allow, over real sockets: `--access`, SIGHUP, the log, public routes, TLS and CORS."""

from __future__ import annotations

import json
import signal
import subprocess
from hashlib import sha256
from pathlib import Path

from tests.cli.process import omnigraph
from tests.server.process import ALL_PEOPLE, READ, WRITE, serve
from tests.waiting import wait_until

TOKENS = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"


def write_tokens(directory: Path, tokens: dict[str, str]) -> dict[str, str]:
    file = directory / "tokens.json"
    file.write_text(json.dumps(tokens))
    return {TOKENS: str(file)}


def test_a_server_without_tokens_does_not_start(graph_path: Path) -> None:
    ended = omnigraph("serve", graph_path, "--bind", "127.0.0.1:0")
    assert (ended.exit_code, ended.stdout) == (2, "")
    for name in ("--unauthenticated", "OMNIGRAPH_SERVER_BEARER_TOKEN", TOKENS):
        assert name in ended.stderr


def test_a_missing_graph_is_an_error_before_listening(tmp_path: Path) -> None:
    ended = omnigraph("serve", tmp_path / "no.omni", "--unauthenticated")
    assert (ended.exit_code, ended.stdout) == (1, "")


def test_access_read(graph_path: Path, tmp_path: Path) -> None:
    environment = write_tokens(tmp_path, {"reader": READ})
    with serve(graph_path, tmp_path, environment=environment) as server:
        missing = server.send("POST", "query", {"query": ALL_PEOPLE})
        assert missing.status == 401
        assert missing.headers["www-authenticate"] == "Bearer"
        assert server.send("POST", "query", {"query": ALL_PEOPLE}, token="wrong").status == 401
        assert server.send("GET", "/graphs").status == 401
        assert server.send("GET", "/metrics").status == 401
        for public in ("/healthz", "/readyz", "/openapi.json"):
            assert server.send("GET", public).status == 200
        assert server.send("POST", "query", {"query": ALL_PEOPLE}, token=READ).status == 200
        assert server.send("POST", "export", {}, token=READ).status == 200
        document = server.send("GET", "/whoami", token=READ).document
        assert (document["actor_id"], document["state"]) == ("reader", "read")
        assert document["graphs"][0]["actions"]["change"] == "none"
        denied = server.send("POST", "mutate", {"query": 'query a() { insert Person { slug: "x" } }'}, token=READ)
        assert denied.status == 403
        assert "allows only reading" in denied.document["error"]
        assert server.send("POST", "branches", {"name": "x"}, token=READ).status == 403
        assert server.send("DELETE", "branches/x", token=READ).status == 403
        assert server.send("POST", "branches/merge", {"source": "x"}, token=READ).status == 403
        assert server.send("POST", "branches/merge", {"source": "main", "dry_run": True}, token=READ).status != 403
        assert server.send("POST", "load", {"data": ""}, token=READ).status == 403
    assert READ not in server.log.read_text()
    assert "wrong" not in server.log.read_text()


def test_the_actor_is_that_of_the_token_and_sighup_reads_tokens_again(graph_path: Path, tmp_path: Path) -> None:
    environment = write_tokens(tmp_path, {"ada": WRITE})
    with serve(graph_path, tmp_path, "--access", "write", environment=environment) as server:
        body = {"query": 'query a() { insert Person { slug: "by-token" } }'}
        receipt = server.send("POST", "mutate", body, token=WRITE).document
        assert receipt["commit"]["actor_id"] == "ada"
        write_tokens(tmp_path, {"bob": "new-token"})
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: server.send("GET", "/whoami", token="new-token").status == 200, "the new token works")
        assert server.send("GET", "/whoami", token=WRITE).status == 401
        (tmp_path / "tokens.json").write_text("{")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "tokens not read" in server.log.read_text(), "the log says that the tokens are invalid")
        assert server.send("GET", "/whoami", token="new-token").document["actor_id"] == "bob"
        write_tokens(tmp_path, {})
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: server.send("GET", "/whoami", token="new-token").status == 401, "no token works")
        assert server.send("GET", "/whoami").status == 401


def test_odd_authorization_headers_and_settings(graph_path: Path, tmp_path: Path) -> None:
    """One server has several settings: public metrics, an origin, a prefix, a log as JSON."""
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKEN": "t", "OMNIGRAPH_SERVER_CORS_ORIGIN": "https://a.example"}
    flags = ("--metrics-public", "--root-path", "/graphs-of-acme/", "--log-format", "json")
    with serve(graph_path, tmp_path, *flags, environment=environment) as server:
        for value in (
            "Bearer",
            "Basic x",
            "Bearer \xe9",
            "Bearer " + "x" * 8_000,
            f"Bearer {sha256(b't').hexdigest()}",
        ):
            assert server.send("GET", "/whoami", headers={"Authorization": value}).status == 401
        assert server.send("GET", "/whoami", token="t").status == 200
        assert server.send("GET", "/metrics").status == 200
        headers = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
        allowed = server.send("OPTIONS", "query", headers=headers)
        assert allowed.headers["access-control-allow-origin"] == "https://a.example"
        assert "access-control-allow-credentials" not in allowed.headers
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        for origin, status in (("https://a.example", 200), ("https://b.example", 403)):
            assert server.send("POST", "mcp", ping, token="t", headers={"Origin": origin}).status == status
        other = server.send("GET", "/healthz", headers={"Origin": "https://b.example"})
        assert "access-control-allow-origin" not in other.headers
        assert server.send("GET", "/openapi.json").document["servers"] == [{"url": "/graphs-of-acme"}]
        server.send("POST", "query", {"query": ALL_PEOPLE}, token="t")
        wait_until(lambda: _logged(server.log, "/graphs/default/query"), "the log line")
    [line] = [line for line in _logged(server.log, "/graphs/default/query") if line["method"] == "POST"]
    assert (line["event"], line["status"], line["level"]) == ("request", 200, "INFO")
    assert (line["actor"], line["graph"]) == ("default", "default")


def test_an_address_that_other_machines_reach_is_a_warning(graph_path: Path, tmp_path: Path) -> None:
    with serve(graph_path, tmp_path, "--bind", "0.0.0.0:0") as server:
        assert server.slugs() == ["ada", "bob"]
        assert server.log.read_text().count("warning: tokens and data are sent unencrypted") == 1


def test_tls(graph_path: Path, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    flags = ("--tls-cert", str(certificate), "--tls-key", str(key))
    with serve(graph_path, tmp_path, *flags, certificate=certificate) as server:
        assert server.slugs() == ["ada", "bob"]
        assert "warning: " not in server.log.read_text()


def _logged(log: Path, path: str) -> list[dict[str, object]]:
    """Return the requests to a path in a log whose lines are JSON."""
    lines = (json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n"))
    return [line for line in lines if line.get("path") == path]
