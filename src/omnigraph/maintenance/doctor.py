"""Doctor: looks at everything of a graph in one go, and says which command fixes what.

In: a graph, or nothing but this machine. Out: findings in the order of the checks; a check that finds nothing says so.
One that fails is a finding itself, and the others go on. Nothing here writes, recovers or takes a lease.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from omnigraph.base.errors import FormatError, OmnigraphError
from omnigraph.base.events import log_event
from omnigraph.base.java import find_java
from omnigraph.base.limits import (
    CLEANUP_DRIVER_FILES_MAX,
    DOCTOR_EDGE_ROWS_MAX,
    HEALTHY_DELETED_SHARE_MAX,
    HEALTHY_FRAGMENT_ROWS_MIN,
    HEALTHY_SMALL_FRAGMENTS_MAX,
)
from omnigraph.graph.commit import World
from omnigraph.graph.layout import INIT_MARKERS, MANIFEST, SCRATCH
from omnigraph.graph.lease import lock_folders, look_at_lock
from omnigraph.graph.pending import PendingState, list_pending
from omnigraph.graph.records import TableId
from omnigraph.graph.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.graph.stamp import FORMAT
from omnigraph.graph.tables import open_table
from omnigraph.maintenance.drift_look import is_under_way, look_steadily, owned_tables
from omnigraph.maintenance.graph_place import GraphPlace
from omnigraph.maintenance.health import Check, Finding, Health
from omnigraph.maintenance.index_status import coverage_of_snapshot
from omnigraph.maintenance.loose_edges import Pins, edges_to_look_at, find_loose_edges
from omnigraph.maintenance.orphan_files import find_orphans
from omnigraph.storage.commit import has_auto_cleanup
from omnigraph.storage.dataset import Dataset, open_dataset
from omnigraph.storage.files import has_more_files
from omnigraph.storage.fragments import count_deleted_rows
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

logger = logging.getLogger("omnigraph.doctor")

RECOVER: Final = "omnigraph optimize, or any write to the branch"
OPTIMIZE: Final = "omnigraph optimize"
DEEP: Final = "omnigraph doctor --deep"
LOOSE: Final = "insert the nodes, or delete these edges"
CLEANUP: Final = "omnigraph cleanup"
REPAIR: Final = "omnigraph repair"
_PACKAGES: Final = {"Lance": "pylance", "Spark": "pyspark"}


def examine(graph: GraphPlace | None, *, deep: bool = False) -> list[Finding]:
    """Every finding. Without a graph only the machine is looked at. `deep` reads large tables as well."""
    findings = _run(Check.MACHINE, _machine)
    if graph is None:
        return findings
    root = graph.location
    try:
        main = read_snapshot(root)
    except OmnigraphError as error:
        return [
            *findings,
            Finding(Check.FORMAT, Health.PROBLEM, error.message, str(root), fix=error.flag_hint),
        ]
    seen = _Seen(root, main, deep)
    checks: dict[Check, Callable[[], Iterable[Finding]]] = {
        Check.FORMAT: seen.formats,
        Check.RECOVERY: seen.recovery,
        Check.LOCKS: seen.locks,
        Check.DRIFT: seen.drift,
        Check.EDGES: seen.edges,
        Check.FRAGMENTS: seen.fragments,
        Check.INDEXES: seen.indexes,
        Check.ORPHANS: seen.orphans,
    }
    return findings + [finding for check, run in checks.items() for finding in _run(check, run)]


def optimize_of(branch: str) -> str:
    """The command that puts the files and indexes of a branch in order."""
    return OPTIMIZE if branch == MAIN else f"{OPTIMIZE} --branch {branch}"


def _run(check: Check, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    started = time.monotonic()
    findings: list[Finding] = []
    try:
        findings.extend(look())
    except OmnigraphError as error:
        findings.append(Finding(check, Health.PROBLEM, error.message, fix=error.flag_hint))
    log_event(
        logger,
        f"checked {check.value}",
        check=check.value,
        findings=len(findings),
        seconds=round(time.monotonic() - started, 3),
    )
    return findings or [Finding(check, Health.OK, "nothing to do")]


def _machine() -> Iterator[Finding]:
    found = []
    for name, package in _PACKAGES.items():
        try:
            found.append(f"{name} {version(package)}")
        except PackageNotFoundError:
            fix = f"pip install {package}"
            yield Finding(Check.MACHINE, Health.PROBLEM, f"{name} is not installed", fix=fix)
    java = find_java()
    yield Finding(Check.MACHINE, Health.OK, ", ".join([*found, f"Java {java.version} ({java.found_in})"]))


@dataclass(slots=True)
class _Seen:
    """A graph while it is looked at. `branches` are the snapshots of those that can be read.

    The checks run in their order: what a later one cannot look at, an earlier one has told.
    """

    root: Location
    main: Snapshot
    deep: bool
    branches: list[Snapshot] = field(default_factory=list)
    unreadable: set[TableId] = field(default_factory=set)

    def formats(self) -> Iterator[Finding]:
        for name in sorted(self.main.state.branches, key=lambda name: (name != MAIN, name)):
            try:
                snapshot = self.main if name == MAIN else read_snapshot(self.root, name)
                snapshot.schema.refuse_altered()
            except OmnigraphError as error:
                yield Finding(Check.FORMAT, Health.PROBLEM, error.message, name, name, error.flag_hint)
                continue
            self.branches.append(snapshot)
            if snapshot.stamp != FORMAT.current:
                text = f"format {snapshot.stamp}; this release writes {FORMAT.current}"
                yield Finding(Check.FORMAT, Health.NOTICE, text, name, name, "the next write migrates it")
        count = len(self.branches)
        text = f"format {self.main.stamp}, {count} {'branch' if count == 1 else 'branches'}"
        yield Finding(Check.FORMAT, Health.OK, text)

    def recovery(self) -> Iterator[Finding]:
        for one in list_pending(self.root):
            branch = one.intent.branch if one.intent is not None else ""
            match one.state:
                case PendingState.LIVE:
                    text = "a write is under way"
                    yield Finding(Check.RECOVERY, Health.NOTICE, text, one.path, branch)
                case PendingState.PENDING:
                    text = "a write stopped half-way and waits for recovery"
                    yield Finding(Check.RECOVERY, Health.PROBLEM, text, one.path, branch, RECOVER)
                case PendingState.UNREADABLE:
                    text = f"it cannot be understood: {one.why}"
                    fix = "a newer omnigraph, or move the file away and run omnigraph repair"
                    yield Finding(Check.RECOVERY, Health.PROBLEM, text, one.path, branch, fix)

    def locks(self) -> Iterator[Finding]:
        store = ObjectStore(self.root)
        for folder in lock_folders(store):
            try:
                lock = look_at_lock(store, folder)
            except FormatError as error:
                yield Finding(Check.LOCKS, Health.PROBLEM, error.message, folder, fix=error.flag_hint)
                continue
            if not lock.is_over:
                yield Finding(Check.LOCKS, Health.NOTICE, f"held: {lock.holder}", folder)

    def drift(self) -> Iterator[Finding]:
        for snapshot in self.branches:
            for look in look_steadily(snapshot, lambda: list_pending(self.root), World()).drifted:
                if is_under_way(look, list_pending(self.root)):
                    continue  # a write that stopped half-way, which the check of recoveries has told
                drift, name = look.drift, snapshot.branch.name
                if look.head is None:
                    self.unreadable.add(look.table.id)
                    text, fix = look.obstacles.publish, "restore its files from a copy"
                    yield Finding(Check.DRIFT, Health.PROBLEM, text, look.table.alias, name, fix)
                    continue
                text = (
                    f"{drift.classification.value}: published is {look.table.pin.version}, its head is "
                    f"{look.head.version} ({', '.join(dict.fromkeys(drift.operations))})"
                )
                health = Health.NOTICE if drift.ours else Health.PROBLEM
                yield Finding(Check.DRIFT, health, text, look.table.alias, name, REPAIR)

    def edges(self) -> Iterator[Finding]:
        looked: set[Pins] = set()
        for snapshot in self.branches:
            for edge, pins, rows in edges_to_look_at(snapshot):
                if pins in looked or any(table in self.unreadable for table, _ in pins):
                    continue
                looked.add(pins)
                name = snapshot.branch.name
                if rows > DOCTOR_EDGE_ROWS_MAX and not self.deep:
                    text = "many rows, so nobody looked for edges without nodes"
                    yield Finding(Check.EDGES, Health.OK, text, edge.alias, name, DEEP)
                    continue
                loose = find_loose_edges(snapshot, edge)
                if loose is not None:
                    count = f"{loose.edges:,} {'edge lacks' if loose.edges == 1 else 'edges lack'}"
                    text = f"{count} a node at one end, {loose.example} among them"
                    yield Finding(Check.EDGES, Health.PROBLEM, text, edge.alias, name, LOOSE)

    def fragments(self) -> Iterator[Finding]:
        for snapshot in self.branches:
            name = snapshot.branch.name
            yield from _settings(snapshot.manifest.dataset, MANIFEST, name)
            for table in owned_tables(snapshot):
                if table.id not in self.unreadable:
                    dataset = open_table(self.root, table)
                    yield from _settings(dataset, table.alias, name)
                    yield from _files(dataset, table.alias, name)

    def indexes(self) -> Iterator[Finding]:
        for snapshot in self.branches:
            foreign = {table.id for table in snapshot.tables.values() if table.owner != snapshot.branch.id}
            name = snapshot.branch.name
            behind: dict[str, list[str]] = {}
            for row in coverage_of_snapshot(snapshot, frozenset(foreign | self.unreadable)):
                if row.is_behind:
                    behind.setdefault(row.table_key, []).append(row.column)
            for alias, columns in behind.items():
                text = f"rows that no index covers: {', '.join(dict.fromkeys(columns))}"
                yield Finding(Check.INDEXES, Health.NOTICE, text, alias, name, optimize_of(name))

    def orphans(self) -> Iterator[Finding]:
        pinned = {(t.path, t.pin.branch) for snapshot in self.branches for t in snapshot.tables.values()}
        if len(self.branches) == len(self.main.state.branches):  # else it is not known what is needed
            broken = {t.path for t in self.main.tables.values() if t.id in self.unreadable}
            names = {t.path: t.alias for snapshot in self.branches for t in snapshot.tables.values()}
            for path in sorted(names.keys() - broken):
                forks = {branch for at, branch in pinned if at == path}
                yield from _forks(open_dataset(self.root.child(path)), names[path], forks)
            live = {record.lance_branch for record in self.main.state.branches.values()}
            yield from _forks(self.main.manifest.dataset, MANIFEST, live)
            yield from self._orphan_files()
        store = ObjectStore(self.root)
        for folder, what in (
            (SCRATCH, "files that a bulk operation left, or uses now"),
            (INIT_MARKERS, "marks of an init"),
        ):
            found = store.list(folder)
            if found:
                size = sum(entry.size for entry in found)
                text = f"{len(found):,} {what}, {size:,} bytes"
                yield Finding(Check.ORPHANS, Health.NOTICE, text, folder, fix=CLEANUP)

    def _orphan_files(self) -> Iterator[Finding]:
        if has_more_files(self.root, CLEANUP_DRIVER_FILES_MAX):
            text = f"more than {CLEANUP_DRIVER_FILES_MAX:,} files, not looked through"
            yield Finding(Check.ORPHANS, Health.NOTICE, text, fix=CLEANUP)
            return
        for found in find_orphans(self.branches, World()):
            noun = "file" if found.files == 1 else "files"
            text = f"{found.files:,} {noun} that nothing refers to, {found.size_bytes:,} bytes"
            yield Finding(Check.ORPHANS, Health.NOTICE, text, found.table_key, fix=CLEANUP)


def _settings(dataset: Dataset, where: str, branch: str) -> Iterator[Finding]:
    if has_auto_cleanup(dataset):
        text = "Lance may collect old versions by itself here, also those that a branch needs"
        yield Finding(Check.FRAGMENTS, Health.PROBLEM, text, where, branch, optimize_of(branch))


def _files(dataset: Dataset, where: str, branch: str) -> Iterator[Finding]:
    rows = dataset.fragment_rows()
    small = sum(1 for count in rows.values() if count < HEALTHY_FRAGMENT_ROWS_MIN)
    if small > HEALTHY_SMALL_FRAGMENTS_MAX:
        yield Finding(
            Check.FRAGMENTS, Health.NOTICE, f"{small:,} small fragments", where, branch, optimize_of(branch)
        )
    deleted, total = count_deleted_rows(dataset), sum(rows.values())
    if deleted > HEALTHY_DELETED_SHARE_MAX * (total + deleted):
        text = f"{deleted:,} deleted {'row' if deleted == 1 else 'rows'} still in the files, beside {total:,}"
        yield Finding(Check.FRAGMENTS, Health.NOTICE, text, where, branch, optimize_of(branch))


def _forks(dataset: Dataset, where: str, needed: set[str | None]) -> Iterator[Finding]:
    """Lance branches that no live branch reads, nor anything that was made from them."""
    parents = dataset.lance_branches()
    kept: set[str] = set()
    for name in parents:
        if name not in needed:
            continue
        at: str | None = name
        while at is not None and at not in kept:
            kept.add(at)
            at = parents.get(at)
    gone = len(parents.keys() - kept)
    if gone:
        text = f"{gone} Lance {'branch' if gone == 1 else 'branches'} of no live branch"
        yield Finding(Check.ORPHANS, Health.NOTICE, text, where, fix=CLEANUP)
