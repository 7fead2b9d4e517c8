"""Images as lines of graph data, as `load` reads them: how changes and conflicts tell what an entity is.

In: an image. Out: a text for each of its rows, None where there is no row. Nothing here writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from omnigraph.graph.images import Image, blob_names
from omnigraph.integrity.ndjson_text import blob_text, json_lines
from omnigraph.schema import Entity

Content = bytes | str | None
"""A blob: its bytes, or the URI of one that lies elsewhere."""


def image_lines(
    entity: Entity, image: Image, shown: Callable[[Content], Content] = lambda content: content
) -> Iterator[str | None]:
    """Each row as a line of graph data. `shown` is what is told of a blob, all of it unless given."""
    rows = image.rows.filter(pa.array(image.present))
    for name in blob_names(entity):
        contents = [
            None if one is None else shown(one["data"] if one["uri"] is None else one["uri"])
            for one in rows.column(name).to_pylist()
        ]
        rows = rows.set_column(rows.schema.get_field_index(name), name, blob_text(contents))
    lines: Iterator[Any] = iter(())
    if rows.num_rows:
        lines = iter(json_lines(entity, rows.combine_chunks().to_batches()[0]).to_pylist())
    for there in image.present:
        yield str(next(lines)) if there else None


def digest_of(content: Content) -> Content:
    """A blob by its size and digest, for where many of them would be too much."""
    if not isinstance(content, bytes):
        return content
    return f"sha256:{hashlib.sha256(content).hexdigest()} ({len(content)} bytes)"
