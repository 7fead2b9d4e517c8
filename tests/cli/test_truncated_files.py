"""Truncated data files: the command reports the reason, nothing is published, and the next command works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.process import OMNIGRAPH, environment
from tests.file_faults import built_library

SCHEMA = "node Note { slug: String @key  text: String? }"
TEXT_BYTES = 3_000_000
MISSING_BYTES = 100
LIMIT = (
    "import os, resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
    "os.execv(sys.argv[2], sys.argv[2:])"
)
COUNT = "query q() { match { $n: Note } return { count($n) as notes } }"


def _notes(graph: Path) -> object:
    return og.open(str(graph)).query(COUNT).to_pylist()[0]["notes"]


def _insert(graph: Path, slug: str, durability: str, file_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
    """Insert a note with a long text, in a process whose files have at most `file_bytes`."""
    query = "query add($slug: String, $text: String) { insert Note { slug: $slug, text: $text } }"
    parameters = graph.with_name("parameters.json")
    parameters.write_text(json.dumps({"slug": slug, "text": "x" * TEXT_BYTES}))

    command = [OMNIGRAPH, "mutate", "--store", str(graph), "-e", query, "--params-file", str(parameters)]
    if file_bytes is not None:
        command = [sys.executable, "-c", LIMIT, str(file_bytes), *command]
    variables = environment({"OMNIGRAPH_DURABILITY": durability})
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("durability", ["sync", "process"])
def test_last_bytes_of_a_data_file_are_not_written(durability: str, tmp_path: Path) -> None:
    graph = tmp_path / "graph.omni"
    og.init(str(graph), SCHEMA)
    assert _insert(graph, "first", durability).returncode == 0
    size = max(path.stat().st_size for path in graph.rglob("*.lance"))
    failed = _insert(graph, "other", durability, size - MISSING_BYTES)
    assert failed.returncode != 0, failed.stdout
    assert f"expected {size:,} bytes, got {size - MISSING_BYTES:,}" in failed.stderr
    assert "file size limit reached" in failed.stderr
    assert _notes(graph) == 1
    assert _insert(graph, "other", durability).returncode == 0
    assert _notes(graph) == 2


@pytest.mark.soak
@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(built_library() is None, reason="needs a C compiler")
def test_spark_worker_writes_a_truncated_file(tmp_path: Path) -> None:
    """The worker checks the size itself, so its task fails."""
    graph = tmp_path / "graph.omni"
    og.init(str(graph), SCHEMA)
    data = tmp_path / "notes.jsonl"
    data.write_text("\n".join(f'{{"type":"Note","data":{{"slug":"{number}"}}}}' for number in range(1000)))
    faults = {
        "LD_PRELOAD": str(built_library()),
        "FILE_FAULTS_ROOT": f"{graph}/nodes",
        "FILE_FAULTS_WRITE": "3",
        "OMNIGRAPH_HOME": str(tmp_path / "home"),
        "OMNIGRAPH_CLASS_ARCHIVE": "off",
    }
    command = [OMNIGRAPH, "load", "--data", str(data), str(graph), "--spark-master", "local[1]"]
    failed = subprocess.run(command, env=environment(faults), capture_output=True, text=True, check=False)
    assert failed.returncode != 0
    assert "a file was truncated while it was written" in failed.stderr
    assert _notes(graph) == 0
