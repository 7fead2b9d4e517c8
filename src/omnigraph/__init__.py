"""Omnigraph: a versioned graph database on open Lance files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from omnigraph import maintenance, spark, types
    from omnigraph.api.graph import Graph, init, open
    from omnigraph.api.texts import lint
    from omnigraph.base.errors import (
        ConfirmationRequiredError,
        ConflictError,
        LimitExceededError,
        NotFoundError,
        OmnigraphError,
        ParameterError,
        QueryTextError,
        RefusedError,
        SchemaTextError,
        StorageError,
        UsageError,
    )
    from omnigraph.client.connect import RemoteGraph, connect
    from omnigraph.cluster.project import Cluster
    from omnigraph.cluster.project import Cluster as cluster  # noqa: N813  # the package, which programs call
    from omnigraph.embedding.provider import EmbeddingProvider
    from omnigraph.engine.mutation.run import MutationRejectedError
    from omnigraph.engine.options import QueryLimits
    from omnigraph.graph.feed import ChangeFeedGapError
    from omnigraph.graph.manifest.requirements import PreconditionFailedError
    from omnigraph.graph.merge.conflicts import MergeConflictError
    from omnigraph.graph.schema_plan import UnsupportedSchemaChangeError
    from omnigraph.integrity.report import ValidationError
    from omnigraph.maintenance.schema_apply import SchemaRejectedError
    from omnigraph.pipeline.load.run import LoadRejectedError

__all__ = [
    "ChangeFeedGapError",
    "Cluster",
    "ConfirmationRequiredError",
    "ConflictError",
    "EmbeddingProvider",
    "Graph",
    "LimitExceededError",
    "LoadRejectedError",
    "MergeConflictError",
    "MutationRejectedError",
    "NotFoundError",
    "OmnigraphError",
    "ParameterError",
    "PreconditionFailedError",
    "QueryLimits",
    "QueryTextError",
    "RefusedError",
    "RemoteGraph",
    "SchemaRejectedError",
    "SchemaTextError",
    "StorageError",
    "UnsupportedSchemaChangeError",
    "UsageError",
    "ValidationError",
    "__version__",
    "cluster",
    "connect",
    "init",
    "lint",
    "maintenance",
    "open",
    "spark",
    "types",
]

__version__ = "0.1.0"

_MODULES: Final = {
    "ChangeFeedGapError": "omnigraph.graph.feed",
    "Cluster": "omnigraph.cluster.project",
    "EmbeddingProvider": "omnigraph.embedding.provider",
    "Graph": "omnigraph.api.graph",
    "LoadRejectedError": "omnigraph.pipeline.load.run",
    "MergeConflictError": "omnigraph.graph.merge.conflicts",
    "MutationRejectedError": "omnigraph.engine.mutation.run",
    "PreconditionFailedError": "omnigraph.graph.manifest.requirements",
    "QueryLimits": "omnigraph.engine.options",
    "RemoteGraph": "omnigraph.client.connect",
    "SchemaRejectedError": "omnigraph.maintenance.schema_apply",
    "UnsupportedSchemaChangeError": "omnigraph.graph.schema_plan",
    "ValidationError": "omnigraph.integrity.report",
    "connect": "omnigraph.client.connect",
    "init": "omnigraph.api.graph",
    "lint": "omnigraph.api.texts",
    "open": "omnigraph.api.graph",
}


def __getattr__(name: str) -> Any:
    """Import the Python surface when it is first used, so that `omnigraph version` starts without Lance."""
    if name not in __all__:
        raise AttributeError(f"module 'omnigraph' has no attribute '{name}'")
    if name in {"cluster", "maintenance", "spark", "types"}:
        return import_module(f"omnigraph.{name}")
    return getattr(import_module(_MODULES.get(name, "omnigraph.base.errors")), name)


def __dir__() -> list[str]:
    """Return the public names, including those that are not imported yet."""
    return list(__all__)
