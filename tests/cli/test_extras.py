"""Commands after an installation without extras: those of a client work, and `serve` names the package to install."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.process import environment
from tests.server.conftest import make_graph
from tests.server.process import ALL_PEOPLE, serve
from tests.waiting import SECONDS_MAX

EXTRAS = ("starlette", "uvicorn", "httptools", "prometheus_client", "anyio", "cedarpy")
PROGRAM = f"""
import sys
for name in {EXTRAS}:
    sys.modules[name] = None  # an import raises ModuleNotFoundError
from omnigraph.cli.main import run
path, url, query = sys.argv[1:]
assert run(["serve", path, "--unauthenticated"]) == 1
assert run(["query", "--server", url, "-e", query, "--format", "jsonl"]) == 0
"""


def test_commands_without_extras(tmp_path: Path) -> None:
    path = make_graph(tmp_path)
    with serve(path, tmp_path) as server:
        command = [sys.executable, "-c", PROGRAM, str(path), f"http://{server.address}", ALL_PEOPLE]
        ended = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
    assert ended.returncode == 0, ended.stderr
    assert "error: the server needs the package uvicorn, which is not installed\n" in ended.stderr
    assert "hint: Run `pip install 'omnigraph[server]'`." in ended.stderr
    assert [json.loads(row)["p.slug"] for row in ended.stdout.splitlines()] == ["ada", "bob"]
