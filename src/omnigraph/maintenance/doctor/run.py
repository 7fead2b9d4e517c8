"""Doctor: runs all checks of a graph and of this machine.

In: a graph, or None to check only this machine. Out: findings in the order of the checks; a check without problems
reports that. A check that fails is a finding itself, and the others continue. Files are checked before rows are read
from them, so that a damaged file is named. Nothing here writes, recovers or takes a lease.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from omnigraph.base import limits
from omnigraph.base.display import format_count
from omnigraph.base.errors import FormatError, OmnigraphError
from omnigraph.base.hints import Hint, action, hint
from omnigraph.base.progress import log_event
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import PendingState, list_pending
from omnigraph.graph.coordination.lease import inspect_lock, lock_directories
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.records import Pin, TableId, TableRecord
from omnigraph.graph.manifest.snapshot import MAIN, MOVED, Snapshot, is_moved, open_table, read_snapshot
from omnigraph.graph.manifest.stamp import FORMAT
from omnigraph.graph.rows.lookup import SnapshotLookup
from omnigraph.maintenance.doctor.files import DamagedFile, check_manifest, check_tables, find_links, find_unneeded
from omnigraph.maintenance.doctor.findings import (
    DEEP_CHECK,
    FIX_LOCATION,
    REPAIR,
    REPLACE_LINK,
    RESTORE_FILE,
    Check,
    Finding,
    Health,
    embed_branch,
    optimize_branch,
)
from omnigraph.maintenance.drift import TableInspection, inspect_until_stable, is_in_progress, owned_tables
from omnigraph.maintenance.index_status import IndexCoverage, IndexState, coverage_of_snapshot
from omnigraph.maintenance.target import GraphTarget
from omnigraph.pipeline.embed.plan import vector_properties
from omnigraph.pipeline.spark.java import find_java
from omnigraph.schema.catalog import EdgeType
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.commit import has_auto_cleanup
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.file_check import FileKind
from omnigraph.storage.lance.fragments import count_deleted_rows
from omnigraph.storage.lance.indexes import NO_VECTORS, PARAMETERS_DIFFER
from omnigraph.storage.lance.read import read_all_ids
from omnigraph.storage.local_tree import LINK_CODE
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.doctor")

FIX_EDGES: Final = Hint("Insert the nodes, or delete these edges.")
_PACKAGES: Final = {"Lance": "pylance", "Spark": "pyspark"}


def check_graph(graph: GraphTarget | None, *, deep: bool = False, machine: bool = True) -> list[Finding]:
    """Run every check. Without a graph only the machine is checked.

    Args:
        graph: The graph.
        deep: Whether to open every data file and index, and to read large tables.
        machine: Whether to check this machine too.
    """
    findings = _run(Check.MACHINE, _machine) if machine else []
    if graph is None:
        return findings
    root = graph.location
    damaged: list[DamagedFile] = []
    try:
        damaged = check_manifest(root, MAIN, None, deep=deep)
        if all(file.problem.kind is FileKind.VERSION for file in damaged):
            main = read_snapshot(root)
    except OmnigraphError as error:
        findings.append(Finding(Check.FORMAT, Health.PROBLEM, error.message, where=str(root), fix=error.advice))
        is_damage = isinstance(error, FormatError)
        return findings + [file.finding(root) for file in damaged if is_damage]
    if damaged:
        text = f"{MANIFEST} has damaged files, so nothing else was checked"
        findings.append(Finding(Check.FORMAT, Health.PROBLEM, text, where=str(root), fix=RESTORE_FILE))
        return findings + [file.finding(root) for file in damaged]
    inspection = _GraphInspection(root=root, main=main, deep=deep)
    checks: dict[Check, Callable[[], Iterable[Finding]]] = {
        Check.FORMAT: inspection.formats,
        Check.FILES: inspection.files,
        Check.RECOVERY: inspection.recovery,
        Check.LOCKS: inspection.locks,
        Check.DRIFT: inspection.drift,
        Check.EDGES: inspection.edges,
        Check.FRAGMENTS: inspection.fragments,
        Check.INDEXES: inspection.indexes,
        Check.ORPHANS: inspection.orphans,
    }
    return findings + [finding for check, run in checks.items() for finding in _run(check, run)]


def _run(check: Check, find: Callable[[], Iterable[Finding]]) -> list[Finding]:
    started = time.monotonic()
    findings: list[Finding] = []
    try:
        findings.extend(find())
    except OmnigraphError as error:
        findings.append(_failed(check, error))
    log_event(
        logger,
        f"checked {check.value}",
        check=check.value,
        findings=len(findings),
        seconds=round(time.monotonic() - started, 3),
    )
    return findings or [Finding(check, Health.OK, "nothing to do")]


def _failed(check: Check, error: OmnigraphError) -> Finding:
    if error.code != LINK_CODE:
        return Finding(check, Health.PROBLEM, error.message, fix=error.advice)
    text = "symbolic link: not checked, because links below the graph are not followed"
    return Finding(check, Health.PROBLEM, text, where=str(error.facts["path"]), fix=REPLACE_LINK)


def _machine() -> Iterator[Finding]:
    versions = []
    for name, package in _PACKAGES.items():
        try:
            versions.append(f"{name} {version(package)}")
        except PackageNotFoundError:
            fix = Hint(f"pip install {package}")
            yield Finding(Check.MACHINE, Health.PROBLEM, f"{name} is not installed", fix=fix)
    java = find_java()
    yield Finding(Check.MACHINE, Health.OK, ", ".join([*versions, f"Java {java.version} ({java.source})"]))


@dataclass(slots=True, kw_only=True)
class _GraphInspection:
    """The checks of a graph. `branches` are the snapshots of the branches that can be read.

    The checks run in their order: a later one skips what an earlier one has reported as unreadable.
    """

    root: Location
    main: Snapshot
    deep: bool
    branches: list[Snapshot] = field(default_factory=list)
    unreadable: set[TableId] = field(default_factory=set)
    damaged_manifests: list[DamagedFile] = field(default_factory=list)
    damaged: frozenset[tuple[TableId, Pin]] = frozenset()
    unopened_paths: frozenset[str] = frozenset()

    def formats(self) -> Iterator[Finding]:
        for name in sorted(self.main.state.branches, key=lambda name: (name != MAIN, name)):
            try:
                if name != MAIN and self._is_manifest_damaged(name):
                    text = f"{MANIFEST} of the branch has damaged files"
                    yield Finding(Check.FORMAT, Health.PROBLEM, text, where=name, branch=name, fix=RESTORE_FILE)
                    continue
                snapshot = self.main if name == MAIN else read_snapshot(self.root, name)
                snapshot.schema.require_intact()
            except OmnigraphError as error:
                yield Finding(Check.FORMAT, Health.PROBLEM, error.message, where=name, branch=name, fix=error.advice)
                continue
            self.branches.append(snapshot)
            if snapshot.stamp != FORMAT.current:
                text = f"format {snapshot.stamp}; this release writes {FORMAT.current}"
                fix = Hint("The next write migrates it.")
                yield Finding(Check.FORMAT, Health.NOTICE, text, where=name, branch=name, fix=fix)
        if is_moved(self.main.manifest, self.root) and len(self.main.state.branches) == 1:
            yield Finding(Check.FORMAT, Health.NOTICE, f"no branch can be created: {MOVED}", fix=FIX_LOCATION)
        text = f"format {self.main.stamp}, {format_count(len(self.branches), 'branch', 'branches')}"
        yield Finding(Check.FORMAT, Health.OK, text)

    def _is_manifest_damaged(self, name: str) -> bool:
        """Whether a file is damaged that the manifest of the branch needs; the check of files reports it.

        If the manifest cannot be opened at all, the error of the reader is more specific.
        """
        if is_moved(self.main.manifest, self.root):
            return False
        lance_branch = self.main.state.branches[name].lance_branch
        damaged = check_manifest(self.root, name, lance_branch, deep=self.deep)
        self.damaged_manifests += damaged
        return any(file.problem.kind is not FileKind.VERSION for file in damaged)

    def files(self) -> Iterator[Finding]:
        checked = check_tables(self.branches, deep=self.deep)
        self.damaged = checked.versions
        self.unopened_paths = checked.unopened_paths
        for file in (*self.damaged_manifests, *checked.files):
            yield file.finding(self.root)
        for link in find_links(self.root, checked.links):
            text = "symbolic link: cleanup deletes nothing through it"
            yield Finding(Check.FILES, Health.PROBLEM, text, where=f"{self.root}/{link}", fix=REPLACE_LINK)

    def _can_read(self, table: TableRecord) -> bool:
        return table.id not in self.unreadable and (table.id, table.pin) not in self.damaged

    def recovery(self) -> Iterator[Finding]:
        for pending in list_pending(self.root):
            branch = pending.intent.branch if pending.intent is not None else ""
            health, fix = Health.PROBLEM, Hint()
            match pending.state:
                case PendingState.LIVE:
                    health, text = Health.NOTICE, "a write is in progress"
                case PendingState.PENDING:
                    text, fix = "a write was interrupted and waits for recovery", optimize_branch()
                case PendingState.UNREADABLE:
                    text = f"the intent cannot be read: {pending.problem}"
                    fix = hint("Upgrade omnigraph, or move the file out of the graph and run {}.", action("repair"))
            yield Finding(Check.RECOVERY, health, text, where=pending.path, branch=branch, fix=fix)

    def locks(self) -> Iterator[Finding]:
        store = ObjectStore(self.root)
        for directory in lock_directories(store):
            try:
                lock = inspect_lock(store, directory)
            except FormatError as error:
                yield Finding(Check.LOCKS, Health.PROBLEM, error.message, where=directory, fix=error.advice)
                continue
            if not lock.is_over:
                yield Finding(Check.LOCKS, Health.NOTICE, f"held by {lock.holder}", where=directory)

    def drift(self) -> Iterator[Finding]:
        for snapshot in self.branches:
            stable = inspect_until_stable(snapshot, lambda: list_pending(self.root), WriteEnvironment())
            for inspection in stable.drifted:
                if is_in_progress(inspection, list_pending(self.root)):
                    continue  # an interrupted write, which the check of recoveries reports
                finding = self._drift_finding(inspection, snapshot.branch.name)
                if finding is not None:
                    yield finding

    def _drift_finding(self, inspection: TableInspection, branch: str) -> Finding | None:
        table, drift = inspection.table, inspection.drift
        if inspection.head is None:
            self.unreadable.add(table.id)
            if (table.id, table.pin) in self.damaged:
                return None  # the check of files names the file
            text, fix = inspection.obstacles.publish, Hint("Restore its files from a copy.")
            return Finding(Check.DRIFT, Health.PROBLEM, text, where=table.alias, branch=branch, fix=fix)
        operations = ", ".join(dict.fromkeys(drift.operations))
        text = (
            f"{drift.classification.value}: published version {table.pin.version}, "
            f"head {inspection.head.version} ({operations})"
        )
        health = Health.NOTICE if drift.is_ours else Health.PROBLEM
        return Finding(Check.DRIFT, health, text, where=table.alias, branch=branch, fix=REPAIR)

    def edges(self) -> Iterator[Finding]:
        """Check that the nodes of edges exist, once for each combination of published versions."""
        checked: set[frozenset[tuple[TableId, Pin]]] = set()
        for snapshot in self.branches:
            name = snapshot.branch.name
            for edge in snapshot.schema.catalog.edges:
                tables = _tables_of_edge(snapshot, edge)
                versions = frozenset((table.id, table.pin) for table in tables)
                if not tables[0].row_count or versions in checked or not all(map(self._can_read, tables)):
                    continue
                checked.add(versions)
                if sum(table.row_count for table in tables) > limits.DOCTOR_EDGE_ROWS_MAX and not self.deep:
                    text = "not checked for edges without nodes, because the table is large"
                    yield Finding(Check.EDGES, Health.OK, text, where=edge.alias, branch=name, fix=DEEP_CHECK)
                elif text := _describe_dangling_edges(snapshot, edge):
                    yield Finding(Check.EDGES, Health.PROBLEM, text, where=edge.alias, branch=name, fix=FIX_EDGES)

    def fragments(self) -> Iterator[Finding]:
        for snapshot in self.branches:
            name = snapshot.branch.name
            fix = optimize_branch(name)
            yield from _settings(snapshot.manifest.dataset, MANIFEST, name, fix)
            for table in filter(self._can_read, owned_tables(snapshot)):
                dataset = open_table(self.root, table)
                yield from _settings(dataset, table.alias, name, fix)
                yield from _files(dataset, table.alias, name, fix)

    def indexes(self) -> Iterator[Finding]:
        for snapshot in self.branches:
            name = snapshot.branch.name
            skipped = frozenset(
                table.id
                for table in snapshot.tables.values()
                if table.owner != snapshot.branch.id or not self._can_read(table)
            )
            incomplete: dict[tuple[str, IndexState], list[IndexCoverage]] = {}
            coverages = coverage_of_snapshot(snapshot, skipped)
            for row in coverages:
                if row.kind is IndexKind.VECTOR and row.reason == NO_VECTORS and not row.pending_rows:
                    text = f"the index on {row.column} is not built: {row.reason}"
                    fix = Hint(f"Load vectors into '{row.column}', or remove its @index.")
                    yield Finding(Check.INDEXES, Health.NOTICE, text, where=row.table_key, branch=name, fix=fix)
                elif row.is_far_behind or row.is_missing or row.reason == PARAMETERS_DIFFER:
                    incomplete.setdefault((row.table_key, row.state), []).append(row)
            for (alias, state), rows in incomplete.items():
                columns = ", ".join(dict.fromkeys(row.column for row in rows))
                uncovered = format_count(max(row.uncovered_rows for row in rows), "row")
                is_missing = state is IndexState.MISSING
                text = f"indexes not built: {columns}" if is_missing else f"indexes behind by {uncovered}: {columns}"
                if any(row.reason == PARAMETERS_DIFFER for row in rows):
                    text += " (built with other options, by an earlier release or by another tool)"
                yield Finding(Check.INDEXES, Health.NOTICE, text, where=alias, branch=name, fix=optimize_branch(name))
            yield from self._pending_vectors(snapshot, coverages)

    def _pending_vectors(self, snapshot: Snapshot, rows: Iterable[IndexCoverage]) -> Iterator[Finding]:
        """Report rows without the vector of their text: a problem if the vector is declared without `?`."""
        name = snapshot.branch.name
        required = {
            (entity.alias, prop.vector.name)
            for entity in snapshot.schema.catalog.types
            for prop in vector_properties(entity)
            if prop.is_required
        }
        for alias, column, count in dict.fromkeys((row.table_key, row.column, row.pending_rows) for row in rows):
            if count:
                health = Health.PROBLEM if (alias, column) in required else Health.NOTICE
                text = f"{format_count(count, 'pending vector')}: {column}"
                yield Finding(Check.INDEXES, health, text, where=alias, branch=name, fix=embed_branch(name))

    def orphans(self) -> Iterator[Finding]:
        tables = [table for snapshot in self.branches for table in snapshot.tables.values()]
        unreadable = {table.path for table in tables if table.id in self.unreadable} | self.unopened_paths
        return find_unneeded(self.main, self.branches, frozenset(unreadable))


def _tables_of_edge(snapshot: Snapshot, edge: EdgeType) -> list[TableRecord]:
    """Return the table of an edge type and those of its nodes, each once."""
    aliases = {node.id: node.alias for node in snapshot.schema.catalog.nodes}
    names = dict.fromkeys((edge.alias, aliases[edge.source], aliases[edge.target]))
    return [snapshot.tables[name] for name in names]


def _describe_dangling_edges(snapshot: Snapshot, edge: EdgeType) -> str:
    """Read the edges of one type without a node at an endpoint; return their number and an example, empty if none.

    Such edges exist after external changes that repair published by force. The ids of the nodes of one type are in
    memory at a time.
    """
    lookup = SnapshotLookup(snapshot)
    aliases = {node.id: node.alias for node in snapshot.schema.catalog.nodes}
    edge_ids: set[str] = set()
    for endpoint, node in (("src", edge.source), ("dst", edge.target)):
        node_ids = read_all_ids(open_table(snapshot.root, snapshot.tables[aliases[node]]))
        edge_ids.update(map(str, lookup.edges_at_other_nodes(edge.id, endpoint, node_ids).to_pylist()))
    if not edge_ids:
        return ""
    example = min(edge_ids)
    source, target = lookup.edge_endpoints(edge.id, example)
    count = format_count(len(edge_ids), "edge lacks", "edges lack")
    return f"{count} a node at an endpoint, for example {source} → {target} ({example})"


def _settings(dataset: Dataset, where: str, branch: str, fix: Hint) -> Iterator[Finding]:
    if has_auto_cleanup(dataset):
        text = "automatic cleanup is on: Lance may delete old versions that a branch needs"
        yield Finding(Check.FRAGMENTS, Health.PROBLEM, text, where=where, branch=branch, fix=fix)


def _files(dataset: Dataset, where: str, branch: str, fix: Hint) -> Iterator[Finding]:
    rows = dataset.fragment_rows()
    small = sum(1 for count in rows.values() if count < limits.HEALTHY_FRAGMENT_ROWS_MIN)
    if small > limits.HEALTHY_SMALL_FRAGMENTS_MAX:
        yield Finding(Check.FRAGMENTS, Health.NOTICE, f"{small:,} small fragments", where=where, branch=branch, fix=fix)
    deleted, total = count_deleted_rows(dataset), sum(rows.values())
    if deleted > limits.HEALTHY_DELETED_SHARE_MAX * (total + deleted):
        text = f"{format_count(deleted, 'deleted row')} still in the files, {total:,} live"
        yield Finding(Check.FRAGMENTS, Health.NOTICE, text, where=where, branch=branch, fix=fix)
