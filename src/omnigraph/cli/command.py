"""Builds a Typer command from a function, its examples, and the flags that all commands share. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from inspect import Parameter, Signature, signature
from typing import Any, Final, get_type_hints

import typer
from typer.core import TyperCommand, TyperOption

from omnigraph.base.errors import OmnigraphError, UsageError
from omnigraph.cli.errors import PASS_STORAGE, exit_code, show_error

HELP: Final = {"help_option_names": ["--help", "-h"]}
GRAPH_KEY: Final = "omnigraph.graph"
"""Where the context of a command keeps the arguments of its graph, which hints repeat."""


class Capability(Enum):
    """What a command works on. It decides which flags a command rejects, and is shown in the reference."""

    ANY = "a graph in storage, of a cluster or of a server"
    DIRECT = "a graph in storage or of a cluster"
    CONTROL = "the files of a cluster or of a policy"
    SERVED = "a server"
    LOCAL = "this machine"


GRAPH_FLAGS: Final = ("--store", "--server", "--cluster", "--graph", "--profile")
"""The flags that select a graph. What a command works on decides which of them it has."""

_PASS_A_SERVER: Final = "Pass `--server NAME` or `--server URL`."
_PASS_FILES: Final = "Pass `--config DIR`, or the files that `--help` lists."
_UNSUPPORTED_FLAGS: Final = {
    (Capability.DIRECT, "--server"): (
        "it works on storage directly, not through a server",
        PASS_STORAGE,
        "server_unsupported",
    ),
    (Capability.CONTROL, "--server"): ("it works on files", _PASS_FILES, "server_unsupported"),
    (Capability.CONTROL, "--store"): ("it works on files", _PASS_FILES, "store_unsupported"),
    (Capability.SERVED, "--store"): ("it asks a server", _PASS_A_SERVER, "store_unsupported"),
    (Capability.SERVED, "--cluster"): ("it asks a server", _PASS_A_SERVER, "cluster_unsupported"),
    (Capability.CONTROL, "--cluster"): ("it reads the files", "Pass their directory as `--config DIR`.", "usage"),
    (Capability.SERVED, "--graph"): ("it asks about the whole server", "Omit it.", "usage"),
}
"""Why a command cannot use a flag that selects a graph, what to pass instead, and the code of the error."""


@dataclass(frozen=True, slots=True)
class CommandSource:
    """A function that is a command. Its signature is the syntax, its docstring the help.

    A parameter whose type is a dataclass is replaced by the fields of that class, so that commands can share them.
    """

    run: Callable[..., None]
    examples: tuple[str, ...]
    capability: Capability


def command(*examples: str, capability: Capability) -> Callable[[Callable[..., None]], CommandSource]:
    """Return a decorator that makes a function a command."""
    return lambda run: CommandSource(run, examples, capability)


class OmnigraphCommand(TyperCommand):
    """A command with the flags of `omnigraph.cli.flags.Flags`. `main` parses them; here they get a help text."""

    capability = Capability.LOCAL
    examples: tuple[str, ...] = ()

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params = [
            *self.params,
            _flag("--quiet", "-q", help="Print no notices on stderr, only errors."),
            _flag("--debug", help="Print the traceback of an error."),
        ]

    def unsupported_flag_error(self, command_path: str, flag: str) -> UsageError | None:
        """Return the error for a flag that selects a graph and that the command does not have; None for other flags."""
        if flag not in GRAPH_FLAGS:
            return None
        otherwise = ("it uses no graph", "Omit it.", "usage")
        reason, hint, code = _UNSUPPORTED_FLAGS.get((self.capability, flag), otherwise)
        return UsageError(f"`{command_path}` cannot use `{flag}`: {reason}", code=code, hint=hint)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Show an error here, because its hint names the graph of the arguments."""
        try:
            return super().invoke(ctx)
        except OmnigraphError as error:
            show_error(error, ctx.obj, ctx.meta.get(GRAPH_KEY))
            raise typer.Exit(exit_code(error)) from error


def build_command(name: str, source: CommandSource) -> OmnigraphCommand:
    """Return the command that Typer runs."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    epilog = "\b\nExamples:\n" + "\n".join(f"  {example}" for example in source.examples)
    app.command(name, cls=OmnigraphCommand, epilog=epilog, context_settings=HELP)(_expand_dataclasses(source.run))
    built = typer.main.get_command(app)
    assert isinstance(built, OmnigraphCommand)
    built.capability = source.capability
    built.examples = source.examples
    return built


def _expand_dataclasses(run: Callable[..., None]) -> Callable[..., None]:
    """Return the function with the fields of its dataclasses as parameters: Typer does not support dataclasses."""
    parameters: dict[str, Parameter] = {}
    groups: dict[str, Any] = {}
    hints = get_type_hints(run, include_extras=True)
    for parameter in signature(run).parameters.values():
        kind = hints[parameter.name]
        if not is_dataclass(kind):
            parameters[parameter.name] = parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind)
            continue
        groups[parameter.name] = kind
        field_types = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            default = Parameter.empty if field.default is MISSING else field.default
            parameters[field.name] = Parameter(
                field.name, Parameter.KEYWORD_ONLY, default=default, annotation=field_types[field.name]
            )
    plain = [name for name in signature(run).parameters if name not in groups]

    def call(**arguments: Any) -> None:
        instances = {
            name: kind(**{field.name: arguments[field.name] for field in fields(kind)}) for name, kind in groups.items()
        }
        run(**{name: arguments[name] for name in plain}, **instances)

    call.__doc__ = run.__doc__
    call.__signature__ = Signature(list(parameters.values()))  # type: ignore[attr-defined]
    call.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return call


def _flag(*names: str, help: str) -> TyperOption:  # noqa: A002  # the name in Typer
    return TyperOption(param_decls=list(names), is_flag=True, default=False, expose_value=False, help=help)
