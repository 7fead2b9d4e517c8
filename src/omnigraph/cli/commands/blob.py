"""`omnigraph blob get` and `stat`: the bytes of a Blob property of one entity, or their number."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from omnigraph.base.display import format_bytes
from omnigraph.base.errors import UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import StateArguments
from omnigraph.cli.output import format_pairs, output_errors
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments

if TYPE_CHECKING:
    from omnigraph.client.protocol import GraphClient
    from omnigraph.wire.requests import BlobParameters

EntityKind = Annotated[
    Literal["node", "edge"], typer.Argument(metavar="ENTITY", help="node or edge.", show_default=False)
]
TypeName = Annotated[
    str,
    typer.Argument(metavar="TYPE", help="The type of the entity, such as Person or node:Person.", show_default=False),
]
EntityId = Annotated[str, typer.Argument(metavar="ID", help="The id of the entity.", show_default=False)]
PropertyName = Annotated[str, typer.Argument(metavar="PROPERTY", help="The Blob property.", show_default=False)]
Out = Annotated[str | None, typer.Option("--out", metavar="FILE", help="A file, local or on S3. Default: stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]


@dataclass(frozen=True, slots=True)
class BlobArguments:
    """The names of a blob."""

    entity: EntityKind
    type_name: TypeName
    entity_id: EntityId
    property_name: PropertyName

    def find(self, target: GraphArguments, state: StateArguments) -> tuple[GraphClient, BlobParameters]:
        """Return the graph, and the blob as the parameters of a request."""
        connection = target.connect(state=state)

        from omnigraph.wire.requests import BlobParameters

        parameters = BlobParameters(
            entity=self.entity, type=self.type_name, id=self.entity_id, property=self.property_name, **connection.state
        )
        return connection.client, parameters


@command(
    "omnigraph blob get node Person ada photo graph.omni --out ada.jpg",
    "omnigraph blob get node Person ada photo --server https://graph.example.com --out ada.jpg",
    capability=Capability.ANY,
)
def get(
    blob: BlobArguments,
    target: GraphArguments,
    state: StateArguments,
    *,
    out: Out = None,
    force: Force = False,
    output: TextOutput,
) -> None:
    """Write the bytes of a Blob property to a file or to stdout.

    The file gets its name when it is complete.
    """
    if out in (None, "-") and (output.as_json or sys.stdout.isatty()):
        what = "`--json` and the bytes cannot both be written to stdout"
        raise UsageError(
            what if output.as_json else "the bytes of a blob cannot be shown on a terminal",
            code="blob_output",
            hint="Pass `--out FILE`.",
        )
    client, parameters = blob.find(target, state)

    from omnigraph.client.blobs import write_blob

    if out not in (None, "-"):
        document = write_blob(client, parameters, out, force=force)
        output.show(lambda: document, notices=[f"wrote {format_bytes(document.size_bytes)} to {out}"])
        return
    with output_errors():
        write_blob(client, parameters, sys.stdout.buffer)
        sys.stdout.buffer.flush()


@command(
    "omnigraph blob stat node Person ada photo graph.omni",
    "omnigraph blob stat node Person ada photo graph.omni --branch review/1 --json",
    capability=Capability.ANY,
)
def stat(blob: BlobArguments, target: GraphArguments, state: StateArguments, output: TextOutput) -> None:
    """Show the number of bytes of a Blob property, and the tag of its version. No bytes are read."""
    client, parameters = blob.find(target, state)

    from omnigraph.client.blobs import describe_blob

    document = describe_blob(parameters, client.find_blob(parameters))
    size = f"{format_bytes(document.size_bytes)} ({document.size_bytes:,} bytes)"
    output.show(lambda: document, text=format_pairs({"size": size, "etag": document.etag}))
