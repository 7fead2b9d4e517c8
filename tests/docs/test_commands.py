"""Every command in the user documents is run and prints the output that they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.console import Command, is_as_documented, normalise, read_commands, run_commands
from tests.docs.markdown import DOCUMENTS, ROOT

_CELLS = Path("docs/user/spark.md")
"""The Python of this document is one notebook, which tests/pipeline/source_scenario.py runs."""

FOR_USERS = [path for path in DOCUMENTS if path.name == "README.md" or path.parts[:2] == ("docs", "user")]


@pytest.mark.parametrize("document", FOR_USERS, ids=str)
def test_commands_print_what_the_document_shows(document: Path, tmp_path: Path) -> None:
    text = (ROOT / document).read_text()
    commands = read_commands(text.replace("```python", "```py") if document == _CELLS else text)
    check_commands(commands, tmp_path)


def check_commands(commands: list[Command], directory: Path) -> None:
    outcomes = run_commands(commands, directory)
    assert len(outcomes) == len(commands), f"the shell stopped at: {commands[len(outcomes)].typed}"
    following = [*(command.typed for command in commands), ""][1:]
    for command, outcome, after in zip(commands, outcomes, following, strict=True):
        printed = normalise(outcome.printed, directory)
        assert outcome.exit_code == 0 or after == "echo $?", f"$ {command.typed}\n{printed}"
        assert is_as_documented(command, outcome, directory), (
            f"$ {command.typed}\n{normalise(command.printed, directory)}\n--- actual output\n{printed}"
        )


GOOD = """
```text file=names.txt
ann
bob
```
```console
$ cat names.txt
ann
bob
$ word=two; printf '%s\\n' \\
> one $word
one
two
$ seq 9
1
...
9
$ false
$ echo $?
1
$ echo 01JAX9Z7ZZZZZZZZZZZZZZZZZZ in 3.2 s
01BX5ZZKBKACTAV9WEVGEMMVRZ in 15 ms
```
```python
assert og.__version__ == omnigraph.__version__
```
"""


def test_correct_document_passes(tmp_path: Path) -> None:
    check_commands(read_commands(GOOD), tmp_path)


@pytest.mark.parametrize("wrong", ["$ echo one\ntwo", "$ false", "$ exit 3\n$ true", "$ seq 3\n1\n...\n2"])
def test_wrong_document_fails(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check_commands(read_commands(f"```console\n{wrong}\n```\n"), tmp_path)


def test_python_that_raises_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="nonsense"):
        check_commands(read_commands("```python\nog.nonsense\n```\n"), tmp_path)
