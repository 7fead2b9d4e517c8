"""Builds a Typer command from a function, its examples, and the flags that all commands share. Pure."""

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
    """What the module of a command exports. The function's signature is the syntax, its docstring the help.

    A parameter whose type is a dataclass is replaced by the fields of that class, so that commands can share them.
    """

    name: str
    run: Callable[..., None]
    examples: tuple[str, ...]


class DirectCommand(TyperCommand):
    """A command with the flags of `omnigraph.cli.options.Flags`. `main` reads them; here they get a help text."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params = [
            *self.params,
            _flag("--quiet", "-q", help="Print no notices on stderr, only errors."),
            _flag("--debug", help="Print the traceback of an error."),
        ]


def build_command(source: CommandSource) -> TyperCommand:
    """Return the command that Typer runs."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    epilog = "\b\nExamples:\n" + "\n".join(f"  {example}" for example in source.examples)
    app.command(source.name, cls=DirectCommand, epilog=epilog, context_settings=HELP)(_expand_dataclasses(source.run))
    command = typer.main.get_command(app)
    assert isinstance(command, TyperCommand)
    return command


def _expand_dataclasses(run: Callable[..., None]) -> Callable[..., None]:
    """Return the function with the fields of its dataclasses as parameters: Typer does not support dataclasses."""
    parameters: list[Parameter] = []
    groups: dict[str, Any] = {}
    hints = get_type_hints(run, include_extras=True)
    for parameter in signature(run).parameters.values():
        kind = hints[parameter.name]
        if not is_dataclass(kind):
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind))
            continue
        groups[parameter.name] = kind
        field_types = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            default = Parameter.empty if field.default is MISSING else field.default
            parameters.append(
                Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=field_types[field.name])
            )

    def call(**arguments: Any) -> None:
        instances = {
            name: kind(**{field.name: arguments.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        run(**arguments, **instances)

    call.__doc__ = run.__doc__
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _flag(*names: str, help: str) -> TyperOption:  # noqa: A002  # the name in Typer
    return TyperOption(param_decls=list(names), is_flag=True, default=False, expose_value=False, help=help)
