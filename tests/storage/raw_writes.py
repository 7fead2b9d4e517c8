"""Writes to a dataset that no command makes: by condition, in one step, without a plan."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from omnigraph.storage.errors import translate_errors
from omnigraph.storage.lance.dataset import ADDRESS, Dataset
from omnigraph.storage.lance.indexes import (
    IndexSpec,
    Unbuildable,
    build_index_segment,
    commit_index_segments,
    plan_index,
)
from omnigraph.storage.lance.stage import (
    Rows,
    StagedTransaction,
    stage_delete_rows,
    stage_fragments,
    stage_overwrite_with,
    write_rows,
)


def stage_append(dataset: Dataset, rows: Rows) -> StagedTransaction:
    """Add rows."""
    return stage_fragments(dataset, write_rows(dataset, rows))


def stage_overwrite(dataset: Dataset, rows: Rows) -> StagedTransaction:
    """Replace every row."""
    return stage_overwrite_with(dataset, write_rows(dataset, rows))


def stage_delete(dataset: Dataset, where: str) -> StagedTransaction | None:
    """Delete the rows that match; return None if no row does."""
    addresses = dataset.read(["id"], where, with_addresses=True).column(ADDRESS).to_pylist()
    return stage_delete_rows(dataset, [int(str(address)) for address in addresses]) if addresses else None


def commit_upsert(dataset: Dataset, rows: pa.Table, key: str) -> Dataset:
    """Insert or replace rows by key as one version, like an external tool."""
    native = dataset.native_copy()
    with translate_errors("upsert", dataset.uri):
        builder = native.merge_insert(key).when_matched_update_all().when_not_matched_insert_all()
        builder.conflict_retries(0).retry_timeout(timedelta(seconds=30)).execute(rows)
    return Dataset(dataset.location, dataset.branch, native)


def commit_index(dataset: Dataset, spec: IndexSpec) -> Dataset | Unbuildable:
    """Build an index over all fragments."""
    plan = plan_index(dataset, spec)
    if isinstance(plan, Unbuildable):
        return plan
    return commit_index_segments(dataset, spec, (build_index_segment(dataset, plan, plan.fragment_ids),))
