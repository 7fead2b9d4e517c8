"""The engine as a backend: in each traversal mode, with and without indexes, after optimize, on a branch."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import omnigraph as og
from omnigraph.api.graph import Graph
from omnigraph.engine.mutation.text import MutationOptions, run_mutation_text
from omnigraph.engine.options import EngineOptions, TraversalMode
from omnigraph.engine.prepare import QuerySource
from omnigraph.engine.run import QueryRunOptions
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.maintenance.optimize.options import OptimizeOptions
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.inputs.files import find_inputs
from omnigraph.pipeline.load.inputs.ndjson import plan_json_pieces
from omnigraph.pipeline.load.run import LoadRequest, load
from omnigraph.pipeline.load.source import InputSource
from omnigraph.schema.tables import declared_indexes
from omnigraph.storage.lance.indexes import IndexSpec
from omnigraph.storage.location import Location, parse_location
from tests.conformance.case_files import CaseFile, CaseStep, Changed, Expected, LanguageCase, Rows
from tests.engine.running import PlannedText
from tests.graph.writers import run_index
from tests.pipeline.in_place import in_place

_BRANCH: Final = "review/1"


@dataclass(frozen=True, slots=True)
class Storage:
    """How the graph of a backend is stored. Backends with equal values share the graph."""

    name: str
    indexed: bool = False
    optimized: bool = False
    branch: str = MAIN


PLAIN: Final = Storage("plain")
INDEXED: Final = Storage("indexed", indexed=True)
OPTIMIZED: Final = Storage("indexed, then loaded on, then optimized", indexed=True, optimized=True)
BRANCHED: Final = Storage("on a branch", branch=_BRANCH)
BRANCHED_OPTIMIZED: Final = Storage("on a branch, optimized", indexed=True, optimized=True, branch=_BRANCH)

_BUILT: dict[tuple[str, Storage], Location] = {}
_PREPARED: dict[tuple[str, str], PlannedText] = {}
_NUMBERS: Final = count(1)


@dataclass(frozen=True, slots=True)
class EngineBackend:
    """The engine over a stored graph; with `mode` None it chooses the mode."""

    storage: Storage
    mode: TraversalMode | None = None
    cached: bool = True

    @property
    def name(self) -> str:
        mode = self.mode.value if self.mode else "free"
        return f"engine, {self.storage.name}, {mode}{'' if self.cached else ', not cached'}"

    def runs(self, case: LanguageCase) -> bool:
        """Return whether the case can have another result here: the mode does not change what is written."""
        return self.mode is None or not case.changes

    def open(self, cases: CaseFile, directory: Path) -> EngineSession:
        key = (cases.name, self.storage)
        if key not in _BUILT:
            _BUILT[key] = build(cases, self.storage, directory)
        return EngineSession(_BUILT[key], self, self.storage.branch)


@dataclass(slots=True)
class EngineSession:
    """An open graph; its snapshot is read again after a mutation."""

    root: Location
    backend: EngineBackend
    branch: str
    snapshot: Snapshot | None = None

    def run(self, step: CaseStep) -> Expected:
        if self.snapshot is None:
            self.snapshot = read_snapshot(self.root, self.branch)
        query = _PREPARED.setdefault((self.root.uri, step.text), PlannedText(step.text))
        checked, _ = query.planner.check(self.snapshot)
        if checked.is_mutation:
            self.snapshot = None
            mutation_options = MutationOptions(actor="tester", branch=self.branch)
            done = run_mutation_text(self.root, QuerySource(step.text), step.params, mutation_options)
            return Changed(done.affected_nodes, done.affected_edges, committed=done.commit is not None)
        options = EngineOptions(mode=self.backend.mode, cached=self.backend.cached)
        result = query.run(self.snapshot, step.params, QueryRunOptions(options))
        rows: list[dict[str, Any]] = json.loads(result.to_json())
        return Rows(tuple(result.columns), tuple(tuple(row.values()) for row in rows))

    def copy(self, directory: Path) -> EngineSession:
        """Return a copy of the directory, or a new branch, because a copied branch cannot be read."""
        if self.branch != MAIN:
            branch = f"case/{next(_NUMBERS)}"
            create_branch(self.root, branch, "tester", read_snapshot(self.root, self.branch))
            return EngineSession(self.root, self.backend, branch)
        copied = directory / "graph.omni"
        shutil.copytree(self.root.uri, copied)
        return EngineSession(parse_location(str(copied)), self.backend, MAIN)


def build(cases: CaseFile, storage: Storage, directory: Path) -> Location:
    """Create a graph with the data of a case file."""
    root = parse_location(str(directory / "graph.omni"))
    og.init(root.uri, cases.schema)
    if storage.branch != MAIN:
        create_branch(root, storage.branch, "tester", read_snapshot(root, MAIN))
    half = len(cases.data) // 2 if storage.optimized else len(cases.data)
    nodes = [line for line in cases.data if '"type"' in line.split(":")[0]]
    first = nodes[: min(half, len(nodes))] if storage.optimized else list(cases.data)
    _load(root, first, storage.branch, directory)
    if storage.indexed:
        _index(root, storage.branch)
    if storage.optimized:
        _load(root, [line for line in cases.data if line not in first], storage.branch, directory)
        optimize_all_tables(Graph(root, branch=storage.branch), OptimizeOptions(), in_place)
    return root


def _load(root: Location, lines: list[str], branch: str, directory: Path) -> None:
    path = directory / "data.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    source = InputSource(plan_json_pieces(find_inputs([str(path)])))
    request = LoadRequest(source=source, mode=LoadMode.APPEND, actor="tester", branch=branch)
    load(root, request, in_place)


def _index(root: Location, branch: str) -> None:
    snapshot = read_snapshot(root, branch)
    for entity in snapshot.schema.catalog.types:
        if snapshot.tables[entity.alias].row_count:
            specs = [IndexSpec(index.column, index.kind) for index in declared_indexes(entity)]
            run_index(root, entity.alias, specs, branch)


ENGINE_BACKENDS: Final = (
    *(EngineBackend(PLAIN, mode) for mode in TraversalMode),
    *(EngineBackend(INDEXED, mode) for mode in TraversalMode),
    EngineBackend(PLAIN, cached=False),
    EngineBackend(INDEXED, cached=False),
    EngineBackend(OPTIMIZED, cached=False),
    EngineBackend(BRANCHED),
)
SOAK_BACKENDS: Final = (
    EngineBackend(OPTIMIZED),
    *(EngineBackend(OPTIMIZED, mode) for mode in TraversalMode),
    *(EngineBackend(BRANCHED, mode) for mode in TraversalMode),
    EngineBackend(BRANCHED_OPTIMIZED),
    EngineBackend(BRANCHED_OPTIMIZED, cached=False),
)
"""Backends that combine two properties of the others."""
