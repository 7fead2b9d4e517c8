"""Scans for workers: some fragments of one version, some columns, one filter.

In: a dataset handle and a `Scan` that travels to where it is read. Out: record batches; blobs come as their bytes.
Nothing is written. A filter that Lance refuses is the caller's mistake and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from omnigraph.base import limits
from omnigraph.base.errors import UsageError
from omnigraph.storage.dataset import Dataset
from omnigraph.storage.failures import plain_cause, substrate_errors

LAST_UPDATED: Final = "_row_last_updated_at_version"
"""The column with the version in which a row was inserted or last updated; a fork goes on with its parent's numbers."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What to read. `where` is SQL over the columns of the dataset, also those that are not read."""

    columns: tuple[str, ...]
    where: str | None = None
    updated_after: int | None = None


def check_filter(dataset: Dataset, where: str) -> None:
    """Raise `UsageError` unless Lance can plan the filter."""
    if not _is_closed(where):
        raise _refused(where, "its brackets do not match")
    try:
        # In brackets, as it is used: of a text with more after the condition Lance ignores the rest.
        dataset.native.scanner(columns=["id"], filter=f"({where})").explain_plan()
    except (ValueError, OSError) as refused:
        cause = plain_cause(refused).removeprefix("Invalid user input: ")
        raise _refused(where, cause) from refused


def scan_fragments(dataset: Dataset, fragments: tuple[int, ...], scan: Scan) -> Iterator[pa.RecordBatch]:
    """The rows of these fragments that the scan asks for, in their order."""
    if not fragments:
        return
    with substrate_errors("read the dataset", dataset.uri):
        yield from dataset.native.scanner(
            columns=list(scan.columns),
            filter=_condition(scan),
            fragments=dataset.fragments(fragments),
            batch_size_bytes=limits.SCAN_BATCH_BYTES,
            scan_in_order=True,
            blob_handling="all_binary",
        ).to_batches()


def _is_closed(where: str) -> bool:
    """Whether no bracket outside of texts and quoted names closes what it has not opened."""
    depth = 0
    for bracket in re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[^()]", "", where):
        depth += 1 if bracket == "(" else -1
        if depth < 0:
            return False
    return depth == 0


def _refused(where: str, cause: str) -> UsageError:
    return UsageError(
        f"the filter cannot be used: {cause}",
        code="filter_malformed",
        hint="write an SQL condition over the columns of the type, as age > 30 AND name LIKE 'A%'",
        facts={"filter": where},
    )


def _condition(scan: Scan) -> str | None:
    parts = [] if scan.where is None else [f"({scan.where})"]
    parts += [] if scan.updated_after is None else [f"{LAST_UPDATED} > {scan.updated_after}"]
    return " AND ".join(parts) or None
