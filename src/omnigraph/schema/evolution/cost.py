"""What a step costs: nothing but metadata, a scan, or a rewrite. Pure."""

from __future__ import annotations

from enum import Enum

from omnigraph.schema.evolution.steps import AddConstraint, AddProperty, DropProperty, Step


class Cost(Enum):
    """How a step's time grows."""

    METADATA = "metadata_only"
    READS = "reads_data"
    REWRITES = "rewrites_data"


def cost_of(step: Step, rows: int) -> Cost:
    """The cost of a step on a type with that many rows."""
    match step:
        case AddConstraint(implied=False) if rows:
            return Cost.READS
        case AddProperty(property=added) if rows and added.fill is not None:
            return Cost.REWRITES
        case DropProperty(hard=True) if rows:
            return Cost.REWRITES
        case _:
            return Cost.METADATA
