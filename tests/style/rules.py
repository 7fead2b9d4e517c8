"""How our code reads, where ruff has no rule for it. One rule is one function; each has a breach to prove it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.style.source import Source

FILE_LINES_MAX: Final = 600
FUNCTION_LINES_MAX: Final = 80
VAGUE_NAMES: Final = {"common", "helper", "helpers", "misc", "shared", "util", "utils"}
VALUE_NAMES: Final = ("Options", "Plan", "Record", "Snapshot", "Task")

_SHARED_CHANCE: Final = re.compile(
    r"os\.urandom|secrets\.\w+|random\.(?:random|randint|randrange|choice|choices|shuffle|sample|uniform|randbytes)"
    r"|(?:np|numpy)\.random\.(?!default_rng)\w+"
)

# The exceptions, all of them.
LONG_FILES: Final[set[str]] = {"omnigraph.api.graph"}  # one class; half of it is docstrings with examples
LONG_FUNCTIONS: Final[set[str]] = set()
PICKLING_MODULE: Final = "omnigraph.pipeline.spark.runner"
PICKLES: Final = {"pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "serializers"}
PROCESS_EDGES: Final[set[str]] = {"omnigraph.cli.main"}  # where any exception becomes an exit code


@dataclass(frozen=True, slots=True)
class Rule:
    """A check that yields what it finds wrong, and a text in which it finds something."""

    check: Callable[[Source], Iterator[str]]
    breach: Source


def names_say_what_is_inside(source: Source) -> Iterator[str]:
    for name in VAGUE_NAMES.intersection(source.path.with_suffix("").parts):
        yield f"'{name}' says nothing about what is inside"


def files_hold_one_concept(source: Source) -> Iterator[str]:
    lines = source.text.count("\n")
    if source.in_package and lines > FILE_LINES_MAX and source.module not in LONG_FILES:
        yield f"{lines} lines, more than {FILE_LINES_MAX}"


def functions_do_one_thing(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if source.in_package and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX and f"{source.module}.{node.name}" not in LONG_FUNCTIONS:
                yield f"line {node.lineno}: {node.name} has {lines} lines, more than {FUNCTION_LINES_MAX}"


def packages_only_export(source: Source) -> Iterator[str]:
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


def only_process_edges_catch_everything(source: Source) -> Iterator[str]:
    """A broad `except` ends in `raise`, unless it stands at the edge of a process."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ExceptHandler) or source.module in PROCESS_EDGES:
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        broad = any(
            kind is None or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException"))
            for kind in caught
        )
        if broad and not isinstance(node.body[-1], ast.Raise):
            yield f"line {node.lineno}: catches everything"


def tests_leave_nothing_to_chance(source: Source) -> Iterator[str]:
    """A generator in a test has a seed; Hypothesis has a profile (`tests/conftest.py`)."""
    if source.in_package or source.path.parts[0] != "tests":
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        is_unseeded = called.endswith(("random.Random", "default_rng")) and not (node.args or node.keywords)
        if is_unseeded or _SHARED_CHANCE.fullmatch(called):
            yield f"line {node.lineno}: {called} gives another value in every run"


def values_are_frozen(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ClassDef) or not node.name.endswith(VALUE_NAMES):
            continue
        for decorator in node.decorator_list:
            text = ast.unparse(decorator)
            if text.startswith("dataclass") and "frozen=True" not in text:
                yield f"line {node.lineno}: {node.name} is a value and must be frozen"


def only_tasks_are_pickled(source: Source) -> Iterator[str]:
    """What is unpickled can run code, so only what a Spark driver and its executors send each other is."""
    if not source.in_package or source.module == PICKLING_MODULE:
        return
    for node in ast.walk(source.tree):
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


def _breach(path: str, text: str) -> Source:
    return Source(Path(path), text)


RULES: Final = (
    Rule(names_say_what_is_inside, _breach("src/omnigraph/graph/utils.py", "")),
    Rule(files_hold_one_concept, _breach("src/omnigraph/long.py", "\n" * (FILE_LINES_MAX + 1))),
    Rule(functions_do_one_thing, _breach("src/omnigraph/long.py", "def f():\n" + "  1\n" * 80)),
    Rule(packages_only_export, _breach("src/omnigraph/graph/__init__.py", '"""Graph."""\ndef f(): ...\n')),
    Rule(only_process_edges_catch_everything, _breach("src/omnigraph/a.py", "try: ...\nexcept: pass\n")),
    Rule(tests_leave_nothing_to_chance, _breach("tests/a.py", "random.shuffle(rows)")),
    Rule(values_are_frozen, _breach("src/omnigraph/a.py", "@dataclass(slots=True)\nclass LoadOptions: ...")),
    Rule(only_tasks_are_pickled, _breach("src/omnigraph/graph/a.py", "from pyspark import cloudpickle\n")),
)
