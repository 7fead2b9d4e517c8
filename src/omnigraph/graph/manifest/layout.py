"""Paths inside the directory of a graph, relative to its root, with `/`. Nothing here does I/O."""

from __future__ import annotations

import re
from typing import Final

from omnigraph.base.ids import BranchId, OperationId
from omnigraph.schema.catalog import Entity, NodeType

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


def table_path(entity: Entity) -> str:
    """Return the directory of the table of a type."""
    directory = NODES if isinstance(entity, NodeType) else EDGES
    return f"{directory}/{entity.id}-{entity.incarnation}"


def intent_path(operation: OperationId) -> str:
    """Return the path of the intent of a write."""
    return f"{RECOVERY}/{operation}.json"


def init_marker_path(operation: OperationId) -> str:
    """Return the path of the marker of an `init` in progress."""
    return f"{INIT_MARKERS}/{operation}.json"


def lock_directory(branch: BranchId | None) -> str:
    """Return the directory of the lease of a branch; None is the lease of the whole graph."""
    return f"{LOCKS}/{branch or 'graph'}"
