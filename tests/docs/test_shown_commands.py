"""Commands that documents show but that no test runs, in examples and in sentences, can be parsed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from omnigraph.base.errors import OmnigraphError
from omnigraph.cli.app import make_command
from omnigraph.cli.errors import explain_usage
from omnigraph.cli.flags import Flags
from tests.docs.markdown import DOCUMENTS, ROOT, blocks, inline_code

ROOT_COMMAND: Final = make_command()
RUN: Final = ("console", "python")
NOT_RUN: Final = {
    "": "the usage and the examples of a command: parsed",
    "sh": "what needs a network, a bucket or a long time: commands of ours in it are parsed",
    "ini": "a unit of systemd",
    "mermaid": "a picture",
    "cypher": "the same task in another database",
    "sql": "the same task in another database",
    "py": "the same task with another library",
    "pycon": "examples of docstrings: run by tests/api/test_examples.py",
    "pg": "parts of schemas: built by tests/cli/test_documented_schemas.py",
}


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing `--log-file FILE` opens the file."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_commands_can_be_parsed(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # parsing `--log-file` creates the file
    assert list(_find_errors((ROOT / document).read_text())) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_block_has_a_tested_language(document: Path) -> None:
    """Indented blocks too: no test reads a block of another language."""
    openings = re.findall(r"^ *```([^`\n]*)\n(?:.*\n)*?^ *```$", (ROOT / document).read_text(), re.MULTILINE)
    assert {language for language in openings if "file=" not in language} - {*RUN, *NOT_RUN} == set()


def test_invalid_commands_are_reported() -> None:
    text = """
```sh
omnigraph snapshot g.omni --brnch main
omnigraph commit list g.omni --limit none   # a comment
omnigraph snapshot g.omni
```
`omnigraph optimise`, `omnigraph commit lst`, `omnigraph load --modes merge …`,
`omnigraph load --mode merge …`, `omnigraph`
"""
    errors = list(_find_errors(text))
    assert [error.partition(":")[0] for error in errors] == [
        "omnigraph snapshot g.omni --brnch main",
        "omnigraph commit list g.omni --limit none   # a comment",
        "omnigraph optimise",
        "omnigraph commit lst",
        "omnigraph load --modes merge …",
    ]


def _find_errors(text: str) -> Iterator[str]:
    for block in blocks(text):
        if block.language in ("", "sh"):
            for line in block.text.splitlines():
                if line.startswith("omnigraph ") and "[OPTIONS]" not in line:
                    yield from (f"{line}: {problem}" for problem in _parse_errors(line))
    for words in inline_code(text):
        if words.startswith("omnigraph "):
            yield from (f"{words}: {problem}" for problem in _find_unknown_words(words.split()[1:]))


def _parse_errors(line: str) -> Iterator[str]:
    """Yield the error of parsing the line. The command is not run."""
    context: Any = ROOT_COMMAND.make_context("omnigraph", ["version"], obj=Flags())
    arguments, command = shlex.split(line, comments=True)[1:], ROOT_COMMAND
    try:
        while hasattr(command, "commands"):
            name, command, arguments = command.resolve_command(context, arguments)
            context = typer.Context(command, info_name=name, parent=context, obj=Flags())
        command.parse_args(context, arguments)
    except typer.TyperException as error:
        yield explain_usage(error).message
    except OmnigraphError as error:
        yield error.message
    finally:
        context.close()


def _find_unknown_words(words: list[str]) -> Iterator[str]:
    """Yield the first unknown command, or the flags that the command does not have."""
    command: Any = ROOT_COMMAND
    while hasattr(command, "commands") and words and re.fullmatch(r"[a-z]+", words[0]):
        if words[0] not in command.commands:
            yield words[0]
            return
        command, words = command.commands[words[0]], words[1:]
    flags = {"--help", *(name for parameter in command.params for name in parameter.opts)}
    yield from (word for word in words if word.startswith("--") and word not in flags)
