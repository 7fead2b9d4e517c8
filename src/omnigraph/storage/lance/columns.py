"""Other columns for the same rows, as one transaction: renamed, dropped, loosened, new, in any mix. No head moves.

In: a dataset and a `ColumnPlan`. Out: a `StagedTransaction`. Lance knows a column by the number of its field and not by
its name, so a plan says which present column each wanted one is. Without values to write this is a Project, which
changes only metadata. With them it is a Merge over fragments that got one more data file each; a Merge may not change
whether a present column is nullable, so such a column is copied into a new field there, and so is one whose nulls get a
value. See decision 0015. A plan that
`forgets` writes every column that stays once more, so that no file of the new version has a value of one that goes.
A failure leaves only files that nothing references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata, write_fragments
from lance.schema import LanceSchema

from omnigraph.base.failpoints import announce
from omnigraph.storage.errors import substrate_errors
from omnigraph.storage.lance.dataset import DATA_STORAGE_VERSION, Dataset
from omnigraph.storage.lance.durability import fragment_files, make_durable
from omnigraph.storage.lance.stage import (
    Deletions,
    RowReplacement,
    Rows,
    StagedTransaction,
    field_ids,
    keep_identities,
    write_deletions,
)
from omnigraph.storage.lance.transactions import bytes_field, number_field, text_field

_COPY_PREFIX: Final = "__copy_"
_FILL_PREFIX: Final = "__fill_"
_NAME: Final = 2
_ID: Final = 3
_PARENT: Final = 4
_NULLABLE: Final = 6
_METADATA: Final = 10
_NO_PARENT: Final = -1


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The columns that a dataset shall have, in order.

    `origins` has for a wanted column the present one that it is. The others are new: they get the value in `fills`, or
    null. A new one may have the name of a present one that goes or is renamed. `null_fills` has the value that null
    becomes in a present one. `forgets`: what is dropped shall be in no file any more.
    """

    schema: pa.Schema
    origins: Mapping[str, str]
    fills: Mapping[str, object] = field(default_factory=dict)
    null_fills: Mapping[str, object] = field(default_factory=dict)
    forgets: bool = False

    @property
    def writes(self) -> bool:
        """Whether values are written, and not only metadata."""
        return bool(self.fills or self.null_fills) or self.forgets

    def copied(self, present: pa.Schema) -> tuple[str, ...]:
        """The columns that are copied into new fields: those whose nulls or whose nullability change."""
        if not self.writes:
            return ()
        return tuple(
            name
            for name, origin in self.origins.items()
            if name in self.null_fills or self.schema.field(name).nullable != present.field(origin).nullable
        )

    def filled(self, name: str, column: Any) -> Any:
        """The values of a present column, with what null becomes."""
        if name not in self.null_fills or not column.null_count:
            return column
        make: Any = pa.scalar
        return pc.fill_null(column, make(self.null_fills[name], self.schema.field(name).type))


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """Fragments with one more data file each, and the schema that says which fields are in it."""

    fragments: tuple[FragmentMetadata, ...]
    schema: LanceSchema


def stage_columns(dataset: Dataset, plan: ColumnPlan) -> StagedTransaction:
    """Change only metadata; the plan writes nothing."""
    assert not plan.writes, "values are written first"
    with substrate_errors("stage other columns", dataset.uri):
        schema = _composed(dataset, plan, None)
    return StagedTransaction.of(lance.LanceOperation.Project(schema), dataset.version)


def stage_columns_here(dataset: Dataset, plan: ColumnPlan) -> StagedTransaction:
    """Any plan, with its values written by this process."""
    if not plan.writes:
        return stage_columns(dataset, plan)
    written = write_columns(dataset, plan, tuple(dataset.fragment_rows()))
    return stage_written_columns(dataset, plan, [written])


def write_columns(dataset: Dataset, plan: ColumnPlan, fragment_ids: Sequence[int]) -> WrittenColumns:
    """Write the values of new and copied columns for some fragments. Safe to repeat; runs on any machine."""
    announce("dataset.stage", dataset.uri)
    copied = tuple(plan.origins) if plan.forgets else plan.copied(dataset.schema)
    fields = [plan.schema.field(name).with_name(_FILL_PREFIX + name) for name in plan.fills]
    fields += [plan.schema.field(name).with_name(_COPY_PREFIX + name) for name in copied]
    written = pa.schema(fields)

    def values(batch: pa.RecordBatch) -> pa.RecordBatch:
        make: Any = pa.scalar
        arrays = [
            pa.repeat(make(value, plan.schema.field(name).type), batch.num_rows)
            for name, value in plan.fills.items()
        ]
        arrays += [plan.filled(name, batch.column(plan.origins[name])) for name in copied]
        return pa.RecordBatch.from_arrays(arrays, schema=written)

    fragments: list[FragmentMetadata] = []
    schema = None
    with substrate_errors("write columns", dataset.uri):
        for number in fragment_ids:
            fragment = dataset.native.get_fragment(number)
            assert fragment is not None, "the fragment is of this version"
            columns = ["id", *(plan.origins[name] for name in copied)]
            try:
                metadata, schema = fragment.merge_columns(values, columns=list(dict.fromkeys(columns)))
            except TypeError as error:
                # Lance tries the function on a first batch, and calls what went wrong while reading it a wrong type.
                if "LanceError" not in str(error):
                    raise
                raise RuntimeError(str(error)) from error
            fragments.append(metadata)
    assert schema is not None, "there is something to write"
    make_durable(dataset.place, fragment_files(fragments, dataset.native))
    if plan.forgets:
        _forget_old_files(dataset, plan, fragments, schema)
    return WrittenColumns(tuple(fragments), schema)


def stage_written_columns(
    dataset: Dataset, plan: ColumnPlan, written: Sequence[WrittenColumns]
) -> StagedTransaction:
    """Put columns that were written for every fragment of this very version in their places."""
    fragments = sorted((one for part in written for one in part.fragments), key=lambda one: one.id)
    with substrate_errors("stage written columns", dataset.uri):
        schema = _composed(dataset, plan, written[0].schema)
    return StagedTransaction.of(lance.LanceOperation.Merge(fragments, schema), dataset.version)


def _forget_old_files(
    dataset: Dataset, plan: ColumnPlan, fragments: Sequence[FragmentMetadata], schema: LanceSchema
) -> None:
    """Let the file that was just written be the only one. A column that it copied keeps the number of its field, and
    with it its indexes, unless it has to get another."""
    present, written = _Protos.of(dataset.native.lance_schema), _Protos.of(schema)
    moved = plan.copied(dataset.schema)
    numbers: dict[int, int] = {}
    for name, origin in plan.origins.items():
        if name not in moved:
            own, copy = present.field(origin).ids, written.field(_COPY_PREFIX + name).ids
            numbers |= dict(zip(copy, own, strict=True))
    for fragment in fragments:
        newest = fragment.files[-1]
        newest.fields = [numbers.get(number, number) for number in newest.fields]
        fragment.files = [newest]


def _composed(dataset: Dataset, plan: ColumnPlan, written: LanceSchema | None) -> LanceSchema:
    """The wanted columns, each with the numbers of the fields that hold its values."""
    present = _Protos.of(dataset.native.lance_schema)
    filled = None if written is None else _Protos.of(written)
    copied = plan.copied(dataset.schema)
    free = 1 + max([*_used_ids(dataset), *(filled or present).ids()])
    composed: list[bytes] = []
    for wanted in plan.schema:
        origin = plan.origins.get(wanted.name)
        if filled is not None and (wanted.name in plan.fills or wanted.name in copied):
            prefix = _FILL_PREFIX if wanted.name in plan.fills else _COPY_PREFIX
            composed += filled.column(prefix + wanted.name, wanted)
        elif origin is not None:
            composed += present.column(origin, wanted)
        else:
            fresh = _Protos.of(LanceSchema.from_pyarrow(pa.schema([wanted])))
            composed += fresh.moved(free)
            free += len(fresh.ids())
    return LanceSchema._from_protos(present.metadata, *composed)


def _used_ids(dataset: Dataset) -> Iterator[int]:
    """The numbers that data files have, also of columns that were dropped: their values are still there."""
    for fragment in dataset.native.get_fragments():
        for file in fragment.metadata.files:
            yield from file.fields


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a schema, with the messages of itself and of everything in it, depth first."""

    name: str
    messages: tuple[bytes, ...]
    ids: tuple[int, ...]
    parents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Protos:
    """A schema as its protobuf messages, by top-level field."""

    metadata: str
    fields: tuple[_Field, ...]

    @classmethod
    def of(cls, schema: LanceSchema) -> _Protos:
        reduced: Any = schema.__reduce__()
        metadata, *messages = reduced[1]
        at = 0
        fields = []
        for native in schema.fields():
            ids, parents = zip(*_numbers(native, _NO_PARENT), strict=True)
            fields.append(_Field(native.name(), tuple(messages[at : at + len(ids)]), ids, parents))
            at += len(ids)
        assert at == len(messages), "a message for each field"
        return cls(metadata, tuple(fields))

    def ids(self) -> list[int]:
        return [number for found in self.fields for number in found.ids]

    def field(self, name: str) -> _Field:
        return next(one for one in self.fields if one.name == name)

    def column(self, name: str, wanted: pa.Field[Any]) -> list[bytes]:
        """A column as it is wanted; in protobuf the last value of a member counts, and of a key in a map."""
        found = self.field(name)
        first, *rest = found.messages
        changed = first + text_field(_NAME, wanted.name) + number_field(_NULLABLE, int(wanted.nullable))
        for key, value in (wanted.metadata or {}).items():
            changed += bytes_field(_METADATA, text_field(1, key.decode()) + bytes_field(2, value))
        return [changed, *rest]

    def moved(self, by: int) -> list[bytes]:
        """The fields with other numbers, counted from `by` on."""
        return [
            message
            + number_field(_ID, number + by)
            + number_field(_PARENT, parent if parent == _NO_PARENT else parent + by)
            for found in self.fields
            for message, number, parent in zip(found.messages, found.ids, found.parents, strict=True)
        ]


def _numbers(native: Any, parent: int) -> Iterator[tuple[int, int]]:
    own = int(native.id())
    yield own, parent
    for child in native.children():
        yield from _numbers(child, own)


def stage_rows_for_new_schema(
    dataset: Dataset,
    columns: StagedTransaction,
    moved: RowReplacement | None,
    new: Rows | None,
    removed: Sequence[int],
) -> StagedTransaction:
    """Replace rows, add rows and delete those at `removed`, as one transaction right after `columns`."""
    operation: Any = columns.native.operation
    schema: LanceSchema = operation.schema
    fragments: list[FragmentMetadata] = []
    if moved is not None:
        fragments += keep_identities(_write_rows(dataset, schema, moved.rows), moved.identities)
    if new is not None:
        fragments += _write_rows(dataset, schema, new)
    gone = [*(() if moved is None else moved.addresses), *removed]
    deletions = write_deletions(dataset, gone) if gone else Deletions()
    later = getattr(operation, "fragments", None)
    updated = deletions.updated if later is None else _in_later_fragments(deletions, later)
    change = lance.LanceOperation.Update(
        removed_fragment_ids=list(deletions.removed),
        updated_fragments=list(updated),
        new_fragments=fragments,
        fields_modified=[],
        fields_for_preserving_frag_bitmap=field_ids(schema),
        update_mode="rewrite_rows",
    )
    return StagedTransaction.of(change, columns.base_version + 1)


def _write_rows(dataset: Dataset, schema: LanceSchema, rows: Rows) -> list[FragmentMetadata]:
    """Fragments for this very dataset. Lance numbers their fields from 0 on; they get the numbers of the schema."""
    announce("dataset.stage", dataset.uri)
    arrow: pa.Schema = rows.schema
    with substrate_errors("write fragments", dataset.uri):
        fragments = list(
            write_fragments(
                rows,
                dataset.native,
                schema=arrow,
                mode="overwrite",  # only so that the columns need not be those of now; nothing is overwritten
                data_storage_version=DATA_STORAGE_VERSION,
                enable_stable_row_ids=True,
            )
        )
        given = dict(zip(field_ids(LanceSchema.from_pyarrow(arrow)), field_ids(schema), strict=True))
    make_durable(dataset.place, fragment_files(fragments))
    for fragment in fragments:
        for file in fragment.files:
            file.fields = [given[number] for number in file.fields]
    return fragments


def _in_later_fragments(deletions: Deletions, later: Sequence[FragmentMetadata]) -> list[FragmentMetadata]:
    """The fragments as the first transaction leaves them, with the deletions of the second."""
    by_id = {fragment.id: fragment for fragment in later}
    return [replace(by_id[one.id], deletion_file=one.deletion_file) for one in deletions.updated]
