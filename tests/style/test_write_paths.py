"""Only listed modules call the functions `commit_…` and `delete_…` of storage."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.style.source import SourceFile, python_sources

# The name of a package includes its modules. A new entry is a decision about the design.
CALLERS: Final[dict[str, tuple[str, ...]]] = {
    "commit_": (
        "omnigraph.graph.write.commit",
        "omnigraph.graph.write.multi_commit",  # commits that Lance creates itself
        "omnigraph.graph.write.stage",  # forks, which do not move a head
        "omnigraph.graph.recovery",
        "omnigraph.graph.manifest.publish",  # the head of the manifest
        "omnigraph.graph.manifest.compaction",  # the fragments of the manifest
        "omnigraph.graph.manifest.stamp",  # the migrations of the manifest
        "omnigraph.graph.branches",
    ),
    "delete_": (
        "omnigraph.maintenance.cleanup",
        "omnigraph.pipeline.load.run",  # what a refused load staged itself
        "omnigraph.pipeline.load.written",  # what a task wrote after the end of its load
        "omnigraph.pipeline.datasource.write",  # what the tasks of a failed Spark write staged
        "omnigraph.graph.write.stage",  # a fork that the write made itself and does not need
        "omnigraph.graph.scratch",  # what one operation passed between its workers
        "omnigraph.api.graph",  # the graph's own delete_branch, which removes a row
        "omnigraph.cli.commands",  # the graph's own; a contract of imports keeps commands away from storage
        "omnigraph.client",  # the same
        "omnigraph.server.routes",  # the same, through the client
        "omnigraph.wire.requests",  # a member of that name
        "omnigraph.graph.create",  # what a failed or killed init made, before there is a graph
    ),
}


@pytest.fixture(scope="module")
def sources() -> list[SourceFile]:
    """The files of the package, parsed once."""
    return [source for source in python_sources() if source.in_package]


@pytest.mark.parametrize("prefix", CALLERS)
def test_only_listed_modules_call_storage(prefix: str, sources: list[SourceFile]) -> None:
    guarded = {name for source in sources if _is_in(source, STORAGE) for name in _defined(source, prefix)}
    assert guarded, f"storage has no {prefix} function: this test checks the wrong prefix"
    others = [source for source in sources if not _is_in(source, (*STORAGE, *CALLERS[prefix]))]
    calls = [f"{source.path}: {name}" for source in others for name in guarded & set(_used(source))]
    assert calls == [], f"only {', '.join(CALLERS[prefix])} may call these"


WRITE_PATH: Final = {
    "omnigraph.graph.write.commit": {"write", "WriteRequest"},
    "omnigraph.graph.branches": {"create_branch", "delete_branch", "create_branch_with_write"},
}
WRITERS: Final = {
    # Writes of data. `Graph` asks the gate before it calls them, `pipeline.load.plan` before a load.
    "omnigraph.api.graph",
    "omnigraph.pipeline.load.run",
    "omnigraph.graph.merge.run",
    "omnigraph.engine.mutation.text",
    "omnigraph.pipeline.embed.run",
    # Writes of the system, which no policy denies. `cluster apply` asks before it changes a schema.
    "omnigraph.graph.branches",
    "omnigraph.maintenance.repair",
    "omnigraph.maintenance.schema_apply",
    "omnigraph.maintenance.optimize.commit",
}


def test_only_listed_modules_write(sources: list[SourceFile]) -> None:
    """A new entry must ask the gate; add it to the tables of `tests/cluster/test_gate` too."""
    writers = {
        source.module
        for source in sources
        for node in source.nodes
        if isinstance(node, ast.ImportFrom)
        and {alias.name for alias in node.names} & WRITE_PATH.get(node.module or "", set())
    }
    assert writers == WRITERS


def test_all_ways_to_name_a_function_are_recognized() -> None:
    text = "from a import commit_b as x\nimport c\nc.commit_d()\ncommit_e()\n"
    assert set(_used(SourceFile(Path("src/omnigraph/f.py"), text))) >= {"commit_b", "commit_d", "commit_e"}


STORAGE: Final = ("omnigraph.storage",)


def _is_in(source: SourceFile, modules: tuple[str, ...]) -> bool:
    return any(source.module == module or source.module.startswith(f"{module}.") for module in modules)


def _defined(source: SourceFile, prefix: str) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef) and node.name.startswith(prefix):
            yield node.name


def _used(source: SourceFile) -> Iterator[str]:
    for node in source.nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
