"""The engine as a world: in each way to follow edges, with and without indexes, after optimize, on a branch."""

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
from omnigraph.pipeline.load.source import PieceSource
from omnigraph.schema.tables import declared_indexes
from omnigraph.storage.lance.indexes import IndexSpec
from omnigraph.storage.location import Location, parse_location
from tests.conformance.case_files import Case, CaseFile, Changed, Expected, Rows, Step
from tests.engine.running import PlannedText
from tests.graph.writers import run_index
from tests.pipeline.in_place import in_place

_BRANCH: Final = "review/1"


@dataclass(frozen=True, slots=True)
class Shape:
    """How the graph of a world lies in storage. All worlds of one shape share it."""

    name: str
    indexed: bool = False
    optimized: bool = False
    branch: str = MAIN


PLAIN: Final = Shape("plain")
INDEXED: Final = Shape("indexed", indexed=True)
OPTIMIZED: Final = Shape("indexed, then loaded on, then optimized", indexed=True, optimized=True)
BRANCHED: Final = Shape("on a branch", branch=_BRANCH)
BRANCHED_OPTIMIZED: Final = Shape("on a branch, optimized", indexed=True, optimized=True, branch=_BRANCH)

_BUILT: dict[tuple[str, Shape], Location] = {}
_PREPARED: dict[tuple[str, str], PlannedText] = {}
_NUMBERS: Final = count(1)


@dataclass(frozen=True, slots=True)
class EngineWorld:
    """The engine over a graph of one shape; `mode` None lets it choose."""

    shape: Shape
    mode: TraversalMode | None = None
    cached: bool = True

    @property
    def name(self) -> str:
        how = self.mode.value if self.mode else "free"
        return f"engine, {self.shape.name}, {how}{'' if self.cached else ', not cached'}"

    def runs(self, case: Case) -> bool:
        """A way to follow edges makes no difference to what is written."""
        return self.mode is None or not case.changes

    def open(self, cases: CaseFile, place: Path) -> EngineSession:
        key = (cases.name, self.shape)
        if key not in _BUILT:
            _BUILT[key] = build(cases, self.shape, place)
        return EngineSession(_BUILT[key], self, self.shape.branch)


@dataclass(slots=True)
class EngineSession:
    """One graph of the engine; read once, until a mutation changes it."""

    root: Location
    world: EngineWorld
    branch: str
    snapshot: Snapshot | None = None

    def run(self, step: Step) -> Expected:
        if self.snapshot is None:
            self.snapshot = read_snapshot(self.root, self.branch)
        query = _PREPARED.setdefault((self.root.uri, step.text), PlannedText(step.text))
        if query.planner.checked(self.snapshot).is_mutation:
            self.snapshot = None
            options = MutationOptions("tester", self.branch)
            done = run_mutation_text(self.root, QuerySource(step.text), step.params, options)
            return Changed(done.affected_nodes, done.affected_edges, committed=done.commit is not None)
        how = EngineOptions(mode=self.world.mode, cached=self.world.cached)
        result = query.run(self.snapshot, step.params, QueryRunOptions(how))
        rows: list[dict[str, Any]] = json.loads(result.to_json())
        return Rows(tuple(result.columns), tuple(tuple(row.values()) for row in rows))

    def copy(self, place: Path) -> EngineSession:
        """A copy of the directory, or another branch, since a branch cannot be read in a copy."""
        if self.branch != MAIN:
            branch = f"case/{next(_NUMBERS)}"
            create_branch(self.root, branch, "tester", read_snapshot(self.root, self.branch))
            return EngineSession(self.root, self.world, branch)
        copied = place / "graph.omni"
        shutil.copytree(self.root.uri, copied)
        return EngineSession(parse_location(str(copied)), self.world, MAIN)


def build(cases: CaseFile, shape: Shape, place: Path) -> Location:
    """A graph with the data of a case file."""
    root = parse_location(str(place / "graph.omni"))
    og.init(root.uri, cases.schema)
    if shape.branch != MAIN:
        create_branch(root, shape.branch, "tester", read_snapshot(root, MAIN))
    half = len(cases.data) // 2 if shape.optimized else len(cases.data)
    nodes = [line for line in cases.data if '"type"' in line.split(":")[0]]
    first = nodes[: min(half, len(nodes))] if shape.optimized else list(cases.data)
    _load(root, first, shape.branch, place)
    if shape.indexed:
        _index(root, shape.branch)
    if shape.optimized:
        _load(root, [line for line in cases.data if line not in first], shape.branch, place)
        optimize_all_tables(Graph(root, shape.branch), OptimizeOptions(), in_place)
    return root


def _load(root: Location, lines: list[str], branch: str, place: Path) -> None:
    path = place / "data.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    source = PieceSource(plan_json_pieces(find_inputs([str(path)])))
    request = LoadRequest(source, LoadMode.APPEND, "tester", branch)
    load(root, request, in_place)


def _index(root: Location, branch: str) -> None:
    snapshot = read_snapshot(root, branch)
    for entity in snapshot.schema.catalog.types:
        if snapshot.tables[entity.alias].row_count:
            specs = [IndexSpec(found.column, found.kind) for found in declared_indexes(entity)]
            run_index(root, entity.alias, specs, branch)


ENGINE_WORLDS: Final = (
    *(EngineWorld(PLAIN, mode) for mode in TraversalMode),
    *(EngineWorld(INDEXED, mode) for mode in TraversalMode),
    EngineWorld(PLAIN, cached=False),
    EngineWorld(INDEXED, cached=False),
    EngineWorld(OPTIMIZED, cached=False),
    EngineWorld(BRANCHED),
)
SOAK_WORLDS: Final = (
    EngineWorld(OPTIMIZED),
    *(EngineWorld(OPTIMIZED, mode) for mode in TraversalMode),
    *(EngineWorld(BRANCHED, mode) for mode in TraversalMode),
    EngineWorld(BRANCHED_OPTIMIZED),
    EngineWorld(BRANCHED_OPTIMIZED, cached=False),
)
"""Ways that differ from the others in two things at once."""
