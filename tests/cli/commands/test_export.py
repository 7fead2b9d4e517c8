"""`omnigraph export` on a local Spark: to a file, to stdout, to a closed pipe; invalid calls fail early."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from omnigraph.base.ids import CommitId
from omnigraph.cli.commands.export import describe_target
from omnigraph.cli.main import BROKEN_PIPE_EXIT_CODE
from omnigraph.pipeline.export.run import ExportResult
from omnigraph.pipeline.export.target import TargetKind
from omnigraph.pipeline.export.tasks import ExportFormat
from omnigraph.storage.location import parse_location
from tests.cli.process import OMNIGRAPH, SCHEMA, environment, omnigraph, run_in_process
from tests.pipeline.exporting import Record, contents, load_records
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.xdist_group("spark")

PEOPLE = 6_000


@pytest.fixture
def full_graph(graph: Path) -> Path:
    """A graph whose export is larger than the buffer of a pipe."""
    people: list[Record] = [
        {"type": "Person", "data": {"slug": f"person-{number}", "age": number % 90}} for number in range(PEOPLE)
    ]
    knows: Record = {"edge": "Knows", "from": "person-1", "to": "person-2", "data": {"id": "e", "since": "1843-01-01"}}
    load_records(parse_location(str(graph)), graph.parent, [*people, knows])
    return graph


def test_export_to_a_file_loads_into_an_equal_graph(full_graph: Path, warm_spark: dict[str, str]) -> None:
    directory = full_graph.parent
    done = omnigraph("export", "graph.omni", "--out", "dump.jsonl.zst", "--json", cwd=directory, env=warm_spark)
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["nodes"] == [
        {"name": "Company", "entities_exported": 0},
        {"name": "Person", "entities_exported": PEOPLE},
    ]
    assert document["edges"] == [{"name": "Knows", "entities_exported": 1}]
    assert document["files"] == [str(directory.resolve() / "dump.jsonl.zst")]
    assert document["total_entities"] == PEOPLE + 1
    head = json.loads(run_in_process("snapshot", "graph.omni", "--json", cwd=directory).stdout)["graph_commit_id"]
    assert document["graph_commit_id"] == head

    (directory / "schema.pg").write_text(SCHEMA, encoding="utf-8")
    assert run_in_process("init", "fresh.omni", "--schema", "schema.pg", cwd=directory).exit_code == 0
    loaded = omnigraph("load", "--data", "dump.jsonl.zst", "fresh.omni", cwd=directory, env=warm_spark)
    assert loaded.exit_code == 0, loaded.stderr
    fresh, first = (contents(parse_location(str(directory / name))) for name in ("fresh.omni", "graph.omni"))
    assert fresh == first

    shown = omnigraph("export", "fresh.omni", "--type", "Knows", cwd=directory, env=warm_spark)
    assert shown.exit_code == 0
    assert shown.stdout == (
        '{"edge":"Knows","from":"person-1","to":"person-2","data":{"id":"e","since":"1843-01-01"}}\n'
    )
    assert shown.stderr.splitlines()[-1].startswith("exported 1 entities of commit ")


@pytest.mark.parametrize(
    ("kind", "files", "text"),
    [
        (TargetKind.STREAM, 0, ""),
        (TargetKind.FILE, 1, " to there"),
        (TargetKind.FOLDER, 1, " as 1 file in the directory there"),
        (TargetKind.FOLDER, 3, " as 3 files in the directory there"),
    ],
)
def test_summary_names_the_target(kind: TargetKind, files: int, text: str) -> None:
    result = ExportResult(
        counts={}, commit=CommitId("01"), files=("x",) * files, size_bytes=0, kind=kind, format=ExportFormat.PARQUET
    )
    assert describe_target("there", result) == text


def test_closed_pipe_is_not_reported_as_an_error(full_graph: Path) -> None:
    with subprocess.Popen(
        [OMNIGRAPH, "export", "graph.omni", "-q"],
        cwd=full_graph.parent,
        env=environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"type":"Person","data":{"id":"person-0"')
        process.stdout.close()
        stderr = process.stderr.read()
        assert process.wait(SECONDS_MAX) == BROKEN_PIPE_EXIT_CODE
    assert stderr == b""


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("--type", "Persn", "--out", "x.jsonl"), 1, "unknown type 'Persn'"),
        (("--commit", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--out", "x.jsonl"), 1, "branch 'main' has no commit"),
        (("--branch", "nowhere", "--out", "x.jsonl"), 1, "no branch 'nowhere'"),
        (("--format", "xml", "--out", "x.xml"), 2, "unknown export format: 'xml'"),
        (("--format", "parquet"), 2, "Parquet is written to files"),
        (("--out", "x.parquet"), 2, "does not match the format"),
        (("--out", "x.csv"), 2, "expected .jsonl, got .csv"),
        (("--json",), 2, "`--json` and the data cannot both be written to stdout"),
        (("--out", "schema.pg"), 3, "schema.pg' already exists"),
        (("--out", "."), 3, "contains other files"),
        (("--out", "no/x.jsonl"), 2, "missing directory"),
        (("--as", "ada"), 2, "it creates no commit"),
    ],
)
def test_invalid_calls_fail_before_spark_starts(
    graph: Path, arguments: tuple[str, ...], exit_code: int, message: str
) -> None:
    outcome = run_in_process("export", *arguments, "graph.omni", cwd=graph.parent)
    assert (outcome.exit_code, message in outcome.stderr) == (exit_code, True), outcome.stderr
    assert "hint" in outcome.stderr
    assert not (graph.parent / "x.jsonl").exists()
