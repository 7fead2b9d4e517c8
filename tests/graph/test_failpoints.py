"""Every durable call of the graph has a failpoint directly before it, and every failpoint is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from omnigraph.base.failpoints import Failpoint
from tests.style.source import SourceFile, python_sources

# A durable call inside one of these has its failpoint before the call of the function itself.
WRAPPERS: Final[dict[str, str]] = {
    "write_intent": "encodes the intent; Arm has the points around it",
    "delete_intent": "Disarm and recovery end with it, each with a point of its own",
    "_delete_table": "accepts an external file at the path; the caller has the point before it",
    "_commit_table": "chooses how to commit; Commit has the points around it",
}
# Staging writes files that nothing references; a crash there leaves files that cleanup deletes.
HARMLESS_PREFIX: Final = "stage_"
STORE_METHODS: Final = {"create", "delete", "delete_below"}

GOLDEN: Final = """\
init.remove.before init.mark.before init.table.before init.manifest.before init.unmark.before init.done
fork.before fork.after fork.discard.before schema.table.before scratch.remove.before
lease.acquire.before lease.acquire.after lease.collect.before lease.renew.before
rewrite.deletions.before check.done heal.before heal.publish.before arm.before arm.after commit.before
table.strip.before index.drop.before rewrite.before rewrite.after index.commit.before index.commit.after
commit.between commit.after
manifest.migrate.before manifest.stamp.before manifest.root.before manifest.strip.before
manifest.compact.before manifest.compact.after
publish.before publish.after disarm.before disarm.after lease.release.before lease.release.after
branch.fork.before branch.row.before branch.fence.before branch.remove.before
recovery.fence.before recovery.fence.after recovery.rollback.before recovery.rollback.after
recovery.publish.before recovery.delete.before
cleanup.fence.before cleanup.delete.before
cluster.create.before cluster.schema.before cluster.resource.before cluster.replace.before cluster.approve.before
cluster.delete.before cluster.delete.files.before cluster.ledger.before cluster.ledger.after cluster.collect.before
"""


def test_list_of_failpoints() -> None:
    assert [str(point) for point in Failpoint] == GOLDEN.split()


def test_every_failpoint_is_in_the_code() -> None:
    used = {
        node.args[0].attr
        for source in _graph_sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and _is_failpoint(node) and isinstance(node.args[0], ast.Attribute)
    }
    assert used == {point.name for point in Failpoint}


def test_every_durable_call_has_a_failpoint_right_before_it() -> None:
    durable = _announcing() | set(WRAPPERS)
    assert {"commit_staged", "commit_branch", "create_dataset", "commit_replacement"} <= durable
    unguarded = [text for source in _graph_sources() for text in _unguarded(source, durable)]
    assert unguarded == []


def test_every_wrapper_exists() -> None:
    defined = {
        node.name for source in _graph_sources() for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef)
    }
    assert set(WRAPPERS) <= defined


@pytest.mark.parametrize(
    "body",
    [
        "commit_restore(a)",
        "failpoint(Failpoint.A)\n    x = 1\n    commit_restore(a)",
        "failpoint(Failpoint.A)\n    for x in y:\n        commit_restore(x)",
        "failpoint(Failpoint.A)\n    if x:\n        self.store.create(x)",
        "failpoint(Failpoint.A)\n    return lambda: commit_restore(a)",
        "x = 1\n    try:\n        store.delete(x)\n    except E: pass",
    ],
)
def test_call_without_a_failpoint_is_found(body: str) -> None:
    source = SourceFile(Path("src/omnigraph/graph/a.py"), f"def f():\n    {body}\n")
    assert len(list(_unguarded(source, {"commit_restore"}))) == 1


@pytest.mark.parametrize(
    "body",
    [
        "failpoint(Failpoint.A)\n    commit_restore(a)",
        "failpoint(Failpoint.A)\n    return commit_restore(a)",
        "failpoint(Failpoint.A)\n    if not store.create(a):\n        return None",
        "failpoint(Failpoint.A)\n    try:\n        commit_restore(a)\n    except E: pass",
        "for x in y:\n        failpoint(Failpoint.A)\n        self.store.delete(x)",
    ],
)
def test_call_with_a_failpoint_is_not_reported(body: str) -> None:
    source = SourceFile(Path("src/omnigraph/graph/a.py"), f"def f():\n    {body}\n")
    assert list(_unguarded(source, {"commit_restore"})) == []


def _graph_sources() -> list[SourceFile]:
    """Return the packages that make durable calls: the graph, the commands that delete, and the ledger of clusters."""
    packages = (
        "omnigraph.graph",
        "omnigraph.maintenance.cleanup",
        "omnigraph.maintenance.delete_graph",
        "omnigraph.cluster",
    )
    return [source for source in python_sources() if source.module.startswith(packages)]


def _announcing() -> set[str]:
    """Return the public functions of `storage` that announce a durable effect, directly or through another function."""
    functions = [
        node
        for source in python_sources()
        if source.module.startswith("omnigraph.storage")
        for node in source.tree.body
        if isinstance(node, ast.FunctionDef)
    ]
    durable = {"announce"}
    for _ in functions:
        durable |= {f.name for f in functions if durable & {_called(call) for call in _calls(f)}}
    return {name for name in durable if not name.startswith(("_", HARMLESS_PREFIX)) and name != "announce"}


def _unguarded(source: SourceFile, durable: set[str]) -> Iterator[str]:
    for function in ast.walk(source.tree):
        if isinstance(function, ast.FunctionDef) and function.name not in WRAPPERS:
            yield from _unguarded_in(function.body, durable, f"{source.path}: {function.name}", False)


def _unguarded_in(block: list[ast.stmt], durable: set[str], where: str, guarded: bool) -> Iterator[str]:
    """Yield durable calls without a failpoint. `guarded`: one is directly before the block, or its `try` or `with`."""
    for statement in block:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            guarded = False
            continue
        inner = [part for part in ("body", "orelse", "finalbody", "handlers") if hasattr(statement, part)]
        own = [node for node in ast.iter_child_nodes(statement) if not _is_in_block(statement, node, inner)]
        for call in [call for part in own for call in _calls(part)]:
            in_lambda = any(isinstance(n, ast.Lambda) and call in list(ast.walk(n)) for n in ast.walk(statement))
            if _is_durable(call, durable) and (in_lambda or not guarded):
                yield f"{where}: {ast.unparse(call.func)} in line {call.lineno}"
        for part in inner:
            opens = guarded and part == "body" and isinstance(statement, ast.Try | ast.With)
            nested_part = getattr(statement, part)
            blocks = [handler.body for handler in nested_part] if part == "handlers" else [nested_part]
            for nested in blocks:
                yield from _unguarded_in(nested, durable, where, opens)
        guarded = (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and _is_failpoint(statement.value)
        )


def _is_in_block(statement: ast.stmt, node: ast.AST, parts: list[str]) -> bool:
    return any(node in getattr(statement, part) for part in parts)


def _is_durable(call: ast.Call, durable: set[str]) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr in STORE_METHODS:
        return ast.unparse(call.func.value).endswith("store")
    return _called(call) in durable


def _calls(node: ast.AST) -> list[ast.Call]:
    return [part for part in ast.walk(node) if isinstance(part, ast.Call)]


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _is_failpoint(call: ast.Call) -> bool:
    return _called(call) == "failpoint"
