"""What upkeep did to the tables of a branch, and the commit. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.check import DriftError
from omnigraph.graph.records import CommitRecord
from omnigraph.maintenance.index_outcome import IndexRow
from omnigraph.maintenance.run_plan import TablePlan
from omnigraph.maintenance.table_view import TableView
from omnigraph.maintenance.table_work import TableWork


@dataclass(frozen=True, slots=True)
class UpkeptTable:
    """One table: as it was, what was planned, what of it is published, what was lost to others, or why it failed.

    `seconds` is the work on it alone, that of its tasks added up.
    """

    before: TableView | None
    plan: TablePlan | None
    work: TableWork | None
    has_conflict: bool
    error: OmnigraphError | None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Upkept:
    """What a run did. `tables` and `indexes` are in the order of the schema; `drifted` are heads by alias."""

    tables: Mapping[str, UpkeptTable]
    indexes: tuple[IndexRow, ...]
    commit: CommitRecord | None
    drifted: Mapping[str, DriftError]
