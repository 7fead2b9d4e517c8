"""Fills the vectors of a graph from its texts, in waves: plan, embed, commit, one commit per wave.

In: a graph, which properties and rows, and a provider. Out: an `EmbedResult`. A wave is read from the state at the
start, its distinct texts are embedded by tasks, and its vectors are committed through the write path. Rows whose text
has changed since are skipped: they are pending for the next run. The commits are the only state, so a crash costs at
most one wave, and the next run continues. A text that the provider rejects fails only its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.display import Displayed, DisplayedRow, format_count
from omnigraph.base.errors import Applied, OmnigraphError, RefusedError
from omnigraph.base.hints import Argument, action, hint
from omnigraph.base.ids import CommitId
from omnigraph.embedding.provider import AnyProvider, EmbeddingProvider, call_function, require_model, require_provider
from omnigraph.embedding.vectors import Vector
from omnigraph.embedding.waits import share_pace
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.records import Pin, WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, open_own_table, read_snapshot
from omnigraph.graph.rows.entity_rows import RowLocations, locate, read_rows, row_ranges
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.pipeline.embed.pending import count_pending, read_texts
from omnigraph.pipeline.embed.plan import (
    TEXT,
    TextCount,
    VectorProperty,
    cut_text,
    divide_texts,
    divide_waves,
    fill_mask,
    require_same_property,
    select_properties,
)
from omnigraph.pipeline.embed.tasks import EmbeddedTexts, EmbedTask, collect_vectors, embed_requests
from omnigraph.pipeline.runner import batches_of
from omnigraph.schema.catalog import NodeType
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.files import write_file
from omnigraph.storage.lance.dataset import ADDRESS, IDENTITY, Dataset
from omnigraph.storage.lance.read import read_rows_at
from omnigraph.storage.lance.stage import RowReplacement, stage_row_changes
from omnigraph.storage.location import Location

if TYPE_CHECKING:
    from omnigraph.pipeline.spark.auto import AutoRunner

_FUNCTION_BATCH: Final = 64
"""The texts after which the lengths of the vectors of a caller's function are checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedRequest:
    """What to embed. `every_row`: also rows that have a vector. `errors` is the file for all row errors.

    Only a dry run needs no provider.
    """

    actor: str
    provider: AnyProvider | None
    branch: str = MAIN
    types: tuple[str, ...] = ()
    property: str | None = None
    every_row: bool = False
    dry_run: bool = False
    tokens_max: int | None = None
    truncate: bool = False
    errors: Location | None = None
    environment: WriteEnvironment | None = None
    wave_rows: int = limits.EMBED_WAVE_ROWS
    wave_bytes: int = limits.EMBED_WAVE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EmbedStats(DisplayedRow):
    """What a run did with one property."""

    type_name: str
    """The type."""
    property: str
    """The vector."""
    source: str
    """The property with the text."""
    model: str | None
    """The model of the provider, or None if it has no name."""
    pending: int
    """The rows to embed, when the run started."""
    characters: int
    """The characters of their texts."""
    tokens: int
    """About how many tokens of a model these are."""
    embedded: int = 0
    """The rows that got a vector."""
    failed: int = 0
    """The rows whose text was rejected."""
    texts: int = 0
    """The distinct texts of all waves, which were sent to the provider."""

    def _summary(self) -> Mapping[str, object]:
        return {
            "type_name": self.type_name,
            "property": self.property,
            "pending": self.pending,
            "embedded": self.embedded,
            "failed": self.failed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFailure:
    """A row that got no vector, and why."""

    type_name: str
    """The type."""
    id: str
    """The id of the row."""
    property: str
    """The vector."""
    message: str
    """Why its text was rejected."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EmbedResult(Displayed):
    """What a run of `embed` did."""

    branch: str
    """The branch that was written to."""
    actor: str
    """Who wrote."""
    properties: tuple[EmbedStats, ...]
    """The properties with `@embed`, in the order of the schema."""
    requests: int = 0
    """The requests to the provider."""
    retries: int = 0
    """How many of them repeated a failed request."""
    commits: tuple[CommitId, ...] = ()
    """The commits, one for each wave with vectors."""
    errors: tuple[RowFailure, ...] = ()
    """The first 100 rows that failed."""
    seconds: float = 0.0
    """How long the run took."""
    dry_run: bool = False
    """Whether it only counted."""
    runner: str = "local"
    """Where it ran: `local`, or `spark` and its master."""
    indexes: tuple[str, ...] | None = None
    """The indexes that were built afterwards, such as `node:Doc vec`; None if that was not requested."""

    @property
    def pending(self) -> int:
        """The rows to embed, when the run started."""
        return sum(stats.pending for stats in self.properties)

    @property
    def embedded(self) -> int:
        """The rows that got a vector."""
        return sum(stats.embedded for stats in self.properties)

    @property
    def failed(self) -> int:
        """The rows whose text was rejected."""
        return sum(stats.failed for stats in self.properties)

    def _summary(self) -> Mapping[str, object]:
        return {
            "branch": self.branch,
            "pending": f"{self.pending:,}",
            "embedded": f"{self.embedded:,}",
            "failed": f"{self.failed:,}",
            "requests": f"{self.requests:,}",
            "commits": len(self.commits),
        }


def embed(root: Location, request: EmbedRequest, runner: AutoRunner) -> EmbedResult:
    """Fill the vectors in waves, one commit each; raise if the provider cannot be used."""
    started = SYSTEM_CLOCK.monotonic()
    if not request.dry_run:
        require_provider(request.provider, "the texts of the graph")
    running = _EmbedRun(
        root=root, request=request, runner=runner, parts=_plan(read_snapshot(root, request.branch), request)
    )
    with ExitStack() as files:
        if not request.dry_run:
            if sum(part.count.characters for part in running.parts) > limits.LOCAL_RUNNER_BYTES_MAX:
                runner.prefer_spark()
            if request.errors is not None:
                running.error_file = files.enter_context(write_file(request.errors))
            try:
                for part in running.parts:
                    if part.count.rows:
                        running.fill(part)
            except KeyboardInterrupt as interrupt:
                interrupt.add_note(_committed_note(running.embedded, every_row=request.every_row))
                raise
    return EmbedResult(
        branch=request.branch,
        actor=request.actor,
        properties=tuple(part.stats(request.provider) for part in running.parts),
        requests=running.requests,
        retries=running.retries,
        commits=tuple(running.commits),
        errors=tuple(running.errors),
        seconds=SYSTEM_CLOCK.monotonic() - started,
        dry_run=request.dry_run,
        runner=runner.description,
    )


@dataclass(slots=True, kw_only=True)
class _PropertyRun:
    """A property, its rows at the start of a run, and what the run has done with it so far."""

    prop: VectorProperty
    count: TextCount
    embedded: int = 0
    failed: int = 0
    texts: int = 0

    def stats(self, provider: AnyProvider | None) -> EmbedStats:
        return EmbedStats(
            type_name=self.prop.entity.name,
            property=self.prop.vector.name,
            source=self.prop.source.name,
            model=self.prop.model if provider is None else provider.model or None,
            pending=self.count.rows,
            characters=self.count.characters,
            tokens=self.count.tokens,
            embedded=self.embedded,
            failed=self.failed,
            texts=self.texts,
        )


def _plan(snapshot: Snapshot, request: EmbedRequest) -> list[_PropertyRun]:
    """Return the rows to embed by property; raise if they are too many, or of another model."""
    plan = []
    for prop in select_properties(snapshot.schema.catalog, request.types, request.property):
        if request.provider is not None:
            require_model(request.provider, prop.model)
        dataset = open_own_table(snapshot, snapshot.tables[prop.entity.alias])
        plan.append(_PropertyRun(prop=prop, count=count_pending(dataset, prop, every_row=request.every_row)))
    tokens = sum(part.count.tokens for part in plan)
    if request.tokens_max is not None and tokens > request.tokens_max:
        raise RefusedError(
            f"too many tokens to embed: expected at most {request.tokens_max:,}, got about {tokens:,}",
            code="embed_tokens",
            hint=hint("Nothing was sent. Raise {}, or embed fewer types.", Argument("max_tokens", tokens)),
            facts={"tokens": tokens, "tokens_max": request.tokens_max},
        )
    return plan


@dataclass(slots=True, kw_only=True)
class _EmbedRun:
    """One run: what it has done so far."""

    root: Location
    request: EmbedRequest
    runner: AutoRunner
    parts: Sequence[_PropertyRun]
    requests: int = 0
    retries: int = 0
    commits: list[CommitId] = field(default_factory=list)
    errors: list[RowFailure] = field(default_factory=list)
    error_file: BinaryIO | None = None
    last_request: float = float("-inf")

    @property
    def embedded(self) -> int:
        """The rows that committed waves have given a vector."""
        return sum(part.embedded for part in self.parts)

    def fill(self, part: _PropertyRun) -> None:
        """Fill one property, wave by wave, from the state that the branch has now."""
        snapshot = read_snapshot(self.root, self.request.branch)
        prop = require_same_property(snapshot.schema.catalog, part.prop)
        table = snapshot.tables[prop.entity.alias]
        rows = read_texts(open_own_table(snapshot, table), prop, every_row=self.request.every_row)
        pin: Pin | None = table.pin
        for wave in divide_waves(
            rows, rows_max=self.request.wave_rows, bytes_max=self.request.wave_bytes, vector_bytes=prop.vector_bytes
        ):
            try:
                writer = self._embed_wave(part, prop, wave)
                writer.pin = pin
                pin = self._commit(writer)
            except OmnigraphError as error:
                raise _stopped(error, self.embedded, every_row=self.request.every_row) from error
            part.embedded += writer.embedded

    def _embed_wave(self, part: _PropertyRun, prop: VectorProperty, wave: pa.Table) -> _WaveWriter:
        """Embed the distinct texts of a wave, and return the writer of its vectors."""
        encoded: Any = pc.dictionary_encode(wave.column(TEXT).combine_chunks())
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        texts = encoded.dictionary
        sizes: Any = pc.binary_length(texts).to_numpy(zero_copy_only=False)
        too_long = np.zeros(len(texts), np.bool_) if self.request.truncate else sizes > limits.EMBED_TEXT_BYTES_MAX
        expected = f"expected at most {limits.EMBED_TEXT_BYTES_MAX:,} bytes"
        reasons = {number: f"text too long: {expected}, got {sizes[number]:,}" for number in np.flatnonzero(too_long)}
        sent = np.flatnonzero(~too_long)
        cut = [cut_text(text, limits.EMBED_TEXT_BYTES_MAX) for text in texts.take(pa.array(sent)).to_pylist()]
        vectors = np.zeros((len(texts), prop.size), np.float32)
        start = 0
        for result in self._embed_texts(cut, prop.size):
            numbers = sent[start : start + len(result.vectors)]
            vectors[numbers] = result.vectors
            reasons |= {numbers[number]: reason for number, reason in result.rejected.items()}
            start += len(numbers)
            self.requests, self.retries = self.requests + result.requests, self.retries + result.retries
        failed = np.isin(codes, list(reasons))
        part.texts += len(sent)
        part.failed += self._report(prop, wave.filter(pa.array(failed)), [reasons[code] for code in codes[failed]])
        rows = wave.filter(pa.array(~failed))
        return _WaveWriter(prop=prop, rows=rows, vectors=vectors[codes[~failed]], every_row=self.request.every_row)

    def _embed_texts(self, texts: Sequence[str], size: int) -> Sequence[EmbeddedTexts]:
        """Return the vectors of distinct texts, in their order."""
        provider = self.request.provider
        assert provider is not None, "only a dry run needs no provider"
        if isinstance(provider, EmbeddingProvider):
            batches = batches_of(texts, _FUNCTION_BATCH)
            self.requests += len(texts)
            return [collect_vectors(call_function(provider, batch, size), size) for batch in batches]
        settings = provider.settings
        groups = divide_texts(texts, batch=settings.batch, tasks_max=settings.concurrency)
        idle_seconds = SYSTEM_CLOCK.monotonic() - self.last_request
        pace = share_pace(settings.requests_per_minute, len(groups), idle_seconds)
        tasks = [EmbedTask(settings=settings, size=size, requests=requests, pace=pace) for requests in groups]
        results = self.runner(embed_requests, tasks) if tasks else []
        self.last_request = SYSTEM_CLOCK.monotonic()
        return results

    def _report(self, prop: VectorProperty, rows: pa.Table, reasons: Sequence[str]) -> int:
        """Record the rows of rejected texts; return their number."""
        for row_id, reason in zip(rows.column("id").to_pylist(), reasons, strict=True):
            failure = RowFailure(type_name=prop.entity.name, id=str(row_id), property=prop.vector.name, message=reason)
            if len(self.errors) < limits.VIOLATIONS_KEPT_MAX:
                self.errors.append(failure)
            if self.error_file is not None:
                self.error_file.write(msgspec.json.encode(failure) + b"\n")
        return len(reasons)

    def _commit(self, writer: _WaveWriter) -> Pin | None:
        """Commit the vectors of a wave; return the version in which the addresses of the next wave are valid."""
        if not writer.rows.num_rows:
            return writer.pin
        request = WriteRequest(
            kind=WriteOperation.EMBED,
            actor=self.request.actor,
            stage=writer.stage,
            restage=lambda area, _: writer.stage(area),
        )
        commit = write(self.root, self.request.branch, request, self.request.environment)
        if commit is None:
            return writer.pin
        self.commits.append(commit.id)
        return writer.pin and next((move.after for move in commit.tables if move.before == writer.pin), None)


@dataclass(slots=True, kw_only=True)
class _WaveWriter:
    """Stages the vectors of one wave: rows that still have their text move to a new fragment, with the vector.

    `pin` is the version in which the addresses of the rows are valid; None: rows are located by their ids.
    """

    prop: VectorProperty
    rows: pa.Table
    vectors: Vector
    every_row: bool
    pin: Pin | None = None
    embedded: int = 0

    def stage(self, area: StagingArea) -> StagedWrite | None:
        prop = require_same_property(area.snapshot.schema.catalog, self.prop)
        alias = prop.entity.alias
        dataset, table = area.read(alias), area.table(alias)
        if table.pin != self.pin:
            self.pin = None
        located, vectors = self._find_rows(dataset, prop)
        self.embedded = len(vectors)
        if not self.embedded:
            return None
        target = area.open_for_write(alias)
        moved = RowReplacement(
            _with_vectors(dataset, prop, located, vectors), located.identities.tolist(), located.addresses.tolist()
        )
        effect = area.transaction_effect(target, stage_row_changes(target.dataset, moved, None, ()), table.row_count)
        is_node = isinstance(prop.entity, NodeType)
        counts = {"nodes": self.embedded if is_node else 0, "edges": 0 if is_node else self.embedded}
        return area.finish((effect,), frozenset({table.id}), counts)

    def _find_rows(self, dataset: Dataset, prop: VectorProperty) -> tuple[RowLocations, Vector]:
        """Return where the rows are that get a vector, and the vectors."""
        ids: Any = self.rows.column("id").combine_chunks()
        if self.pin is None:
            located = locate(dataset, None, ids)
        else:
            located = RowLocations(
                ids=ids,
                present=np.ones(len(ids), np.bool_),
                identities=self.rows.column(IDENTITY).to_numpy(),
                addresses=self.rows.column(ADDRESS).to_numpy(),
            )
        present = located.present
        located, vectors = located.only(present), self.vectors[present]
        names = [prop.source.name, prop.vector.name]
        now = read_rows_at(dataset, located.identities, located.addresses, names)
        texts = self.rows.column(TEXT).filter(pa.array(present))
        fills = fill_mask(texts, now.column(names[0]), now.column(names[1]), every_row=self.every_row)
        return located.only(fills), vectors[fills]


def _with_vectors(
    dataset: Dataset, prop: VectorProperty, located: RowLocations, vectors: Vector
) -> pa.RecordBatchReader:
    """Return a reader of the rows with their new vectors. They are read while they are written."""
    schema = arrow_schema(prop.entity)
    index = schema.get_field_index(prop.vector.name)

    def read_batches() -> Iterator[pa.RecordBatch]:
        for start, count in row_ranges(prop.entity, len(vectors)):
            rows = read_rows(dataset, prop.entity, located.slice(start, count))
            values = pa.array(vectors[start : start + count].reshape(-1), pa.float32())
            make: Any = pa.FixedSizeListArray.from_arrays
            column = make(values, type=schema.field(index).type)
            yield from rows.set_column(index, schema.field(index), column).to_batches()

    return pa.RecordBatchReader.from_batches(schema, read_batches())


def _committed_rows(embedded: int) -> str:
    return f"{format_count(embedded, 'row')} of earlier waves {'is' if embedded == 1 else 'are'} committed"


def _committed_note(embedded: int, *, every_row: bool) -> str:
    """Return what a run that was interrupted leaves, and what the next one does."""
    if not embedded:
        return "no row was embedded; the next run starts again"
    again = "starts again with every row" if every_row else "continues with the other rows"
    return f"{_committed_rows(embedded)}; the next run {again}"


def _stopped(error: OmnigraphError, embedded: int, *, every_row: bool) -> OmnigraphError:
    """Return the error that ended a run, which says how many rows earlier waves committed."""
    if not embedded:
        return error
    stopped = type(error) if type(error).__init__ is OmnigraphError.__init__ else OmnigraphError
    again = "starts again with every row" if every_row else "continues with the other rows"
    failure = stopped(
        f"{error.message}; {_committed_rows(embedded)}",
        code=error.code,
        hint=hint(f"Fix the cause, then run {{}} again: it {again}.", action("embed")),
        facts={**error.facts, "rows_embedded": embedded},
    )
    failure.kind, failure.applied = error.kind, Applied.YES
    return failure
