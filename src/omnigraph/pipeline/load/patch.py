"""Patches: rows of the input are completed with the values of the graph that they omit.

In: rows of one type that may omit columns, and the table of the type. Out: the existing rows, aligned with the rows of
the input, for `check_batch`. A row whose id the table does not have is new and gets nothing. A row that has a text but
not its vector does not keep the vector: that of the old text. Tables are only read; a load whose branch changed reads
its input again, so that no value of another writer is lost.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from omnigraph.graph.rows.entity_rows import RowLocations, locate, read_entity_rows
from omnigraph.integrity.check import ExistingRows, patched_ids
from omnigraph.integrity.raw import FROM, TO
from omnigraph.pipeline.load.inputs.blocks import TypedRows
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.lance.dataset import DatasetVersion


def read_existing(tables: Mapping[str, DatasetVersion], typed: TypedRows) -> ExistingRows:
    """Read the row of the graph for each row of the input that has one. Tables without rows may be absent."""
    entity = typed.entity
    names = [name for name in arrow_schema(entity).names if name != "id"]
    omitted = {name: typed.omitted_rows({"src": FROM, "dst": TO}.get(name, name)) for name in names}
    ids = patched_ids(entity, typed.raw).fill_null("")  # no row has this id
    is_partial = np.logical_or.reduce([np.zeros(typed.raw.rows, np.bool_), *omitted.values()])
    table = tables.get(entity.alias)
    dataset = None if table is None or not is_partial.any() else table.open()
    located = RowLocations.absent(ids) if dataset is None else locate(dataset, entity, ids)
    existing = read_entity_rows(dataset, entity, located)
    retained = {name: mask & existing.present for name, mask in omitted.items()}
    for prop in entity.properties:
        if prop.embedding is not None and prop.nullable:
            retained[prop.name] &= retained[prop.embedding.source]
    return ExistingRows(existing.rows, retained)
