"""Decides what `embed` fills: properties, rows, waves and tasks. Pure.

In: a catalog, and columns of rows. Out: the properties with `@embed`, masks of rows, tables of at most one wave, and
lists of texts. A row is *pending* if its vector is null and its source has text that is not blank. Nothing here reads
or writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.display import did_you_mean
from omnigraph.base.errors import ConflictError, NotFoundError, UsageError
from omnigraph.base.hints import Argument, Placeholder, hint
from omnigraph.schema.catalog import Catalog, Entity, Property
from omnigraph.schema.property_types import VectorType

TEXT: Final = "text"
"""The name of the source's column in a wave."""
_CHARACTERS_PER_TOKEN: Final = 4
_FLOAT_BYTES: Final = 4

Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class VectorProperty:
    """A vector with `@embed`: its type, itself, and the String property that it is computed from."""

    entity: Entity
    vector: Property
    source: Property

    @property
    def size(self) -> int:
        """The number of components."""
        assert isinstance(self.vector.type, VectorType), "`@embed` is on vectors"
        return self.vector.type.size

    @property
    def model(self) -> str | None:
        """The model that the schema requires."""
        return None if self.vector.embedding is None else self.vector.embedding.model

    @property
    def is_required(self) -> bool:
        """Whether the vector is declared without `?`."""
        return self.vector.embedding is not None and self.vector.embedding.required

    @property
    def vector_bytes(self) -> int:
        """The size of one vector in memory."""
        return self.size * _FLOAT_BYTES


@dataclass(frozen=True, slots=True)
class TextCount:
    """Rows with text to embed, and the characters of these texts."""

    rows: int = 0
    characters: int = 0

    @property
    def tokens(self) -> int:
        """About how many tokens of a model the texts have."""
        return -(-self.characters // _CHARACTERS_PER_TOKEN)

    def __add__(self, other: TextCount) -> TextCount:
        return TextCount(self.rows + other.rows, self.characters + other.characters)


def vector_properties(entity: Entity) -> tuple[VectorProperty, ...]:
    """Return the vectors of a type with `@embed`, in the order of the schema."""
    vectors = ((prop, prop.embedding.source) for prop in entity.properties if prop.embedding is not None)
    pairs = ((vector, entity.property_named(name)) for vector, name in vectors)
    return tuple(VectorProperty(entity, vector, source) for vector, source in pairs if source is not None)


def select_properties(catalog: Catalog, types: Sequence[str], name: str | None) -> tuple[VectorProperty, ...]:
    """Return the vectors with `@embed` of these types (default: all), with this name; raise if there is none."""
    for type_name in types:
        if not any(type_name in (entity.name, entity.alias) for entity in catalog.types):
            raise NotFoundError(
                f"unknown type '{type_name}'{did_you_mean(type_name, [entity.name for entity in catalog.types])}",
                code="type_missing",
                hint=hint("Pass {} with types of the schema.", Argument("types", Placeholder("TYPE"))),
                facts={"type": type_name},
            )
    entities = [entity for entity in catalog.types if not types or entity.name in types or entity.alias in types]
    properties = [prop for entity in entities for prop in vector_properties(entity)]
    chosen = tuple(prop for prop in properties if name is None or prop.vector.name == name)
    if chosen or (not types and name is None):
        return chosen
    owners = ", ".join(entity.name for entity in entities)
    names = ", ".join(dict.fromkeys(prop.vector.name for prop in properties))
    raise UsageError(
        f"no property to embed in {owners}: expected "
        + (f"one of {names}, got '{name}'" if names else "a property with @embed"),
        code="embed_property",
        hint=hint("Pass {}, or name another type.", Argument("property", properties[0].vector.name))
        if properties
        else 'Declare the vector as `vec: Vector(384)? @embed("source")`, or name another type.',
        facts={"property": name},
    )


def require_same_property(catalog: Catalog, prop: VectorProperty) -> VectorProperty:
    """Return a property in a later schema; raise if it was dropped, or is computed from something else there."""
    entity = catalog.same_type(prop.entity)
    for later in () if entity is None else vector_properties(entity):
        is_same = (later.vector.id, later.source.id) == (prop.vector.id, prop.source.id)
        if is_same and (later.size, later.model) == (prop.size, prop.model):
            return later
    raise ConflictError(
        f"schema changed during the run: property '{prop.vector.name}' of {prop.entity.name} is no longer embedded "
        f"from '{prop.source.name}'",
        code="embed_schema_changed",
        hint="Nothing of this wave was written. Run it again with the new schema.",
        facts={"type": prop.entity.name, "property": prop.vector.name},
    )


def has_text_mask(texts: Any) -> Mask:
    """Return which texts are neither null nor blank."""
    is_blank: Any = pc.equal(pc.utf8_trim_whitespace(texts), "")
    mask: Any = pc.invert(pc.fill_null(is_blank, True))
    return _mask(mask)


def fill_mask(texts: Any, texts_now: Any, vectors_now: Any, *, every_row: bool) -> Mask:
    """Return which rows get the vectors of `texts`: those that still have the same text, and no vector.

    The others were changed by another writer while the texts were embedded. `every_row`: a vector is replaced.
    """
    same: Any = pc.fill_null(pc.equal(texts, texts_now), False)
    return _mask(same) if every_row else _mask(same) & _mask(vectors_now.is_null())


def count_texts(texts: Any) -> TextCount:
    """Return the number of texts and of their characters."""
    return TextCount(len(texts), pc.sum(pc.utf8_length(texts)).as_py() or 0)


def divide_waves(
    batches: Iterable[pa.RecordBatch], *, rows_max: int, bytes_max: int, vector_bytes: int
) -> Iterator[pa.Table]:
    """Yield the rows in their order, in tables of at most `rows_max` rows and `bytes_max` of texts and vectors.

    A table has at least one row.
    """
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        text_bytes: Any = pc.binary_length(batch.column(TEXT)).to_numpy(zero_copy_only=False)
        ends = np.cumsum(text_bytes.astype(np.int64) + vector_bytes)
        start = 0
        while start < batch.num_rows:
            before = int(ends[start - 1]) if start else 0
            fitting = int(np.searchsorted(ends, before + bytes_max - size, side="right"))
            end = min(max(fitting, start if rows else start + 1), start + rows_max - rows, batch.num_rows)
            if end > start:
                parts.append(batch.slice(start, end - start))
                rows, size = rows + end - start, size + int(ends[end - 1]) - before
            if end < batch.num_rows:
                yield pa.Table.from_batches(parts)
                parts, rows, size = [], 0, 0
            start = end
        if rows == rows_max:
            yield pa.Table.from_batches(parts)
            parts, rows, size = [], 0, 0
    if parts:
        yield pa.Table.from_batches(parts)


def divide_texts(texts: Sequence[str], *, batch: int, tasks_max: int) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Return the texts as the requests of each task: consecutive batches, in at most `tasks_max` tasks."""
    requests = [tuple(texts[start : start + batch]) for start in range(0, len(texts), batch)]
    count = min(tasks_max, len(requests))
    bounds = [number * len(requests) // count for number in range(count + 1)] if count else []
    return tuple(tuple(requests[start:end]) for start, end in pairwise(bounds))


def cut_text(text: str, bytes_max: int) -> str:
    """Return the beginning of a text that has at most this many bytes of UTF-8."""
    return text.encode("utf-8")[:bytes_max].decode("utf-8", "ignore")


def _mask(values: Any) -> Mask:
    combined = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    mask: Mask = combined.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask
