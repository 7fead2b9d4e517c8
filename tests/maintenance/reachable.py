"""What may be on disk after a cleanup that kept as little as it could, told by Lance's own handles of the versions.

An oracle for tests: it looks at what is there and asks of each version, branch and file who needs it, in another way
than cleanup does: fragments, indexes and transactions of opened versions instead of Lance's list of tracked files.
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
    """Every version, Lance branch and file that nothing needs, and every file that is needed and not there."""
    pins: dict[str, set[Pin]] = {}
    bases = _base_commits(location)
    found = []
    for line in _lines(location.child(MANIFEST)):
        for version in line.versions():
            manifest = open_manifest(location, lance_branch=line.branch, version=version)
            for table in manifest.read_state().live_tables().values():
                pins.setdefault(table.path, set()).add(table.pin)
            if not _is_newest_or_base(line, version) and manifest.read_head() not in bases:
                found.append(f"{MANIFEST} {line.branch} version {version}")
    live = {record.lance_branch for record in read_snapshot(location).state.branches.values()}
    found += _forks(location.child(MANIFEST), live)
    found += _strange_files(location, MANIFEST)
    for path in sorted({*pins, *_folders(location)}):
        if path not in pins:
            found.append(f"dataset {path}")
            continue
        for line in _lines(location.child(path)):
            for version in line.versions():
                if not _is_newest_or_base(line, version) and Pin(line.branch, version) not in pins[path]:
                    found.append(f"{path} {line.branch} version {version}")
        found += _forks(location.child(path), {pin.branch for pin in pins[path]})
        found += _strange_files(location, path)
    return found


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
    """Lance branches that no snapshot pins and that no other one was made from."""
    refs = open_dataset(location).native.branches.list()
    parents = {ref["parent_branch"] for ref in refs.values()}
    return [f"fork {location.uri} {name}" for name in refs if name not in needed and name not in parents]


def _folders(location: Location) -> list[str]:
    places = [Path(location.uri, kind) for kind in (NODES, EDGES)]
    return [f"{place.name}/{one.name}" for place in places if place.exists() for one in place.iterdir()]


def _strange_files(location: Location, path: str) -> list[str]:
    """By name: every file of a dataset has one of its own, wherever it lies."""
    wanted: set[str] = set()
    for line in _lines(location.child(path)):
        for version in line.versions():
            wanted |= set(_names(line, version))
    there = {_name(file.path) for file in list_files(location.child(path))} - {""}
    return [f"{path} has {name}" for name in sorted(there - wanted)] + [
        f"{path} lacks {name}" for name in sorted(wanted - there)
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
    """By the plain definition, pair by pair."""
    heads: set[CommitId] = set()
    commits: dict[CommitId, CommitRecord] = {}
    for name in read_snapshot(location).state.branches:
        snapshot = read_snapshot(location, name)
        heads.add(snapshot.head)
        commits.update((commit.id, commit) for commit in snapshot.manifest.read_commits())
    found: set[CommitId] = set()
    lineage = Lineage(next(iter(heads)), commits)
    for one, other in combinations(sorted(heads), 2):
        common = lineage.ancestors(one) & lineage.ancestors(other)
        found |= {c for c in common if not any(c in lineage.ancestors(d) - {d} for d in common)}
    return found
