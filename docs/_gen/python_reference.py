"""Prints the reference of the Python surface as Markdown, from signatures and docstrings: docs/user/python.md.

python -m docs._gen.python_reference > docs/user/python.md

What is shown is what `omnigraph`, `omnigraph.types`, `omnigraph.maintenance` and `omnigraph.spark` export. The sentence
of a field, or of a member of an enum, is the string directly below it in the source; a field without one is internal.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from importlib import import_module
from itertools import pairwise
from textwrap import dedent
from typing import Any, Final

import omnigraph
from omnigraph import maintenance, spark, types
from omnigraph.base.errors import OmnigraphError

HIDDEN_ERRORS: Final = frozenset(
    {
        "FailpointError", "InconsistentCatalogError", "InvalidResponseError", "InvalidVectorError", "RemoteError",
        "RequestError", "ProtobufError",
    }
)  # fmt: skip
"""Errors that no caller receives."""

INTERNAL: Final[Mapping[str, tuple[str, ...]]] = {
    "QueryLimits": ("engine_options",),
    "SchemaRecord": ("require_intact",),
    "SchemaPlan": ("catalog", "counter_catalog", "null_counts", "require_supported"),
    "OptimizeOptions": ("blobs_compact", "request", "validate"),
    "RepairOptions": ("validate",),
    "CleanupPolicyOptions": ("policy", "warnings"),
    "OmnigraphDataSource": ("schema", "reader", "streamReader", "writer", "streamWriter"),
}
"""Members with a sentence that only Omnigraph itself uses."""

OTHER_NAMES: Final[Mapping[str, str]] = {
    "AnyProvider": "An `EmbeddingProvider`, or the provider that a cluster names for a graph.",
    "BranchId": "A string. A branch that is deleted and created again has another one.",
    "BranchTarget": "A `Graph`.",
    "CommitId": "A string of 26 letters and digits.",
    "Coverage": "`Indexed` or `Degraded`.",
    "EvolutionCode": "Has `code`, such as `OG-DS-101`, `meaning`, and `advice`: what to do instead.",
    "ExplainedStep": "Has `number`, `depth`, `text` and `figures`: the rows and the time of a step.",
    "Fact": "A value as in JSON.",
    "GraphGate": "Has `check(authority, actor)`, which raises unless the actor may do it.",
    "GraphTarget": "A `Graph`.",
    "Hint": "Text in which calls and arguments are values; `str` renders it for Python.",
    "Intent": "The description of a write in progress, with `op_id`, `kind`, `actor`, `branch` and `created_us`.",
    "Location": "The root of a graph, with the options of its store.",
    "OperationId": "A string: the id of a write, in its commit and in the record of its recovery.",
    "Report": "A function that takes a `Progress`.",
    "Rule": "Has `code`, such as `V101`, `word` and `meaning`.",
    "RunTasks": "A function that takes a function and a list of tasks, and returns the results in order.",
    "SchemaHash": "A string: the SHA-256 of the compiled schema.",
    "TableId": "A string, which does not change when the type is renamed.",
    "WriteEnvironment": "The clock and the leases of a write; for tests.",
}
"""Names in signatures that one sentence describes."""

_LINE_LENGTH_MAX: Final = 100
_HEAD: Final = """\
# Python

Generated from the code: change a signature or a docstring, then run `make reference`.

`import omnigraph as og` is the entry point. It is typed (`py.typed`) and imports Lance and Spark only when they are
needed. `og.init` and `og.open` return a `Graph`. Values are frozen; later releases may add fields.
`og.cluster("deploy/")` returns a [`Cluster`](#cluster).
`og.types` has the types of all values, and `og.__version__` is the release.

```python
import omnigraph as og

graph = og.init("people.omni", "node Person { slug: String @key  age: I32? }")
graph.mutate('query add() { insert Person { slug: "ada", age: 36 } }', actor="ada")
rows = graph.query("query q() { match { $p: Person } return { $p.slug, $p.age } }")
assert rows.to_pylist() == [{"p.slug": "ada", "p.age": 36}]
try:
    graph.query("query q() { match { $p: Persn } return { $p.slug } }")
except og.OmnigraphError as error:
    assert (error.kind.value, error.code) == ("invalid_content", "T101")
```
"""
_OTHER_NAMES_HEAD: Final = "\n## Other names in signatures\n\n| name | |\n|---|---|\n"
_ERRORS_HEAD: Final = """
## Errors

Every error is an `OmnigraphError`. It has `kind`, which decides the exit code of a command
([kinds](errors.md#kinds-and-exit-codes)), `code`, which is stable and explained in [errors](errors.md), `message`,
`hint`, `facts` for programs and, when a write failed, `applied`: `no`, `yes` or `unknown`. `str(error)` lists every
problem and the hint; `message` has only the first problem. After `unknown`, check whether the commit exists.

Retry a `ConflictError`, unless its code is `branch_exists`, `graph_exists` or `merge_conflicts`. A retry of a
`LoadRejectedError` never helps. Its kind is `invalid_content`, or `conflict` if every error is a row whose id the
graph already has (`V303`): pass `mode="merge"` to replace these rows.

Errors about many things have them as values: `MergeConflictError` has `conflicts`, `SchemaTextError` and
`QueryTextError` have `problems`, and `ValidationError` has `report`, with the `first` violations and the `total`.
`facts` has them as plain data, also for `UnsupportedSchemaChangeError` (`unsupported`) and `ParameterError`
(`parameters`).

| error | is a | kind | raised when |
|---|---|---|---|
"""


def sections() -> dict[str, list[Any]]:
    """Return what is described, by title."""
    exported = [getattr(omnigraph, name) for name in omnigraph.__all__ if name != "__version__"]
    functions = [member for member in exported if inspect.isfunction(member)]
    classes = [member for member in exported if inspect.isclass(member) and not _is_error(member)]
    described = [getattr(types, name) for name in types.__all__]
    others = [kind for kind in classes if kind is not omnigraph.Graph]
    of_maintenance = [getattr(maintenance, name) for name in maintenance.__all__]
    return {
        "Functions": functions,
        "Graph": [omnigraph.Graph],
        "Types": sorted({*described, *others}, key=lambda kind: str(kind.__name__)),
        "Maintenance": [member for member in of_maintenance if member not in described],
        "Spark": [getattr(spark, name) for name in spark.__all__],
    }


def errors() -> list[type[Exception]]:
    """Return every error, each directly after its base class."""
    for module in pkgutil.walk_packages(omnigraph.__path__, "omnigraph."):
        if not module.name.startswith(("omnigraph.cli", "omnigraph.wire")):
            import_module(module.name)
    listed: list[type[Exception]] = []
    waiting: list[type[Exception]] = [OmnigraphError]
    while waiting:
        error = waiting.pop()
        is_ours = error.__module__.startswith("omnigraph.")  # and not a class of a test
        if is_ours and error.__name__ not in HIDDEN_ERRORS and not error.__name__.startswith("_"):
            listed.append(error)
        waiting += sorted(error.__subclasses__(), key=lambda kind: kind.__name__, reverse=True)
    data_source = import_module("omnigraph.pipeline.datasource.options").DataSourceError
    return listed if data_source in listed else [*listed, data_source]


def print_reference() -> None:
    """Write the whole reference to stdout."""
    sys.stdout.write("".join(_describe()))


def _describe() -> Iterator[str]:
    yield _HEAD
    for title, members in sections().items():
        yield f"\n## {title}\n"
        for member in members:
            yield from _describe_type(member) if inspect.isclass(member) else _describe_function(member)
    yield _OTHER_NAMES_HEAD
    yield from (f"| `{name}` | {sentence} |\n" for name, sentence in OTHER_NAMES.items())
    yield _ERRORS_HEAD
    for error in errors():
        kind, base = getattr(error, "kind", None), error.__bases__[0].__name__
        text = _line((error.__doc__ or "").split("\n\n", maxsplit=1)[0])
        name = f"{_home(error)}.{error.__name__}"
        yield f"| `{name}` | `{base}` | {f'`{kind.value}`' if kind else ''} | {text} |\n"


def _describe_function(function: Any) -> Iterator[str]:
    yield f"\n### {_home(function)}.{function.__name__}\n\n{_code(signature_text(function))}\n{_text(function)}\n"


def _describe_type(kind: type[Any]) -> Iterator[str]:
    yield f"\n### {kind.__name__}\n\n`{_home(kind)}.{kind.__name__}`. {_text(kind)}\n"
    if issubclass(kind, Enum):
        yield from _describe_enum(kind)
        return
    rows = list(shown_values(kind))
    if rows:
        yield "\n| name | type | default | |\n|---|---|---|---|\n"
        yield from (
            f"| `{name}` | {_cell(of)} | {_cell(default)} | {_escaped(sentence)} |\n"
            for name, of, default, sentence in rows
        )
    for name, method in shown_methods(kind):
        yield f"\n#### {kind.__name__}.{name}\n\n{_code(signature_text(method))}\n{_text(method)}\n"


def _describe_enum(kind: type[Enum]) -> Iterator[str]:
    described = sentences(kind)
    if not described:
        yield "\n" + ", ".join(f"`{member.value}`" for member in kind) + "\n"
        return
    yield "\n| value | |\n|---|---|\n"
    yield from (f"| `{member.value}` | {described[member.name]} |\n" for member in kind)


def shown_values(kind: type[Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, default and sentence of each field and property."""
    described = sentences(kind)
    for field in fields(kind) if is_dataclass(kind) else ():
        if field.name in described and field.name not in INTERNAL.get(kind.__name__, ()):
            yield field.name, str(field.type), _default(field), described[field.name]
    for name, member in _public_members(kind):
        if isinstance(member, property) and member.__doc__:
            yield (name, str(inspect.signature(member.fget or print).return_annotation), "", _line(member.__doc__))


def shown_methods(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the public methods of a class that have a docstring."""
    for name, member in _public_members(kind):
        if inspect.isfunction(member) and member.__doc__:
            yield name, member


def sentences(kind: type[Any]) -> dict[str, str]:
    """Return the strings directly below the fields or members of a class, by their names."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    described = {}
    for statement, below in pairwise(definition.body):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                described[name] = _line(text)
    return described


def signature_text(function: Any) -> str:
    """Return `name(parameters) -> type` as it is written, one parameter per line if it is long."""
    signature = inspect.signature(function)
    words: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        default = "" if parameter.default is parameter.empty else f" = {_value(parameter.default)}"
        words.append(f"{parameter.name}: {parameter.annotation}{default}")
    returned = f" -> {signature.return_annotation}"
    line = f"{function.__name__}({', '.join(words)}){returned}"
    if len(line) <= _LINE_LENGTH_MAX:
        return line
    return f"{function.__name__}(\n" + "".join(f"    {word},\n" for word in words) + f"){returned}"


def _public_members(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the members of a class and of its base classes in Omnigraph."""
    bases = [base for base in kind.__mro__ if base.__module__.startswith("omnigraph.")]
    members = {name: member for base in reversed(bases) for name, member in vars(base).items()}
    hidden = INTERNAL.get(kind.__name__, ())
    return ((name, member) for name, member in members.items() if name[0] != "_" and name not in hidden)


def _is_error(kind: type[Any]) -> bool:
    return issubclass(kind, Exception)


def _default(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return _value(field.default)
    return "" if field.default_factory is MISSING else _value(field.default_factory())


def _value(default: object) -> str:
    if inspect.isfunction(default):
        return default.__name__
    text = repr(default)
    return f"{type(default).__name__}()" if " at 0x" in text or "\n" in text else text


def _home(member: Any) -> str:
    """Return the module from which a program imports it."""
    for module in (omnigraph, types, maintenance, spark):
        if member.__name__ in module.__all__:
            return module.__name__
    return str(member.__module__)


def _text(member: Any) -> str:
    """Return a docstring as Markdown: arguments as a list, the example as a block."""
    blocks = []
    for block in re.split(r"\n(?=(?:Args|Example):\n)", inspect.getdoc(member) or ""):
        if block.startswith("Args:\n"):
            arguments = dedent(block.removeprefix("Args:\n"))  # `cleandoc` ignores the indent of the first line
            items = re.findall(r"^(\w+): ((?:.|\n(?=\s))*)", arguments, re.MULTILINE)
            blocks.append("\n".join(f"- `{name}`: {_line(text)}" for name, text in items))
        elif block.startswith("Example:\n"):
            blocks.append(f"```pycon\n{inspect.cleandoc(block.removeprefix('Example:' + chr(10)))}\n```")
        else:
            blocks += [_line(part) for part in block.split("\n\n") if part.strip()]
    return "\n\n".join(blocks)


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


def _code(text: str) -> str:
    return f"```\n{text}\n```\n"


def _cell(text: str) -> str:
    return f"`{_escaped(text)}`" if text else ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print_reference()
