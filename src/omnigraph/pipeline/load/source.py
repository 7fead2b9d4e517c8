"""What a load was given, told apart: files that name their types, files and frames of one type each.

In: what the user named, words of the command line or objects from Python. Out: one source of everything. The words are
judged without reading more than the names of files; planning reads footers and headers, and writes frames to the
scratch folder.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph.base.errors import UsageError
from omnigraph.base.progress import Report
from omnigraph.graph.scratch import Scratch
from omnigraph.pipeline.load.inputs.blocks import (
    Block,
    Piece,
    arrow_block,
    refuse_foreign_columns,
    reject_duplicate_columns,
    type_of_rows,
)
from omnigraph.pipeline.load.inputs.csv_rows import plan_csv_pieces
from omnigraph.pipeline.load.inputs.files import InputFile, InputFormat, find_inputs
from omnigraph.pipeline.load.inputs.frames import frame_name, is_spark_frame, stage_frame, unsupported
from omnigraph.pipeline.load.inputs.ndjson import plan_json_pieces
from omnigraph.pipeline.load.inputs.parquet import plan_parquet_pieces
from omnigraph.pipeline.load.tasks import LoadPart, LoadShape, LoadTask, load_blocks, load_piece, part_size
from omnigraph.pipeline.runner import RunTasks
from omnigraph.pipeline.spark.job import Watch
from omnigraph.pipeline.spark.runner import run_partitions
from omnigraph.schema.catalog import Catalog, Entity
from omnigraph.schema.catalog_json import catalog_from_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class LoadSource(Protocol):
    """Everything that a load reads. `text_bytes` is about what it takes as text, None when nobody knows."""

    @property
    def text_bytes(self) -> int | None: ...

    def read(self, shape: LoadShape, run_tasks: RunTasks) -> Sequence[LoadPart]:
        """Let workers read, check and write all of it; no two parts have the same name and number."""
        ...


@dataclass(frozen=True, slots=True)
class PieceSource:
    """Pieces that tasks read, one each."""

    pieces: tuple[Piece, ...]

    @property
    def size_bytes(self) -> int:
        """How much there is to read."""
        return sum(piece.size_bytes for piece in self.pieces)

    @property
    def text_bytes(self) -> int:
        return sum(piece.text_bytes for piece in self.pieces)

    def read(self, shape: LoadShape, run_tasks: RunTasks) -> Sequence[LoadPart]:
        return run_tasks(load_piece, [LoadTask(piece, shape) for piece in self.pieces])


@dataclass(frozen=True, slots=True)
class JoinedSource:
    """Several sources, read one after another and loaded as one. No two of them have a name in common."""

    sources: tuple[LoadSource, ...]

    @property
    def text_bytes(self) -> int | None:
        sizes = [source.text_bytes for source in self.sources]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def read(self, shape: LoadShape, run_tasks: RunTasks) -> Sequence[LoadPart]:
        return [part for source in self.sources for part in source.read(shape, run_tasks)]


@dataclass(frozen=True, slots=True)
class SparkFrameSource:
    """The rows of a frame. Nobody knows how many there are before they are read."""

    frame: DataFrame
    type_name: str
    name: str
    report: Report

    @property
    def text_bytes(self) -> None:
        return None

    def read(self, shape: LoadShape, run_tasks: RunTasks) -> Sequence[LoadPart]:
        del run_tasks  # the tasks are the partitions of the frame, and Spark alone can run them
        function = partial(_load_partition, shape, self.name, self.type_name)
        return run_partitions(self.frame, function, Watch("load", None, self.report), part_size)


def plan_spark_frame(frame: DataFrame, entity: Entity, report: Report) -> SparkFrameSource:
    """The source, once the names of the columns are good."""
    name = frame_name(entity)
    reject_duplicate_columns(name, frame.columns)
    refuse_foreign_columns(name, frame.columns, entity)
    return SparkFrameSource(frame, entity.name, name, report)


def _load_partition(
    shape: LoadShape, name: str, type_name: str, partition: int, batches: Iterator[pa.RecordBatch]
) -> LoadPart:
    entity = type_of_rows(catalog_from_json(shape.catalog_json), type_name)
    size_bytes = 0

    def blocks() -> Iterator[Block]:
        nonlocal size_bytes
        for batch in batches:
            size_bytes += batch.nbytes
            yield arrow_block(entity, batch)

    part = load_blocks(shape, (name, partition), blocks(), 0)
    return replace(part, bytes_read=size_bytes)


@dataclass(frozen=True, slots=True)
class TypedFiles:
    """Files, and the type of the rows of those that do not name it themselves."""

    files: tuple[InputFile, ...]
    type_name: str | None


@dataclass(frozen=True, slots=True)
class TypedFrame:
    """A frame and the type of its rows."""

    frame: Any
    type_name: str


@dataclass(frozen=True, slots=True)
class LoadInputs:
    """Everything that one load reads."""

    files: tuple[TypedFiles, ...] = ()
    frames: tuple[TypedFrame, ...] = ()

    @property
    def names_types(self) -> bool:
        """Whether a type was named, so that the catalog must be asked for it."""
        return bool(self.frames) or any(typed.type_name is not None for typed in self.files)

    @property
    def needs_scratch(self) -> bool:
        return any(not is_spark_frame(typed.frame) for typed in self.frames)

    @property
    def session(self) -> SparkSession | None:
        """The Spark session that a frame belongs to."""
        sessions = [typed.frame.sparkSession for typed in self.frames if is_spark_frame(typed.frame)]
        return sessions[0] if sessions else None


def sort_inputs(data: object, type_name: str | None, options: Mapping[str, str] | None) -> LoadInputs:
    """Tell files and frames apart; raise `UsageError` for what cannot be loaded. `options` reach an object store."""
    if isinstance(data, Mapping | list | tuple) and not data:
        raise UsageError(
            f"there is nothing to load: the {type(data).__name__} is empty",
            code="load_data",
            hint="pass file names, or a frame with its type; a frame without rows is no mistake",
        )
    if not isinstance(data, Mapping):
        return _sorted_one(data, type_name, options)
    if type_name is not None:
        raise UsageError(
            "a type is given beside a dict that names the types itself",
            code="load_type_unused",
            hint="leave the type out, or pass the frame alone",
        )
    inputs_by_type = [_sorted_one(value, str(name), options) for name, value in data.items()]
    inputs = LoadInputs(
        tuple(files for part in inputs_by_type for files in part.files),
        tuple(frame for part in inputs_by_type for frame in part.frames),
    )
    _refuse_twice(inputs.files)
    return inputs


def plan_files(inputs: LoadInputs, catalog: Catalog | None) -> tuple[Piece, ...]:
    """The pieces of the files. The catalog is needed when types were named."""
    return tuple(piece for typed in inputs.files for piece in _plan_files(typed, catalog))


def plan_source(
    inputs: LoadInputs,
    pieces: tuple[Piece, ...],
    catalog: Catalog | None,
    scratch: Scratch | None,
    report: Report,
) -> LoadSource:
    """One source of the pieces of files and of all frames."""
    sources: list[LoadSource] = []
    for typed in inputs.frames:
        assert catalog is not None, "whoever gives frames names types"
        entity = type_of_rows(catalog, typed.type_name)
        if is_spark_frame(typed.frame):
            sources.append(plan_spark_frame(typed.frame, entity, report))
        else:
            assert scratch is not None, "a frame of this process needs a place that workers reach"
            pieces += stage_frame(typed.frame, entity, scratch)
    if pieces or not sources:
        sources.append(PieceSource(pieces))
    return sources[0] if len(sources) == 1 else JoinedSource(tuple(sources))


def _sorted_one(data: object, type_name: str | None, options: Mapping[str, str] | None) -> LoadInputs:
    names = _file_names(data)
    if names is not None:
        return LoadInputs(files=(_typed_files(find_inputs(names, options), type_name),))
    if isinstance(data, str | bytes | int | float | Sequence | set | None):
        raise unsupported(data)
    if type_name is None:
        raise UsageError(
            "a frame does not say which type its rows are",
            code="load_type_missing",
            hint='pass type="Person", or a dict such as {"Person": frame}',
        )
    return LoadInputs(frames=(TypedFrame(data, type_name),))


def _file_names(data: object) -> list[str] | None:
    """The names of files, None when it is something else."""
    if isinstance(data, str | os.PathLike):
        return [os.fspath(data)]
    if isinstance(data, list | tuple) and data and all(isinstance(item, str | os.PathLike) for item in data):
        return [os.fspath(name) for name in data]
    return None


def _typed_files(files: tuple[InputFile, ...], type_name: str | None) -> TypedFiles:
    untyped = [file for file in files if file.format is not InputFormat.NDJSON]
    if untyped and type_name is None:
        raise UsageError(
            f"'{untyped[0].name}' is {untyped[0].format.value} and does not say which type its rows are",
            code="load_type_missing",
            hint='name it: --type Person, or type="Person" from Python',
            facts={"data": untyped[0].name},
        )
    if not untyped and type_name is not None:
        raise UsageError(
            f"a type is given, and '{files[0].name}' is NDJSON, where every line names its own",
            code="load_type_unused",
            hint="leave the type out: it is for Parquet and CSV",
            facts={"data": files[0].name},
        )
    return TypedFiles(files, type_name)


def _refuse_twice(inputs: Sequence[TypedFiles]) -> None:
    types: dict[str, list[str]] = defaultdict(list)
    for files in inputs:
        for file in files.files:
            types[file.location.uri].append(str(files.type_name))
            if len(types[file.location.uri]) > 1:
                raise UsageError(
                    f"'{file.name}' is given as {' and as '.join(types[file.location.uri])}",
                    code="input_twice",
                    hint="load it as one type, and again as the other",
                    facts={"data": file.name},
                )


def _plan_files(typed: TypedFiles, catalog: Catalog | None) -> tuple[Piece, ...]:
    by_format = {kind: [file for file in typed.files if file.format is kind] for kind in InputFormat}
    pieces: tuple[Piece, ...] = plan_json_pieces(by_format[InputFormat.NDJSON])
    if typed.type_name is not None:
        assert catalog is not None, "a type was named"
        entity = type_of_rows(catalog, typed.type_name)
        pieces += plan_parquet_pieces(by_format[InputFormat.PARQUET], entity)
        pieces += plan_csv_pieces(by_format[InputFormat.CSV], entity)
    return pieces
