"""The reference of the command line is up to date, and it names every command and flag."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import typer

from omnigraph.cli.app import make_command
from tests.docs.markdown import ROOT

REFERENCE = ROOT / "docs" / "user" / "cli.md"


def test_every_command_and_flag_is_in_the_reference() -> None:
    words = set(_words("omnigraph", make_command()))
    text = REFERENCE.read_text()
    assert sorted(word for word in words if word not in text) == []


def test_reference_is_up_to_date() -> None:
    generate = [sys.executable, "-m", "docs._gen.cli_reference"]
    generated = subprocess.run(generate, capture_output=True, text=True, check=True).stdout
    assert REFERENCE.read_text() == generated, "run: make reference"


def test_rows_of_a_table_have_as_many_cells_as_its_header() -> None:
    count = 0
    for line in REFERENCE.read_text().splitlines():
        bars = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        count = count or bars
        assert bars in (0, count), line
        count = bars


def test_commands_and_flags_are_found_at_every_depth() -> None:
    app, below = typer.Typer(), typer.Typer()
    app.add_typer(below, name="graph")

    @below.command("list")
    def _list(json: bool = False) -> None: ...

    @app.command("version")
    def _version() -> None: ...

    words = set(_words("omnigraph", typer.main.get_command(app)))
    assert words >= {"omnigraph graph", "omnigraph graph list", "omnigraph version", "--json"}


def _words(name: str, command: Any) -> Iterator[str]:
    """Yield the full name of a command, its flags, and those of its subcommands."""
    yield name
    for parameter in command.params:
        yield from (flag for flag in (*parameter.opts, *parameter.secondary_opts) if flag.startswith("--"))
    for below, child in getattr(command, "commands", {}).items():
        yield from _words(f"{name} {below}", child)
