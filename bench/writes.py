"""Writes rows to one table of a graph, through the complete write path but without the checks of a load."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

from omnigraph.graph.manifest.records import WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.lance.stage import stage_fragments, stage_overwrite_with, stage_upsert, write_rows
from omnigraph.storage.location import Location

Mode = Literal["append", "overwrite", "upsert"]


def commit_rows(root: Location, alias: str, rows: pa.Table, *, mode: Mode = "append", branch: str = MAIN) -> None:
    """Commit rows to a table. An upsert must have only existing ids."""

    def stage(area: StagingArea) -> StagedWrite:
        target = area.open_for_write(alias)
        dataset, count = target.dataset, target.table.row_count
        table = rows.cast(dataset.schema)
        match mode:
            case "append":
                count += rows.num_rows
                staged = stage_fragments(dataset, write_rows(dataset, table))
            case "overwrite":
                count = rows.num_rows
                staged = stage_overwrite_with(dataset, write_rows(dataset, table))
            case "upsert":
                staged = stage_upsert(dataset, table)
        return area.finish((area.transaction_effect(target, staged, count),), frozenset(), {})

    assert write(root, branch, WriteRequest(kind=WriteOperation.LOAD, actor="bench", stage=stage)) is not None
