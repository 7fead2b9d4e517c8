"""Omnigraph: a versioned graph database on open Lance files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from omnigraph import spark
    from omnigraph.api.graph import Graph, OpenOptions, init, open
    from omnigraph.base.errors import (
        ConflictError,
        NotFoundError,
        OmnigraphError,
        ParameterError,
        QueryTextError,
        RefusedError,
        SchemaTextError,
        StorageError,
        UsageError,
    )
    from omnigraph.embedding.provider import EmbeddingProvider
    from omnigraph.engine.mutation.run import MutationRejectedError
    from omnigraph.engine.options import QueryLimits
    from omnigraph.graph.feed import ChangeFeedGapError
    from omnigraph.graph.manifest.requirements import PreconditionFailedError
    from omnigraph.graph.merge.conflicts import MergeConflictError
    from omnigraph.graph.schema_plan import UnsupportedSchemaChangeError
    from omnigraph.maintenance.schema_apply import SchemaRejectedError
    from omnigraph.pipeline.load.run import LoadRejectedError

__all__ = [
    "ChangeFeedGapError",
    "ConflictError",
    "EmbeddingProvider",
    "Graph",
    "LoadRejectedError",
    "MergeConflictError",
    "MutationRejectedError",
    "NotFoundError",
    "OmnigraphError",
    "OpenOptions",
    "ParameterError",
    "PreconditionFailedError",
    "QueryLimits",
    "QueryTextError",
    "RefusedError",
    "SchemaRejectedError",
    "SchemaTextError",
    "StorageError",
    "UnsupportedSchemaChangeError",
    "UsageError",
    "__version__",
    "init",
    "open",
    "spark",
]

__version__ = "0.1.0"

_HOMES: Final = {
    "ChangeFeedGapError": "omnigraph.graph.feed",
    "EmbeddingProvider": "omnigraph.embedding.provider",
    "Graph": "omnigraph.api.graph",
    "LoadRejectedError": "omnigraph.pipeline.load.run",
    "MergeConflictError": "omnigraph.graph.merge.conflicts",
    "MutationRejectedError": "omnigraph.engine.mutation.run",
    "OpenOptions": "omnigraph.api.graph",
    "PreconditionFailedError": "omnigraph.graph.manifest.requirements",
    "QueryLimits": "omnigraph.engine.options",
    "UnsupportedSchemaChangeError": "omnigraph.graph.schema_plan",
    "SchemaRejectedError": "omnigraph.maintenance.schema_apply",
    "init": "omnigraph.api.graph",
    "open": "omnigraph.api.graph",
}


def __getattr__(name: str) -> Any:
    """Import the Python surface when it is first used, so that `omnigraph version` starts without Lance."""
    if name not in __all__:
        raise AttributeError(f"module 'omnigraph' has no attribute '{name}'")
    if name == "spark":
        return import_module("omnigraph.spark")
    return getattr(import_module(_HOMES.get(name, "omnigraph.base.errors")), name)


def __dir__() -> list[str]:
    """The public names, those too that are not imported yet."""
    return sorted({*globals(), *__all__})
