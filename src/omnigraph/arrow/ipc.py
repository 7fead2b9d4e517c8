"""Rows as a packed Arrow stream in memory: how they travel in the parts of tasks and in files of scratch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

_PACKED: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def packed_stream(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> bytes:
    """The bytes of some batches of one schema."""
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_PACKED) as writer:
        for batch in batches:
            writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
