"""Columns of entities whose ids are known: from the cache by position, or from storage by id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from omnigraph.base.limits import ENGINE_TAKE_ROWS_MAX
from omnigraph.engine.domain import Codes, Domain, Mask
from omnigraph.engine.expand import distinct_sources
from omnigraph.engine.expressions import holds
from omnigraph.engine.frame import Coded, Column, Frame, concat_frames
from omnigraph.engine.positions import positions_in
from omnigraph.engine.scan import batch_frame, read_columns, wanted_columns
from omnigraph.engine.scope import Needed, Scope
from omnigraph.engine.tables import TableReader
from omnigraph.query.expressions import Expr
from omnigraph.query.plan import Lookup
from omnigraph.query.tables import Entity


def looked_up_rows(step: Lookup, needed: Needed, scope: Scope) -> Iterator[Frame]:
    """The rows with more columns of an entity, without those that do not pass the filter."""
    entity = step.entity
    reader = scope.tables.reader(entity.table)
    wanted = wanted_columns(entity, step.columns, needed)
    read = read_columns(wanted, step.filter)
    below = needed - {f"{entity.name}.{name}" for name in wanted} | {entity.id}
    whole_mask: Mask | None = None
    for given in scope.rows(step.input, below):
        frame = given
        if not frame.length:
            continue
        ids = frame.columns[entity.id]
        hot = reader.hot(("id", *read), whole=frame.length > ENGINE_TAKE_ROWS_MAX)
        if hot is None:
            hot = _from_storage(entity, read, ids, reader)
        codes = positions_in(hot["id"], ids, scope.cache)
        if step.filter.conjuncts:
            if whole_mask is None and frame.length * 2 > len(hot["id"]) and not hot["id"].is_own:
                whole_mask = _mask(entity, step.filter.conjuncts, hot, np.arange(len(hot["id"])))
            if whole_mask is not None and not hot["id"].is_own:
                kept = whole_mask[codes] & (codes >= 0) if len(whole_mask) else codes >= 0
            else:
                kept = _mask(entity, step.filter.conjuncts, hot, codes) & (codes >= 0)
        elif step.keep_missing:
            kept = np.ones(frame.length, dtype=np.bool_)
        else:
            kept = codes >= 0
        if not kept.all():
            rows = np.flatnonzero(kept)
            frame, codes = frame.take(rows), codes[rows]
        if frame.length:
            new: Mapping[str, Column] = {f"{entity.name}.{name}": Coded(codes, hot[name]) for name in wanted}
            yield frame.plus({**new, entity.id: Coded(codes, hot["id"])})


def _mask(entity: Entity, conjuncts: tuple[Expr, ...], hot: Mapping[str, Domain], codes: Codes) -> Mask:
    columns = {f"{entity.name}.{name}": Coded(codes, domain) for name, domain in hot.items()}
    return holds(conjuncts, Frame(len(codes), columns))


def _from_storage(
    entity: Entity, read: tuple[str, ...], ids: Column, reader: TableReader
) -> dict[str, Domain]:
    """The columns of just these ids, read through the index for few of them and by a scan for many."""
    sources, _ = distinct_sources(ids)
    texts = sources.array()
    names = tuple(dict.fromkeys(("id", *read)))
    frames: list[Frame] = []
    if len(texts) <= ENGINE_TAKE_ROWS_MAX:
        frames.extend(batch_frame(entity, batch) for batch in reader.rows_with(names, "id", texts))
    else:
        asked = Domain(texts, is_unique=True, is_own=True)
        for batch in reader.batches(names, None):
            kept = asked.find(batch.column("id")) >= 0
            frames.append(batch_frame(entity, batch).keep(kept))
    if not frames:
        schema = reader.dataset().schema
        return {
            name: Domain(pa.array([], schema.field(name).type), is_unique=name == "id", is_own=True)
            for name in names
        }
    frame = concat_frames(frames)
    return {
        name: Domain(frame.array(f"{entity.name}.{name}"), is_unique=name == "id", is_own=True)
        for name in names
    }
