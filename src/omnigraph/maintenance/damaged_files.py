"""Files of a graph that are missing, cut off or damaged, and symbolic links in its directory. Reads only.

In: a graph's root and the snapshots of its branches. Out: one `DamagedFile` per file that the published version of a
table, or the manifest of a branch, references. Each dataset of a table is listed once, for all branches that use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from omnigraph.graph.layout import EDGES, MANIFEST, NODES
from omnigraph.graph.records import Pin, TableId
from omnigraph.graph.snapshot import Snapshot
from omnigraph.storage.file_check import CheckedDataset, FileKind, VersionKey, check_files
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
