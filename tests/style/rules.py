"""Style rules that ruff does not have. A rule is a function and has an example of a violation."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.style.source import SourceFile
from tests.style.words import strings_are_plain_english

FILE_LINES_MAX: Final = 600
FUNCTION_LINES_MAX: Final = 80
VAGUE_NAMES: Final = {"common", "helper", "helpers", "misc", "shared", "util", "utils"}
EMPTY_NAMES: Final = {"found", "one", "wanted", "known", "kept", "given", "how", "at", "there"}
EMPTY_NAMES_IN_PACKAGE: Final = {
    "below",
    "both",
    "each",
    "fresh",
    "further",
    "got",
    "here",
    "made",
    "some",
    "was",
    "which",
    "why",
}
POSITIONAL_FIELDS_MAX: Final = 4

_SHARED_CHANCE: Final = re.compile(
    r"os\.urandom|secrets\.\w+|random\.(?:random|randint|randrange|choice|choices|shuffle|sample|uniform|randbytes)"
    r"|(?:np|numpy)\.random\.(?!default_rng)\w+"
)

# All exceptions to the rules.
LONG_FILES: Final = {"omnigraph.api.graph"}  # one class, mostly docstrings
LONG_FUNCTIONS: Final[set[str]] = set()
MUTABLE: Final = {  # each holds the state of one run, or of one stream of rows
    *("AutoRunner", "ErrorWriter", "IndexBuild", "KeyWriter", "Lease", "MutationWriter", "Overlay", "PrewrittenParts"),
    *("PageSize", "ProblemList", "Result", "SchemaWork", "TableResult", "TableWork", "TypeDifference"),
}
WITHOUT_SLOTS: Final = {  # cached properties, and a subclass of a class of PySpark
    *("Adjacency", "AdjacencySide", "Neighbours", "SchemaRecord", "WrittenPart")
}
TREES: Final = {  # their nodes are matched by position; `_Rule` of `storage.errors` is a row of a table
    *("omnigraph.lang.syntax", "omnigraph.query.plan.operators", "omnigraph.query.syntax")
}
PICKLING_MODULE: Final = "omnigraph.pipeline.spark.runner"
PICKLES: Final = {"pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "serializers"}
ENTRY_POINTS: Final[set[str]] = {
    "omnigraph.cli.main",  # turns every exception into an exit code
    "omnigraph.server.deployment",  # the thread that follows the ledger logs an error and goes on
    "omnigraph.server.streams",  # passes every exception from a task to the one that answers the request
}


@dataclass(frozen=True, slots=True)
class StyleRule:
    """A function that yields the violations of a source, and a source with one violation."""

    check: Callable[[SourceFile], Iterator[str]]
    violation: SourceFile


def names_say_what_is_inside(source: SourceFile) -> Iterator[str]:
    for name in VAGUE_NAMES.intersection(source.path.with_suffix("").parts):
        yield f"'{name}' does not say what is inside"


def files_hold_one_concept(source: SourceFile) -> Iterator[str]:
    lines = source.text.count("\n")
    if source.in_package and lines > FILE_LINES_MAX and source.module not in LONG_FILES:
        yield f"{lines} lines, more than {FILE_LINES_MAX}"


def variables_name_their_content(source: SourceFile) -> Iterator[str]:
    """Reject empty names of variables, parameters, captures and attributes; a field may be named as in JSON."""
    fields = {
        id(statement.target)
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in source.nodes:
        match node:
            case ast.Name(id=str() as name, ctx=ast.Store()) if id(node) not in fields:
                pass
            case ast.arg(arg=str() as name) | ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
                pass
            case ast.ExceptHandler(name=str() as name) | ast.MatchMapping(rest=str() as name):
                pass
            case ast.Attribute(attr=str() as name, ctx=ast.Store()):
                pass
            case _:
                continue
        name = name.removeprefix("_")
        if name in EMPTY_NAMES or (source.in_package and name in EMPTY_NAMES_IN_PACKAGE):
            yield f"line {node.lineno}: name the content instead of '{name}'"


def functions_do_one_thing(source: SourceFile) -> Iterator[str]:
    for node in source.nodes:
        if source.in_package and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX and f"{source.module}.{node.name}" not in LONG_FUNCTIONS:
                yield f"line {node.lineno}: {node.name} has {lines} lines, more than {FUNCTION_LINES_MAX}"


def packages_only_export(source: SourceFile) -> Iterator[str]:
    """`__init__.py` holds a docstring, imports, dunder names and at most a lazy `__getattr__`."""
    if not source.in_package or source.path.name != "__init__.py":
        return
    for node in source.tree.body:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                pass
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if not name.startswith("_"):
                    yield f"line {node.lineno}: defines {name}"
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case ast.FunctionDef(name="__getattr__" | "__dir__"):
                pass
            case _:
                yield f"line {node.lineno}: more than exports"


def only_entry_points_catch_everything(source: SourceFile) -> Iterator[str]:
    """Allow a broad `except` only if it ends in `raise`, or at an entry point."""
    for node in source.nodes:
        if not isinstance(node, ast.ExceptHandler) or source.module in ENTRY_POINTS:
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        broad = any(
            kind is None or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException"))
            for kind in caught
        )
        if broad and not isinstance(node.body[-1], ast.Raise):
            yield f"line {node.lineno}: catches everything"


def tests_leave_nothing_to_chance(source: SourceFile) -> Iterator[str]:
    """A generator in a test has a seed; Hypothesis has a profile (`tests/conftest.py`)."""
    if source.in_package or source.path.parts[0] != "tests":
        return
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        is_unseeded = called.endswith(("random.Random", "default_rng")) and not (node.args or node.keywords)
        if is_unseeded or _SHARED_CHANCE.fullmatch(called):
            yield f"line {node.lineno}: {called} has no seed, so every run gets other values"


def dataclasses_are_values(source: SourceFile) -> Iterator[str]:
    """Dataclasses are frozen and have slots; more than four fields are passed by name, at least after the first ones.

    A private class may hold the state of one run.
    """
    if not source.in_package:
        return
    for node in ast.walk(source.tree):
        decorators = node.decorator_list if isinstance(node, ast.ClassDef) else []
        text = next((text for text in map(ast.unparse, decorators) if text.startswith("dataclass")), None)
        if not isinstance(node, ast.ClassDef) or text is None:
            continue
        annotated = [ast.unparse(field.annotation) for field in node.body if isinstance(field, ast.AnnAssign)]
        fields = [annotation for annotation in annotated if not annotation.startswith("ClassVar")]
        is_positional = len(fields) > POSITIONAL_FIELDS_MAX and "KW_ONLY" not in fields and "kw_only=True" not in text
        if "frozen=True" not in text and not node.name.startswith("_") and node.name not in MUTABLE:
            yield f"line {node.lineno}: {node.name} is not frozen"
        if "slots=True" not in text and node.name not in WITHOUT_SLOTS:
            yield f"line {node.lineno}: {node.name} has no slots"
        if is_positional and source.module not in TREES and node.name != "_Rule":
            yield f"line {node.lineno}: {node.name} has {len(fields)} fields that are passed by position"


def only_tasks_are_pickled(source: SourceFile) -> Iterator[str]:
    """Allow pickle only between a Spark driver and its executors, because unpickling can run code."""
    if not source.in_package or source.module == PICKLING_MODULE:
        return
    for node in source.nodes:
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.keyword):
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(alias.name for alias in node.names)]
        elif node.arg == "allow_pickle":
            names = ["pickle"]
        for name in names:
            if PICKLES.intersection(name.split(".")):
                yield f"line {node.lineno}: pickles outside {PICKLING_MODULE}"


def _source(path: str, text: str) -> SourceFile:
    return SourceFile(Path(path), text)


RULES: Final = (
    StyleRule(names_say_what_is_inside, _source("src/omnigraph/graph/utils.py", "")),
    StyleRule(files_hold_one_concept, _source("src/omnigraph/long.py", "\n" * (FILE_LINES_MAX + 1))),
    StyleRule(variables_name_their_content, _source("src/omnigraph/graph/a.py", "found = 1\n")),
    StyleRule(functions_do_one_thing, _source("src/omnigraph/long.py", "def f():\n" + "  1\n" * 80)),
    StyleRule(packages_only_export, _source("src/omnigraph/graph/__init__.py", '"""Graph."""\ndef f(): ...\n')),
    StyleRule(only_entry_points_catch_everything, _source("src/omnigraph/a.py", "try: ...\nexcept: pass\n")),
    StyleRule(tests_leave_nothing_to_chance, _source("tests/a.py", "random.shuffle(rows)")),
    StyleRule(dataclasses_are_values, _source("src/omnigraph/a.py", "@dataclass(slots=True)\nclass Options: ...")),
    StyleRule(only_tasks_are_pickled, _source("src/omnigraph/graph/a.py", "from pyspark import cloudpickle\n")),
    StyleRule(strings_are_plain_english, _source("src/omnigraph/a.py", 'f"{x} is no type here"')),
)
