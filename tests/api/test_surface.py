"""The whole Python surface: these names and no others. A change here is a change for users."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pyarrow as pa
import pytest
from lance import LanceDataset

import omnigraph as og
from omnigraph import types
from omnigraph.base.display import Displayed

GRAPH = """
    actor apply_schema branch build_indexes changes checkout cleanup close create_branch delete_branch diff doctor
    embed explain export fix_location gate get_commit index_status list_branches load location log maintain merge
    mutate optimize pending_writes plan_schema prepare provider query read_only recoveries repair revert
    schema snapshot spark table to_networkx types uri
"""
RESULT = """
    batches columns row scalar schema source stream to_arrow to_json to_pandas to_polars to_pylist
"""


def test_names_of_the_package() -> None:
    assert dir(og) == sorted(og.__all__)
    assert dir(og.maintenance) == sorted(og.maintenance.__all__)
    errors = [name for name in dir(og) if name.endswith("Error")]
    assert [name for name in dir(og) if name not in errors] == [
        "Cluster", "EmbeddingProvider", "Graph", "QueryLimits", "RemoteGraph", "__version__", "cluster", "connect",
        "init", "lint", "maintenance", "open", "spark", "types",
    ]  # fmt: skip
    assert {name: getattr(og, name).__name__ for name in errors} == {name: name for name in errors}
    assert all(issubclass(getattr(og, name), og.OmnigraphError) for name in errors)
    with pytest.raises(AttributeError, match="has no attribute 'opne'"):
        og.opne  # noqa: B018


def test_rejected_content_has_one_base_class() -> None:
    for error in (og.LoadRejectedError, og.MutationRejectedError, og.SchemaRejectedError):
        assert issubclass(error, og.ValidationError)


def test_names_of_types() -> None:
    assert dir(types) == sorted(types.__all__)
    assert all(getattr(types, name).__name__ == name for name in types.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        types.Nothing  # noqa: B018


def test_names_of_a_graph() -> None:
    assert [name for name in dir(og.Graph) if not name.startswith("_")] == GRAPH.split()
    assert [name for name in dir(types.Result) if not name.startswith("_")] == RESULT.split()


def test_options_of_methods_are_keywords() -> None:
    methods = {
        name: member
        for name, member in vars(og.Graph).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }
    for name, method in methods.items():
        parameters = list(inspect.signature(method).parameters.values())[1:]
        positional = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
        assert len(positional) <= 2, f"{name} takes {positional} by position"


def test_everything_that_calls_return_has_short_representations() -> None:
    returned = {kind for call in _public_calls() for kind in _classes(_return_type(call))}
    ours = {kind for kind in returned if kind.__module__.startswith("omnigraph")}
    results = {getattr(types, name) for name in types.__all__ if name.endswith("Result")}
    assert {og.Graph, types.Snapshot, types.CommitRecord, types.Finding, *results} <= ours
    for kind in ours:
        assert "_repr_html_" in dir(kind), kind
        assert issubclass(kind, Displayed) or kind is types.Result
    assert {kind.__name__ for kind in returned - ours} == {"Any", "LanceDataset", "NoneType", "str"}


def _public_calls() -> list[Any]:
    methods = [
        member
        for kind in (og.Graph, types.PreparedQuery)
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and not name.startswith("_") and name != "_summary"
    ]
    return [og.init, og.open, og.lint, *methods]


def _return_type(call: Any) -> Any:
    """Return the annotation of a result, which names types that modules import only for type checkers."""
    names = {name: getattr(types, name) for name in types.__all__}
    text = inspect.signature(call).return_annotation
    return eval(text, {"Any": Any, "LanceDataset": LanceDataset, "Graph": og.Graph, **names})


def _classes(annotation: Any) -> Iterator[type]:
    """Yield the classes of an annotation: those of the items of a list, a tuple or an iterator."""
    parts = [part for part in get_args(annotation) if part is not ...]
    if not parts:
        yield type(None) if annotation is None else annotation
    for part in parts:
        yield from _classes(part)


def test_values_are_frozen() -> None:
    for name in types.__all__:
        kind = getattr(types, name)
        if is_dataclass(kind) and kind is not types.Result:
            parameters: Any = vars(kind)["__dataclass_params__"]
            assert parameters.frozen, name


def test_representations(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", "node P { k: String @key }")
    for number in range(12):
        added = graph.mutate(f'query add() {{ insert P {{ k: "<p{number:02}>" }} }}')
    result = graph.query("query q() { match { $p: P } return { $p.k } }")
    assert repr(result).splitlines()[1:] == [
        "  rows are read on demand: call `to_pandas()` or `to_pylist()`, or iterate"
    ]
    assert len(result) == 12
    plan = graph.plan_schema("node P { k: String @key  age: I32? } node Q { k: String @key }")
    feed = graph.changes()
    rows = [graph.log()[0], *graph.list_branches(), *graph.doctor(), *graph.index_status(), *graph.diff("HEAD")]
    assert {len(repr(row).splitlines()) for row in (*rows, feed[0])} == {1}
    values: tuple[Any, ...] = (
        graph,
        graph.snapshot(),
        added,
        result,
        graph.cleanup(keep=1),
        graph.repair(),
        plan,
        feed,
    )
    assert ("1 inserted" in repr(added), "EntityCounts" in repr(added)) == (True, False)
    with pytest.raises(og.NotFoundError) as missing:
        graph.table("Nope")
    assert str(missing.value.hint) == "Run `print(graph.schema)` to list the types."
    for value in (*values, *rows, og.lint("query q() {", graph.schema)):
        assert 1 <= len(repr(value).splitlines()) <= 10
        html = value._repr_html_()
        assert html.startswith("<table><caption>")
        assert html.endswith("</table>")
    assert "&lt;p00&gt;" in result._repr_html_()
    assert "4 more rows" in repr(result)


def test_representations_use_the_names_of_members() -> None:
    kinds = {og.Graph, og.RemoteGraph, *(getattr(types, name) for name in types.__all__)}
    shown = [kind for kind in kinds if isinstance(kind, type) and "_summary" in vars(kind)]
    assert len(shown) > 25
    for kind in shown:
        tree = ast.parse(textwrap.dedent(inspect.getsource(vars(kind)["_summary"])))
        literals = [
            key.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Dict)
            for key in node.keys
            if isinstance(key, ast.Constant)
        ]
        assert not set(literals) - set(dir(kind)), kind.__name__


def test_results_are_arrow_streams(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", "node P { k: String @key }")
    graph.mutate('query add() { insert P { k: "a" } }')
    result = graph.query("query q() { match { $p: P } return { $p.k } }")
    assert pa.table(result) == pa.RecordBatchReader.from_stream(result).read_all() == result.to_arrow()
    assert list(result) == result.to_pylist() == pl.DataFrame(result).to_dicts() == [{"p.k": "a"}]
