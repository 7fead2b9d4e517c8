"""Ensure indices: builds the declared indexes that a branch's tables lack, as one commit that changes no content.

In: a graph, a branch, whoever runs tasks. Out: an `IndexOutcome` with a row per declared index. The driver plans
(`index_plan`), workers build segments (`index_tasks`) without the branch's lease, and the driver commits all of them at
once through the write path. A table that the branch has not written yet is forked when one of its indexes is built, and
only then. Writes that land meanwhile cost nothing unless they rewrote an indexed fragment: such an index is planned
again, a bounded number of times, and is then left out. A crash leaves unreferenced files, or what recovery publishes; a
second run builds only what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from omnigraph.base.errors import Applied, ConflictError, NotFoundError
from omnigraph.base.limits import INDEX_ATTEMPTS_MAX, INDEX_ROWS_PER_TASK
from omnigraph.graph.commit import World, Write, write
from omnigraph.graph.intent import WriterKind
from omnigraph.graph.loose import index_run
from omnigraph.graph.snapshot import Snapshot
from omnigraph.graph.stage import Outcome, Stage, WritableTable, discard_fork
from omnigraph.graph.staged import Staged
from omnigraph.maintenance.concurrency import maintenance_concurrency
from omnigraph.maintenance.index_outcome import IndexOutcome, IndexRow
from omnigraph.maintenance.index_plan import (
    DeclaredIndex,
    IndexStatus,
    IndexWork,
    NoWork,
    SegmentPlan,
    TableIndexes,
    cut_segments,
    pack_segments,
    plan_indexes,
    rebuild,
    still_fits,
)
from omnigraph.maintenance.index_tasks import (
    BuildTask,
    TableVersion,
    TrainTask,
    build_segments,
    train_index,
)
from omnigraph.pipeline.load_source import RunTasks
from omnigraph.schema import EdgeType, NodeType, VectorType, declared_indexes
from omnigraph.schema.indexable import IndexKind
from omnigraph.storage.coverage import read_indexes
from omnigraph.storage.dataset import Dataset
from omnigraph.storage.fragments import Fragment, read_fragment_files
from omnigraph.storage.indexes import IndexPlan, IndexSegment, IndexSpec, Unbuildable, plan_index
from omnigraph.storage.location import Location

ACTOR = "omnigraph:ensure_indices"
CONFLICT = "other writers kept rewriting the fragments it was built over"
_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """Which types, by name or alias (None: all), by whom, and how many rows one task may index."""

    types: frozenset[str] | None = None
    actor: str = ACTOR
    rows_per_task: int = INDEX_ROWS_PER_TASK


def ensure_indices(
    root: Location,
    branch: str,
    run_tasks: RunTasks,
    options: IndexOptions | None = None,
    world: World | None = None,
) -> IndexOutcome:
    """Build every declared index that is missing or does not cover its table, as at most one commit."""
    options = options or IndexOptions()
    ensuring = _Ensuring(run_tasks, options)
    request = Write(WriterKind.ENSURE_INDICES, options.actor, ensuring.stage, ensuring.restage)
    while True:  # ends, because the last attempt leaves out what was lost
        try:
            published = write(root, branch, request, world)
        except _WorkLostError:
            continue
        commit = None if published is None else published.publication.commit
        return IndexOutcome(branch, ensuring.rows(), commit)


class _WorkLostError(ConflictError):
    """Something that was built does not fit any more; it is planned again, without the lease."""

    applied = Applied.NO


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as it was read at its pin."""

    facts: TableIndexes
    fragments: Mapping[int, Fragment]
    dataset: Dataset


@dataclass(frozen=True, slots=True)
class _Built:
    """One index that is built and not yet committed, and the fragments as they were then."""

    work: IndexWork
    segments: tuple[IndexSegment, ...]
    fragments: Mapping[int, Fragment]
    row: IndexRow


class _Ensuring:
    """One run. What was built is kept over attempts, as long as it fits."""

    def __init__(self, run_tasks: RunTasks, options: IndexOptions) -> None:
        self._run_tasks = run_tasks
        self._options = options
        self._attempts_left = INDEX_ATTEMPTS_MAX
        self._targets: dict[str, WritableTable] = {}
        self._built: dict[str, dict[IndexSpec, _Built]] = {}
        self._rows: dict[tuple[str, IndexSpec], IndexRow] = {}
        self._schema_hash = ""

    def rows(self) -> tuple[IndexRow, ...]:
        """What is known of every declared index, in the order of the schema."""
        return tuple(self._rows.values())

    def stage(self, at: Stage) -> Staged | None:
        self._attempts_left -= 1
        self._drop_unfit(at)
        self._schema_hash = at.snapshot.schema.hash
        tables = _read_tables(at, self._options.types)
        self._rows = {}
        wanted: list[tuple[_Table, IndexWork]] = []
        for table in tables:
            for planned in plan_indexes(table.facts, self._options.rows_per_task):
                kept = self._built.get(planned.alias, {}).get(planned.spec)
                self._rows[planned.alias, planned.spec] = _row(planned) if kept is None else kept.row
                if kept is None and isinstance(planned, IndexWork):
                    wanted.append((table, planned))
        done = False
        try:
            self._build(at, wanted)
            done = True
        finally:
            if not done:
                self._discard(tuple(self._targets))
        return self._finish(at)

    def restage(self, at: Stage, _: Staged) -> Staged | None:
        """Under the lease: keep what still fits; build nothing. Lost work is planned again, or left out in the end."""
        lost = self._drop_unfit(at)
        if lost and self._attempts_left:
            raise _WorkLostError("indexed fragments were rewritten meanwhile", code="index_work_lost")
        for alias, spec in lost:
            self._rows[alias, spec] = IndexRow(
                alias, spec.column, spec.kind, IndexStatus.SKIPPED, f"ConflictingWrites: {CONFLICT}"
            )
        return self._finish(at)

    def _build(self, at: Stage, wanted: Sequence[tuple[_Table, IndexWork]]) -> None:
        planned = self._plan(wanted)
        for table, work, _ in planned:
            if work.alias not in self._targets:
                self._targets[work.alias] = at.writable(table.facts.alias)
        tasks: list[BuildTask] = []
        for alias in dict.fromkeys(work.alias for _, work, _ in planned):
            parts = [part for _, work, cut in planned if work.alias == alias for part in cut]
            target = _version(self._targets[alias].dataset)
            tasks += [BuildTask(target, pack) for pack in pack_segments(parts)]
        results = self._run_tasks(build_segments, tasks) if tasks else ()
        segments = [segment for result in results for segment in result.segments]
        for table, work, cut in planned:
            found = tuple(segments[: len(cut)])
            del segments[: len(cut)]
            self._keep(table, work, cut, found)

    def _plan(
        self, wanted: Sequence[tuple[_Table, IndexWork]]
    ) -> list[tuple[_Table, IndexWork, tuple[SegmentPlan, ...]]]:
        """The segments of every index that can be built; the others are reported. Vector indexes train on workers."""
        trained = iter(self._train([(table, work) for table, work in wanted if _is_vector(work)]))
        planned = []
        for table, work in wanted:
            plan = (
                next(trained) if _is_vector(work) else plan_index(table.dataset, work.spec, work.fragment_ids)
            )
            if isinstance(plan, Unbuildable):
                skipped = NoWork(work.alias, work.spec, IndexStatus.SKIPPED, plan.reason)
                self._rows[work.alias, work.spec] = _row(skipped)
                continue
            grown = plan.fragment_ids != work.fragment_ids
            settled = rebuild(work, table.facts.rows) if grown else work
            cut = cut_segments(settled, plan, table.facts.rows, self._options.rows_per_task)
            planned.append((table, settled, cut))
        return planned

    def _train(self, wanted: Sequence[tuple[_Table, IndexWork]]) -> Sequence[IndexPlan | Unbuildable]:
        tasks = [
            TrainTask(_version(table.dataset), work.spec, work.fragment_ids, work.present)
            for table, work in wanted
        ]
        return self._run_tasks(train_index, tasks) if tasks else ()

    def _keep(
        self,
        table: _Table,
        work: IndexWork,
        cut: Sequence[SegmentPlan],
        segments: tuple[IndexSegment, ...],
    ) -> None:
        spec = work.spec
        numbers = [number for part in cut for number in part.fragment_ids]
        rows = sum(part.rows for part in cut)
        row = IndexRow(work.alias, spec.column, spec.kind, work.status, "", len(numbers), rows, len(segments))
        fragments = {number: table.fragments[number] for number in numbers}
        self._built.setdefault(work.alias, {})[spec] = _Built(work, segments, fragments, row)
        self._rows[work.alias, spec] = row

    def _drop_unfit(self, at: Stage) -> list[tuple[str, IndexSpec]]:
        """Move what was built onto the tables as they are now; forget, and tell, what does not fit them."""
        lost: list[tuple[str, IndexSpec]] = []
        same_schema = self._schema_hash == at.snapshot.schema.hash
        for alias, target in tuple(self._targets.items()):
            now = at.snapshot.tables.get(alias)
            if now is not None and now.pin == target.table.pin and same_schema:
                continue
            built = self._built.get(alias, {})
            same_place = (
                now is not None
                and target.forked_from is None
                and (now.owner, now.pin.branch) == (at.snapshot.branch.id, target.dataset.branch)
            )
            if not (same_place and same_schema):
                lost += [(alias, spec) for spec in built]
                self._discard((alias,))
                continue
            moved = at.writable(alias)
            fragments, present = read_fragment_files(moved.dataset), read_indexes(moved.dataset)
            unfit = [
                spec
                for spec, one in built.items()
                if not still_fits(one.work, one.fragments, fragments, present)
            ]
            lost += [(alias, spec) for spec in unfit]
            for spec in unfit:
                del built[spec]
            self._targets[alias] = moved
        return lost

    def _discard(self, aliases: Sequence[str]) -> None:
        for alias in aliases:
            discard_fork(self._targets.pop(alias))
            self._built.pop(alias, None)

    def _finish(self, at: Stage) -> Staged | None:
        for alias in [alias for alias in self._targets if not self._built.get(alias)]:
            self._discard((alias,))
        if not self._targets:
            return None
        effects = tuple(
            at.loose(target, index_run({spec: one.segments for spec, one in self._built[alias].items()}))
            for alias, target in self._targets.items()
        )
        count = sum(len(built) for built in self._built.values())
        return at.finish(effects, frozenset(), Outcome({"indexes": count}))


def _read_tables(at: Stage, types: frozenset[str] | None) -> list[_Table]:
    """The chosen tables at their pins, in the order of the schema."""
    entities = _chosen(at.snapshot, types)
    with ThreadPoolExecutor(maintenance_concurrency()) as threads:
        return list(threads.map(lambda entity: _read_table(at, entity), entities))


def _chosen(snapshot: Snapshot, types: frozenset[str] | None) -> list[NodeType | EdgeType]:
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


def _read_table(at: Stage, entity: NodeType | EdgeType) -> _Table:
    dataset = at.read(entity.alias)
    fragments = read_fragment_files(dataset)
    widths = {
        found.name: found.type.size * _FLOAT_BYTES
        for found in entity.properties
        if isinstance(found.type, VectorType)
    }
    declared = tuple(
        DeclaredIndex(IndexSpec(wanted.column, wanted.kind), widths.get(wanted.column, 0))
        for wanted in declared_indexes(entity)
    )
    rows = {number: found.rows for number, found in fragments.items()}
    return _Table(TableIndexes(entity.alias, rows, declared, read_indexes(dataset)), fragments, dataset)


def _row(planned: IndexWork | NoWork) -> IndexRow:
    reason = planned.reason if isinstance(planned, NoWork) else ""
    spec = planned.spec
    return IndexRow(planned.alias, spec.column, spec.kind, planned.status, reason)


def _is_vector(work: IndexWork) -> bool:
    return work.spec.kind is IndexKind.VECTOR


def _version(dataset: Dataset) -> TableVersion:
    return TableVersion(dataset.location, dataset.branch, dataset.version)
