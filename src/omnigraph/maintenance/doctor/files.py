"""Checks the files of a graph: damaged ones, symbolic links, and files and Lance branches that no branch needs.

In: the snapshots of all branches. Out: damaged files and links by table, and findings for unneeded Lance branches, for
unreferenced files and for files that operations left. `cleanup` is recommended only for what it would delete now. Reads
only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.base import limits
from omnigraph.base.display import format_bytes, format_count
from omnigraph.base.hints import action, hint
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.layout import EDGES, INIT_MARKERS, MANIFEST, NODES, SCRATCH
from omnigraph.graph.manifest.records import Pin, TableId, TableRecord
from omnigraph.graph.manifest.snapshot import Snapshot
from omnigraph.maintenance.cleanup.deletion_plan import Reason
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.retention import Needs, RetentionPolicy, owner_of
from omnigraph.maintenance.cleanup.tasks import DatasetPlan, DatasetTask, plan_dataset
from omnigraph.maintenance.doctor.findings import CLEANUP, RESTORE_FILE, Check, Finding, Health
from omnigraph.pipeline.runner import in_threads
from omnigraph.storage.files import has_more_files, list_files
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.lance.file_check import FileKind, FileProblem, VersionKey, check_files
from omnigraph.storage.local_tree import list_links
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file that a branch needs; `path` is below the graph's root."""

    table_key: str
    branch: str
    path: str
    problem: FileProblem

    def finding(self, root: Location) -> Finding:
        """Return the finding about the file, with both sizes if they are known."""
        expected, actual = self.problem.expected_bytes, self.problem.actual_bytes
        text = f"{self.problem.kind.value} of {self.table_key} {self.problem.problem}"
        sizes = [
            f"{label} {size:,} bytes" for label, size in (("expected", expected), ("got", actual)) if size is not None
        ]
        message = f"{text}: {', '.join(sizes)}" if sizes else text
        where = f"{root}/{self.path}"
        return Finding(
            Check.FILES,
            Health.PROBLEM,
            message,
            where=where,
            branch=self.branch,
            fix=RESTORE_FILE,
            expected_bytes=expected,
            actual_bytes=actual,
        )


@dataclass(frozen=True, slots=True)
class CheckedTables:
    """Damaged files, links by their path below the root, and the table versions with damaged files."""

    files: tuple[DamagedFile, ...]
    links: tuple[str, ...]
    versions: frozenset[tuple[TableId, Pin]]
    unopened_paths: frozenset[str]


def check_manifest(root: Location, branch: str, lance_branch: str | None, *, deep: bool) -> list[DamagedFile]:
    """Return the damaged files of the newest manifest of a branch. It is checked before it is read."""
    key: VersionKey = (lance_branch, None)
    checked = check_files(root.child(MANIFEST), [key], deep=deep)
    problems = checked.problems.get(key, ())
    return [DamagedFile(MANIFEST, branch, f"{MANIFEST}/{problem.path}", problem) for problem in problems]


def check_tables(snapshots: Sequence[Snapshot], *, deep: bool) -> CheckedTables:
    """Return the damaged files of the published versions of all tables, each file once."""
    users: dict[str, dict[VersionKey, tuple[TableRecord, str]]] = {}
    for snapshot in snapshots:
        for table in snapshot.tables.values():
            key: VersionKey = (table.pin.branch, table.pin.version)
            users.setdefault(table.path, {}).setdefault(key, (table, snapshot.branch.name))
    files: dict[str, DamagedFile] = {}
    links: list[str] = []
    damaged: set[tuple[TableId, Pin]] = set()
    unopened: set[str] = set()
    for path, used in sorted(
        users.items(), key=lambda entry: min((user[0].alias, user[1]) for user in entry[1].values())
    ):
        checked = check_files(snapshots[0].root.child(path), list(used), deep=deep)
        links += [f"{path}/{link}".rstrip("/") for link in checked.links]
        for key, problems in checked.problems.items():
            table, branch = used[key]
            damaged.add((table.id, table.pin))
            for problem in problems:
                file = DamagedFile(table.alias, branch, f"{path}/{problem.path}", problem)
                files.setdefault(file.path, file)
                if problem.kind is FileKind.VERSION:
                    unopened.add(path)
    return CheckedTables(tuple(files.values()), tuple(links), frozenset(damaged), frozenset(unopened))


def find_links(root: Location, others: Iterable[str]) -> list[str]:
    """Return the symbolic links where directories of the graph should be, and `others`, each once.

    A path that is below one of these links is left out.
    """
    if not root.is_local:
        return []
    top = set(list_links(root))
    links = top | {link for link in others if link.partition("/")[0] not in top}
    for kind in {NODES, EDGES} - links:
        links.update(f"{kind}/{name}" for name in list_links(root.child(kind)))
    return sorted(links)


_ALL_VERSIONS: Final = 2**62
DELETE_EXTERNALLY: Final = hint("Delete it with the tool that created it; {} never does.", action("cleanup"))
CLEANUP_LATER: Final = hint(
    "Wait: {} deletes it when it is old enough.", action("cleanup", keep=limits.CLEANUP_KEEP_RECOMMENDED)
)


def find_unneeded(main: Snapshot, branches: Sequence[Snapshot], unreadable: frozenset[str]) -> Iterator[Finding]:
    """Yield findings about what no branch needs.

    Args:
        main: The snapshot of main.
        branches: The snapshots of the branches that can be read.
        unreadable: The paths of tables that cannot be opened, which other checks report.
    """
    policy = CleanupPolicyOptions(keep_versions=_ALL_VERSIONS).policy(WriteEnvironment().clock.now_us())
    if len(branches) == len(main.state.branches):  # otherwise it is not known what is needed
        yield from _find_orphans_and_forks(main, branches, unreadable, policy)
    for directory, operation in ((SCRATCH, "a bulk operation"), (INIT_MARKERS, "an `init`")):
        files = list_files(main.root.child(directory))
        old = [file.size_bytes for file in files if policy.is_beyond_grace(file.modified_us)]
        young = [file.size_bytes for file in files if not policy.is_beyond_grace(file.modified_us)]
        for sizes, description, fix in (
            (old, f"left by {operation}", CLEANUP),
            (young, f"that {operation} uses, or left a short time ago", CLEANUP_LATER),
        ):
            if sizes:
                text = f"{format_count(len(sizes), 'file')} {description}, {format_bytes(sum(sizes))}"
                yield Finding(Check.ORPHANS, Health.NOTICE, text, where=directory, fix=fix)


def _find_orphans_and_forks(
    main: Snapshot, branches: Sequence[Snapshot], unreadable: frozenset[str], policy: RetentionPolicy
) -> Iterator[Finding]:
    """Yield findings about what `cleanup` would delete now, and about Lance branches that it keeps."""
    plans: dict[str, DatasetPlan] = {}
    if has_more_files(main.root, limits.CLEANUP_DRIVER_FILES_MAX):
        text = f"more than {limits.CLEANUP_DRIVER_FILES_MAX:,} files, not checked"
        yield Finding(Check.ORPHANS, Health.NOTICE, text, fix=CLEANUP)
    else:
        plans = {plan.path: plan for plan in _plan_cleanup(branches, policy)}
    for path, alias, dataset, needed in _open_datasets(main, branches, unreadable):
        forks = plans[path].deletable if path in plans else ()
        deletable = frozenset(file.branch for file in forks if file.reason is Reason.FORK)
        yield from _fork_findings(_unneeded_forks(dataset, needed), deletable, alias)
    for plan in plans.values():
        sizes = [file.size_bytes for file in plan.deletable if file.reason is Reason.ORPHAN]
        if sizes:
            text = f"{format_count(len(sizes), 'unreferenced file')}, {format_bytes(sum(sizes))}"
            yield Finding(Check.ORPHANS, Health.NOTICE, text, where=plan.table_key, fix=CLEANUP)


def _plan_cleanup(heads: Sequence[Snapshot], policy: RetentionPolicy) -> Sequence[DatasetPlan]:
    """Plan what cleanup would delete now if it kept every version, the manifest first."""
    live = frozenset(str(head.branch.id) for head in heads)
    pins: dict[tuple[str, str], set[Pin]] = {}
    for head in heads:
        pins.setdefault((MANIFEST, MANIFEST), set()).add(Pin(head.branch.lance_branch, head.version))
        for table in head.tables.values():
            pins.setdefault((table.path, table.alias), set()).add(table.pin)
    tasks = [
        DatasetTask(
            root=heads[0].root,
            path=path,
            table_key=alias,
            policy=policy,
            needs=Needs(pins=frozenset(), heads=frozenset(table_pins), live=live),
        )
        for (path, alias), table_pins in pins.items()
    ]
    return in_threads(plan_dataset, tasks)


def _open_datasets(
    main: Snapshot, branches: Sequence[Snapshot], unreadable: frozenset[str]
) -> Iterator[tuple[str, str, Dataset, set[str | None]]]:
    """Yield path, alias and handle of every dataset, and its Lance branches that live branches read."""
    tables = [table for snapshot in branches for table in snapshot.tables.values()]
    aliases = {table.path: table.alias for table in tables if table.path not in unreadable}
    for path in sorted(aliases):
        needed = {table.pin.branch for table in tables if table.path == path}
        yield path, aliases[path], open_dataset(main.root.child(path)), needed
    live = {record.lance_branch for record in main.state.branches.values()}
    yield MANIFEST, MANIFEST, main.manifest.dataset, live


def _unneeded_forks(dataset: Dataset, needed: set[str | None]) -> list[str]:
    """Return Lance branches that no live branch reads, and from which no needed one was created."""
    parents = {name: origin.branch for name, origin in dataset.lance_branches().items()}
    retained: set[str] = set()
    for name in parents:
        ancestor: str | None = name if name in needed else None
        while ancestor is not None and ancestor not in retained:
            retained.add(ancestor)
            ancestor = parents.get(ancestor)
    return sorted(parents.keys() - retained)


def _fork_findings(names: list[str], deletable: frozenset[str | None], where: str) -> Iterator[Finding]:
    """Yield one finding per action: forks that `cleanup` deletes now, those it deletes later, and external ones."""
    external = [name for name in names if owner_of(name) is None]
    later = [name for name in names if name not in deletable and name not in external]
    now = [name for name in names if name in deletable]
    for group, description, fix in (
        (now, "of no live branch", CLEANUP),
        (later, "of no live branch, too young to be deleted", CLEANUP_LATER),
        (external, f"created by an external tool: {', '.join(external)}", DELETE_EXTERNALLY),
    ):
        if group:
            text = f"{format_count(len(group), 'Lance branch', 'Lance branches')} {description}"
            yield Finding(Check.ORPHANS, Health.NOTICE, text, where=where, fix=fix)
