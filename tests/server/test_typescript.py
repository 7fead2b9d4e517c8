"""A TypeScript client that is generated from the OpenAPI document compiles, and reads and writes a graph.

npm installs the generator and the compiler by name and version. Without Node, the test is skipped.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.server.process import ServerProcess
from tests.waiting import SECONDS_MAX

PACKAGES = ("openapi-typescript@7.13.0", "openapi-fetch@0.14.1", "typescript@5.9.3")


def test_the_client_of_the_documentation_compiles_and_runs(server: ServerProcess, tmp_path: Path) -> None:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    (tmp_path / "package.json").write_text('{"name": "client", "private": true, "type": "module"}')
    run(tmp_path, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES)
    (tmp_path / "openapi.json").write_text(json.dumps(server.send("GET", "/openapi.json").document))
    run(
        tmp_path,
        "npx",
        "openapi-typescript",
        "openapi.json",
        "--default-non-nullable=false",
        "--output",
        "omnigraph.d.ts",
    )
    page = (ROOT / "docs" / "user" / "serving.md").read_text()
    (text,) = [block.text for block in blocks(page) if block.language == "ts"]
    (tmp_path / "client.ts").write_text(text.replace("127.0.0.1:8080", server.address))
    flags = ("--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck")
    run(tmp_path, "npx", "tsc", *flags, "client.ts")
    printed = run(tmp_path, "node", "client.js").stdout
    assert "Grace" in printed


def run(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended
