"""The figures of the files of each table: what optimize works on. From metadata; nothing here writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.base import limits
from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, open_table, read_snapshot
from omnigraph.maintenance.drift import owned_tables
from omnigraph.schema.catalog import display_order
from omnigraph.storage.lance.fragments import count_deleted_rows
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """The files of a table on the branch that owns them."""

    table_key: str
    branch: str
    rows: int
    fragments: int
    small_fragments: int
    """Fragments with fewer rows than a healthy one."""
    deleted_share: float
    """The share of the rows in the files that are deleted."""


def read_table_figures(root: Location) -> list[TableFigures]:
    """Return the figures of every table that can be read, by branch. Doctor reports those that cannot be read."""
    return [figures for snapshot in _branches(root) for figures in _figures_of_branch(snapshot)]


def _branches(root: Location) -> Iterator[Snapshot]:
    main = read_snapshot(root)
    for name in sorted(main.state.branches, key=lambda name: (name != MAIN, name)):
        try:
            yield main if name == MAIN else read_snapshot(root, name)
        except OmnigraphError:
            continue


def _figures_of_branch(snapshot: Snapshot) -> Iterator[TableFigures]:
    for table in sorted(owned_tables(snapshot), key=lambda table: display_order(table.alias)):
        try:
            dataset = open_table(snapshot.root, table)
            rows, deleted = dataset.fragment_rows(), count_deleted_rows(dataset)
        except OmnigraphError:
            continue
        stored = sum(rows.values()) + deleted
        yield TableFigures(
            table_key=table.alias,
            branch=snapshot.branch.name,
            rows=table.row_count,
            fragments=len(rows),
            small_fragments=sum(1 for count in rows.values() if count < limits.HEALTHY_FRAGMENT_ROWS_MIN),
            deleted_share=round(deleted / stored, 4) if stored else 0.0,
        )
