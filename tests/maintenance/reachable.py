"""What may be on disk after a cleanup that kept as little as possible, read from Lance's own handles of the versions.

An oracle for tests: for each version, branch and file on disk it finds what needs it, in a different way than cleanup:
from fragments, indexes and transactions of opened versions instead of Lance's list of tracked files.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from omnigraph.base.ids import CommitId
from omnigraph.graph.manifest.layout import EDGES, MANIFEST, NODES
from omnigraph.graph.manifest.lineage import Lineage
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.records import CommitRecord, Pin
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.storage.files import list_files
from omnigraph.storage.lance.dataset import Dataset, open_dataset
from omnigraph.storage.location import Location


def unneeded(location: Location) -> list[str]:
    """Return every unneeded version, Lance branch and file, and every file that is needed but missing."""
    pins: dict[str, set[Pin]] = {}
    bases = _base_commits(location)
    problems = []
    for line in _lines(location.child(MANIFEST)):
        for version in line.versions():
            manifest = open_manifest(location, lance_branch=line.branch, version=version)
            for table in manifest.read_state().live_tables().values():
                pins.setdefault(table.path, set()).add(table.pin)
            if not _is_newest_or_base(line, version) and manifest.read_head() not in bases:
                problems.append(f"{MANIFEST} {line.branch} version {version}")
    live = {record.lance_branch for record in read_snapshot(location).state.branches.values()}
    problems += _forks(location.child(MANIFEST), live)
    problems += _wrong_files(location, MANIFEST)
    for path in sorted({*pins, *_folders(location)}):
        if path not in pins:
            problems.append(f"dataset {path}")
            continue
        for line in _lines(location.child(path)):
            for version in line.versions():
                if not _is_newest_or_base(line, version) and Pin(line.branch, version) not in pins[path]:
                    problems.append(f"{path} {line.branch} version {version}")
        problems += _forks(location.child(path), {pin.branch for pin in pins[path]})
        problems += _wrong_files(location, path)
    return problems


def _lines(location: Location) -> Iterator[Dataset]:
    main = open_dataset(location)
    yield main
    for name in main.native.branches.list():
        yield open_dataset(location, branch=name)


def _is_newest_or_base(line: Dataset, version: int) -> bool:
    if version == line.version:
        return True
    refs = open_dataset(line.location).native.branches.list().values()
    return any((ref["parent_branch"], ref["parent_version"]) == (line.branch, version) for ref in refs)


def _forks(location: Location, needed: set[str | None]) -> list[str]:
    """Return Lance branches that no snapshot pins and from which no other one was created."""
    refs = open_dataset(location).native.branches.list()
    parents = {ref["parent_branch"] for ref in refs.values()}
    return [f"fork {location.uri} {name}" for name in refs if name not in needed and name not in parents]


def _folders(location: Location) -> list[str]:
    kinds = [Path(location.uri, kind) for kind in (NODES, EDGES)]
    return [f"{kind.name}/{table.name}" for kind in kinds if kind.exists() for table in kind.iterdir()]


def _wrong_files(location: Location, path: str) -> list[str]:
    """Compare files by name, which is unique in a dataset."""
    expected: set[str] = set()
    for line in _lines(location.child(path)):
        for version in line.versions():
            expected |= set(_names(line, version))
    existing = {_name(file.path) for file in list_files(location.child(path))} - {""}
    return [f"{path} has {name}" for name in sorted(existing - expected)] + [
        f"{path} lacks {name}" for name in sorted(expected - existing)
    ]


def _name(path: str) -> str:
    parts = path.split("/")
    if "_versions" in parts or "_refs" in parts:
        return ""
    return parts[parts.index("_indices") + 1] if "_indices" in parts else parts[-1]


def _names(line: Dataset, version: int) -> Iterator[str]:
    native = line.at_version(version).native
    for fragment in native.get_fragments():
        yield from (file.path for file in fragment.data_files())
        deleted = fragment.metadata.deletion_file
        if deleted is not None:
            yield str(deleted.path(fragment.fragment_id)).rpartition("/")[2]
    for index in native.describe_indices():
        yield from (str(segment.uuid) for segment in index.segments)
    transaction = native.read_transaction(version)
    assert transaction is not None
    yield f"{transaction.read_version}-{transaction.uuid}.txn"


def _base_commits(location: Location) -> set[CommitId]:
    """Return the merge bases of all pairs of branches, by definition."""
    heads: set[CommitId] = set()
    commits: dict[CommitId, CommitRecord] = {}
    for name in read_snapshot(location).state.branches:
        snapshot = read_snapshot(location, name)
        heads.add(snapshot.head)
        commits.update((commit.id, commit) for commit in snapshot.manifest.read_commits())
    bases: set[CommitId] = set()
    lineage = Lineage(next(iter(heads)), commits)
    for first, second in combinations(sorted(heads), 2):
        common = lineage.ancestors(first) & lineage.ancestors(second)
        bases |= {c for c in common if not any(c in lineage.ancestors(d) - {d} for d in common)}
    return bases
