"""Columns of entities whose ids are known: from the cache by position, or from storage by id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from omnigraph.base import limits
from omnigraph.engine.domain import Codes, Domain, Mask
from omnigraph.engine.expand import distinct_sources
from omnigraph.engine.expressions import holds
from omnigraph.engine.frame import Coded, Column, Frame, concat_frames
from omnigraph.engine.positions import positions_in
from omnigraph.engine.scan import batch_frame, read_columns, wanted_columns
from omnigraph.engine.scope import Needed, Scope
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
        hot = reader.hot(("id", *read), whole=frame.length > limits.ENGINE_TAKE_ROWS_MAX)
        if hot is None:
            hot = _from_storage(entity, read, ids, scope)
        held = sum(int(domain.array.nbytes) for domain in hot.values() if domain.is_own)
        scope.budget.hold(held)
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
        scope.budget.release(held)


def _mask(entity: Entity, conjuncts: tuple[Expr, ...], hot: Mapping[str, Domain], codes: Codes) -> Mask:
    columns = {f"{entity.name}.{name}": Coded(codes, domain) for name, domain in hot.items()}
    return holds(conjuncts, Frame(len(codes), columns))


def _from_storage(entity: Entity, read: tuple[str, ...], ids: Column, scope: Scope) -> dict[str, Domain]:
    """The columns of just these ids, read through the index for few of them and by a scan for many."""
    reader = scope.tables.reader(entity.table)
    sources, _ = distinct_sources(ids)
    texts = sources.array()
    names = tuple(dict.fromkeys(("id", *read)))
    few = len(texts) <= limits.ENGINE_TAKE_ROWS_MAX
    asked = Domain(texts, is_unique=True, is_own=True)
    frames: list[Frame] = []
    size = 0
    for batch in reader.rows_with(names, "id", texts) if few else reader.batches(names, None):
        frame = batch_frame(entity, batch)
        frames.append(frame if few else frame.keep(asked.find(batch.column("id")) >= 0).settled())
        size += frames[-1].nbytes
        scope.budget.allow(size)
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
