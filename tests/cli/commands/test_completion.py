"""`omnigraph completion`: the scripts complete commands, flags and files in a real shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.process import run_in_process

COMPLETE = """\
source /dev/stdin
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
_omnigraph
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["opt"], ["optimize"]),
        (["branch", "c"], ["create"]),
        (["branch", "merge", "--dr"], ["--dry-run"]),
        (["embed", "--al"], ["--all"]),
        (["load", "--data", "peo"], ["people one.jsonl", "people.jsonl"]),
        (["load", "--data", ""], ["people one.jsonl", "people.jsonl"]),
    ],
    ids=" ".join,
)
def test_bash_completes(words: list[str], expected: list[str], tmp_path: Path) -> None:
    for name in ("people one.jsonl", "people.jsonl"):
        (tmp_path / name).touch()
    script = run_in_process("completion", "bash", cwd=tmp_path).stdout
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE, "bash", "omnigraph", *words],
        cwd=tmp_path,
        input=script,
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(done.stdout.splitlines()) == expected, done.stderr
