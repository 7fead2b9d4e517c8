"""The sources of a load: which inputs are files, frames or text, and how workers read each of them.

In: file names or objects from Python, and a type for inputs that do not name it. Out: one `LoadSource`. Inputs are
classified by the names of files only; planning reads footers and headers, and writes frames, dicts and streams of this
process to the scratch directory. A DataFrame of Spark is read by its own session. No row of a graph is read or written
here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph.base.errors import UsageError
from omnigraph.base.hints import Argument, hint
from omnigraph.base.progress import Report
from omnigraph.graph.scratch import Scratch
from omnigraph.pipeline.export.target import type_of_part
from omnigraph.pipeline.load.inputs import staged_text
from omnigraph.pipeline.load.inputs.blocks import (
    Block,
    Piece,
    arrow_block,
    reject_duplicate_columns,
    require_known_column,
)
from omnigraph.pipeline.load.inputs.csv_rows import plan_csv_pieces
from omnigraph.pipeline.load.inputs.files import InputFile, InputFormat, find_inputs, missing_type
from omnigraph.pipeline.load.inputs.frames import frame_name, is_iterator, is_spark_frame, stage_frame, unsupported_data
from omnigraph.pipeline.load.inputs.ndjson import plan_json_pieces
from omnigraph.pipeline.load.inputs.parquet import plan_parquet_pieces
from omnigraph.pipeline.load.tasks import LoadPart, LoadShape, LoadTask, load_blocks, load_piece, part_size
from omnigraph.pipeline.runner import RunTasks
from omnigraph.pipeline.spark.job import JobProgress
from omnigraph.pipeline.spark.runner import run_partitions
from omnigraph.schema.catalog import Catalog, Entity
from omnigraph.schema.catalog_json import catalog_from_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class NamedData:
    """One of several inputs, and the type of its rows; None if they name it themselves."""

    data: object
    type_name: str | None = None


@dataclass(frozen=True, slots=True)
class TypedFiles:
    """Files, and the type of rows that do not name it."""

    files: tuple[InputFile, ...]
    type_name: str | None


@dataclass(frozen=True, slots=True)
class TypedFrame:
    """A frame and the type of its rows."""

    frame: Any
    type_name: str


@dataclass(frozen=True, slots=True)
class TypedText:
    """A stream or dicts, and the type of rows that do not name it."""

    text: staged_text.StreamInput | Sequence[staged_text.Record]
    type_name: str | None


@dataclass(frozen=True, slots=True)
class LoadInputs:
    """The files, the frames, and the streams and dicts of one load."""

    files: tuple[TypedFiles, ...] = ()
    frames: tuple[TypedFrame, ...] = ()
    texts: tuple[TypedText, ...] = ()

    @property
    def type_names(self) -> tuple[str, ...]:
        """The types that the caller named. Planning needs the catalog if there are any."""
        inputs: tuple[TypedFiles | TypedFrame | TypedText, ...] = (*self.files, *self.frames, *self.texts)
        return tuple(dict.fromkeys(typed.type_name for typed in inputs if typed.type_name is not None))

    @property
    def needs_scratch(self) -> bool:
        return bool(self.texts) or any(not is_spark_frame(typed.frame) for typed in self.frames)

    @property
    def session(self) -> SparkSession | None:
        """Return the Spark session of the frames; None if no frame has one."""
        sessions = [typed.frame.sparkSession for typed in self.frames if is_spark_frame(typed.frame)]
        return sessions[0] if sessions else None


def classify_inputs(data: object, type_name: str | None, options: Mapping[str, str] | None) -> LoadInputs:
    """Separate files, frames and text; raise `UsageError` for other objects. `options` are for an object store."""
    if isinstance(data, Mapping | list | tuple) and not data and (type_name is None or isinstance(data, Mapping)):
        raise UsageError(
            f"nothing to load: the {type(data).__name__} is empty",
            code="load_data",
            hint="Pass file names, or a frame with its type. A frame may have no rows.",
        )
    if not isinstance(data, Mapping):
        return _combine(_classify(part.data, part.type_name, options) for part in _named_parts(data, type_name))
    if type_name is not None:
        raise UsageError(
            f"unexpected type '{type_name}': the keys of the dict are the types",
            code="load_type_unused",
            hint=hint("Omit {}, or pass one frame or a list of dicts instead of a dict.", Argument("type", type_name)),
        )
    return _combine(_classify(value, str(name), options) for name, value in data.items())


def _named_parts(data: object, type_name: str | None) -> Sequence[NamedData]:
    """Return the inputs that name their types, or all data as one input."""
    if isinstance(data, list | tuple) and data and all(isinstance(item, NamedData) for item in data):
        return data
    return [NamedData(data, type_name)]


def _combine(parts: Iterable[LoadInputs]) -> LoadInputs:
    inputs = list(parts)
    return LoadInputs(
        _distinct_files([files for part in inputs for files in part.files]),
        tuple(frame for part in inputs for frame in part.frames),
        tuple(text for part in inputs for text in part.texts),
    )


def plan_files(inputs: LoadInputs, catalog: Catalog | None) -> tuple[Piece, ...]:
    """Return the pieces of the files. The catalog is required if a type was named."""
    return tuple(piece for typed in inputs.files for piece in _plan_files(typed, catalog))


def plan_source(
    inputs: LoadInputs, pieces: tuple[Piece, ...], catalog: Catalog | None, scratch: Scratch | None, report: Report
) -> InputSource:
    """Return one source for the pieces of files, and for all frames, streams and dicts."""
    spark_frames: list[SparkFrame] = []
    for typed in inputs.frames:
        entity = _require_entity(catalog, typed.type_name)
        if is_spark_frame(typed.frame):
            name = frame_name(entity)
            reject_duplicate_columns(name, typed.frame.columns)
            require_known_column(name, typed.frame.columns, entity)
            spark_frames.append(SparkFrame(typed.frame, entity.name, name, report))
        else:
            assert scratch is not None, "workers read frames of this process from scratch"
            pieces += stage_frame(typed.frame, entity, scratch)
    for text in inputs.texts:
        assert scratch is not None, "workers read text of this process from scratch"
        type_ = None if text.type_name is None else _require_entity(catalog, text.type_name)
        stage: Any = (
            staged_text.stage_stream if isinstance(text.text, staged_text.StreamInput) else staged_text.stage_records
        )
        pieces += stage(text.text, type_, scratch)
    return InputSource(pieces, tuple(spark_frames))


def _require_entity(catalog: Catalog | None, type_name: str) -> Entity:
    assert catalog is not None, "a type was named"
    return catalog.require_type(type_name)


class LoadSource(Protocol):
    """The input of a load. `text_bytes` is about its size as text; None if unknown."""

    @property
    def text_bytes(self) -> int | None: ...

    def read(self, shape: LoadShape, run_tasks: RunTasks) -> Sequence[LoadPart]:
        """Read, check and write the input in tasks. The name and number of each part are unique."""
        ...


@dataclass(frozen=True, slots=True)
class InputSource:
    """Pieces, each read by one task, and DataFrames of Spark, whose size is unknown before they are read."""

    pieces: tuple[Piece, ...]
    spark_frames: tuple[SparkFrame, ...] = ()

    @property
    def text_bytes(self) -> int | None:
        return None if self.spark_frames else sum(piece.text_bytes for piece in self.pieces)

    def read(self, shape: LoadShape, run_tasks: RunTasks) -> Sequence[LoadPart]:
        parts = [part for frame in self.spark_frames for part in frame.read(shape)]
        if self.pieces or not self.spark_frames:
            pieces = self.pieces if shape.patched is None else [piece.for_patch() for piece in self.pieces]
            parts += run_tasks(load_piece, [LoadTask(piece, shape) for piece in pieces])
        return parts


@dataclass(frozen=True, slots=True)
class SparkFrame:
    """The rows of a DataFrame of Spark: its partitions are the tasks, and only its own session can run them."""

    frame: DataFrame
    type_name: str
    name: str
    report: Report

    def read(self, shape: LoadShape) -> tuple[LoadPart, ...]:
        """Read, check and write the rows, one part per partition."""
        function = partial(_load_partition, shape, self.name, self.type_name)
        return run_partitions(self.frame, function, JobProgress("load", None, self.report), part_size)


def _load_partition(
    shape: LoadShape, name: str, type_name: str, partition: int, batches: Iterator[pa.RecordBatch]
) -> LoadPart:
    entity = catalog_from_json(shape.catalog_json).require_type(type_name)
    size_bytes = 0

    def blocks() -> Iterator[Block]:
        nonlocal size_bytes
        for batch in batches:
            size_bytes += batch.nbytes
            yield arrow_block(entity, batch)

    part = load_blocks(shape, (name, partition), blocks(), 0)
    return replace(part, bytes_read=size_bytes)


def _classify(data: object, type_name: str | None, options: Mapping[str, str] | None) -> LoadInputs:
    names = _file_names(data)
    if names is not None:
        return LoadInputs(files=tuple(_typed_files(find_inputs(names, options), type_name)))
    if isinstance(data, staged_text.StreamInput) or staged_text.is_records(data):
        return LoadInputs(texts=(TypedText(data, type_name),))
    if (
        is_iterator(data)
        or isinstance(data, str | bytes | int | float | Sequence | set | None)
        or hasattr(data, "read")
    ):
        raise unsupported_data(data)
    if type_name is None:
        raise UsageError(
            "missing type: a frame does not name the type of its rows",
            code="load_type_missing",
            hint='Pass `type="Person"`, or a dict such as `{"Person": frame}`.',
        )
    return LoadInputs(frames=(TypedFrame(data, type_name),))


def _file_names(data: object) -> list[str] | None:
    """Return the file names; None for other data."""
    if isinstance(data, str | os.PathLike):
        return [os.fspath(data)]
    if isinstance(data, list | tuple) and data and all(isinstance(item, str | os.PathLike) for item in data):
        return [os.fspath(name) for name in data]
    return None


def _typed_files(files: tuple[InputFile, ...], type_name: str | None) -> Iterator[TypedFiles]:
    """Yield the files by type. Without a type, that of an exported Parquet file is in its name."""
    untyped = [file for file in files if file.format is not InputFormat.NDJSON]
    if not untyped and type_name is not None:
        raise staged_text.unexpected_type(files[0].name, type_name)
    if type_name is not None:
        yield TypedFiles(files, type_name)
        return
    exported: dict[str, list[InputFile]] = {}
    for file in untyped:
        name = type_of_part(PurePath(file.location.uri).name)
        if name is None:
            raise missing_type(file)
        exported.setdefault(name, []).append(file)
    lines = tuple(file for file in files if file.format is InputFormat.NDJSON)
    if lines:
        yield TypedFiles(lines, None)
    for name, parts in exported.items():
        yield TypedFiles(tuple(parts), name)


def _distinct_files(inputs: Sequence[TypedFiles]) -> tuple[TypedFiles, ...]:
    """Return the inputs with each file once; raise if two inputs have it with different types."""
    types: dict[str, str | None] = {}
    distinct = []
    for typed in inputs:
        new_files = []
        for file in typed.files:
            if file.location.uri not in types:
                new_files.append(file)
            other = types.setdefault(file.location.uri, typed.type_name)
            if other != typed.type_name:
                raise UsageError(
                    f"duplicate input '{file.name}': expected one type, got {other} and {typed.type_name}",
                    code="input_twice",
                    hint="Load the file once as each type.",
                    facts={"data": file.name},
                )
        distinct.append(TypedFiles(tuple(new_files), typed.type_name))
    return tuple(distinct)


def _plan_files(typed: TypedFiles, catalog: Catalog | None) -> tuple[Piece, ...]:
    by_format = {kind: [file for file in typed.files if file.format is kind] for kind in InputFormat}
    pieces: tuple[Piece, ...] = plan_json_pieces(by_format[InputFormat.NDJSON])
    if typed.type_name is not None:
        entity = _require_entity(catalog, typed.type_name)
        pieces += plan_parquet_pieces(by_format[InputFormat.PARQUET], entity)
        pieces += plan_csv_pieces(by_format[InputFormat.CSV], entity)
    return pieces
