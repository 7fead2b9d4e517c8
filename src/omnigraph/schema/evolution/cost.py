"""What a step costs: nothing but metadata, a scan, or a rewrite. Pure."""

from __future__ import annotations

from enum import Enum

from omnigraph.schema.evolution.steps import AddConstraint, AddProperty, DropProperty, RequiredRule, Step


class Cost(Enum):
    """How a step's time grows."""

    METADATA = "metadata_only"
    """It takes the same time whatever the number of rows."""
    READS = "reads_data"
    """Every row of the type is read."""
    REWRITES = "rewrites_data"
    """Every row of the type is written again, at least in part."""


def cost_of(step: Step, rows: int, filled_rows: int = 0) -> Cost:
    """The cost of a step on a type with that many rows, of which so many get a default for null."""
    match step:
        case AddConstraint(constraint=RequiredRule()) if filled_rows:
            return Cost.REWRITES
        case AddConstraint(implied=False) if rows:
            return Cost.READS
        case AddProperty(property=added) if rows and added.fill is not None:
            return Cost.REWRITES
        case DropProperty(hard=True) if rows:
            return Cost.REWRITES
        case _:
            return Cost.METADATA
