"""The schemas of the other branches of a graph: who adds something gives no id that one of them has given.

In: a snapshot. Out: catalogs, each once, also those that a write has announced and not published yet: recovery may
still publish it. A branch that is deleted meanwhile is left out.

In a copied or moved graph the other branches cannot be read. They are left out, and in their place comes the snapshot's
own catalog with its counters far ahead: the graph may go back to where it was made, and may be open there right now
under its other path, and then these branches are merged by the ids that they gave. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from omnigraph.base import limits
from omnigraph.base.errors import NotFoundError
from omnigraph.base.ids import PropertyId
from omnigraph.graph.encoding import decode_schema
from omnigraph.graph.intent import read_intents
from omnigraph.graph.manifest import open_manifest
from omnigraph.graph.records import SchemaRecord
from omnigraph.graph.snapshot import Snapshot, is_moved
from omnigraph.schema import Catalog
from omnigraph.schema.catalog import AnyEntity
from omnigraph.storage.objects import ObjectStore


def read_other_catalogs(snapshot: Snapshot) -> tuple[Catalog, ...]:
    """The catalogs that other branches have and this one has not."""
    found = {record.hash: record for record in _other_schemas(snapshot)}
    others = tuple(record.catalog for schema, record in found.items() if schema != snapshot.schema.hash)
    has_unread = _is_moved_main(snapshot) and len(snapshot.state.branches) > 1
    return (*others, _far_ahead(snapshot.schema.catalog)) if has_unread else others


def _is_moved_main(snapshot: Snapshot) -> bool:
    return snapshot.branch.lance_branch is None and is_moved(snapshot.manifest, snapshot.root)


def _far_ahead(catalog: Catalog) -> Catalog:
    """The catalog as if it had given more ids than any branch has."""

    def ahead(entity: AnyEntity) -> AnyEntity:
        return replace(
            entity, next_property_id=PropertyId(entity.next_property_id + limits.MOVED_GRAPH_IDS_LEFT_OUT)
        )

    return replace(
        catalog,
        nodes=tuple(map(ahead, catalog.nodes)),
        edges=tuple(map(ahead, catalog.edges)),
        next_type_id=catalog.next_type_id + limits.MOVED_GRAPH_IDS_LEFT_OUT,
    )


def _other_schemas(snapshot: Snapshot) -> Iterator[SchemaRecord]:
    is_main = snapshot.branch.lance_branch is None
    main = snapshot.state if is_main else open_manifest(snapshot.root).read_state()
    if not is_main:
        yield main.schema
    for intent in read_intents(ObjectStore(snapshot.root))[0]:
        announced = (row for row in intent.rows if row.get("object_type") == "schema")
        yield from (decode_schema(row) for row in announced if intent.branch_id != snapshot.branch.id)
    for branch in () if _is_moved_main(snapshot) else main.branches.values():
        if branch.lance_branch is None or branch.id == snapshot.branch.id:
            continue
        try:
            yield open_manifest(snapshot.root, lance_branch=branch.lance_branch).read_state().schema
        except NotFoundError:
            continue
