"""What is left in a graph that no branch needs, and what to do about it. Reads only.

In: the snapshots of all branches. Out: findings for Lance branches, files that nothing refers to, and what operations
left. `cleanup` is recommended only for what it would delete now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.base import limits
from omnigraph.graph.commit import World
from omnigraph.graph.layout import INIT_MARKERS, MANIFEST, SCRATCH
from omnigraph.graph.snapshot import Snapshot
from omnigraph.maintenance.cleanup_options import CleanupPolicyOptions
from omnigraph.maintenance.doctor_commands import Commands
from omnigraph.maintenance.health import Check, Finding, Health
from omnigraph.maintenance.orphan_files import Orphans, find_orphans
from omnigraph.maintenance.retention import owner_of
from omnigraph.storage.dataset import Dataset, open_dataset
from omnigraph.storage.files import StoredFile, has_more_files, list_files

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
        policy = CleanupPolicyOptions(keep_versions=1).policy(World().clock.now_us())
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
            found = {one.path: one for one in find_orphans(self.branches, World())}
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
