"""One command: its function, its examples, and the flags that it shares with every other command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, Final, get_type_hints

import typer
from typer.core import TyperCommand, TyperOption

HELP: Final = {"help_option_names": ["--help", "-h"]}


@dataclass(frozen=True, slots=True)
class CommandSource:
    """What a command's file exports. The function's signature is the syntax, its docstring the help.

    A parameter whose type is a dataclass stands for the fields of that class, so that commands can share them.
    """

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
    app.command(source.name, cls=DirectCommand, epilog=epilog, context_settings=HELP)(_spread(source.run))
    command = typer.main.get_command(app)
    assert isinstance(command, TyperCommand)
    return command


def _spread(run: Callable[..., None]) -> Callable[..., None]:
    """The function with the fields of dataclasses as parameters of its own, which is all that Typer knows."""
    parameters: list[Parameter] = []
    groups: dict[str, Any] = {}
    hints = get_type_hints(run, include_extras=True)
    for found in signature(run).parameters.values():
        kind = hints[found.name]
        if not is_dataclass(kind):
            parameters.append(found.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind))
            continue
        groups[found.name] = kind
        inside = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            default = Parameter.empty if field.default is MISSING else field.default
            parameters.append(
                Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=inside[field.name])
            )

    def call(**words: Any) -> None:
        made = {
            name: kind(**{field.name: words.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        run(**words, **made)

    call.__doc__ = run.__doc__
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {found.name: found.annotation for found in parameters}
    return call


def _flag(*names: str, help: str) -> TyperOption:  # noqa: A002  # Typer's own word
    return TyperOption(param_decls=list(names), is_flag=True, default=False, expose_value=False, help=help)
