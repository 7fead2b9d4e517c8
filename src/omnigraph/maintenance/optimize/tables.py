"""A table of a branch as maintenance reads it: fragments, indexes and settings, at its pin.

In: a snapshot and the requested types. Out: one `TableView` per table in the order of the schema, read in parallel. The
caller chooses whether a table that cannot be read ends the run or is reported and skipped. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.manifest.snapshot import Snapshot, open_table
from omnigraph.maintenance.optimize.index_plan import DeclaredIndex, TableIndexes
from omnigraph.pipeline.runner import in_threads
from omnigraph.schema.catalog import Entity
from omnigraph.schema.property_types import Scalar, ScalarType, VectorType
from omnigraph.schema.tables import ColumnIndex, declared_indexes
from omnigraph.storage.lance.commit import has_auto_cleanup
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.fragments import Fragment, describe_fragments
from omnigraph.storage.lance.indexes import IndexDescription, IndexSpec, count_entries, read_indexes

_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
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
        """The size of its data files."""
        return self.size_of(self.fragments)

    def size_of(self, fragment_ids: Iterable[int]) -> int:
        """Return the size of the data files of some fragments."""
        return sum(self.fragments[number].size_bytes for number in fragment_ids)

    @property
    def indexes(self) -> TableIndexes:
        updated = frozenset(number for number, fragment in self.fragments.items() if fragment.has_updates)
        return TableIndexes(self.rows, self.declared, self.present, updated)


def read_views(
    snapshot: Snapshot, types: frozenset[str] | None, report_failure: Callable[[str, OmnigraphError], None] | None
) -> tuple[TableView, ...]:
    """Read the tables of types, by name or alias, at their pins; `types` None: all.

    `report_failure` is called with the alias and the error of a table that cannot be read; None: raise the error.
    """
    has_types = types is None or bool(types)  # an empty set selects nothing
    entities = snapshot.schema.catalog.select_types(types) if has_types else []
    results = in_threads(lambda entity: _read_view(snapshot, entity), entities)
    views = []
    for entity, result in zip(entities, results, strict=True):
        if isinstance(result, TableView):
            views.append(result)
        elif report_failure is None:
            raise result
        else:
            report_failure(entity.alias, result)
    return tuple(views)


def reread_view(view: TableView, dataset: Dataset) -> TableView:
    """Read the same table at another version or in a clone."""
    return replace(view, dataset=dataset, fragments=describe_fragments(dataset), present=_read_present(dataset))


def _read_present(dataset: Dataset) -> tuple[IndexDescription, ...]:
    return count_entries(dataset, read_indexes(dataset))


def _read_view(snapshot: Snapshot, entity: Entity) -> TableView | OmnigraphError:
    try:
        dataset = open_table(snapshot.root, snapshot.tables[entity.alias])
        widths = {
            column.name: column.type.size * _FLOAT_BYTES
            for column in entity.properties
            if isinstance(column.type, VectorType)
        }
        present = _read_present(dataset)
        return TableView(
            alias=entity.alias,
            dataset=dataset,
            fragments=describe_fragments(dataset),
            declared=tuple(
                DeclaredIndex(_name_index(index, present), widths.get(index.column, 0))
                for index in declared_indexes(entity)
            ),
            present=present,
            has_auto_cleanup=has_auto_cleanup(dataset),
            has_blobs=any(column.type == ScalarType(Scalar.BLOB) for column in entity.properties),
        )
    except OmnigraphError as error:
        return error


def _name_index(index: ColumnIndex, present: Sequence[IndexDescription]) -> IndexSpec:
    """Return the index of a column under its existing name, or under an unused one.

    An index keeps its name when its column is renamed. Another column may then get the old name of the column, and its
    index needs a different name.
    """
    default = IndexSpec(index.column, index.kind, text=index.text)
    owners = {existing.name: (existing.column, existing.kind) for existing in present}
    own = [name for name, owner in owners.items() if owner == (index.column, index.kind)]
    if default.name in own or (not own and default.name not in owners):
        return default
    numbered = (f"{default.name}_{number}" for number in range(2, len(owners) + 3))
    return replace(default, custom_name=own[0] if own else next(name for name in numbered if name not in owners))
