"""Writes a blob to a stream or to a file that gets its name when it is complete, part by part."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from omnigraph.pipeline.export.target import ExportTarget, TargetKind, require_free_target
from omnigraph.storage.files import write_file
from omnigraph.storage.location import parse_location
from omnigraph.wire.results import BlobOutput

if TYPE_CHECKING:
    from omnigraph.client.protocol import BlobContent, GraphClient
    from omnigraph.wire.requests import BlobParameters

_PART_BYTES: Final = 8 * 1024 * 1024


def describe_blob(parameters: BlobParameters, blob: BlobContent) -> BlobOutput:
    """Return the document of a blob."""
    return BlobOutput(
        entity=parameters.entity,
        type=parameters.type,
        id=parameters.id,
        property=parameters.property,
        size_bytes=blob.size,
        etag=f'"{blob.tag}"',
    )


def write_blob(
    client: GraphClient, parameters: BlobParameters, out: str | BinaryIO, *, force: bool = False
) -> BlobOutput:
    """Write the bytes of a blob; return its document. `force` replaces a file that exists."""
    blob = client.find_blob(parameters)
    document = describe_blob(parameters, blob)
    with ExitStack() as stack:
        if isinstance(out, str):
            target = ExportTarget(TargetKind.FILE, parse_location(out), force)
            require_free_target(target)
            document = msgspec.structs.replace(document, file=target.destination.uri)
            out = stack.enter_context(write_file(target.destination))
        for start in range(0, blob.size, _PART_BYTES):
            out.write(blob.read(start, min(start + _PART_BYTES, blob.size)))
    return document
