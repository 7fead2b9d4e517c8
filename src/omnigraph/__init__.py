"""Omnigraph: a versioned graph database on open Lance files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph import spark
    from omnigraph.api.graph import Graph, OpenOptions, init, open
    from omnigraph.base.errors import OmnigraphError
    from omnigraph.engine.embedding import EmbeddingProvider
    from omnigraph.engine.options import QueryLimits

__all__ = [
    "EmbeddingProvider",
    "Graph",
    "OmnigraphError",
    "OpenOptions",
    "QueryLimits",
    "__version__",
    "init",
    "open",
    "spark",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the Python surface when it is first used, so that `omnigraph version` starts without Lance."""
    if name == "EmbeddingProvider":
        from omnigraph.engine import embedding

        return embedding.EmbeddingProvider
    if name == "OmnigraphError":
        from omnigraph.base import errors

        return errors.OmnigraphError
    if name == "QueryLimits":
        from omnigraph.engine import options

        return options.QueryLimits
    if name in __all__ and name != "spark":
        from omnigraph.api import graph

        return getattr(graph, name)
    if name == "spark":
        from importlib import import_module

        return import_module("omnigraph.spark")
    raise AttributeError(f"module 'omnigraph' has no attribute '{name}'")
