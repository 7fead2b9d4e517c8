"""`omnigraph load` on a real local Spark: one commit, or every error with its line and nothing written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.base.failpoints import Failpoint
from omnigraph.cli.commands.load import index_messages, split_data
from omnigraph.maintenance.indexed_load import LoadResult
from tests.cli.process import OMNIGRAPH, CommandResult, environment, omnigraph, run_in_process, tree
from tests.waiting import SECONDS_MAX, wait_until

pytestmark = pytest.mark.xdist_group("spark")

GOOD = [
    {"type": "Person", "data": {"slug": "ada", "age": 36}},
    {"type": "Person", "data": {"slug": "grace"}},
    {"edge": "Knows", "from": "ada", "to": "grace", "data": {"since": "1843-01-01"}},
]
NOWHERE = (
    "no branch 'nowhere'\n"
    "hint: Pass one of the existing branches: main. To create the branch first, pass `--from BASE`."
)


def write(directory: Path, name: str, *records: object) -> None:
    (directory / name).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def test_valid_load_creates_one_commit_and_invalid_load_none(graph: Path, warm_spark: dict[str, str]) -> None:
    directory = graph.parent
    write(directory, "good.jsonl", *GOOD)
    done = omnigraph(
        "load", "--data", "good.jsonl", "graph.omni", "--json", "--as", "ada", cwd=directory, env=warm_spark
    )
    assert (done.exit_code, done.stderr.splitlines()[0]) == (0, f"omnigraph load → {graph.resolve()} (direct, local)")
    document = json.loads(done.stdout)
    none = {"replaced": 0, "unchanged": 0, "deleted": 0, "inserted_without_key": 0}
    assert document["nodes"] == [{"name": "Person", "entities_loaded": 2, "inserted": 2, **none}]
    assert document["edges"] == [{"name": "Knows", "entities_loaded": 1, "inserted": 1, **none}]
    assert (document["total_entities"], document["actor_id"]) == (3, "ada")
    head = json.loads(run_in_process("snapshot", "graph.omni", "--json", cwd=directory).stdout)["graph_commit_id"]
    assert document["commit"]["graph_commit_id"] == head
    assert {table["table_key"] for table in document["commit"]["tables"]} == {"node:Person", "edge:Knows"}

    write(directory, "bad.jsonl", *GOOD, {"edge": "Knows", "from": "ada", "to": "missing"}, {"type": "Person"})
    before = tree(graph)
    arguments = ("--mode", "merge", "--errors", "errors.jsonl")
    refused = omnigraph("load", "--data", "bad.jsonl", *arguments, "graph.omni", cwd=directory, env=warm_spark)
    assert refused.exit_code == 1
    assert "bad.jsonl:4" in refused.stderr
    assert "bad.jsonl:5" in refused.stderr
    assert "missing" in refused.stderr
    assert "Traceback" not in refused.stderr
    errors = [json.loads(line) for line in (directory / "errors.jsonl").read_text().splitlines()]
    assert [(error["line"], error["property"]) for error in errors] == [(4, "to"), (5, "slug")]
    assert {name for name in tree(graph) if "__locks" not in name} == {name for name in before if "__locks" not in name}


def test_parquet_and_csv_are_loaded_as_the_named_type(graph: Path) -> None:
    directory = graph.parent
    pq.write_table(pa.table({"slug": ["ada", "grace"], "age": [36, None]}), directory / "people.parquet")
    (directory / "more.csv").write_text("slug,age\nmary,90\n", encoding="utf-8")
    data = ("--data", "people.parquet", "--data", "more.csv")
    done = omnigraph("load", *data, "--type", "Person", "--with-indexes", "graph.omni", cwd=directory)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.splitlines()[-3].startswith("loaded 3 entities at commit ")
    assert done.stderr.splitlines()[-2:] == ["Person: 3 inserted", "built 2 indexes"]
    commits = json.loads(run_in_process("commit", "list", "graph.omni", "--json", cwd=directory).stdout)
    assert [commit["operation"] for commit in commits["commits"]][:2] == ["ensure_indices", "load"]


def test_message_names_the_command_that_builds_the_indexes() -> None:
    counts = {"node:Person": 1}
    outcome = LoadResult(branch="main", mode="append", counts=counts, actor="ada", commit=None, unindexed=tuple(counts))
    assert list(index_messages(("my graph.omni",), "import/1", outcome)) == [
        "the indexes of Person do not cover the new rows yet: run "
        "`omnigraph optimize 'my graph.omni' --branch import/1`, or load with --with-indexes next time"
    ]


def test_rejected_load_creates_no_branch(directory: Path) -> None:
    run_in_process("init", "--schema", "schema.pg", "graph.omni", cwd=directory)
    write(directory, "good.jsonl", *GOOD)
    write(directory, "bad.jsonl", *GOOD, {"edge": "Knows", "from": "ada", "to": "missing"})
    arguments = ("--branch", "import/1", "--from", "main", "graph.omni", "--json", "--quiet")
    for mode in ("append", "merge"):
        refused = omnigraph("load", "--data", "bad.jsonl", "--mode", mode, *arguments, cwd=directory)
        assert json.loads(refused.stdout)["error_code"] == "load_rejected"
        listed = json.loads(run_in_process("branch", "list", "graph.omni", "--json", cwd=directory).stdout)
        assert listed["branches"] == ["main"]
    done = json.loads(omnigraph("load", "--data", "good.jsonl", *arguments, cwd=directory).stdout)
    assert (done["branch_created"], done["total_entities"]) == (True, 3)
    snapshot = json.loads(
        run_in_process("snapshot", "graph.omni", "--branch", "import/1", "--json", cwd=directory).stdout
    )
    assert snapshot["graph_commit_id"] == done["commit"]["graph_commit_id"]


def test_failed_index_build_reports_the_load_as_applied(directory: Path) -> None:
    run_in_process("init", "--schema", "schema.pg", "graph.omni", cwd=directory)
    write(directory, "good.jsonl", *GOOD)
    env = {"OMNIGRAPH_FAILPOINTS": f"{Failpoint.INDEX_BEFORE}=raise"}
    arguments = ("--with-indexes", "--branch", "b", "--from", "main", "graph.omni", "--json", "--quiet")
    done = omnigraph("load", "--data", "good.jsonl", *arguments, cwd=directory, env=env)
    assert done.exit_code == 1
    error = json.loads(done.stdout or done.stderr)
    assert (error["error_code"], error["applied"]) == ("load_unindexed", "yes")
    assert error["hint"] == "Do not load again. Run `omnigraph optimize graph.omni --branch b` to build the indexes."
    listed = run_in_process("commit", "list", "graph.omni", "--branch", "b", "--json", cwd=directory)
    commits = json.loads(listed.stdout)["commits"]
    assert (error["graph_commit_id"], "load") in {
        (commit["graph_commit_id"], commit["operation"]) for commit in commits
    }


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("--data", "none.jsonl"), 2, "no data file at 'none.jsonl'"),
        (("--data", "schema.pg"), 2, "unknown data format of 'schema.pg'"),
        (("--data", "good.jsonl", "--mode", "replace"), 2, "unknown load mode: 'replace'"),
        (("--data", "good.jsonl", "--branch", "nowhere"), 1, NOWHERE),
        (("--data", "good.jsonl", "--from", "main"), 2, "no branch to create from 'main': the load writes to main"),
        (("--data", "good.jsonl", "--type", "Person"), 2, "in which every line names its type"),
        (("--data", "good.csv"), 2, "missing type: 'good.csv' is csv"),
        (("--data", "good.csv", "--type", "Persn"), 1, "unknown type 'Persn': did you mean 'Person'?"),
        (("--data", "good.csv", "--type", "Person", "--branch", "nowhere"), 1, NOWHERE),
        (("--data", "good.csv", "--type", "Knows"), 1, "no column of the header of 'good.csv' belongs to Knows"),
        (("--data", "bad.parquet", "--type", "Person"), 1, "'bad.parquet' is not readable as parquet"),
        (("--data", "good.csv", "--type", "Person", "--type", "Knows"), 2, "duplicate --type: expected one type, got"),
        (("--data", "Person=good.csv", "--type", "Person"), 2, "unexpected `--type Person`: each --data names its"),
        (("--data", "Persn=good.csv"), 1, "unknown type 'Persn': did you mean 'Person'?"),
        (("--data", "Person=good.csv", "--data", "good.csv", "--type", "Company"), 2, "got Person and Company"),
        (("--data", "-", "--data", "Person=-"), 2, "duplicate `--data -`"),
        (("--data", "Person=good.jsonl"), 2, "Nothing was written. Write `--data good.jsonl`."),
        (("--data", "Person=good.*l"), 2, "Write `--data 'good.*l'`."),
        (("--data", "Person="), 2, "missing path in `--data Person=`: expected TYPE=PATH"),
        ((), 2, "missing option '--data'\nhint: Pass it, as in `omnigraph load --data people.jsonl graph.omni`."),
    ],
)
def test_invalid_calls_fail_before_spark_starts(
    graph: Path, arguments: tuple[str, ...], exit_code: int, message: str
) -> None:
    write(graph.parent, "good.jsonl", *GOOD)
    (graph.parent / "schema.pg").write_text("", encoding="utf-8")
    (graph.parent / "good.csv").write_text("slug,age\nada,36\n", encoding="utf-8")
    (graph.parent / "bad.parquet").write_text("slug,age\nada,36\n", encoding="utf-8")
    outcome: CommandResult = run_in_process("load", *arguments, "graph.omni", cwd=graph.parent)
    assert (outcome.exit_code, message in outcome.stderr) == (exit_code, True), outcome.stderr
    assert "hint" in outcome.stderr


def test_overwrite_of_a_remote_target_requires_yes() -> None:
    directory = Path.cwd()
    outcome = run_in_process("load", "--data", "x.jsonl", "--mode", "overwrite", "s3://bucket/graph", cwd=directory)
    assert outcome.exit_code == 3
    assert "Pass `--yes`" in outcome.stderr


def test_overwrite_without_rows_of_a_named_type_empties_it(directory: Path) -> None:
    write(directory, "good.jsonl", *GOOD)
    (directory / "knows.csv").write_bytes(b"")
    assert run_in_process("init", "--quiet", "--schema", "schema.pg", "graph.omni", cwd=directory).exit_code == 0
    assert run_in_process("load", "--data", "good.jsonl", "graph.omni", cwd=directory).exit_code == 0
    arguments = ("--data", "Knows=knows.csv", "--mode", "overwrite", "graph.omni")
    expected = run_in_process("load", *arguments, "--dry-run", cwd=directory)
    assert expected.stderr.splitlines()[1:] == [
        "checked 0 entities (runner: local)",
        "Knows: 0 to insert, 1 to delete",
        "the data has no row of Knows, so the overwrite would delete all rows of this type",
    ]
    emptied = run_in_process("load", *arguments, cwd=directory)
    assert emptied.stderr.splitlines()[2:4] == [
        "Knows: 0 inserted, 1 deleted",
        "the data has no row of Knows, so the overwrite deleted all rows of this type",
    ]


def test_several_types_are_one_commit(directory: Path) -> None:
    run_in_process("init", "--schema", "schema.pg", "graph.omni", cwd=directory)
    pq.write_table(pa.table({"slug": ["ada", "grace"], "age": [36, None]}), directory / "people.parquet")
    (directory / "knows.csv").write_text("from,to,since\nada,grace,1843-01-01\n", encoding="utf-8")
    write(directory, "more.jsonl", {"type": "Company", "data": {"name": "acme"}})
    data = ("--data", "Person=people.parquet", "--data", "edge:Knows=knows.csv", "--data", "more.jsonl")
    done = run_in_process("load", *data, "graph.omni", "--json", cwd=directory)
    document = json.loads(done.stdout)
    assert [(each["name"], each["entities_loaded"]) for each in document["nodes"]] == [("Person", 2), ("Company", 1)]
    assert [(each["name"], each["entities_loaded"]) for each in document["edges"]] == [("Knows", 1)]
    commits = json.loads(run_in_process("commit", "list", "graph.omni", "--json", cwd=directory).stdout)
    assert len(commits["commits"]) == 2


def test_exported_parquet_is_loaded_without_types(directory: Path) -> None:
    run_in_process("init", "--schema", "schema.pg", "graph.omni", cwd=directory)
    write(directory, "good.jsonl", *GOOD)
    run_in_process("load", "--data", "good.jsonl", "graph.omni", cwd=directory)
    run_in_process("export", "graph.omni", "--format", "parquet", "--out", "dump", cwd=directory)
    run_in_process("init", "--schema", "schema.pg", "copy.omni", cwd=directory)
    done = run_in_process("load", "--data", "dump", "copy.omni", cwd=directory)
    assert done.exit_code == 0, done.stderr
    for name in ("graph", "copy"):
        run_in_process("export", f"{name}.omni", "--out", f"{name}.jsonl", cwd=directory)
    assert (directory / "copy.jsonl").read_bytes() == (directory / "graph.jsonl").read_bytes() != b""


def test_a_load_without_rows_says_that_it_created_no_commit(directory: Path) -> None:
    run_in_process("init", "--schema", "schema.pg", "graph.omni", cwd=directory)
    write(directory, "empty.jsonl")
    texts = [
        omnigraph("load", "--data", "empty.jsonl", "graph.omni", *flags, cwd=directory).stderr.splitlines()[-1]
        for flags in ((), ("--dry-run",))
    ]
    assert texts == ["loaded 0 entities; no commit was created (runner: local)", "checked 0 entities (runner: local)"]


def test_standard_input_is_read(directory: Path) -> None:
    run_in_process("init", "--schema", "schema.pg", "graph.omni", cwd=directory)
    arguments = [OMNIGRAPH, "load", "--data", "-", "graph.omni", "--quiet"]
    outcomes = []
    for records in ([*GOOD, {"type": "Person"}], GOOD):
        text = "".join(json.dumps(record) + "\n" for record in records)
        done = subprocess.run(
            arguments, cwd=directory, input=text, text=True, capture_output=True, timeout=SECONDS_MAX, check=False
        )
        outcomes.append((done.returncode, done.stderr))
    assert "<stdin>:4: V101 slug: a value is required" in outcomes[0][1]
    assert outcomes[1] == (0, "")


@pytest.mark.parametrize(
    ("data", "text", "is_hinted"),
    [
        ("-", "slug\nada,1\n", True),
        ("Person=-", "slug\nada,1\n", False),
        ("-", '{"type":"Person","data":{"slug":"ada"}}\n{bad\n', False),
    ],
)
def test_csv_of_standard_input_without_a_type_gets_a_hint(
    directory: Path, data: str, text: str, is_hinted: bool
) -> None:
    run_in_process("init", "--schema", "schema.pg", "graph.omni", cwd=directory)
    done = subprocess.run(
        [OMNIGRAPH, "load", "--data", data, "graph.omni", "--quiet"],
        cwd=directory,
        input=text,
        text=True,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 1
    assert ("or pass `--type TYPE` if all rows are of one type" in done.stderr) == is_hinted, done.stderr


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Person=people.csv", ("Person", "people.csv")),
        ("node:Person=a=b.csv", ("node:Person", "a=b.csv")),
        ("Person=-", ("Person", "-")),
        ("people.csv", (None, "people.csv")),
        ("./Person=people.csv", (None, "./Person=people.csv")),
        ("year=2024/people.csv", (None, "year=2024/people.csv")),
        ("year=2025/people.csv", ("year", "2025/people.csv")),
        ("s3://bucket/year=2024/x.csv", (None, "s3://bucket/year=2024/x.csv")),
        ("Person=", (None, "Person=")),
    ],
)
def test_data_names_a_type_unless_the_directory_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, parts: tuple[str | None, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "year=2024").mkdir()
    assert split_data(text) == parts


@pytest.mark.parametrize("runner", ["local", "spark"])
def test_a_merge_reports_what_it_did_with_the_rows_of_each_type(
    graph: Path, warm_spark: dict[str, str], runner: str
) -> None:
    directory = graph.parent
    write(directory, "good.jsonl", *GOOD)
    write(directory, "again.jsonl", {"type": "Person", "data": {"slug": "ada", "age": 37}}, *GOOD[1:])
    arguments = ("--mode", "merge", "--runner", runner, "graph.omni")
    first = omnigraph("load", "--data", "good.jsonl", *arguments, cwd=directory, env=warm_spark)
    assert first.stderr.splitlines()[2:4] == ["Person: 2 inserted", "Knows: 1 inserted"]
    expected = omnigraph("load", "--dry-run", "--data", "again.jsonl", *arguments, cwd=directory, env=warm_spark)
    assert expected.stderr.splitlines()[2:5] == [
        "Person: 0 to insert, 1 to replace, 1 unchanged",
        "Knows: 1 to insert",
        "Knows has no key, so the merge would add 1 row to the existing ones, and adds them again each time: "
        "declare a @key, or give each row an id",
    ]
    again = omnigraph("load", "--data", "again.jsonl", *arguments, cwd=directory, env=warm_spark)
    assert again.stderr.splitlines()[2:5] == [
        "Person: 0 inserted, 1 replaced, 1 unchanged",
        "Knows: 1 inserted",
        "Knows has no key, so the merge added 1 row to the existing ones, and adds them again each time: "
        "declare a @key, or give each row an id",
    ]


@pytest.mark.parametrize(
    ("runner", "number", "point", "note"),
    [
        ("local", signal.SIGINT, Failpoint.FORK_BEFORE, ": nothing was written"),
        pytest.param("spark", signal.SIGINT, Failpoint.FORK_BEFORE, ": nothing was written", marks=pytest.mark.soak),
        ("local", signal.SIGTERM, Failpoint.FORK_BEFORE, ": nothing was written"),
        (
            "local",
            signal.SIGINT,
            Failpoint.PUBLISH_BEFORE,
            ": the write may have been committed: see `omnigraph commit list`",
        ),
    ],
)
def test_an_interrupted_load_prints_whether_something_was_written(
    directory: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    *,
    runner: str,
    number: signal.Signals,
    point: Failpoint,
    note: str,
) -> None:
    gate = tmp_path / "gate"
    warm: dict[str, str] = request.getfixturevalue("warm_spark") if runner == "spark" else {}
    write(directory, "good.jsonl", *GOOD)
    assert run_in_process("init", "--quiet", "--schema", "schema.pg", "graph.omni", cwd=directory).exit_code == 0
    assert run_in_process("branch", "create", "review", "graph.omni", cwd=directory).exit_code == 0
    with subprocess.Popen(
        [OMNIGRAPH, "load", "--data", "good.jsonl", "--branch", "review", "--runner", runner, "graph.omni"],
        cwd=directory,
        env=environment({"OMNIGRAPH_FAILPOINTS": f"{point}=hold:{gate}", **warm}),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(gate.with_name("gate.reached").exists)
        os.kill(process.pid, number)
        _, stderr = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, stderr.splitlines()[-1]) == (128 + number, f"interrupted{note}")
