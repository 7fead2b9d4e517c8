"""Exit codes of commands through a server: those of the same errors without a server, and of interrupted writes."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

import omnigraph as og
from omnigraph.base.errors import ErrorKind, OmnigraphError
from omnigraph.cli.errors import exit_code
from omnigraph.server.errors import error_answer
from tests.cli.process import OMNIGRAPH, environment, omnigraph, run_in_process
from tests.client.listener import Received, Reply, listen
from tests.server.process import READ, SCHEMA, ServerProcess, serve
from tests.waiting import SECONDS_MAX, wait_until

ADD = 'query add() { insert Person { slug: "eve" } }'
COMMANDS = (("snapshot",), ("mutate", "-e", ADD))


@pytest.mark.parametrize("kind", ErrorKind)
def test_every_kind(kind: ErrorKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is the one of a server, scripted: no server fails in all of these ways on request."""
    error = OmnigraphError("no", code="scripted")
    error.kind = kind
    answer = error_answer(error)
    headers = {**answer.headers, "Omnigraph-Http-Api": "0.13", "Retry-After": "0"}
    reply = Reply(answer.status, json.dumps(answer.document).encode(), headers)
    monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", "t")
    with listen(lambda _: reply) as listener:
        address = ("--server", listener.url, "--graph", "g", "--json")
        outcomes = [run_in_process(*command, *address, cwd=tmp_path) for command in COMMANDS]
    for outcome in outcomes:
        assert outcome.exit_code == exit_code(error)
        document = json.loads(outcome.stdout)
        assert (document["kind"], document["error_code"]) == (kind.value, "scripted")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("codes")
    og.init(directory / "graph.omni", SCHEMA)
    with serve(directory / "graph.omni", directory, environment={"OMNIGRAPH_SERVER_BEARER_TOKEN": READ}) as process:
        yield process


@pytest.mark.parametrize(
    ("token", "command", "kind"),
    [
        ("", COMMANDS[0], "unauthorized credentials_missing"),
        ("wrong", COMMANDS[0], "unauthorized token_invalid"),
        (READ, COMMANDS[1], "forbidden access_denied"),
    ],
)
def test_denied(server: ServerProcess, tmp_path: Path, token: str, command: tuple[str, ...], kind: str) -> None:
    address = ("--server", f"http://{server.address}", "--graph", "default", "--json")
    outcome = omnigraph(*command, *address, cwd=tmp_path, env={"OMNIGRAPH_BEARER_TOKEN": token} if token else None)
    document = json.loads(outcome.stdout)
    assert (outcome.exit_code, f"{document['kind']} {document['error_code']}") == (1, kind)


def test_an_interrupted_write_may_be_applied(tmp_path: Path) -> None:
    ended = Event()

    def answer(_: Received) -> Reply:
        ended.wait(SECONDS_MAX)
        return Reply(0)

    with listen(answer) as listener:
        command = [OMNIGRAPH, "mutate", "-e", ADD, "--server", listener.url, "--graph", "g"]
        with subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: listener.received, "the request")
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=SECONDS_MAX)
        ended.set()
        assert [request.method for request in listener.received] == ["POST"]
    assert process.returncode == 128 + signal.SIGINT
    assert stderr.splitlines()[-1] == "interrupted: the server may still apply the write"
