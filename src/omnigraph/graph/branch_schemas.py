"""The schemas of the other branches of a graph: who adds something gives no id that one of them has given.

In: a snapshot. Out: catalogs, each once, also those that a write has announced and not published yet: recovery may
still publish it. A branch that is deleted meanwhile is left out. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.base.errors import NotFoundError
from omnigraph.graph.encoding import decode_schema
from omnigraph.graph.intent import read_intents
from omnigraph.graph.manifest import open_manifest
from omnigraph.graph.records import SchemaRecord
from omnigraph.graph.snapshot import Snapshot
from omnigraph.schema import Catalog
from omnigraph.storage.objects import ObjectStore


def read_other_catalogs(snapshot: Snapshot) -> tuple[Catalog, ...]:
    """The catalogs that other branches have and this one has not."""
    found = {record.hash: record for record in _other_schemas(snapshot)}
    return tuple(record.catalog for schema, record in found.items() if schema != snapshot.schema.hash)


def _other_schemas(snapshot: Snapshot) -> Iterator[SchemaRecord]:
    is_main = snapshot.branch.lance_branch is None
    main = snapshot.state if is_main else open_manifest(snapshot.root).read_state()
    if not is_main:
        yield main.schema
    for intent in read_intents(ObjectStore(snapshot.root))[0]:
        announced = (row for row in intent.rows if row.get("object_type") == "schema")
        yield from (decode_schema(row) for row in announced if intent.branch_id != snapshot.branch.id)
    for branch in main.branches.values():
        if branch.lance_branch is None or branch.id == snapshot.branch.id:
            continue
        try:
            yield open_manifest(snapshot.root, lance_branch=branch.lance_branch).read_state().schema
        except NotFoundError:
            continue
