"""Batches as a compressed Arrow stream in memory.

In: batches of one schema. Out: bytes, which tasks return and scratch files store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def compress_batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> bytes:
    """Return batches of one schema as compressed bytes."""
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_COMPRESSED) as writer:
        for batch in batches:
            writer.write_batch(batch)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream
