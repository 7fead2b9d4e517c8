"""Run the ```console blocks of a document, as a reader would type them.

A line that starts with `$ ` is a command, and lines with `> ` directly below it continue it. Other lines are the output
of the command; if none are shown, none are compared, and a line `...` matches any number of lines. A block such as
```pg file=schema.pg is written to that file. A ```python block is run in its order, by a Python that has `omnigraph`,
`og` and, if graph.omni exists, `graph`. All commands of a document run in one shell in one empty directory; a command
that fails is an error of the document unless the next command is `$ echo $?`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.docs.markdown import blocks
from tests.forked import forked_omnigraph
from tests.waiting import SECONDS_MAX

_END: Final = "<<end of command>>"
_BEFORE_PYTHON: Final = """\
import pathlib
import omnigraph
import omnigraph as og
if pathlib.Path("graph.omni").is_dir():
    graph = og.open("graph.omni")
"""
_VARYING: Final = (
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"), "<ulid>"),
    (re.compile(r"\b[0-9a-f]{16,64}\b"), "<hex>"),
    (re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?"), "<time>"),
    (re.compile(r"\b\d+\.\d+\.\d+\b"), "<version>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|m|min|h|d)\b"), "<duration>"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
    (re.compile(r"[ \t]{2,}|[─━-]{3,}"), "  "),  # the width of a column depends on its values
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the output that the document shows; empty if it shows none."""

    typed: str
    printed: str


@dataclass(frozen=True, slots=True)
class ConsoleOutput:
    """The actual output of a command, and its exit code."""

    printed: str
    exit_code: int


def read_commands(text: str) -> list[Command]:
    """Return the commands of a document in order; a block that is a file becomes a command that writes it."""
    commands: list[Command] = []
    for block in blocks(text):
        if block.info.startswith("file="):
            commands.append(Command(f"cat > {block.info[5:]} <<'END OF FILE'\n{block.text}END OF FILE", ""))
        elif block.language == "python":
            commands.append(Command(f"python - <<'END OF PYTHON'\n{_BEFORE_PYTHON}{block.text}END OF PYTHON", ""))
        elif block.language == "console":
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                typed, *printed = part.splitlines()
                while printed and printed[0].startswith(">"):
                    typed += "\n" + printed.pop(0)[2:]
                commands.append(Command(typed, "\n".join(printed)))
    return commands


def run_commands(commands: list[Command], directory: Path) -> list[ConsoleOutput]:
    script = "".join(
        f"{command.typed}\nlast=$?; printf '\\n%s%s\\n' '{_END}' $last; (exit $last)\n" for command in commands
    )
    path = os.pathsep.join([str(Path(forked_omnigraph()).parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    plain = {"PATH": path, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120", "HOME": str(directory)}
    output = subprocess.run(
        ["bash", "-c", script],
        cwd=directory,
        env={**os.environ, **plain},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    ).stdout
    parts = re.split(rf"\n?{_END}(\d+)\n", output)
    return [ConsoleOutput(printed, int(code)) for printed, code in zip(parts[0::2], parts[1::2], strict=False)]


def normalise(text: str, directory: Path) -> str:
    """Return the text with placeholders for values that differ between runs."""
    text = text.replace(str(directory), "<directory>").strip("\n")
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return text


def is_as_documented(command: Command, outcome: ConsoleOutput, directory: Path) -> bool:
    if not command.printed:
        return True
    lines = normalise(command.printed, directory).split("\n")
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + r"\n" for line in lines)
    return re.fullmatch(pattern, normalise(outcome.printed, directory) + "\n") is not None
