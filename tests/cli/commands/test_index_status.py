"""`omnigraph index status`: text, CSV and JSON output."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.process import assert_golden, run_in_process


def test_graph_without_indexes(graph: Path, update_golden: bool) -> None:
    add = 'query add() { insert Person { slug: "ada", age: 36 } }'
    assert run_in_process("mutate", "--store", graph, "-e", add, cwd=graph).exit_code == 0
    transcripts = []
    for flags in ("", "--format csv", "--branch nowhere"):
        outcome = run_in_process("index", "status", graph, *flags.split(), cwd=graph)
        transcripts.append(f"$ omnigraph index status {flags}\n{outcome.transcript(graph)}")
    assert_golden("index_status.txt", "\n".join(transcripts), update_golden)


def test_json_document(graph: Path) -> None:
    outcome = run_in_process("index", "status", graph, "--json", cwd=graph)
    document = json.loads(outcome.stdout)
    assert (document["uri"], document["graph_branch"]) == (str(graph), "main")
    assert {row["table_key"] for row in document["indexes"]} == {"node:Person", "node:Company", "edge:Knows"}
    age = next(row for row in document["indexes"] if row["property"] == "age")
    assert (age["kind"], age["declared"], age["coverage"]) == (None, False, "Degraded")
