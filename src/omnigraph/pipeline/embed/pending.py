"""Reads the rows that `embed` fills: pending ones, or all with text. For `embed`, doctor and index status.

In: a table and a property with `@embed`. Out: ids and texts as batches, or their number. The vectors are read to find
those that are null. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph.base import limits
from omnigraph.pipeline.embed.plan import TEXT, TextCount, VectorProperty, count_texts, has_text_mask
from omnigraph.storage.lance.dataset import ADDRESS, IDENTITY, Dataset, column_text


def read_texts(dataset: Dataset, prop: VectorProperty, *, every_row: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the columns `id`, `TEXT`, `IDENTITY` and `ADDRESS` of the pending rows, or of every row with text."""
    source = prop.source.name
    where = f"{column_text(source)} IS NOT NULL"
    if not every_row:
        where += f" AND {column_text(prop.vector.name)} IS NULL"
    names = ["id", TEXT, IDENTITY, ADDRESS]
    for batch in dataset.read_batches(["id", source], where, batch_bytes=limits.SCAN_BATCH_BYTES, with_identities=True):
        columns = [batch.column(name) for name in ("id", source, IDENTITY, ADDRESS)]
        rows = pa.RecordBatch.from_arrays(columns, names)
        yield rows.filter(pa.array(has_text_mask(rows.column(TEXT))))


def count_pending(dataset: Dataset, prop: VectorProperty, *, every_row: bool = False) -> TextCount:
    """Return the number of pending rows, or of every row with text, and of their characters."""
    total = TextCount()
    for batch in read_texts(dataset, prop, every_row=every_row):
        total += count_texts(batch.column(TEXT))
    return total
