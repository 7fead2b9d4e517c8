"""Invalid arguments are an error with a hint, for every command. Every error kind has an exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.base.errors import ConflictError, ErrorKind, OmnigraphError, Problem, SchemaTextError, UsageError
from omnigraph.cli.app import COMMANDS, CommandFamily, make_command
from omnigraph.cli.errors import exit_code
from tests.cli.process import assert_golden, run_in_process

COMMAND_LINES = {
    "misspelled command": "snapshto g.omni",
    "misspelled below": "commit lst g.omni",
    "old name": "history g.omni",
    "part of a name": "merge review g.omni",
    "planned": "load --data x.jsonl g.omni",
    "no command below": "commit",
    "misspelled flag": "snapshot g.omni --brnch main",
    "unknown flag": "snapshot g.omni --xyzzy",
    "unknown short flag": "snapshot g.omni -x",
    "flag before the command": "--store g.omni snapshot",
    "server": "snapshot --server prod",
    "server with equals": "snapshot --server=prod",
    "cluster": "init --schema s.pg --cluster dir --graph a",
    "graph": "commit list --graph a",
    "graph of log": "log --graph a",
    "cluster graph": "commit list --cluster-graph a",
    "profile": "schema show --profile a",
    "target": "snapshot --target g.omni",
    "actor of a read": "snapshot g.omni --as ada",
    "server for version": "version --server prod",
    "no value": "snapshot g.omni --branch",
    "too many words": "snapshot a b",
    "no schema": "init g.omni",
    "no commit": "commit show",
    "no shell": "completion",
    "two tasks of doctor": "doctor g.omni --fix-location --deep",
    "bad number": "snapshot g.omni --version one",
    "bad number without a range": "cleanup g.omni --keep x",
    "start of a flag": "cleanup g.omni --older 2w",
    "number out of range": "commit list g.omni --limit 0",
    "bad format": "snapshot g.omni --format xml",
    "two formats": "snapshot g.omni --format csv --json",
    "nothing like it below": "branch rename a b",
    "no flag like it": "branch list g.omni --version 2",
    "no format of changes": "diff main b g.omni --format csv",
    "a base without a branch": "load --data x.jsonl --from main g.omni",
    "no name of an actor": "branch create b g.omni --as=",
    "no file of decisions": "branch merge b g.omni --resolve decisions.json",
    "a schema and a time": "lint -e x --schema s.pg --at 2026-05-31T12:00:00Z",
    "two snapshots": "snapshot g.omni --commit 01 --version 1",
    "two sides of a kind": "branch merge b g.omni --strategy orphan_edge=ours --strategy orphan_edge=theirs",
    "stdin twice": "query --query - --params-file - --store g.omni",
    "memory without end": "query -e x --store g.omni --max-memory inf",
    "memory of no number": "mutate -e x --store g.omni --max-memory nan",
    "idle for no number of minutes": "spark start --idle-minutes nan",
    "a directory below a file": "demo --dir /dev/null/demo",
}


def test_invalid_arguments(tmp_path: Path, update_golden: bool) -> None:
    errors = []
    for title, command_line in COMMAND_LINES.items():
        outcome = run_in_process(*command_line.split(), cwd=tmp_path)
        assert outcome.exit_code == 2, outcome
        lines = outcome.stderr.splitlines()
        assert [line.partition(": ")[0] for line in lines] == ["error", "hint"], outcome.stderr
        errors.append(f"{title}\n$ omnigraph {command_line}\n{outcome.stderr}")
        if "--json" not in command_line:
            assert outcome.stdout == ""
    assert_golden("usage.txt", "\n".join(errors), update_golden)


@pytest.mark.parametrize("form", ["--json", "--format=json", "--format json"])
def test_json_writes_the_error_to_stdout_too(form: str, tmp_path: Path) -> None:
    outcome = run_in_process("snapshot", "g.omni", "--xyzzy", *form.split(), cwd=tmp_path)
    document = json.loads(outcome.stdout)
    assert document["kind"] == "bad_request"
    assert f"error: {document['error']}\nhint: {document['hint']}\n" == outcome.stderr


@pytest.mark.parametrize("kind", ErrorKind)
def test_every_kind_has_its_exit_code(kind: ErrorKind) -> None:
    error = OmnigraphError("x", code="x")
    error.kind = kind
    expected = {ErrorKind.BAD_REQUEST: 2, ErrorKind.REFUSED: 3, ErrorKind.PRECONDITION_FAILED: 4}
    assert exit_code(error) == expected.get(kind, 1)


def test_errors_in_a_file_are_not_usage_errors() -> None:
    assert (
        exit_code(
            SchemaTextError(
                (Problem(code="S001", message="x", hint="", source="a.pg", line=1, column=1, length=1, text=""),)
            )
        )
        == 1
    )
    assert exit_code(UsageError("x", code="x")) == 2
    assert exit_code(ConflictError("x", code="x")) == 1


def test_every_command_has_help_and_an_example(tmp_path: Path) -> None:
    for name, _ in _commands("omnigraph", make_command()):
        outcome = run_in_process(*name.split()[1:], "--help", cwd=tmp_path)
        assert outcome.exit_code == 0
        assert f"Usage: {name}" in outcome.stdout
        assert f"Examples:\n    {name}" in outcome.stdout


def test_every_command_and_parameter_has_a_help_text() -> None:
    root = make_command()
    families = {
        f"omnigraph {name}": root.commands[name] for name, entry in COMMANDS.items() if isinstance(entry, CommandFamily)
    }
    named = {**families, **dict(_commands("omnigraph", root))}
    assert {"omnigraph branch", "omnigraph branch merge"} < set(named)
    for name, command in named.items():
        help_texts = {
            name: command.help,
            **{f"{name} {param.name}": getattr(param, "help", None) for param in command.params},
        }
        assert [subject for subject, text in help_texts.items() if not (text or "").strip()] == []


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield name, command
    else:
        for child_name, child in children.items():
            yield from _commands(f"{name} {child_name}", child)
