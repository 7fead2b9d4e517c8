"""Where things lie inside a graph's directory. Paths are relative to the root, with `/`."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from omnigraph.base.ids import BranchId, Incarnation, OperationId, TypeId

MANIFEST: Final = "__manifest"
RECOVERY: Final = "__recovery"
LOCKS: Final = "__locks"
GRAPH_INDEX: Final = "__graph_index"
INIT_MARKERS: Final = "__init"
SCRATCH: Final = "__scratch"
NODES: Final = "nodes"
EDGES: Final = "edges"

ROOT_NAMES: Final = frozenset({MANIFEST, RECOVERY, LOCKS, GRAPH_INDEX, INIT_MARKERS, SCRATCH, NODES, EDGES})

TABLE_PATH: Final = re.compile(rf"({NODES}|{EDGES})/[0-9a-f]{{16}}-[0-9a-f]{{16}}")


class TableKind(Enum):
    """What a table holds; the value is the prefix of its alias."""

    NODE = "node"
    EDGE = "edge"


def table_path(kind: TableKind, type_id: TypeId, incarnation: Incarnation) -> str:
    """The directory of one table."""
    folder = NODES if kind is TableKind.NODE else EDGES
    return f"{folder}/{type_id}-{incarnation}"


def intent_path(operation: OperationId) -> str:
    """The object that announces a write under way."""
    return f"{RECOVERY}/{operation}.json"


def init_marker_path(operation: OperationId) -> str:
    """The object that says a graph is being created here."""
    return f"{INIT_MARKERS}/{operation}.json"


def lock_folder(branch: BranchId | None) -> str:
    """Where the lease of a graph branch lives; None is the lease of the whole graph."""
    return f"{LOCKS}/{branch or 'graph'}"
