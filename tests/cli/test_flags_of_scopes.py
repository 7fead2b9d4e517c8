"""Every flag that selects a graph, with every command that does not have it; every flag that a server cannot use."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.cli.app import make_command
from omnigraph.cli.command import GRAPH_FLAGS, Capability, OmnigraphCommand
from omnigraph.cli.target import FLAGS_OF_STORAGE
from tests.cli.process import run_in_process
from tests.waiting import SECONDS_MAX

FLAGS = {
    Capability.ANY: {*GRAPH_FLAGS},
    Capability.DIRECT: {*GRAPH_FLAGS} - {"--server"},
    Capability.CONTROL: {"--graph", "--cluster"},
    Capability.SERVED: {"--server", "--profile"},
    Capability.LOCAL: set(),
}
ARGUMENTS = {"--branch": ["b"], "--limit": ["1"]}


def _commands() -> Iterator[tuple[str, OmnigraphCommand]]:
    tree: Any = make_command()
    for name, command in tree.commands.items():
        if isinstance(command, OmnigraphCommand):
            yield name, command
        else:
            yield from ((f"{name} {second}", member) for second, member in command.commands.items())


COMMANDS = dict(_commands())


def _required(command: OmnigraphCommand) -> list[str]:
    """Return arguments that Typer requires, before any is checked."""
    words: list[str] = []
    for parameter in command.params:
        if parameter.required:
            value = {"SHELL": "bash", "ENTITY": "node"}.get(parameter.metavar or "", "x")
            words += [value] if parameter.param_type_name == "argument" else [parameter.opts[0], value]
    return words


@pytest.mark.parametrize("name", COMMANDS)
def test_flags_follow_from_the_capability(name: str) -> None:
    command = COMMANDS[name]
    flags = {flag for parameter in command.params for flag in parameter.opts if flag in GRAPH_FLAGS}
    assert flags <= FLAGS[command.capability]
    if command.capability in (Capability.ANY, Capability.DIRECT, Capability.SERVED):
        assert flags == FLAGS[command.capability]


@pytest.mark.parametrize("name", COMMANDS)
def test_other_flags_are_refused(name: str, tmp_path: Path) -> None:
    command = COMMANDS[name]
    own = {flag for parameter in command.params for flag in parameter.opts}
    for flag in set(GRAPH_FLAGS) - own:
        outcome = run_in_process(*name.split(), *_required(command), flag, "x", "--quiet", cwd=tmp_path)
        assert outcome.exit_code == 2, (flag, outcome)
        assert f"`omnigraph {name}` cannot use `{flag}`" in outcome.stderr
        assert "hint: " in outcome.stderr
        if (command.capability, flag) == (Capability.CONTROL, "--cluster"):
            assert "`--config DIR`" in outcome.stderr
        if (command.capability, flag) == (Capability.DIRECT, "--server"):
            assert "`--store URI`" in outcome.stderr
            assert "`--cluster DIR --graph ID`" in outcome.stderr


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if command.capability is Capability.ANY])
def test_flags_that_a_server_cannot_use_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "q.gq").write_text("query q() { match { $p: P } return { $p } }")
    command = COMMANDS[name]
    text = ["-e", "query q() { match { $p: P } return { $p } }"] if any("-e" in p.opts for p in command.params) else []
    for parameter in command.params:
        flag = parameter.opts[0]
        if flag not in FLAGS_OF_STORAGE:
            continue
        values = {"--runner": "local", "--engine": "spark", "--at": "2026-05-31T12:00:00Z"}
        value = [] if getattr(parameter, "is_flag", False) else [values.get(flag, "1")]
        words = [*name.split(), *_required(command), *text, "--server", "http://127.0.0.1:9", flag, *value]
        outcome = run_in_process(*words, "--quiet", cwd=tmp_path)
        assert outcome.exit_code == 2, (flag, outcome)
        assert f"`omnigraph {name}` cannot use `{flag}` with a server" in outcome.stderr
        assert FLAGS_OF_STORAGE[flag] in outcome.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_completion_in_bash(tmp_path: Path) -> None:
    script = run_in_process("completion", "bash", cwd=tmp_path).stdout

    def complete(*words: str) -> list[str]:
        quoted = " ".join(f"'{word}'" for word in words)
        program = f'{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _omnigraph; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run(
            ["bash", "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=SECONDS_MAX
        )
        return done.stdout.split()

    (tmp_path / "graph.omni").mkdir()
    assert complete("omnigraph", "br") == ["branch"]
    assert complete("omnigraph", "branch", "") == ["create", "list", "delete", "merge", "--help"]
    assert complete("omnigraph", "query", "--ser") == ["--server"]
    assert complete("omnigraph", "branch", "merge", "--strat") == ["--strategy"]
    assert complete("omnigraph", "snapshot", "gr") == ["graph.omni"]
    for shell in ("zsh", "fish"):
        assert "omnigraph" in run_in_process("completion", shell, cwd=tmp_path).stdout


def test_version_and_help(tmp_path: Path) -> None:
    assert run_in_process("--version", cwd=tmp_path) == run_in_process("version", cwd=tmp_path)
    assert json.loads(run_in_process("--version", "--json", cwd=tmp_path).stdout)["version"]
    assert run_in_process("help", cwd=tmp_path) == run_in_process("--help", cwd=tmp_path)
    assert run_in_process("help", "branch", "merge", cwd=tmp_path) == run_in_process(
        "branch", "merge", "--help", cwd=tmp_path
    )
