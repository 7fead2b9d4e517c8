"""The whole Python surface: these names and no others. A change here is a change for users."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import types
from omnigraph.base.display import Displayed

GRAPH = """
    actor apply_schema branch build_indexes changes checkout cleanup close create_branch delete_branch diff doctor
    explain export get_commit index_status list_branches load location log maintain merge mutate optimize pending_writes
    plan_schema prepare query read_only recoveries repair require_writable revert schema snapshot spark summary
    table types uri
"""
RESULT = """
    batches columns row scalar schema source stream to_arrow to_json to_pandas to_polars to_pylist
"""


def test_names_of_the_package() -> None:
    assert dir(og) == sorted(og.__all__)
    errors = [name for name in dir(og) if name.endswith("Error")]
    assert [name for name in dir(og) if name not in errors] == [
        "EmbeddingProvider", "Graph", "QueryLimits", "__version__", "init", "lint", "maintenance", "open", "spark",
        "types",
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


def test_every_result_has_short_representations() -> None:
    results = [getattr(types, name) for name in types.__all__ if name.endswith("Result")]
    assert len(results) >= 10
    for result in results:
        assert issubclass(result, Displayed) or result is types.Result
    assert issubclass(og.Graph, Displayed)
    assert issubclass(types.Snapshot, Displayed)


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
    assert len(result) == 12
    for value in (graph, graph.snapshot(), added, result, graph.cleanup(keep=1), graph.repair()):
        assert 1 <= len(repr(value).splitlines()) <= 10
        html = value._repr_html_()
        assert html.startswith("<table><caption>")
        assert html.endswith("</table>")
    assert "&lt;p00&gt;" in result._repr_html_()
    assert "4 more rows" in repr(result)
