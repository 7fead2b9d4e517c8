"""Stages a change of columns as one transaction: renamed, dropped, made nullable or new, in any combination.

In: a dataset and a `ColumnPlan`. Out: a `StagedTransaction`; no head moves. Lance identifies a column by the id of its
field, not by its name, so a plan maps each column to the existing column that has its values. Without values to write,
the operation is a Project, which changes only metadata. With values, it is a Merge over fragments that get one more
data file each. A Merge cannot change whether an existing column is nullable, so such a column is copied into a new
field, as is a column whose nulls get a value: see decision 0015. With `erases_dropped`, every remaining column is
written again, so that no file of the new version has a value of a dropped column. A failure leaves only files that no
version references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata
from lance.schema import LanceSchema

from omnigraph.base.failpoints import announce
from omnigraph.storage.errors import translate_errors
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.durability import fragment_files, make_durable
from omnigraph.storage.lance.protobuf import bytes_field, number_field, text_field
from omnigraph.storage.lance.stage import (
    NO_PARENT,
    Deletions,
    RowReplacement,
    Rows,
    StagedTransaction,
    field_ids,
    ids_and_parents,
    keep_identities,
    replacement_operation,
    write_deletions,
    write_rows,
)

_COPY_PREFIX: Final = "__copy_"
_FILL_PREFIX: Final = "__fill_"
_NAME: Final = 2
_ID: Final = 3
_PARENT: Final = 4
_NULLABLE: Final = 6
_METADATA: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """The columns that a dataset will have, in order.

    `origins` maps a column to the existing column that has its values. The others are new: they get the value in
    `fills`, or null. A new column may have the name of an existing one that is dropped or renamed. `null_fills` has the
    value that replaces null in an existing column. `erases_dropped`: no file of the new version has the values of
    dropped columns.
    """

    schema: pa.Schema
    origins: Mapping[str, str]
    fills: Mapping[str, object] = field(default_factory=dict)
    null_fills: Mapping[str, object] = field(default_factory=dict)
    erases_dropped: bool = False

    @property
    def writes_values(self) -> bool:
        """Whether the plan writes values, not only metadata."""
        return bool(self.fills or self.null_fills) or self.erases_dropped

    def copied_columns(self, existing: pa.Schema) -> tuple[str, ...]:
        """Return the columns that are copied into new fields: those whose nulls or nullability change."""
        if not self.writes_values:
            return ()
        return tuple(
            name
            for name, origin in self.origins.items()
            if name in self.null_fills or self.schema.field(name).nullable != existing.field(origin).nullable
        )

    def replace_nulls(self, name: str, column: Any) -> Any:
        """Return the values of an existing column, with its nulls replaced."""
        if name not in self.null_fills or not column.null_count:
            return column
        make: Any = pa.scalar
        return pc.fill_null(column, make(self.null_fills[name], self.schema.field(name).type))


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """Fragments with one more data file each, and the schema of the fields in it."""

    fragments: tuple[FragmentMetadata, ...]
    schema: LanceSchema


def stage_columns(dataset: Dataset, plan: ColumnPlan, written: Sequence[WrittenColumns] = ()) -> StagedTransaction:
    """Stage a plan. If it writes values, `written` has those of every fragment of this version."""
    assert plan.writes_values == bool(written), "a plan with values is written first"
    with translate_errors("stage columns", dataset.uri):
        schema = _compose_schema(dataset, plan, written[0].schema if written else None)
    if not written:
        return StagedTransaction.of(lance.LanceOperation.Project(schema), dataset.version)
    fragments = sorted((fragment for part in written for fragment in part.fragments), key=lambda fragment: fragment.id)
    return StagedTransaction.of(lance.LanceOperation.Merge(fragments, schema), dataset.version)


def stage_columns_in_process(dataset: Dataset, plan: ColumnPlan) -> StagedTransaction:
    """Stage any plan; this process writes its values."""
    written = [write_columns(dataset, plan, tuple(dataset.fragment_rows()))] if plan.writes_values else []
    return stage_columns(dataset, plan, written)


def write_columns(dataset: Dataset, plan: ColumnPlan, fragment_ids: Sequence[int]) -> WrittenColumns:
    """Write the values of new and copied columns for some fragments. Can be repeated; runs on any machine."""
    announce("dataset.stage", dataset.uri)
    copied = tuple(plan.origins) if plan.erases_dropped else plan.copied_columns(dataset.schema)
    fields = [plan.schema.field(name).with_name(_FILL_PREFIX + name) for name in plan.fills]
    fields += [plan.schema.field(name).with_name(_COPY_PREFIX + name) for name in copied]
    written = pa.schema(fields)

    def values(batch: pa.RecordBatch) -> pa.RecordBatch:
        make: Any = pa.scalar
        arrays = [
            pa.repeat(make(value, plan.schema.field(name).type), batch.num_rows) for name, value in plan.fills.items()
        ]
        arrays += [plan.replace_nulls(name, batch.column(plan.origins[name])) for name in copied]
        return pa.RecordBatch.from_arrays(arrays, schema=written)

    fragments: list[FragmentMetadata] = []
    schema = None
    with translate_errors("write columns", dataset.uri):
        for number in fragment_ids:
            fragment = dataset.native.get_fragment(number)
            assert fragment is not None, "the fragment is one of this version"
            columns = ["id", *(plan.origins[name] for name in copied)]
            try:
                metadata, schema = fragment.merge_columns(values, columns=list(dict.fromkeys(columns)))
            except TypeError as error:
                # Lance calls the function with a first batch, and reports an error while reading it as a `TypeError`.
                if "LanceError" not in str(error):
                    raise
                raise RuntimeError(str(error)) from error
            fragments.append(metadata)
    assert schema is not None, "the plan writes columns of at least one fragment"
    make_durable(dataset.directory, fragment_files(fragments, dataset.native))
    if plan.erases_dropped:
        _remove_old_files(dataset, plan, fragments, schema)
    return WrittenColumns(tuple(fragments), schema)


def _remove_old_files(
    dataset: Dataset, plan: ColumnPlan, fragments: Sequence[FragmentMetadata], schema: LanceSchema
) -> None:
    """Make the newest file of each fragment its only one.

    A copied column keeps its field id, and so its indexes, unless it needs a new field.
    """
    existing, written = _SchemaProtos.of(dataset.native.lance_schema), _SchemaProtos.of(schema)
    columns_with_new_field = plan.copied_columns(dataset.schema)
    original_ids: dict[int, int] = {}
    for name, origin in plan.origins.items():
        if name not in columns_with_new_field:
            copy_ids = written.fields[_COPY_PREFIX + name].ids
            original_ids |= dict(zip(copy_ids, existing.fields[origin].ids, strict=True))
    for fragment in fragments:
        newest = fragment.files[-1]
        newest.fields = [original_ids.get(number, number) for number in newest.fields]
        fragment.files = [newest]


def _compose_schema(dataset: Dataset, plan: ColumnPlan, written: LanceSchema | None) -> LanceSchema:
    """Return the columns of the plan, each with the ids of the fields that have its values."""
    existing = _SchemaProtos.of(dataset.native.lance_schema)
    with_values = None if written is None else _SchemaProtos.of(written)
    copied = plan.copied_columns(dataset.schema)
    next_id = 1 + max([*_used_ids(dataset), *(with_values or existing).ids()])
    messages: list[bytes] = []
    for column in plan.schema:
        origin = plan.origins.get(column.name)
        if with_values is not None and (column.name in plan.fills or column.name in copied):
            prefix = _FILL_PREFIX if column.name in plan.fills else _COPY_PREFIX
            messages += with_values.column(prefix + column.name, column)
        elif origin is not None:
            messages += existing.column(origin, column)
        else:
            new = _SchemaProtos.of(LanceSchema.from_pyarrow(pa.schema([column])))
            messages += new.with_ids_from(next_id)
            next_id += len(new.ids())
    return LanceSchema._from_protos(existing.metadata, *messages)


def _used_ids(dataset: Dataset) -> Iterator[int]:
    """Yield the field ids in data files, including those of dropped columns, whose values are still stored."""
    for fragment in dataset.native.get_fragments():
        for file in fragment.metadata.files:
            yield from file.fields


@dataclass(frozen=True, slots=True)
class _Field:
    """A top-level field of a schema, with the messages of itself and of all fields in it, depth first."""

    messages: tuple[bytes, ...]
    ids: tuple[int, ...]
    parents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _SchemaProtos:
    """A schema as its protobuf messages, by top-level field."""

    metadata: str
    fields: Mapping[str, _Field]

    @classmethod
    def of(cls, schema: LanceSchema) -> _SchemaProtos:
        reduced: Any = schema.__reduce__()
        metadata, *messages = reduced[1]
        remaining = iter(messages)
        fields = {}
        for native in schema.fields():
            ids, parents = zip(*ids_and_parents(native), strict=True)
            fields[native.name()] = _Field(tuple(islice(remaining, len(ids))), ids, parents)
        assert next(remaining, None) is None, "one message for each field"
        return cls(metadata, fields)

    def ids(self) -> list[int]:
        return [number for field in self.fields.values() for number in field.ids]

    def column(self, name: str, target: pa.Field[Any]) -> list[bytes]:
        """Return the messages of a column with the name, nullability and metadata of `target`.

        In protobuf the last value of a member, and of a key in a map, is the valid one.
        """
        first, *rest = self.fields[name].messages
        changed = first + text_field(_NAME, target.name) + number_field(_NULLABLE, int(target.nullable))
        for key, value in (target.metadata or {}).items():
            changed += bytes_field(_METADATA, text_field(1, key.decode()) + bytes_field(2, value))
        return [changed, *rest]

    def with_ids_from(self, first_id: int) -> list[bytes]:
        """Return the messages with the ids, which start at 0, moved to `first_id`."""
        return [
            message
            + number_field(_ID, number + first_id)
            + number_field(_PARENT, parent if parent == NO_PARENT else parent + first_id)
            for field in self.fields.values()
            for message, number, parent in zip(field.messages, field.ids, field.parents, strict=True)
        ]


def stage_rows_for_new_schema(
    dataset: Dataset, columns: StagedTransaction, moved: RowReplacement | None, new: Rows | None, removed: Sequence[int]
) -> StagedTransaction:
    """Replace rows, add rows and delete those at `removed`, as one transaction directly after `columns`."""
    operation: Any = columns.native.operation
    schema: LanceSchema = operation.schema
    fragments: list[FragmentMetadata] = []
    if moved is not None:
        fragments += keep_identities(_write_rows(dataset, schema, moved.rows), moved.identities)
    if new is not None:
        fragments += _write_rows(dataset, schema, new)
    deleted = [*(() if moved is None else moved.addresses), *removed]
    deletions = write_deletions(dataset, deleted) if deleted else Deletions()
    if isinstance(operation, lance.LanceOperation.Merge):
        by_id = {fragment.id: fragment for fragment in operation.fragments}
        updated = (replace(by_id[old.id], deletion_file=old.deletion_file) for old in deletions.updated)
        deletions = replace(deletions, updated=tuple(updated))
    return StagedTransaction.of(replacement_operation(deletions, fragments, schema), columns.base_version + 1)


def _write_rows(dataset: Dataset, schema: LanceSchema, rows: Rows) -> list[FragmentMetadata]:
    """Write fragments of this dataset. Lance numbers their fields from 0; they get the field ids of the schema."""
    fragments = write_rows(dataset, rows, with_other_columns=True)
    ids = dict(zip(field_ids(LanceSchema.from_pyarrow(rows.schema)), field_ids(schema), strict=True))
    for fragment in fragments:
        for file in fragment.files:
            file.fields = [ids[number] for number in file.fields]
    return fragments
