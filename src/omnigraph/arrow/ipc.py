"""Batches as an Arrow stream in memory.

In: batches of one schema. Out: bytes, which tasks return and scratch files store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_PLAIN: Final = pa.ipc.IpcWriteOptions()


def encode_batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, compressed: bool = True) -> bytes:
    """Return batches of one schema as bytes."""
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_COMPRESSED if compressed else _PLAIN) as writer:
        for batch in batches:
            writer.write_batch(batch)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream
