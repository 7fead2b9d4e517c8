"""Doctor: checks everything of a graph, and names the command that fixes what it finds.

In: a graph, or nothing but this machine. Out: findings in the order of the checks; a check that finds nothing reports
that. One that fails is a finding itself, and the others continue. Files are checked before rows are read from them, so
that a damaged file is named. Nothing here writes, recovers or takes a lease.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import FormatError, OmnigraphError
from omnigraph.base.progress import log_event
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.intent import PendingState, list_pending
from omnigraph.graph.coordination.lease import inspect_lock, lock_folders
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.records import Pin, TableId, TableRecord
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, is_moved, open_table, read_snapshot
from omnigraph.graph.manifest.stamp import FORMAT
from omnigraph.maintenance.doctor.edges import Pins, edges_to_look_at, find_loose_edges
from omnigraph.maintenance.doctor.files import (
    DamagedFile,
    check_manifest,
    check_tables,
    find_leftovers,
    find_links,
)
from omnigraph.maintenance.doctor.findings import Check, Commands, Finding, Health
from omnigraph.maintenance.drift import inspect_until_stable, is_under_way, owned_tables
from omnigraph.maintenance.index_status import coverage_of_snapshot
from omnigraph.maintenance.target import GraphPlace
from omnigraph.pipeline.spark.java import find_java
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.lance.commit import has_auto_cleanup
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.lance.file_check import FileKind
from omnigraph.storage.lance.fragments import count_deleted_rows
from omnigraph.storage.lance.indexes import NO_VECTORS
from omnigraph.storage.local_tree import LINK_CODE
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.doctor")

LOOSE: Final = "insert the nodes, or delete these edges"
RESTORE: Final = "restore the file from a copy"
UNLINK: Final = "replace the link with a directory that has its contents, or remove the link"
_PACKAGES: Final = {"Lance": "pylance", "Spark": "pyspark"}


def examine(graph: GraphPlace | None, *, deep: bool = False, address: str | None = None) -> list[Finding]:
    """Every finding. Without a graph only the machine is checked.

    Args:
        graph: The graph.
        deep: Whether to open every data file and index, and to read large tables.
        address: How commands in the findings name the graph. Default: its URI.
    """
    findings = _run(Check.MACHINE, _machine)
    if graph is None:
        return findings
    root = graph.location
    damaged: tuple[DamagedFile, ...] = ()
    try:
        damaged = check_manifest(root, MAIN, None, deep=deep)
        if all(file.kind is FileKind.VERSION for file in damaged):
            main = read_snapshot(root)
    except OmnigraphError as error:
        findings.append(Finding(Check.FORMAT, Health.PROBLEM, error.message, str(root), fix=error.hint))
        is_damage = isinstance(error, FormatError)
        return findings + [_damage(root, file) for file in damaged if is_damage]
    if damaged:
        text = f"{MANIFEST} has damaged files, so nothing else was checked"
        findings.append(Finding(Check.FORMAT, Health.PROBLEM, text, str(root), fix=RESTORE))
        return findings + [_damage(root, file) for file in damaged]
    seen = _InspectedGraph(root, main, Commands(address or str(root)), deep)
    checks: dict[Check, Callable[[], Iterable[Finding]]] = {
        Check.FORMAT: seen.formats,
        Check.FILES: seen.files,
        Check.RECOVERY: seen.recovery,
        Check.LOCKS: seen.locks,
        Check.DRIFT: seen.drift,
        Check.EDGES: seen.edges,
        Check.FRAGMENTS: seen.fragments,
        Check.INDEXES: seen.indexes,
        Check.ORPHANS: seen.orphans,
    }
    return findings + [finding for check, run in checks.items() for finding in _run(check, run)]


def _run(check: Check, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    started = time.monotonic()
    findings: list[Finding] = []
    try:
        findings.extend(look())
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
        return Finding(check, Health.PROBLEM, error.message, fix=error.hint)
    text = "is a symbolic link, and links below the graph are not followed, so this was not checked"
    return Finding(check, Health.PROBLEM, text, str(error.facts["path"]), fix=UNLINK)


def _machine() -> Iterator[Finding]:
    found = []
    for name, package in _PACKAGES.items():
        try:
            found.append(f"{name} {version(package)}")
        except PackageNotFoundError:
            fix = f"pip install {package}"
            yield Finding(Check.MACHINE, Health.PROBLEM, f"{name} is not installed", fix=fix)
    java = find_java()
    yield Finding(Check.MACHINE, Health.OK, ", ".join([*found, f"Java {java.version} ({java.source})"]))


@dataclass(slots=True)
class _InspectedGraph:
    """A graph while it is looked at. `branches` are the snapshots of those that can be read.

    The checks run in their order: what a later one cannot look at, an earlier one has told.
    """

    root: Location
    main: Snapshot
    commands: Commands
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
                    yield Finding(Check.FORMAT, Health.PROBLEM, text, name, name, RESTORE)
                    continue
                snapshot = self.main if name == MAIN else read_snapshot(self.root, name)
                snapshot.schema.require_intact()
            except OmnigraphError as error:
                yield Finding(Check.FORMAT, Health.PROBLEM, error.message, name, name, error.hint)
                continue
            self.branches.append(snapshot)
            if snapshot.stamp != FORMAT.current:
                text = f"format {snapshot.stamp}; this release writes {FORMAT.current}"
                yield Finding(Check.FORMAT, Health.NOTICE, text, name, name, "the next write migrates it")
        count = len(self.branches)
        text = f"format {self.main.stamp}, {count} {'branch' if count == 1 else 'branches'}"
        yield Finding(Check.FORMAT, Health.OK, text)

    def _is_manifest_damaged(self, name: str) -> bool:
        """Whether a file is damaged that reading the branch's manifest needs; it is reported with the files.

        A manifest that cannot even be opened is left to the reader, whose error says more.
        """
        if is_moved(self.main.manifest, self.root):
            return False
        lance_branch = self.main.state.branches[name].lance_branch
        damaged = check_manifest(self.root, name, lance_branch, deep=self.deep)
        self.damaged_manifests += damaged
        return any(file.kind is not FileKind.VERSION for file in damaged)

    def files(self) -> Iterator[Finding]:
        checked = check_tables(self.branches, deep=self.deep)
        self.damaged = checked.versions
        self.unopened_paths = checked.unopened_paths
        for file in (*self.damaged_manifests, *checked.files):
            yield _damage(self.root, file)
        for link in find_links(self.root, checked.links):
            text = "is a symbolic link: nothing is deleted through it"
            yield Finding(Check.FILES, Health.PROBLEM, text, f"{self.root}/{link}", fix=UNLINK)

    def _can_read(self, table: TableRecord) -> bool:
        return table.id not in self.unreadable and (table.id, table.pin) not in self.damaged

    def recovery(self) -> Iterator[Finding]:
        for one in list_pending(self.root):
            branch = one.intent.branch if one.intent is not None else ""
            match one.state:
                case PendingState.LIVE:
                    text = "a write is under way"
                    yield Finding(Check.RECOVERY, Health.NOTICE, text, one.path, branch)
                case PendingState.PENDING:
                    text, fix = (
                        "a write stopped before its end and waits for recovery",
                        self.commands.optimize(),
                    )
                    yield Finding(Check.RECOVERY, Health.PROBLEM, text, one.path, branch, fix)
                case PendingState.UNREADABLE:
                    text = f"it cannot be understood: {one.why}"
                    fix = f"upgrade omnigraph, or move the file away and run `{self.commands.repair}`"
                    yield Finding(Check.RECOVERY, Health.PROBLEM, text, one.path, branch, fix)

    def locks(self) -> Iterator[Finding]:
        store = ObjectStore(self.root)
        for folder in lock_folders(store):
            try:
                lock = inspect_lock(store, folder)
            except FormatError as error:
                yield Finding(Check.LOCKS, Health.PROBLEM, error.message, folder, fix=error.hint)
                continue
            if not lock.is_over:
                yield Finding(Check.LOCKS, Health.NOTICE, f"held: {lock.holder}", folder)

    def drift(self) -> Iterator[Finding]:
        for snapshot in self.branches:
            for look in inspect_until_stable(
                snapshot, lambda: list_pending(self.root), WriteEnvironment()
            ).drifted:
                if is_under_way(look, list_pending(self.root)):
                    continue  # a write that stopped half-way, which the check of recoveries has told
                drift, name = look.drift, snapshot.branch.name
                if look.head is None:
                    self.unreadable.add(look.table.id)
                    if (look.table.id, look.table.pin) in self.damaged:
                        continue  # the check of files has named the file
                    text, fix = look.obstacles.publish, "restore its files from a copy"
                    yield Finding(Check.DRIFT, Health.PROBLEM, text, look.table.alias, name, fix)
                    continue
                text = (
                    f"{drift.classification.value}: published is {look.table.pin.version}, its head is "
                    f"{look.head.version} ({', '.join(dict.fromkeys(drift.operations))})"
                )
                health = Health.NOTICE if drift.ours else Health.PROBLEM
                yield Finding(Check.DRIFT, health, text, look.table.alias, name, self.commands.repair)

    def edges(self) -> Iterator[Finding]:
        looked: set[Pins] = set()
        for snapshot in self.branches:
            for edge, pins, rows in edges_to_look_at(snapshot):
                if pins in looked or not self.damaged.isdisjoint(pins):
                    continue
                if any(table in self.unreadable for table, _ in pins):
                    continue
                looked.add(pins)
                name = snapshot.branch.name
                if rows > limits.DOCTOR_EDGE_ROWS_MAX and not self.deep:
                    text = "many rows, so nobody looked for edges without nodes"
                    yield Finding(Check.EDGES, Health.OK, text, edge.alias, name, self.commands.deep)
                    continue
                loose = find_loose_edges(snapshot, edge)
                if loose is not None:
                    count = f"{loose.edges:,} {'edge lacks' if loose.edges == 1 else 'edges lack'}"
                    text = f"{count} a node at one end, {loose.example} among them"
                    yield Finding(Check.EDGES, Health.PROBLEM, text, edge.alias, name, LOOSE)

    def fragments(self) -> Iterator[Finding]:
        for snapshot in self.branches:
            name = snapshot.branch.name
            fix = self.commands.optimize(name)
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
            behind: dict[str, list[str]] = {}
            for row in coverage_of_snapshot(snapshot, skipped):
                if row.is_behind:
                    behind.setdefault(row.table_key, []).append(row.column)
                elif row.kind is IndexKind.VECTOR and row.reason == NO_VECTORS:
                    text = f"the index on {row.column} is not built: {row.reason}"
                    fix = f"load vectors into {row.column}, or remove its @index"
                    yield Finding(Check.INDEXES, Health.NOTICE, text, row.table_key, name, fix)
            for alias, columns in behind.items():
                text = f"rows that no index covers: {', '.join(dict.fromkeys(columns))}"
                yield Finding(Check.INDEXES, Health.NOTICE, text, alias, name, self.commands.optimize(name))

    def orphans(self) -> Iterator[Finding]:
        tables = [table for snapshot in self.branches for table in snapshot.tables.values()]
        broken = {table.path for table in tables if table.id in self.unreadable} | self.unopened_paths
        return find_leftovers(self.main, self.branches, frozenset(broken), self.commands)


def _damage(root: Location, file: DamagedFile) -> Finding:
    return Finding(
        Check.FILES,
        Health.PROBLEM,
        file.message,
        f"{root}/{file.path}",
        file.branch,
        RESTORE,
        file.expected_bytes,
        file.actual_bytes,
    )


def _settings(dataset: Dataset, where: str, branch: str, fix: str) -> Iterator[Finding]:
    if has_auto_cleanup(dataset):
        text = "Lance may collect old versions by itself here, also those that a branch needs"
        yield Finding(Check.FRAGMENTS, Health.PROBLEM, text, where, branch, fix)


def _files(dataset: Dataset, where: str, branch: str, fix: str) -> Iterator[Finding]:
    rows = dataset.fragment_rows()
    small = sum(1 for count in rows.values() if count < limits.HEALTHY_FRAGMENT_ROWS_MIN)
    if small > limits.HEALTHY_SMALL_FRAGMENTS_MAX:
        yield Finding(Check.FRAGMENTS, Health.NOTICE, f"{small:,} small fragments", where, branch, fix)
    deleted, total = count_deleted_rows(dataset), sum(rows.values())
    if deleted > limits.HEALTHY_DELETED_SHARE_MAX * (total + deleted):
        noun = "deleted row" if deleted == 1 else "deleted rows"
        text = f"{deleted:,} {noun} still in the files, next to {total:,}"
        yield Finding(Check.FRAGMENTS, Health.NOTICE, text, where, branch, fix)
