"""A table of a branch as maintenance sees it: fragments, indexes, settings, at its pin. Reading only.

In: a stage and the types that were asked for. Out: one `TableView` per table in the order of the schema, read in
parallel. Where one table's failure is not to stop the others, it comes back as that table's error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from omnigraph.base.errors import NotFoundError, OmnigraphError
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.graph.write.stage import StagingArea
from omnigraph.maintenance.optimize.index_plan import DeclaredIndex, TableIndexes
from omnigraph.pipeline.runner import maintenance_concurrency
from omnigraph.schema.catalog import Entity
from omnigraph.schema.property_types import IndexKind, Scalar, ScalarType, VectorType
from omnigraph.schema.tables import declared_indexes
from omnigraph.storage.lance.commit import has_auto_cleanup
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.fragments import Fragment, read_fragment_files
from omnigraph.storage.lance.indexes import IndexDescription, IndexSpec, read_indexes

_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class TableView:
    """One table at one version."""

    alias: str
    dataset: Dataset
    fragments: Mapping[int, Fragment]
    declared: tuple[DeclaredIndex, ...]
    present: tuple[IndexDescription, ...]
    has_auto_cleanup: bool = False
    has_blobs: bool = False

    @property
    def rows(self) -> Mapping[int, int]:
        """The live rows of each fragment."""
        return {number: fragment.rows for number, fragment in self.fragments.items()}

    @property
    def size_bytes(self) -> int:
        """What its data files take."""
        return sum(fragment.size_bytes for fragment in self.fragments.values())

    @property
    def indexes(self) -> TableIndexes:
        updated = frozenset(number for number, fragment in self.fragments.items() if fragment.has_updates)
        return TableIndexes(self.alias, self.rows, self.declared, self.present, updated)


def read_views(
    at: StagingArea, types: frozenset[str] | None, failed: Callable[[str, OmnigraphError], None] | None
) -> tuple[TableView, ...]:
    """The chosen tables at their pins. `failed` is told of a table that cannot be read; without it that is raised."""
    entities = chosen_types(at.snapshot, types)
    with ThreadPoolExecutor(maintenance_concurrency()) as threads:
        found = list(threads.map(lambda entity: _read_or_error(at, entity), entities))
    views = []
    for entity, view in zip(entities, found, strict=True):
        if isinstance(view, TableView):
            views.append(view)
        elif failed is None:
            raise view
        else:
            failed(entity.alias, view)
    return tuple(views)


def chosen_types(snapshot: Snapshot, types: frozenset[str] | None) -> list[Entity]:
    """The types, by name or alias; all of them when None."""
    catalog = snapshot.schema.catalog
    known = {name for entity in catalog.types for name in (entity.name, entity.alias)}
    for name in sorted((types or frozenset()) - known):
        raise NotFoundError(
            f"the schema has no type '{name}'",
            code="type_missing",
            hint=f"the types are: {', '.join(entity.name for entity in catalog.types)}",
            facts={"type": name},
        )
    return [entity for entity in catalog.types if types is None or types & {entity.name, entity.alias}]


def view_of(like: TableView, dataset: Dataset) -> TableView:
    """The same table at another version or in a clone."""
    return TableView(
        like.alias,
        dataset,
        read_fragment_files(dataset),
        like.declared,
        read_indexes(dataset),
        has_blobs=like.has_blobs,
    )


def named_spec(column: str, kind: IndexKind, present: Sequence[IndexDescription]) -> IndexSpec:
    """The index of a column under the name that it has, or under one that is free.

    An index stays with its column and keeps its name when the column is renamed; another column may then have the old
    name of the column, and its index needs a name of its own.
    """
    plain = IndexSpec(column, kind)
    owners = {index.name: (index.column, index.kind) for index in present}
    own = [name for name, owner in owners.items() if owner == (column, kind)]
    if plain.name in own or (not own and plain.name not in owners):
        return plain
    free = (f"{plain.name}_{number}" for number in range(2, len(owners) + 3))
    return IndexSpec(column, kind, own[0] if own else next(name for name in free if name not in owners))


def _read_or_error(at: StagingArea, entity: Entity) -> TableView | OmnigraphError:
    try:
        dataset = at.read(entity.alias)
        widths = {
            found.name: found.type.size * _FLOAT_BYTES
            for found in entity.properties
            if isinstance(found.type, VectorType)
        }
        present = read_indexes(dataset)
        return TableView(
            entity.alias,
            dataset,
            read_fragment_files(dataset),
            tuple(
                DeclaredIndex(named_spec(wanted.column, wanted.kind, present), widths.get(wanted.column, 0))
                for wanted in declared_indexes(entity)
            ),
            present,
            has_auto_cleanup=has_auto_cleanup(dataset),
            has_blobs=any(found.type == ScalarType(Scalar.BLOB) for found in entity.properties),
        )
    except OmnigraphError as error:
        return error
