"""The output of commands on a terminal, a full disk and closed streams. Control codes of data are escaped."""

from __future__ import annotations

import json
import logging
import os
import pty
import subprocess
import sys
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
import typer

import omnigraph
from omnigraph.api.texts import build_schema, read_schema
from omnigraph.base.clock import format_timestamp
from omnigraph.cli.app import make_command
from omnigraph.cli.main import _prepare_streams, run
from omnigraph.cli.options import LogFile, log_to_file
from omnigraph.cli.output import RowsFormat, write_rows
from omnigraph.graph.create import NewGraph, create_graph
from omnigraph.storage.location import parse_location
from tests.cli.process import OMNIGRAPH, SCHEMA, CommandResult, environment, run_in_process
from tests.waiting import SECONDS_MAX


def test_table_on_a_terminal_is_folded_between_words(graph: Path) -> None:
    text = _run_in_terminal("index", "status", str(graph), columns=80)
    assert "\x1b[1m" in text
    lines = _without_codes(text)
    assert max(len(line) for line in lines) <= 80
    assert "the table has no rows" not in "\n".join(lines)
    assert "uncovered" in lines[0]

    commit = omnigraph.open(str(graph), read_only=True).log()[0]
    lines = _without_codes(_run_in_terminal("commit", "list", str(graph), columns=40))
    assert lines[0].split() == ["commit", "created", "actor", "operation", "version", "tables"]
    assert lines[1].split()[:2] == [commit.id, format_timestamp(commit.created_us)]


def test_full_disk_is_an_error(graph: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        return  # only Linux has it
    with full.open("w") as stdout:
        done = _run("snapshot", str(graph), "--json", stdout=stdout.fileno())
    assert done.returncode == 1
    assert (
        done.stderr
        == b"error: writing to stdout failed: No space left on device\nhint: Redirect stdout to another file.\n"
    )


def test_closed_streams_are_not_an_error(graph: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "{OMNIGRAPH}" snapshot "{graph}" >&- 2>&-'],
        env=environment(),
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_closed_stdin_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands read queries from stdin, and check whether it is a terminal before they ask."""
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    _prepare_streams()
    with sys.stdin as stdin, sys.stdout, sys.stderr:
        assert (stdin.isatty(), stdin.buffer.read()) == (False, b"")


@pytest.mark.parametrize("answer", ["", "n\n", "\n"], ids=["end of the input", "no", "nothing"])
def test_command_without_confirmation_is_cancelled(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = _Terminal()
    monkeypatch.setattr(sys, "stdin", _Terminal(answer))
    monkeypatch.setattr(sys, "stderr", stderr)
    assert run(["branch", "delete", "b", "--store", "s3://bucket/graph.omni"]) == 3
    assert "Continue? [y/N]" in stderr.getvalue()
    assert stderr.getvalue().endswith("cancelled: nothing was changed\n")
    assert "--yes" not in stderr.getvalue()


LANCE_WARNS = """
import atexit, os

def write() -> None:
    import lance, pyarrow
    lance.write_dataset(pyarrow.table({"a": [1]}), os.environ["NEW_DATASET"], mode="overwrite")

atexit.register(write)
from omnigraph.cli.main import main
main()
"""


@pytest.mark.parametrize(("level", "is_shown"), [(None, False), ("warn", True)])
def test_warnings_of_lance_are_shown_on_request(level: str | None, is_shown: bool, tmp_path: Path) -> None:
    """Lance warns of conditions that it handles, such as a missing dataset that it is about to create."""
    env = {**environment(), "NEW_DATASET": str(tmp_path / "new.lance")}
    env |= {} if level is None else {"LANCE_LOG": level}
    command = [sys.executable, "-c", LANCE_WARNS, "version"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert (tmp_path / "new.lance").exists(), done.stderr
    assert ("WARN  lance::" in done.stderr) is is_shown


INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "lance":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from omnigraph.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("command", "left"),
    [
        (("load", "--data", "people.jsonl", "graph.omni"), ": nothing was written"),
        (("mutate", "-e", 'query m() { insert Person { slug: "a" } }', "graph.omni"), ": nothing was written"),
        (("branch", "create", "b", "graph.omni"), ": nothing was written"),
        (("cleanup", "--keep", "1", "graph.omni", "--confirm"), ": run it again to continue"),
        (("maintain", "graph.omni"), ": run it again to continue"),
        (("snapshot", "graph.omni"), ""),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_signal_while_libraries_are_imported(command: tuple[str, ...], left: str, graph: Path, directory: Path) -> None:
    """It arrives before the code that knows what an interrupted operation leaves."""
    (directory / "people.jsonl").write_text('{"type": "Person", "data": {"slug": "ada"}}\n', "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, *command],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, f"interrupted{left}"), done.stderr


def test_signal_at_the_question_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """`main` turns it into the exit code 130 or 143."""
    monkeypatch.setattr(sys, "stdin", _Interrupted())
    monkeypatch.setattr(sys, "stderr", _Terminal())
    with pytest.raises(KeyboardInterrupt):
        run(["branch", "delete", "b", "--store", "s3://bucket/graph.omni"])


def test_control_codes_of_a_schema_are_escaped_on_a_terminal_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = "node P { slug: String @key }  // \t\x1b[2J\r\x9b\r\nedge E: P -> P  // naïve\n"
    omnigraph.init(str(tmp_path / "g"), schema)
    assert run_in_process("schema", "show", "g", cwd=tmp_path).stdout == schema
    stdout = _Terminal()
    monkeypatch.setattr(sys, "stdout", stdout)
    assert run(["schema", "show", str(tmp_path / "g")]) == 0
    assert stdout.getvalue() == schema.replace("\x1b[2J\r\x9b", r"\x1b[2J\r\x9b")


def test_json_on_a_terminal_is_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = omnigraph.init(tmp_path / "g", "node P { slug: String @key }")
    slug = "é\x1b\x7f\x85\x9b"
    graph.mutate("query i($s: String) { insert P { slug: $s } }", params={"s": slug})
    query = ("query", "-e", "query q() { match { $p: P } return { $p.slug } }")
    for command in (query, ("changes", "poll", "--start", "beginning")):
        for form in ("json", "jsonl"):
            stdout = _Terminal()
            monkeypatch.setattr(sys, "stdout", stdout)
            assert run([*command, "--store", graph.uri, "--format", form]) == 0
            shown = stdout.getvalue()
            assert r'"é\u001b\u007f\u0085\u009b"' in shown
            for text in [shown] if form == "json" else shown.splitlines():
                json.loads(text)
    stdout = _Terminal()
    monkeypatch.setattr(sys, "stdout", stdout)
    write_rows({"a": "A"}, [{"a": slug}], RowsFormat.JSONL)
    assert json.loads(stdout.getvalue()) == {"a": slug}


class _Terminal(StringIO):
    """A terminal without input, or with the given answer."""

    def isatty(self) -> bool:
        return True


class _Interrupted(_Terminal):
    """A terminal on which the user presses Ctrl-C."""

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        raise KeyboardInterrupt


def test_log_on_a_full_disk_is_reported_once(graph: Path) -> None:
    if not Path("/dev/full").exists():
        return  # only Linux has it
    done = run_in_process("repair", graph, "--log-file", "/dev/full", "--format", "jsonl", cwd=graph.parent)
    assert (done.exit_code, done.stdout.count("no_drift")) == (0, 3)
    warnings = done.stderr.splitlines()[1:]
    assert warnings == ["warning: the log is incomplete, writing the log file failed: No space left on device"]


def test_log_failure_without_an_error_text_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    log = LogFile(tmp_path / "log.jsonl")
    try:
        raise OSError("the pipe is closed")
    except OSError:
        log.handleError(logging.makeLogRecord({}))
    log.close()
    assert stderr.getvalue() == "warning: the log is incomplete, writing the log file failed: the pipe is closed\n"


def test_notice_is_written_to_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    for more, notice in ((), "no warm Spark server was running\n"), (("--quiet",), ""):
        assert run_in_process("spark", "stop", *more, cwd=tmp_path) == CommandResult("", notice, 0)


def test_no_rows_print_no_lines(graph: Path) -> None:
    for form in ("jsonl", "kv"):
        listed = run_in_process("recovery", "list", graph, "--format", form, cwd=graph.parent)
        assert (listed.exit_code, listed.stdout) == (0, "")


def test_control_codes_of_a_graph_are_escaped(tmp_path: Path) -> None:
    actor = "evé\x1b[2J\nada"
    # Calls reject such a name; a graph of another writer can have it.
    create_graph(parse_location(str(tmp_path / "g")), NewGraph(SCHEMA, build_schema(read_schema(SCHEMA)), actor))
    for form in ("table", "kv"):
        shown = run_in_process("commit", "list", "g", "--format", form, cwd=tmp_path).stdout
        assert r"evé\x1b[2J\nada" in shown
    assert r"evé\x1b[2J\nada" in run_in_process("changes", "poll", "--start", "beginning", "g", cwd=tmp_path).stdout
    assert "evé" in run_in_process("changes", "poll", "--start", "beginning", "g", "--json", cwd=tmp_path).stdout
    missing = run_in_process("snapshot", "g\x1b[2J", cwd=tmp_path)
    assert "\x1b" not in missing.stderr


def _run(*arguments: str, stdout: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [OMNIGRAPH, *arguments],
        env=environment(),
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=SECONDS_MAX,
        check=False,
    )


def _without_codes(text: str) -> list[str]:
    return text.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\r", "").splitlines()


def test_bytes_of_a_blob_are_not_written_to_a_terminal() -> None:
    text = _run_in_terminal("blob", "get", "node", "Person", "ada", "photo", "graph.omni", columns=200, exit_code=2)
    assert "cannot be shown on a terminal" in text
    assert "--out FILE" in text


def _run_in_terminal(*arguments: str, columns: int, exit_code: int = 0) -> str:
    terminal, process_side = pty.openpty()
    env = {key: value for key, value in environment().items() if key != "NO_COLOR"}
    terminal_env = {**env, "TERM": "xterm", "COLUMNS": str(columns)}
    with subprocess.Popen(
        [OMNIGRAPH, *arguments], env=terminal_env, stdout=process_side, stderr=process_side
    ) as process:
        os.close(process_side)
        text = b""
        try:
            while part := os.read(terminal, 65_536):
                text += part
        except OSError:  # Linux raises it when the process closed its side
            pass
    os.close(terminal)
    assert process.returncode == exit_code
    return text.decode()


def test_control_codes_of_a_schema_file_are_escaped_in_errors(tmp_path: Path) -> None:
    """Both in the line that is shown and in the name inside the message."""
    (tmp_path / "schema.pg").write_text("node A { x: \x1b[31mString @key }\n", encoding="utf-8")
    shown = run_in_process("init", "g.omni", "--schema", "schema.pg", "-q", cwd=tmp_path).stderr
    assert "\x1b" not in shown
    line, caret = shown.splitlines()[2:4]
    assert line[caret.index("^")] == "\N{REPLACEMENT CHARACTER}"


def test_log_file_of_load_and_export(graph: Path, directory: Path) -> None:
    (directory / "people.jsonl").write_text('{"type": "Person", "data": {"slug": "ada"}}\n')
    log = ("--log-file", "events.jsonl", "--runner", "local", "-q")
    assert run_in_process("load", "--data", "people.jsonl", "graph.omni", *log, cwd=directory).exit_code == 0
    assert run_in_process("export", "graph.omni", "--out", "out.jsonl", *log, cwd=directory).exit_code == 0
    events = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
    commit = omnigraph.open(str(graph), read_only=True).log()[0].id
    loaded = next(event for event in events if event["event"] == "loaded")
    exported = next(event for event in events if event["event"] == "exported")
    assert (loaded["logger"], loaded["commit"], loaded["rows"]) == ("omnigraph.load", commit, {"node:Person": 1})
    assert (exported["logger"], exported["commit"], exported["rows"]["node:Person"]) == ("omnigraph.export", commit, 1)


def test_log_file_of_a_failed_load(graph: Path, directory: Path) -> None:
    (directory / "people.jsonl").write_text('{"type": "Person", "data": {"age": 1}}\n')
    options = ("--log-file", "events.jsonl", "--runner", "local", "-q")
    done = run_in_process("load", "--data", "people.jsonl", "graph.omni", *options, cwd=directory)
    (failed,) = (json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines())
    assert done.exit_code == 1
    assert (failed["event"], failed["level"], failed["error_code"]) == ("failed", "ERROR", "load_rejected")
    assert "people.jsonl:1" in failed["error"]


def test_log_file_of_an_interrupted_command(tmp_path: Path) -> None:
    context = typer.Context(make_command())
    log = tmp_path / "events.jsonl"
    with suppress(KeyboardInterrupt), context:
        log_to_file(context, str(log))
        raise KeyboardInterrupt
    (interrupted,) = (json.loads(line) for line in log.read_text().splitlines())
    assert (interrupted["event"], interrupted["level"]) == ("interrupted", "ERROR")
