"""Invalid locations of a graph: one error with a hint, the exit code, and nothing is changed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from omnigraph.cli.app import make_command
from tests.cli.process import CommandResult, assert_golden, omnigraph, run_in_process, tree

MANIFEST = "graph.omni/__manifest"


def _nothing(_: Path) -> None:
    pass


def _empty_directory(directory: Path) -> None:
    (directory / "other").mkdir()


def _directory_with_files(directory: Path) -> None:
    (directory / "other").mkdir()
    for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
        (directory / "other" / name).write_text("mine")


def _file(directory: Path) -> None:
    (directory / "other").write_text("mine")


def _plain_dataset(directory: Path) -> None:
    import pyarrow as pa

    lance.write_dataset(pa.table({"a": [1]}), directory / "other" / "__manifest")


def _stamp(value: str) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        lance.dataset(directory / MANIFEST).update_schema_metadata({"omnigraph:internal_schema_version": value})

    return change


def _schema_hash(directory: Path) -> None:
    lance.dataset(directory / MANIFEST).update(
        {"metadata": 'regexp_replace(metadata, \'"hash":"..\', \'"hash":"00\')'}, "object_id = 'schema'"
    )


def _no_main(directory: Path) -> None:
    lance.dataset(directory / MANIFEST).delete("object_id = 'branch:main'")


def _truncate(pattern: str, size: int) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        for path in (directory / MANIFEST).glob(pattern):
            path.write_bytes(path.read_bytes()[:size])

    return change


def _overwrite(pattern: str) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        for path in (directory / MANIFEST).glob(pattern):
            path.write_bytes(bytes(byte ^ 0xFF for byte in path.read_bytes()))

    return change


def _remove(pattern: str) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        for path in (directory / MANIFEST).glob(pattern):
            path.unlink()

    return change


READS: dict[str, tuple[Callable[[Path], None], str, int]] = {
    "missing": (_nothing, "other", 1),
    "empty_directory": (_empty_directory, "other", 1),
    "directory_with_files": (_directory_with_files, "other", 1),
    "file": (_file, "other", 1),
    "below_a_file": (_file, "other/graph.omni", 1),
    "plain_lance_dataset": (_plain_dataset, "other", 1),
    "newer_stamp": (_stamp("2"), "graph.omni", 1),
    "older_stamp": (_stamp("0"), "graph.omni", 1),
    "strange_stamp": (_stamp("one"), "graph.omni", 1),
    "altered_schema": (_schema_hash, "graph.omni", 1),
    "no_main": (_no_main, "graph.omni", 1),
    "empty_version_file": (_truncate("_versions/*.manifest", 0), "graph.omni", 1),
    "truncated_version_file": (_truncate("_versions/*.manifest", 40), "graph.omni", 1),
    "corrupt_version_file": (_overwrite("_versions/*.manifest"), "graph.omni", 1),
    "empty_data_file": (_truncate("data/*.lance", 0), "graph.omni", 1),
    "truncated_data_file": (_truncate("data/*.lance", 500), "graph.omni", 1),
    "corrupt_data_file": (_overwrite("data/*.lance"), "graph.omni", 1),
    "missing_version_files": (_remove("_versions/*.manifest"), "graph.omni", 1),
    "missing_data_file": (_remove("data/*.lance"), "graph.omni", 1),
    "scheme": (_nothing, "gs://bucket/graph.omni", 2),
    "server_address": (_nothing, "https://example.test/graph", 2),
    "memory": (_nothing, "memory://a/graph.omni", 2),
    "no_prefix": (_nothing, "s3://bucket", 2),
    "empty_uri": (_nothing, "", 2),
    "root": (_nothing, "/", 2),
    "missing_version": (_nothing, "graph.omni --version 7", 1),
    "missing_branch": (_nothing, "graph.omni --branch nope", 1),
    "missing_commit": (_nothing, "graph.omni --commit 01ARZ3NDEKTSV4RRFFQ69G5FAV", 1),
}

INITS: dict[str, tuple[Callable[[Path], None], str, int]] = {
    "existing_graph": (_nothing, "graph.omni", 1),
    "existing_graph_forced": (_nothing, "graph.omni --force", 1),
    "directory_with_files": (_directory_with_files, "other", 3),
    "file": (_file, "other", 3),
    "below_a_file": (_file, "other/graph.omni", 1),
    "newer_graph": (_stamp("2"), "graph.omni", 1),
    "corrupt_graph": (_overwrite("_versions/*.manifest"), "graph.omni", 1),
    "scheme": (_nothing, "ftp://bucket/graph.omni", 2),
    "server_address": (_nothing, "http://localhost:8080/graphs/a", 2),
}


@pytest.mark.parametrize("name", READS)
def test_error_of_a_read(name: str, graph: Path, update_golden: bool) -> None:
    prepare, arguments, exit_code = READS[name]
    prepare(graph.parent)
    before = tree(graph.parent)
    outcome = run_in_process("snapshot", *(arguments.split() or [""]), cwd=graph.parent)
    assert_golden(f"bad_read_{name}.txt", outcome.transcript(graph.parent), update_golden)
    assert_one_error(outcome, exit_code)
    assert tree(graph.parent) == before


@pytest.mark.parametrize("name", INITS)
def test_error_of_init(name: str, graph: Path, update_golden: bool) -> None:
    prepare, arguments, exit_code = INITS[name]
    prepare(graph.parent)
    before = tree(graph.parent)
    outcome = run_in_process("init", "-q", "--schema", "schema.pg", *arguments.split(), cwd=graph.parent)
    assert_golden(f"bad_init_{name}.txt", outcome.transcript(graph.parent), update_golden)
    assert_one_error(outcome, exit_code)
    assert tree(graph.parent) == before


@pytest.mark.parametrize("command", ["commit list", "schema show", "commit show 01ARZ3NDEKTSV4RRFFQ69G5FAV"])
def test_every_read_has_the_same_error(command: str, graph: Path) -> None:
    _stamp("2")(graph.parent)
    outcome = run_in_process(*command.split(), "graph.omni", "--json", cwd=graph.parent)
    assert outcome.exit_code == 1
    document = json.loads(outcome.stdout)
    assert (document["kind"], document["error_code"]) == ("unreadable", "stamp_too_new")
    assert document["error"] in outcome.stderr


@pytest.mark.parametrize(
    "command",
    [
        "branch create review --from main --store",
        "branch delete review --yes --store",
        "branch merge review --store",
        "cleanup --keep 10 --confirm",
        "commit revert HEAD",
        "load --data data.jsonl --mode append",
        "maintain",
        "maintain --confirm",
        "mutate -e 'query m() { delete Person where slug = \"a\" }' --store",
        "optimize",
        "repair --confirm",
        "schema apply --schema schema.pg",
    ],
)
def test_write_to_a_mistyped_path_creates_nothing(command: str, directory: Path) -> None:
    (directory / "data.jsonl").write_text("")
    before = tree(directory)
    outcome = run_in_process(*shlex.split(command), "grpah.omni", cwd=directory)
    assert outcome.exit_code == 1, outcome
    assert "Check the path, or run `omnigraph init --schema schema.pg`" in outcome.stderr
    assert tree(directory) == before


def test_no_permission_to_read(graph: Path) -> None:
    (graph / "__manifest" / "_versions").chmod(0)
    try:
        outcome = omnigraph("snapshot", graph, weak=True)
    finally:
        (graph / "__manifest" / "_versions").chmod(0o755)
    assert_one_error(outcome, 1)
    assert "no permission" in outcome.stderr


def test_no_permission_to_create(directory: Path) -> None:
    locked = directory / "locked"
    locked.mkdir(mode=0o500)
    outcome = omnigraph("init", "-q", "--schema", "schema.pg", "locked/graph.omni", cwd=directory, weak=True)
    assert_one_error(outcome, 1)
    assert outcome.stderr.startswith(f"error: no permission to write at {locked}/graph.omni\n")
    assert list(locked.iterdir()) == []


@pytest.mark.parametrize("command", ["snapshot", "init --schema schema.pg -q"])
def test_missing_bucket(command: str, directory: Path, s3_env: dict[str, str]) -> None:
    outcome = omnigraph(*command.split(), "s3://no-such-bucket/graph.omni", cwd=directory, env=s3_env)
    assert_one_error(outcome, 1)
    assert "bucket" in outcome.stderr


def test_store_that_does_not_answer(directory: Path, s3_env: dict[str, str]) -> None:
    unreachable = {**s3_env, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    outcome = omnigraph("snapshot", "s3://bucket/graph.omni", cwd=directory, env=unreachable)
    assert_one_error(outcome, 1)
    assert "did not answer" in outcome.stderr


def test_every_command_requires_one_graph(directory: Path) -> None:
    commands = make_command().commands
    assert {"init", "snapshot", "schema", "commit"} < set(commands)
    for command in ("init --schema schema.pg", "snapshot", "schema show", "commit list", "commit show 01"):
        outcome = run_in_process(*command.split(), cwd=directory)
        assert_one_error(outcome, 2)
        assert "missing graph: " in outcome.stderr
        outcome = run_in_process(*command.split(), "a.omni", "--store", "b.omni", cwd=directory)
        assert_one_error(outcome, 2)
        assert "expected one graph, got " in outcome.stderr


def assert_one_error(outcome: CommandResult, exit_code: int) -> None:
    """Assert that stderr has one error and one hint, and stdout is empty."""
    assert outcome.exit_code == exit_code, outcome
    assert outcome.stdout == ""
    lines = outcome.stderr.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["error", "hint"], outcome.stderr
    assert all(len(line) < 400 for line in lines)
