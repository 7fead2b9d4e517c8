"""The packages that a command imports: only those that it uses, so that it starts fast.

All commands run in one process, because no command may import a package of `UNUSED`. The commands that read most often
also run in processes of their own, which check each package that takes time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from omnigraph.cli.app import make_command
from tests.cli.process import environment
from tests.waiting import SECONDS_MAX

HEAVY: Final = {"duckdb", "lance", "lark", "numpy", "obstore", "pyarrow", "rich"}
UNUSED: Final = {
    "cedarpy",
    "fastapi",
    "flask",
    "grpc",
    "pandas",
    "py4j",
    "pydantic",
    "pyspark",
    "requests",
    "starlette",
    "urllib3",
    "uvicorn",
    "yaml",
}
"""What no command imports unless it runs Spark, serves HTTP, checks policies or reads YAML."""

QUERY: Final = "query q() { match { $p: Person } return { $p.slug } }"
INSERT: Final = 'query add() { insert Person { slug: "bob" } }'
GRAPH: Final = "graph.omni"
COMMANDS: Final = {
    "init": ["--schema", "schema.pg", GRAPH],
    "load": ["--mode", "merge", "--data", "people.jsonl", GRAPH],
    "embed": ["--dry-run", GRAPH],
    "mutate": ["--store", GRAPH, "-e", INSERT],
    "query": ["--store", GRAPH, "-e", QUERY],
    "lint": ["--schema", "schema.pg", "-e", QUERY],
    "explain": ["--store", GRAPH, "-e", QUERY, "--analyze"],
    "export": ["--out", "dump.jsonl", GRAPH],
    "snapshot": [GRAPH],
    "commit revert": ["HEAD", "--dry-run", GRAPH],
    "schema show": [GRAPH],
    "schema plan": ["--schema", "next.pg", GRAPH],
    "schema apply": ["--schema", "next.pg", GRAPH],
    "branch create": ["review", GRAPH],
    "branch list": [GRAPH],
    "branch merge": ["review", GRAPH],
    "branch delete": ["review", GRAPH],
    "commit list": [GRAPH],
    "commit show": ["HEAD", GRAPH],
    "commit changes": ["HEAD", GRAPH],
    "changes poll": [GRAPH],
    "diff": ["HEAD", "main", GRAPH],
    "blob stat": ["node", "Person", "ada", "photo", GRAPH],
    "blob get": ["node", "Person", "ada", "photo", GRAPH, "--out", "ada.bin"],
    "log": [GRAPH],
    "index status": [GRAPH],
    "recovery list": [GRAPH],
    "doctor": [GRAPH],
    "optimize": [GRAPH],
    "repair": [GRAPH],
    "cleanup": ["--keep", "1", "--confirm", GRAPH],
    "maintain": ["--keep", "1", "--confirm", GRAPH],
    "spark status": [],
    "spark stop": [],
    "profile list": [],
    "completion": ["bash"],
    "version": [],
}
"""The arguments of each command, in an order in which all succeed."""
NOT_RUN: Final = {
    *("login", "logout", "whoami", "graphs list"),
    *("spark start", "demo", "serve", "mcp", "policy validate", "policy test", "policy explain"),
    *(f"cluster {name}" for name in ("validate", "plan", "apply", "approve", "status", "import")),
}
"""They start Spark, a web framework or Cedar, or read stdin."""


def test_every_command_has_arguments() -> None:
    assert set(_command_names(make_command())) == {*COMMANDS, *NOT_RUN}


def test_commands_import_no_unused_package(directory: Path) -> None:
    schema = (directory / "schema.pg").read_text().replace("age: I32?", "age: I32?  photo: Blob?")
    (directory / "schema.pg").write_text(schema)
    (directory / "next.pg").write_text(schema.replace("age: I32?", "age: I32?  email: String?"))
    (directory / "people.jsonl").write_text('{"type": "Person", "data": {"slug": "ada", "photo": "base64:aGk="}}\n')
    program = (
        "import contextlib, io, json, sys\n"
        "from omnigraph.cli.pandas_import import hide_pandas\n"
        "hide_pandas()\n"
        "from omnigraph.cli.main import run\n"
        "names, commands = set(sys.argv[2:]), json.loads(sys.argv[1])\n"
        "for name, arguments in commands.items():\n"
        "    before = names & sys.modules.keys()\n"
        "    output = io.StringIO()\n"
        "    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):\n"
        "        code = run([*name.split(), *arguments])\n"
        "    print(json.dumps([name, code, sorted(names & sys.modules.keys() - before), output.getvalue()]))\n"
    )
    environ = {**environment(), "OMNIGRAPH_HOME": str(directory / "home"), "OMNIGRAPH_RUNNER": "auto"}
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(COMMANDS), *UNUSED],
        env=environ,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, *_ in outcomes] == list(COMMANDS)
    assert [outcome for outcome in outcomes if outcome[1] != 0 or outcome[2]] == []


def _command_names(group: Any, prefix: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _command_names(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


def test_entry_point_imports_typer_inside_main() -> None:
    """Ctrl-C during the import of Typer prints one line only if `main` has already set its signal handlers."""
    program = "import sys, omnigraph.cli.main; sys.exit('typer' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], env=environment(), timeout=SECONDS_MAX, check=True)


def test_version_imports_nothing_heavy() -> None:
    assert not _modules("version") & {*HEAVY, *UNUSED, "msgspec", "omnigraph.storage", "socket"}


@pytest.mark.parametrize("arguments", [["--help"], ["load", "--help"], ["branch", "merge", "--help"]], ids=" ".join)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert _imported(*arguments) == set()


def test_snapshot_imports_lance_and_its_dependencies(graph: Path) -> None:
    assert _imported("snapshot", str(graph)) <= {"lance", "numpy", "obstore", "pyarrow"}


def test_query_imports_lance_lark_and_their_dependencies(graph: Path) -> None:
    imported = _imported("query", "--store", str(graph), "-e", QUERY)
    assert imported <= {"lance", "lark", "numpy", "obstore", "pyarrow"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["init", "--schema", "bad.pg", "new.omni"],
        ["schema", "plan", "--schema", "bad.pg", GRAPH],
        ["schema", "apply", "--schema", "bad.pg", GRAPH],
        ["lint", "--schema", "bad.pg", "-e", QUERY],
        ["lint", "--schema", "schema.pg", "--query", "bad.gq"],
        ["lint", "--schema", "schema.pg", "-e", "query q() { match { $p: Persn } return { $p.slug } }"],
        ["query", "--query", "bad.gq", GRAPH],
        ["mutate", "--query", "bad.gq", GRAPH],
        ["explain", "--query", "bad.gq", GRAPH],
    ],
    ids=" ".join,
)
def test_errors_of_texts_are_reported_before_lance_is_imported(
    arguments: list[str], directory: Path, graph: Path
) -> None:
    (directory / "bad.pg").write_text("node Person { slug: Sting @key }")
    (directory / "bad.gq").write_text(QUERY.replace("()", "("))
    modules = _modules(*arguments, cwd=directory, exit_code=1)
    assert HEAVY & modules <= {"lark"}


def test_reads_import_no_write_path(graph: Path) -> None:
    for arguments in (["branch", "list", str(graph)], ["query", "--store", str(graph), "-e", QUERY]):
        modules = _modules(*arguments)
        assert not modules & {
            "omnigraph.embedding",
            "omnigraph.graph.coordination",
            "omnigraph.graph.diff",
            "omnigraph.graph.feed",
            "omnigraph.graph.write",
            "omnigraph.maintenance",
            "omnigraph.pipeline",
            "omnigraph.schema.evolution",
        }


def test_mutation_does_not_import_masked_arrays(graph: Path) -> None:
    """`pa.array` of a numpy array and `np.unique` import `numpy.ma`, which takes 10 ms."""
    assert "numpy.ma" not in _modules("mutate", "--store", str(graph), "-e", INSERT)


def _imported(*arguments: str) -> set[str]:
    """Return the heavy packages that a command imports."""
    return (HEAVY | UNUSED) & _modules(*arguments)


def _modules(*arguments: str, cwd: Path | None = None, exit_code: int = 0) -> set[str]:
    """Return the modules that a command imports. `-X importtime` would also list those that were not found."""
    program = (
        "import atexit, sys; atexit.register(lambda: print('', *sys.modules, file=sys.stderr)); "
        "from omnigraph.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment(),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == exit_code, done.stderr
    return set(done.stderr.split())
