"""What is left in a graph that no branch needs, and what to do about it. Reads only.

In: the snapshots of all branches. Out: findings for Lance branches, files that nothing refers to, and what operations
left. `cleanup` is recommended only for what it would delete now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.base import limits
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.layout import EDGES, INIT_MARKERS, MANIFEST, NODES, SCRATCH
from omnigraph.graph.manifest.records import Pin, TableId
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.maintenance.cleanup.deletion_plan import Reason
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.retention import Needs, owner_of
from omnigraph.maintenance.cleanup.tasks import DatasetTask, plan_dataset
from omnigraph.maintenance.doctor.findings import Check, Commands, Finding, Health
from omnigraph.pipeline.runner import in_threads
from omnigraph.storage.files import StoredFile, has_more_files, list_files
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.file_check import CheckedDataset, FileKind, VersionKey, check_files
from omnigraph.storage.local_tree import list_links
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file that a branch needs; `path` is below the graph's root."""

    table_key: str
    branch: str
    path: str
    kind: FileKind
    problem: str
    expected_bytes: int | None
    actual_bytes: int | None

    @property
    def message(self) -> str:
        """What is wrong, with both sizes where they are known."""
        sizes = {"expected": self.expected_bytes, "got": self.actual_bytes}
        texts = [f"{label} {size:,} bytes" for label, size in sizes.items() if size is not None]
        text = f"{self.kind.value} of {self.table_key} {self.problem}"
        return f"{text}: {', '.join(texts)}" if texts else text


@dataclass(frozen=True, slots=True)
class CheckedTables:
    """What was found: files, links by their path below the root, and the table versions that have damaged files."""

    files: tuple[DamagedFile, ...]
    links: tuple[str, ...]
    versions: frozenset[tuple[TableId, Pin]]
    unopened_paths: frozenset[str]


def check_manifest(
    root: Location, branch: str, lance_branch: str | None, *, deep: bool
) -> tuple[DamagedFile, ...]:
    """The damaged files of the newest manifest of a branch. It is checked before it is read."""
    key: VersionKey = (lance_branch, None)
    checked = check_files(root.child(MANIFEST), [key], deep=deep)
    return tuple(_damaged(checked, key, MANIFEST, MANIFEST, branch))


def check_tables(snapshots: Sequence[Snapshot], *, deep: bool) -> CheckedTables:
    """The damaged files of the published versions of all tables, each file once."""
    users: dict[str, dict[VersionKey, tuple[str, str]]] = {}
    tables: dict[tuple[str, VersionKey], tuple[TableId, Pin]] = {}
    for snapshot in snapshots:
        for table in snapshot.tables.values():
            key: VersionKey = (table.pin.branch, table.pin.version)
            users.setdefault(table.path, {}).setdefault(key, (table.alias, snapshot.branch.name))
            tables[table.path, key] = (table.id, table.pin)
    files: dict[str, DamagedFile] = {}
    links: list[str] = []
    damaged: set[tuple[TableId, Pin]] = set()
    for path, used in sorted(users.items(), key=lambda entry: min(entry[1].values())):
        checked = check_files(snapshots[0].root.child(path), list(used), deep=deep)
        links += [f"{path}/{link}".rstrip("/") for link in checked.links]
        damaged.update(tables[path, key] for key in checked.problems)
        for key, (alias, branch) in used.items():
            for file in _damaged(checked, key, path, alias, branch):
                files.setdefault(file.path, file)
    unopened = frozenset(
        path
        for path in users
        for file in files.values()
        if file.kind is FileKind.VERSION and file.path.startswith(f"{path}/")
    )
    return CheckedTables(tuple(files.values()), tuple(links), frozenset(damaged), unopened)


def find_links(root: Location, others: Iterable[str]) -> list[str]:
    """The symbolic links where directories of the graph should be, and `others`, each once.

    What is only reached through one of these links is not a link itself.
    """
    if not root.is_local:
        return []
    top = set(list_links(root))
    links = top | {link for link in others if link.partition("/")[0] not in top}
    for kind in {NODES, EDGES} - links:
        links.update(f"{kind}/{name}" for name in list_links(root.child(kind)))
    return sorted(links)


def _damaged(
    checked: CheckedDataset, key: VersionKey, path: str, alias: str, branch: str
) -> Iterable[DamagedFile]:
    for found in checked.problems.get(key, ()):
        yield DamagedFile(
            table_key=alias,
            branch=branch,
            path=f"{path}/{found.path}",
            kind=found.kind,
            problem=found.problem,
            expected_bytes=found.expected_bytes,
            actual_bytes=found.actual_bytes,
        )


_ALL: Final = 2**62


@dataclass(frozen=True, slots=True)
class Orphans:
    """What cleanup would delete in one dataset now, although it kept every version."""

    table_key: str
    path: str
    files: int
    size_bytes: int
    lance_branches: frozenset[str]


def find_orphans(heads: Sequence[Snapshot], world: WriteEnvironment) -> list[Orphans]:
    """The datasets in which something was left, the manifest first."""
    policy = CleanupPolicyOptions(keep_versions=_ALL).policy(world.clock.now_us())
    live = frozenset(str(head.branch.id) for head in heads)
    pins: dict[tuple[str, str], set[Pin]] = {}
    for head in heads:
        pins.setdefault((MANIFEST, MANIFEST), set()).add(Pin(head.branch.lance_branch, head.version))
        for table in head.tables.values():
            pins.setdefault((table.path, table.alias), set()).add(table.pin)
    tasks = [
        DatasetTask(heads[0].root, path, alias, policy, Needs(frozenset(), frozenset(found), live))
        for (path, alias), found in pins.items()
    ]
    orphans = []
    for plan in in_threads(plan_dataset, tasks):
        sizes = [file.size_bytes for file in plan.doomed if file.why is Reason.ORPHAN]
        forks = frozenset(file.branch for file in plan.doomed if file.why is Reason.FORK and file.branch)
        orphans += (
            [Orphans(plan.table_key, plan.path, len(sizes), sum(sizes), forks)] if sizes or forks else []
        )
    return orphans


FOREIGN_BRANCH: Final = "delete it with the tool that created it; `cleanup` never does"
LATER: Final = "wait: `cleanup` deletes it when it is old enough"


def find_leftovers(
    main: Snapshot, branches: Sequence[Snapshot], broken: frozenset[str], commands: Commands
) -> Iterator[Finding]:
    """Every finding. `broken`: the paths of tables that cannot be opened, which other checks report."""
    return _Leftovers(main, branches, broken, commands).find()


@dataclass(frozen=True, slots=True)
class _Leftovers:
    main: Snapshot
    branches: Sequence[Snapshot]
    broken: frozenset[str]
    commands: Commands

    def find(self) -> Iterator[Finding]:
        if len(self.branches) == len(self.main.state.branches):  # else it is not known what is needed
            yield from self._orphans()
        policy = CleanupPolicyOptions(keep_versions=1).policy(WriteEnvironment().clock.now_us())
        for folder, operation in ((SCRATCH, "a bulk operation"), (INIT_MARKERS, "an `init`")):
            files = list_files(self.main.root.child(folder))
            old = [file for file in files if policy.is_beyond_grace(file.modified_us)]
            young = [file for file in files if file not in old]
            if old:
                yield _left(old, f"left by {operation}", folder, self.commands.cleanup)
            if young:
                yield _left(young, f"that {operation} uses, or left a short time ago", folder, LATER)

    def _orphans(self) -> Iterator[Finding]:
        """What no branch needs, as far as `cleanup` would delete it now, and Lance branches that it keeps."""
        found: dict[str, Orphans] = {}
        if has_more_files(self.main.root, limits.CLEANUP_DRIVER_FILES_MAX):
            text = f"more than {limits.CLEANUP_DRIVER_FILES_MAX:,} files, not checked"
            yield Finding(Check.ORPHANS, Health.NOTICE, text, fix=self.commands.cleanup)
        else:
            found = {one.path: one for one in find_orphans(self.branches, WriteEnvironment())}
        for path, alias, dataset, needed in self._datasets():
            deletable = found[path].lance_branches if path in found else frozenset[str]()
            yield from _forks(_unneeded(dataset, needed), deletable, alias, self.commands.cleanup)
        for one in found.values():
            if one.files:
                text = f"{_count(one.files, 'file')} that nothing refers to, {one.size_bytes:,} bytes"
                yield Finding(Check.ORPHANS, Health.NOTICE, text, one.table_key, fix=self.commands.cleanup)

    def _datasets(self) -> Iterator[tuple[str, str, Dataset, set[str | None]]]:
        """Every dataset that can be opened, and the Lance branches of it that live branches read."""
        tables = [table for snapshot in self.branches for table in snapshot.tables.values()]
        names = {table.path: table.alias for table in tables if table.path not in self.broken}
        for path in sorted(names):
            needed = {table.pin.branch for table in tables if table.path == path}
            yield path, names[path], open_dataset(self.main.root.child(path)), needed
        live = {record.lance_branch for record in self.main.state.branches.values()}
        yield MANIFEST, MANIFEST, self.main.manifest.dataset, live


def _unneeded(dataset: Dataset, needed: set[str | None]) -> list[str]:
    """Lance branches that no live branch reads, nor anything that was created from them."""
    parents = dataset.lance_branches()
    kept: set[str] = set()
    for name in parents:
        at: str | None = name if name in needed else None
        while at is not None and at not in kept:
            kept.add(at)
            at = parents.get(at)
    return sorted(parents.keys() - kept)


def _forks(names: list[str], deletable: frozenset[str], where: str, cleanup: str) -> Iterator[Finding]:
    """One finding per thing to do: what `cleanup` deletes now, what it will, and what it never does."""
    foreign = [name for name in names if owner_of(name) is None]
    later = [name for name in names if name not in deletable and name not in foreign]
    now = [name for name in names if name in deletable]
    for group, words, fix in (
        (now, "of no live branch", cleanup),
        (later, "of no live branch, too young to be deleted", LATER),
        (foreign, f"created by another tool: {', '.join(foreign)}", FOREIGN_BRANCH),
    ):
        if group:
            text = f"{_count(len(group), 'Lance branch')} {words}"
            yield Finding(Check.ORPHANS, Health.NOTICE, text, where, fix=fix)


def _left(files: Sequence[StoredFile], words: str, folder: str, fix: str) -> Finding:
    size = sum(file.size_bytes for file in files)
    text = f"{_count(len(files), 'file')} {words}, {size:,} bytes"
    return Finding(Check.ORPHANS, Health.NOTICE, text, folder, fix=fix)


def _count(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
