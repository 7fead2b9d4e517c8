"""One command: its function, its examples, and the flags that it shares with every other command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperOption

HELP: Final = {"help_option_names": ["--help", "-h"]}


@dataclass(frozen=True, slots=True)
class CommandSource:
    """What a command's file exports. The function's signature is the syntax, its docstring the help."""

    name: str
    run: Callable[..., None]
    examples: tuple[str, ...]


class DirectCommand(TyperCommand):
    """A command with the flags of `omnigraph.cli.flags`. `main` reads them; here they are accepted and explained."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params = [
            *self.params,
            _flag("--quiet", "-q", help="Print no notices on stderr, only errors."),
            _flag("--debug", help="Print the traceback of an error."),
        ]


def build_command(source: CommandSource) -> TyperCommand:
    """The command as Typer runs it."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    epilog = "\b\nExamples:\n" + "\n".join(f"  {example}" for example in source.examples)
    app.command(source.name, cls=DirectCommand, epilog=epilog, context_settings=HELP)(source.run)
    command = typer.main.get_command(app)
    assert isinstance(command, TyperCommand)
    return command


def _flag(*names: str, help: str) -> TyperOption:  # noqa: A002  # Typer's own word
    return TyperOption(param_decls=list(names), is_flag=True, default=False, expose_value=False, help=help)
