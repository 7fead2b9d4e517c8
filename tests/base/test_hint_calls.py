"""Every call and argument in a hint exists: in Python as a method with this keyword, on the command line as a flag.

The calls are read from the source text. A value that is only known at run time is replaced by a placeholder.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import omnigraph as og
from omnigraph.base.hints import CAUSE, Argument, Placeholder, Value, action, hint
from omnigraph.cli.app import make_command
from omnigraph.cli.hints import render_hint
from tests.style.source import SourceFile, python_sources

CALLS: Final[dict[str, tuple[str | None, str]]] = {
    "omnigraph.base.actors": ("Graph.mutate", "mutate"),
    "omnigraph.base.text_files": ("init", "init"),
    "omnigraph.client.export": ("Graph.export", "export"),
    "omnigraph.client.http": ("connect", "query"),
    "omnigraph.cluster.addressing": ("Cluster.open", "query"),
    "omnigraph.engine.limits": ("Graph.query", "query"),
    "omnigraph.engine.prepare": ("Graph.explain", "explain"),
    "omnigraph.graph.create": ("init", "init"),
    "omnigraph.graph.merge.conflicts": ("Graph.merge", "branch merge"),
    "omnigraph.graph.merge.request": ("Graph.merge", "branch merge"),
    "omnigraph.maintenance.cleanup.options": ("Graph.cleanup", "cleanup"),
    "omnigraph.maintenance.repair": ("Graph.repair", "repair"),
    "omnigraph.pipeline.embed.plan": ("Graph.embed", "embed"),
    "omnigraph.pipeline.embed.run": ("Graph.embed", "embed"),
    "omnigraph.pipeline.export.target": ("Graph.export", "export"),
    "omnigraph.pipeline.export.tasks": ("Graph.export", "export"),
    "omnigraph.pipeline.load.inputs.files": ("Graph.load", "load"),
    "omnigraph.pipeline.load.inputs.staged_text": ("Graph.load", "load"),
    "omnigraph.pipeline.load.plan": ("Graph.load", "load"),
    "omnigraph.pipeline.load.run": ("Graph.load", "load"),
    "omnigraph.pipeline.load.source": ("Graph.load", "load"),
    "omnigraph.server.boot": (None, "serve"),
    "omnigraph.server.process": (None, "serve"),
}
"""The call, if Python has one, and the command whose arguments the hints of a module name."""
HINTS: Final = ("omnigraph.base.hints", "omnigraph.cli.hints")


def _value(node: ast.expr) -> Value:
    match node:
        case ast.Constant(value=bool() | int() | str() as value):
            return value
        case _:
            return Placeholder("VALUE")


def _name(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(name)):
            return name
        case ast.Name(id="argument"):  # of `read_bytes`, which reads schemas for Python
            return "schema"
        case _:
            raise AssertionError(f"the name of an argument is not a constant: {ast.unparse(node)}")


@cache
def _sources() -> tuple[SourceFile, ...]:
    """Return the modules that have hints."""
    return tuple(
        source
        for source in python_sources()
        if source.in_package and source.module not in HINTS and "from omnigraph.base.hints import" in source.text
    )


def _calls(source: SourceFile, function: str) -> Iterator[ast.Call]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
            yield node


def _parameters(name: str) -> frozenset[str]:
    target: Any = og
    for part in name.split("."):
        target = getattr(target, part)
    return frozenset(inspect.signature(target).parameters)


def _require_call(text: str) -> None:
    """Check a call or an attribute of Python: each name exists, and each keyword is a parameter."""
    if text.startswith("print("):
        text = text.removeprefix("print(").removesuffix(")")
    code, _, members = text.replace("…", "...").partition(").schema.source")
    node = ast.parse(code if code.endswith(")") or "(" not in code else f"{code})", mode="eval").body
    assert not members
    while not isinstance(node, ast.Name):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="omnigraph") as owner, attr=name), keywords=keywords):
                assert {keyword.arg for keyword in keywords} <= _parameters(name), text
            case ast.Call(func=ast.Attribute(value=owner, attr=name), keywords=keywords):
                assert {keyword.arg for keyword in keywords} <= _parameters(f"Graph.{name}"), text
            case ast.Attribute(value=owner, attr=name):
                assert name in dir(og.Graph), text
            case _:
                raise AssertionError(f"not a call of Python: {text}")
        node = owner
    assert node.id in ("graph", "omnigraph"), text


@cache
def _commands() -> dict[str, Any]:
    tree: Any = make_command()
    commands: dict[str, Any] = {}
    for name, command in tree.commands.items():
        if hasattr(command, "commands"):
            commands |= {f"{name} {second}": member for second, member in command.commands.items()}
        else:
            commands[name] = command
    return commands


def _require_flags(command: str, words: list[str]) -> None:
    """Check that the flags exist, and that there is a positional argument for every word that is not a value."""
    parameters = _commands()[command].params
    by_flag = {name: parameter for parameter in parameters for name in parameter.opts if name.startswith("-")}
    flags = [word for word in words if word.startswith("--")]
    assert by_flag.keys() >= set(flags), f"omnigraph {command} {' '.join(words)}"
    values = sum(not by_flag[flag].is_flag for flag in flags)
    positional = sum(parameter.param_type_name == "argument" for parameter in parameters)
    assert values <= len(words) - len(flags) <= values + positional, f"omnigraph {command} {' '.join(words)}"


def test_calls_exist() -> None:
    calls = [call for source in _sources() for call in _calls(source, "action")]
    assert len(calls) > 50
    for node in calls:
        values = {keyword.arg or "branch": _value(keyword.value) for keyword in node.keywords}
        call = action(_name(node.args[0]), **values)
        value = hint("{}", call)
        if not str(value).startswith("`omnigraph "):  # a command without a method
            _require_call(str(value).strip("`"))
        program, *words = shlex.split(render_hint(value).strip("`"))
        count = len(call.name.split())
        assert (program, " ".join(words[:count])) == ("omnigraph", call.name)
        assert call.name in _commands()
        _require_flags(call.name, words[count:])


def test_arguments_exist() -> None:
    arguments = [(source.module, call) for source in _sources() for call in _calls(source, "Argument")]
    assert {module for module, _ in arguments} == CALLS.keys()
    for module, node in arguments:
        method, command = CALLS[module]
        value = hint("{}", Argument(_name(node.args[0]), _value(node.args[1]) if len(node.args) > 1 else True))
        keyword = re.fullmatch(r"`(\w+)=.*`", str(value))
        assert keyword, f"{module}: {value}"
        assert method is None or keyword[1] in _parameters(method), f"{module}: {value}"
        _require_flags(command, shlex.split(render_hint(value).strip("`")))


def test_limits_are_members_of_query_limits() -> None:
    text = str(hint("{}", Argument("seconds", Placeholder("N"))))
    assert text == "`limits=QueryLimits(seconds=…)`"
    assert {"memory_bytes", "seconds"} <= _parameters("QueryLimits")


def test_every_command_shows_the_cause() -> None:
    assert str(hint("{}", CAUSE)) == "`error.__cause__`"
    for command in _commands():
        _require_flags(command, [render_hint(hint("{}", CAUSE)).strip("`")])


def test_text_of_hints_names_no_flag_below_the_command_line() -> None:
    for source in _sources():
        for call in () if source.module.startswith("omnigraph.cli") else _calls(source, "hint"):
            assert "--" not in ast.unparse(call.args[0]), f"{source.path}:{call.lineno}"
