"""Maintenance of a graph: optimize, repair, cleanup, doctor, index status, schema apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions, TableCleanupStats
    from omnigraph.maintenance.cleanup.run import cleanup_all_tables
    from omnigraph.maintenance.optimize.options import OptimizeOptions, PendingIndex, SkipReason, TableOptimizeStats
    from omnigraph.maintenance.optimize.run import optimize_all_tables
    from omnigraph.maintenance.repair import RepairAction, RepairOptions, TableRepairStats, repair_all_tables

__all__ = [
    "CleanupPolicyOptions",
    "OptimizeOptions",
    "PendingIndex",
    "RepairAction",
    "RepairOptions",
    "SkipReason",
    "TableCleanupStats",
    "TableOptimizeStats",
    "TableRepairStats",
    "cleanup_all_tables",
    "optimize_all_tables",
    "repair_all_tables",
]

_MODULES = {
    "cleanup_all_tables": "omnigraph.maintenance.cleanup.run",
    "CleanupPolicyOptions": "omnigraph.maintenance.cleanup.options",
    "TableCleanupStats": "omnigraph.maintenance.cleanup.options",
    "optimize_all_tables": "omnigraph.maintenance.optimize.run",
    "OptimizeOptions": "omnigraph.maintenance.optimize.options",
    "PendingIndex": "omnigraph.maintenance.optimize.options",
    "SkipReason": "omnigraph.maintenance.optimize.options",
    "TableOptimizeStats": "omnigraph.maintenance.optimize.options",
    "repair_all_tables": "omnigraph.maintenance.repair",
    "RepairAction": "omnigraph.maintenance.repair",
    "RepairOptions": "omnigraph.maintenance.repair",
    "TableRepairStats": "omnigraph.maintenance.repair",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that a program loads only the libraries that it needs."""
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'omnigraph.maintenance' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
