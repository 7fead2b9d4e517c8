"""Optimize, repair, cleanup, doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.maintenance.cleanup import cleanup_all_tables
    from omnigraph.maintenance.cleanup_options import CleanupPolicyOptions, TableCleanupStats
    from omnigraph.maintenance.optimize import OptimizeOptions, optimize_all_tables
    from omnigraph.maintenance.optimize_stats import PendingIndex, SkipReason, TableOptimizeStats
    from omnigraph.maintenance.repair import repair_all_tables
    from omnigraph.maintenance.repair_outcome import RepairAction, RepairOptions, TableRepairStats

_HOMES = {
    "cleanup_all_tables": "omnigraph.maintenance.cleanup",
    "CleanupPolicyOptions": "omnigraph.maintenance.cleanup_options",
    "TableCleanupStats": "omnigraph.maintenance.cleanup_options",
    "optimize_all_tables": "omnigraph.maintenance.optimize",
    "OptimizeOptions": "omnigraph.maintenance.optimize",
    "PendingIndex": "omnigraph.maintenance.optimize_stats",
    "SkipReason": "omnigraph.maintenance.optimize_stats",
    "TableOptimizeStats": "omnigraph.maintenance.optimize_stats",
    "repair_all_tables": "omnigraph.maintenance.repair",
    "RepairAction": "omnigraph.maintenance.repair_outcome",
    "RepairOptions": "omnigraph.maintenance.repair_outcome",
    "TableRepairStats": "omnigraph.maintenance.repair_outcome",
}

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


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is first used: each of these brings libraries of its own."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'omnigraph.maintenance' has no attribute '{name}'")
