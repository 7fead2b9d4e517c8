"""Plans what cleanup deletes in a whole graph: every file, by dataset and in order. Changes nothing.

In: a graph, a policy, a function that runs tasks. Out: a `GraphPlan`. First decide which manifest versions are
retained, since those are the snapshots that can be read afterwards; their pins are the table versions to retain; then
join each dataset with its listing. The time of the policy is before everything that is read here, so files that other
writers create while cleanup plans are younger and are kept.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import FormatError, OmnigraphError
from omnigraph.base.hints import Hint, action, hint
from omnigraph.base.ids import CommitId
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.layout import EDGES, GRAPH_INDEX, INIT_MARKERS, MANIFEST, NODES, SCRATCH, TABLE_PATH
from omnigraph.graph.manifest.lineage import all_merge_bases
from omnigraph.graph.manifest.records import CommitRecord, Pin, TableId, TableRecord
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, find_commit_version, is_moved, read_snapshot
from omnigraph.graph.manifest.stamp import StorageFormat
from omnigraph.graph.schema_change import HARD_DROPS
from omnigraph.maintenance.cleanup.deletion_plan import DeletableFile, Reason
from omnigraph.maintenance.cleanup.preflight import Preflight
from omnigraph.maintenance.cleanup.retention import KeepReason, Needs, RetentionDecision, RetentionPolicy, decide
from omnigraph.maintenance.cleanup.tasks import (
    DatasetPlan,
    DatasetTask,
    SnapshotsTask,
    TablePin,
    list_versions,
    plan_dataset,
    read_facts,
    read_pins,
)
from omnigraph.maintenance.rows import row_error
from omnigraph.pipeline.runner import RunTasks, batches_of
from omnigraph.storage.files import StoredFile, list_files
from omnigraph.storage.local_tree import list_links
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.cleanup")

_STRENGTH: Final = {reason: position for position, reason in enumerate(KeepReason)}
_ADJACENCY: Final = re.compile(r"([0-9a-f]{16}-[0-9a-f]{16})/(.+)-(\d+)\.[a-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPlan:
    """Delete `manifest` before `tables`, and those before `leftovers`, the files outside datasets.

    `owners` has the names of live branches by id. `fork_owners` has the live branch that owns a table's Lance branch,
    by the path of the table and that branch.
    """

    manifest: DatasetPlan
    tables: tuple[DatasetPlan, ...]
    leftovers: tuple[DatasetPlan, ...]
    owners: Mapping[str, str]
    fork_owners: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def datasets(self) -> tuple[DatasetPlan, ...]:
        """All plans in order."""
        return (self.manifest, *self.tables, *self.leftovers)


def plan_cleanup(
    preflight: Preflight, policy: RetentionPolicy, run_tasks: RunTasks, environment: WriteEnvironment
) -> GraphPlan:
    """Return what cleanup deletes, as of now; raise if a version that a live branch reads is missing."""
    newest = read_snapshot(preflight.main.root, storage_format=environment.storage_format)
    return _CleanupPlanner(
        root=newest.root, policy=policy, run_tasks=run_tasks, environment=environment, drifted=preflight.drifted
    ).plan(newest)


@dataclass(frozen=True, slots=True)
class _GraphFacts:
    """What the live branches say about versions, by the path of a dataset. `live` are the ids of these branches."""

    live: frozenset[str]
    current: Mapping[str, set[Pin]]
    published: Mapping[str, set[Pin]]
    floors: Mapping[str, frozenset[Pin]]

    def needs(self, path: str, reasons: Mapping[Pin, KeepReason], policy: RetentionPolicy) -> Needs:
        """Return what must be retained of a dataset. `reasons`: the pins that are needed, and why."""
        current = frozenset(self.current.get(path, ()))
        counted = _newest_versions(current.union(self.published.get(path, ())), policy.keep)
        floors = self.floors.get(path, frozenset())
        return Needs(
            pins=frozenset(reasons), heads=current, live=self.live, floors=floors, published=counted, reasons=reasons
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _CleanupPlanner:
    root: Location
    policy: RetentionPolicy
    run_tasks: RunTasks
    environment: WriteEnvironment
    drifted: Mapping[str, Hint]

    def plan(self, main: Snapshot) -> GraphPlan:
        heads = {MAIN: main}
        for name in main.state.branches:
            if name != MAIN:
                heads[name] = read_snapshot(self.root, name, storage_format=self.environment.storage_format)
        # Also those that a tombstone removes from the snapshot.
        tables = {key: table for head in heads.values() for key, table in head.state.tables.items()}
        commits = {commit.id: commit for head in heads.values() for commit in head.manifest.read_commits()}
        facts = _GraphFacts(
            live=frozenset(str(head.branch.id) for head in heads.values()),
            current=_current_versions(heads.values()),
            published=_published_versions(commits.values(), tables),
            floors=_read_floors(heads.values(), self.environment.storage_format),
        )
        bases = self._merge_base_pins(heads, commits)
        needs = facts.needs(MANIFEST, dict.fromkeys(bases, KeepReason.MERGE_BASE), self.policy)
        location = self.root.child(MANIFEST)
        # The plan of the manifest decides again, and never retains fewer snapshots.
        snapshots = decide(read_facts(location, list_versions(location)), needs, self.policy)
        if is_moved(main.manifest, self.root):
            _require_no_young_forks(snapshots, self.policy)
        manifest_task = DatasetTask(root=self.root, path=MANIFEST, table_key=MANIFEST, policy=self.policy, needs=needs)
        aliases = {table.path: table.alias for table in tables.values()}
        tasks = self._dataset_tasks(facts, self._read_pins(snapshots), aliases)
        skipped = [
            DatasetPlan(table_key=task.table_key, path=task.path, error=self.drifted[task.path])
            for task in tasks
            if task.path in self.drifted
        ]
        planned = [manifest_task, *(task for task in tasks if task.path not in self.drifted)]
        manifest, *table_plans = [*self.run_tasks(plan_dataset, planned), *skipped]
        for plan in (manifest, *table_plans):
            _require_nothing_lost(plan)
        # The files of operations that were killed; files of running ones are younger than the grace.
        scratch, markers = (
            self._plan_leftovers(directory, self._is_beyond_grace) for directory in (SCRATCH, INIT_MARKERS)
        )
        leftovers = (scratch, markers, self._plan_adjacency(table_plans))
        owners = {str(head.branch.id): name for name, head in heads.items()}
        return GraphPlan(
            manifest=manifest,
            tables=tuple(table_plans),
            leftovers=leftovers,
            owners=owners,
            fork_owners=_fork_owners(heads, owners),
        )

    def _merge_base_pins(
        self, heads: Mapping[str, Snapshot], commits: Mapping[CommitId, CommitRecord]
    ) -> frozenset[Pin]:
        """Return the manifest versions of the merge bases of live branches; one branch has none."""
        if len(heads) == 1:
            return frozenset()
        pins = set()
        for base in all_merge_bases([head.head for head in heads.values()], commits):
            pin = find_commit_version(self.root, commits[base], self.environment.storage_format)
            if pin is None:
                logger.warning("the snapshot of merge base %s was deleted", base)
            else:
                pins.add(pin)
        return frozenset(pins)

    def _read_pins(self, decision: RetentionDecision) -> dict[TablePin, KeepReason]:
        """Return what retained snapshots pin, each with the strongest reason why such a snapshot is retained."""
        versions_by_reason: dict[tuple[KeepReason, str | None], list[int]] = {}
        for branch, versions in decision.retained.items():
            for version in sorted(versions):
                reason = decision.reasons.get(Pin(branch, version), KeepReason.SNAPSHOT)
                versions_by_reason.setdefault((reason, branch), []).append(version)
        reasons = sorted(versions_by_reason, key=lambda key: _STRENGTH[key[0]], reverse=True)
        chunks = [
            (reason, branch, chunk)
            for reason, branch in reasons
            for chunk in _chunks(versions_by_reason[reason, branch])
        ]
        tasks = [
            SnapshotsTask(self.root, branch, tuple(chunk), self.environment.storage_format)
            for _, branch, chunk in chunks
        ]
        strongest: dict[TablePin, KeepReason] = {}
        for (reason, _, _), pins in zip(chunks, self.run_tasks(read_pins, tasks), strict=True):
            strongest.update(dict.fromkeys(pins, reason))
        return strongest

    def _dataset_tasks(
        self, facts: _GraphFacts, reasons: Mapping[TablePin, KeepReason], aliases: Mapping[str, str]
    ) -> list[DatasetTask]:
        """Return a task for every table of a snapshot or an older manifest, and for every other table directory."""
        needed: dict[str, set[TablePin]] = {}
        for pin in sorted(reasons, key=lambda pin: (pin.path, pin.alias)):
            needed.setdefault(pin.path, set()).add(pin)
        tasks = []
        for path, pins in needed.items():
            needs = facts.needs(path, {pin.pin: reasons[pin] for pin in pins}, self.policy)
            tasks.append(
                DatasetTask(
                    root=self.root, path=path, table_key=min(pin.alias for pin in pins), policy=self.policy, needs=needs
                )
            )
        for path in self._table_directories():
            if path not in needed:
                key = aliases.get(path, path)
                tasks.append(
                    DatasetTask(
                        root=self.root,
                        path=path,
                        table_key=key,
                        policy=self.policy,
                        needs=None,
                        is_in_manifest=path in aliases,
                    )
                )
        return tasks

    def _table_directories(self) -> list[str]:
        """List the directories of tables. Symbolic links are left out: `doctor` reports them."""
        paths = []
        links = list_links(self.root) if self.root.is_local else ()
        for kind in (kind for kind in (NODES, EDGES) if kind not in links):
            location = self.root.child(kind)
            table_links = list_links(location) if location.is_local else ()
            names = [name for name in ObjectStore(location).list_names() if name not in table_links]
            paths += [path for name in names if TABLE_PATH.fullmatch(path := f"{kind}/{name}")]
        return paths

    def _is_beyond_grace(self, file: StoredFile) -> bool:
        return self.policy.is_beyond_grace(file.modified_us)

    def _plan_adjacency(self, tables: Sequence[DatasetPlan]) -> DatasetPlan:
        """Plan derived files of deleted table versions. Those of a table that could not be read are kept."""
        retained = {plan.path.partition("/")[2]: plan.retained for plan in tables if plan.retained is not None}
        unread = {plan.path.partition("/")[2] for plan in tables if plan.error is not None}

        def is_stale(file: StoredFile) -> bool:
            match = _ADJACENCY.fullmatch(file.path)
            if match is None:
                return self._is_beyond_grace(file)
            table, lance_branch, version = match.groups()
            if table in unread:
                return False
            branch = None if lance_branch == MAIN else lance_branch
            versions = (retained.get(table) or {}).get(branch, frozenset())
            return int(version) not in versions and self.policy.is_beyond_age(file.modified_us)

        return self._plan_leftovers(GRAPH_INDEX, is_stale)

    def _plan_leftovers(self, directory: str, is_deletable: Callable[[StoredFile], bool]) -> DatasetPlan:
        try:
            files = list_files(self.root.child(directory))
        except OmnigraphError as error:
            return DatasetPlan(table_key=directory, path=directory, error=row_error(error))
        deletable = tuple(
            DeletableFile(file.path, file.size_bytes, Reason.LEFTOVER, None) for file in files if is_deletable(file)
        )
        is_whole = bool(deletable) and len(deletable) == len(files)
        return DatasetPlan(table_key=directory, path=directory, deletable=deletable, is_whole=is_whole)


def _read_floors(heads: Iterable[Snapshot], storage_format: StorageFormat) -> Mapping[str, frozenset[Pin]]:
    """Return by path the versions below which the policy keeps nothing: a commit of the branch dropped data there."""
    floors: defaultdict[str, set[Pin]] = defaultdict(set)
    for head in heads:
        for commit in head.manifest.read_commits_naming(HARD_DROPS):
            if HARD_DROPS not in commit.counts or commit.branch_id != head.branch.id:
                continue
            floors[MANIFEST].add(find_commit_version(head.root, commit, storage_format) or commit.manifest_hint)
            for move in commit.tables:
                table = head.state.tables.get(move.table)
                if move.after is not None and table is not None:
                    floors[table.path].add(move.after)
    return {path: frozenset(pins) for path, pins in floors.items()}


def _current_versions(heads: Iterable[Snapshot]) -> Mapping[str, set[Pin]]:
    """Return the versions that live branches read, by path."""
    current: defaultdict[str, set[Pin]] = defaultdict(set)
    for head in heads:
        current[MANIFEST].add(Pin(head.branch.lance_branch, head.version))
        for table in head.tables.values():
            current[table.path].add(table.pin)
    return current


def _published_versions(
    commits: Iterable[CommitRecord], tables: Mapping[TableId, TableRecord]
) -> Mapping[str, set[Pin]]:
    """Return the versions that commits published, by path, without reading any.

    A commit is based on the manifest version below its hint, and that version is the snapshot of the previous commit.
    """
    published: defaultdict[str, set[Pin]] = defaultdict(set)
    for commit in commits:
        published[MANIFEST].add(Pin(commit.manifest_hint.branch, commit.manifest_hint.version - 1))
        for move in commit.tables:
            if move.after is not None and move.table in tables:
                published[tables[move.table].path].add(move.after)
    return published


def _newest_versions(pins: AbstractSet[Pin], keep: int | None) -> frozenset[Pin]:
    """Return the `keep` newest versions of each Lance branch."""
    versions: dict[str | None, list[int]] = {}
    for pin in pins:
        versions.setdefault(pin.branch, []).append(pin.version)
    return frozenset(
        Pin(branch, version)
        for branch, numbers in versions.items()
        for version in sorted(numbers, reverse=True)[: keep or 0]
    )


def _fork_owners(heads: Mapping[str, Snapshot], owners: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Return the live branch that owns each table's Lance branch, by table path and Lance branch."""
    return {
        (table.path, table.pin.branch): owners[table.owner]
        for head in heads.values()
        for table in head.state.tables.values()
        if table.pin.branch is not None and table.owner in owners
    }


def _chunks(versions: Sequence[int]) -> Iterator[Sequence[int]]:
    """Return chunks of bounded size, enough for all workers."""
    size = min(limits.CLEANUP_SNAPSHOTS_PER_TASK, -(-len(versions) // limits.MAINTENANCE_CONCURRENCY)) or 1
    return batches_of(versions, size)


def _require_no_young_forks(snapshots: RetentionDecision, policy: RetentionPolicy) -> None:
    """Raise if a moved graph has a young fork: its manifest cannot be read, so what it needs is unknown."""
    young = sorted(branch for branch in snapshots.retained if branch is not None)
    if young:
        minutes = policy.age_us_min // 60_000_000
        raise FormatError(
            f"the graph was copied or moved, and a deleted branch is still kept: {young[0]}",
            code="graph_moved",
            hint=hint(
                f"Nothing was deleted. Run {{}} again {minutes} minutes after the copy or the last write to it.",
                action("cleanup", keep=limits.CLEANUP_KEEP_RECOMMENDED),
            ),
            facts={"lance_branches": list(young)},
        )


def _require_nothing_lost(plan: DatasetPlan) -> None:
    for pin in sorted(plan.lost_versions, key=lambda pin: (pin.branch or "", pin.version)):
        where = "" if pin.branch is None else f" on the Lance branch {pin.branch}"
        raise FormatError(
            f"version {pin.version} of {plan.table_key}{where} is missing, but a live branch or a tag reads it",
            code="pinned_version_missing",
            hint="Nothing was deleted. Restore the version from a copy.",
            facts={"table": plan.table_key, "version": pin.version},
        )
