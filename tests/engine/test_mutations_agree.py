"""Generated mutations on the engine and on a model of dictionaries: the same counts, violations and rows."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import parse_location
from tests.conformance.backends import ReferenceSession, outcome
from tests.conformance.case_files import CaseStep, Changed, Expected, Failed
from tests.conformance.engine_backend import PLAIN, EngineBackend, EngineSession
from tests.conformance.model import ModelGraph
from tests.schema.incarnations import catalog_of

SCHEMA: Final = """\
node P { k: String @key  n: I32?  u: I32? @unique  tags: [String]?  @range(n, 0..9) }
node N { t: String }
edge K: P -> P @card(0..2) { w: I32? }
edge F: P -> P { w: I32?  @key(src, dst) }
"""
Contents = dict[str, Counter[str]]
KEYS: Final = ("a", "b", "c", "d")

_keys = st.sampled_from(KEYS)
_numbers = st.sampled_from(("0", "1", "2", "9", "10", "null"))
_conditions = st.sampled_from(
    (
        "true",
        "n = 1",
        "n > 1 or u is null",
        "not (n = 2)",
        "u in [0, 1, 2]",
        'tags contains "x"',
        'k = "a"',
        'k in ["b", "d"]',
        "n = null",
    )
)
_edge_conditions = st.sampled_from(
    ("true", "w = 1", "w is null", 'from = "a"', 'to = "b" and not (w = 2)', "from = to")
)
_values = st.tuples(_numbers, _numbers, st.sampled_from(('["x"]', "[]", "null")))
_computed = st.sampled_from(
    ("n: n + 1", "u: u + n", "n: u, u: n", "n: 3 - 4 + n * 2", "u: -u, tags: null", "n: 2 * 3", "tags: tags, n: u")
)

inserts = st.one_of(
    st.builds(lambda key, v: f'insert P {{ k: "{key}", n: {v[0]}, u: {v[1]}, tags: {v[2]} }}', _keys, _values),
    st.sampled_from(('insert N { t: "x" }', 'insert N { t: "y" }')),
    st.builds(
        lambda edge, ends, w: f'insert {edge} {{ from: "{ends[0]}", to: "{ends[1]}", w: {w} }}',
        st.sampled_from(("K", "F")),
        st.tuples(_keys, _keys),
        _numbers,
    ),
)
updates = st.one_of(
    st.builds(lambda n, p: f"update P set {{ n: {n} }} where {p}", _numbers, _conditions),
    st.builds(lambda n, p: f"update P set {{ u: {n}, tags: null }} where {p}", _numbers, _conditions),
    st.builds(lambda n, p: f"update K set {{ w: {n} }} where {p}", _numbers, _edge_conditions),
    st.builds(lambda n, p: f"update F set {{ w: {n} }} where {p}", _numbers, _edge_conditions),
    st.just('update N set { t: "z" } where t != "x"'),
    st.builds(lambda v, p: f"update P set {{ {v} }} where {p}", _computed, _conditions),
    st.builds(
        lambda v, p: f"update K set {{ w: {v} }} where {p}",
        st.sampled_from(("w + 1", "-w", "w * w - 1")),
        _edge_conditions,
    ),
)
deletes = st.one_of(
    _conditions.map(lambda p: f"delete P where {p}"),
    _edge_conditions.map(lambda p: f"delete K where {p}"),
    _edge_conditions.map(lambda p: f"delete F where {p}"),
    st.just('delete N where t = "x"'),
)
mutations = st.one_of(
    st.lists(inserts, min_size=1, max_size=4),
    st.lists(inserts | updates, min_size=1, max_size=5),
    st.lists(deletes, min_size=1, max_size=3),
).map(lambda statements: f"query m() {{ {' '.join(statements)} }}")
SEED: Final = """query seed() {
  insert P { k: "a", n: 1, u: 0, tags: ["x"] } insert P { k: "b", n: 2 } insert P { k: "c", u: 1, tags: [] }
  insert N { t: "x" } insert N { t: "w" }
  insert K { from: "a", to: "b", w: 1 } insert K { from: "a", to: "b" } insert K { from: "c", to: "c", w: 2 }
  insert F { from: "a", to: "b", w: 1 } insert F { from: "b", to: "a" }
}"""


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("seeded") / "graph.omni"
    og.init(str(path), SCHEMA).mutate(SEED)
    return path


@given(st.lists(mutations, min_size=1, max_size=3))
@example(["query m() { " + 3 * 'insert K { from: "d", to: "a", w: 1 } ' + "}"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_engine_and_model_agree(seeded: Path, texts: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        shutil.copytree(seeded, Path(folder) / "graph.omni")
        root = parse_location(str(Path(folder) / "graph.omni"))
        engine = EngineSession(root, EngineBackend(PLAIN), MAIN)
        model = ReferenceSession(ModelGraph(catalog_of(SCHEMA)), rewritten=False)
        assert outcome(model, step(SEED)) == Changed(5, 5)
        for text in texts:
            assert comparable(outcome(engine, step(text))) == comparable(outcome(model, step(text)))
            assert stored_rows(read_snapshot(root)) == model_rows(model.graph)


def step(text: str) -> CaseStep:
    return CaseStep(text, {}, Changed(0, 0), 0)


def comparable(result: Expected) -> object:
    """Return the result; of an error the set of violated rules, without their numbers."""
    return set(result.codes) if isinstance(result, Failed) else result


def stored_rows(snapshot: Snapshot) -> Contents:
    contents = {}
    for alias, table in snapshot.tables.items():
        dataset = open_dataset(snapshot.root.child(table.path), version=table.pin.version)
        assert dataset.count_rows() == table.row_count, alias
        contents[alias] = Counter(row_text(alias, row) for row in dataset.read().to_pylist())
    return contents


def model_rows(graph: ModelGraph) -> Contents:
    return {alias: Counter(row_text(alias, row) for row in rows) for alias, rows in graph.tables.items()}


def row_text(alias: str, row: dict[str, Any]) -> str:
    """Return a row as text, without generated ids."""
    shown = {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}
    if alias in {"node:N", "edge:K"}:
        del shown["id"]
    return repr(sorted(shown.items()))
