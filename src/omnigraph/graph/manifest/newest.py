"""A cache of the newest manifest of each branch, and of handles of tables, in this process.

In: a branch. Out: its newest manifest and state. A cached handle is advanced to the newest version, and the state of an
unchanged version is used again. After a publish of this process the new state follows from the published rows, so a
writer that is alone reads the rows of a manifest once. Every call lists the versions in the store. Nothing here writes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.base.ids import CommitId
from omnigraph.base.recent import RecentValues
from omnigraph.graph.manifest.encoding import commit_object_id
from omnigraph.graph.manifest.identity import SEEN_HEADS, BranchIdentity, new_identity
from omnigraph.graph.manifest.reader import Manifest, ManifestState, open_manifest
from omnigraph.graph.manifest.records import Pin, TableRecord
from omnigraph.graph.manifest.stamp import FORMAT, StorageFormat
from omnigraph.storage.lance.dataset import ADDRESS, Dataset
from omnigraph.storage.location import Location
from omnigraph.storage.settings import settings_id


@dataclass(frozen=True, slots=True)
class _BranchKey:
    """A branch of a graph, and the settings with which its store was opened."""

    root: Location
    lance_branch: str | None
    settings: str

    @classmethod
    def of(cls, root: Location, lance_branch: str | None) -> _BranchKey:
        return cls(root, lance_branch, "" if root.is_local else settings_id())


@dataclass(frozen=True, slots=True)
class _TableKey:
    """A Lance branch of a table. The identity is that of the branch whose manifest decides what it contains."""

    identity: BranchIdentity
    location: Location
    lance_branch: str | None
    settings: str

    @classmethod
    def of(cls, identity: BranchIdentity, location: Location, lance_branch: str | None) -> _TableKey:
        return cls(identity, location, lance_branch, "" if location.is_local else settings_id())


@dataclass(frozen=True, slots=True)
class _NewestState:
    manifest: Manifest
    state: ManifestState
    identity: BranchIdentity
    files: tuple[str, ...]


_STATES: Final[RecentValues[_BranchKey, _NewestState]] = RecentValues(limits.NEWEST_STATES_MAX)
_TABLES: Final[RecentValues[_TableKey, Dataset]] = RecentValues(limits.NEWEST_TABLES_MAX)


def read_newest(
    root: Location, lance_branch: str | None, storage_format: StorageFormat = FORMAT
) -> tuple[Manifest, ManifestState, BranchIdentity]:
    """Read the newest manifest of a branch and its state, and compare it with what this process read before.

    The newest version of a manifest is never deleted, and no name of a data file is used again. So a version with the
    same number and the same files is the same version.
    """
    key = _BranchKey.of(root, lance_branch)
    for _ in range(limits.IDENTITY_ATTEMPTS_MAX):
        before, last = SEEN_HEADS.find(root, lance_branch), _STATES.find(key)
        manifest = open_manifest(
            root,
            lance_branch=lance_branch,
            storage_format=storage_format,
            last=None if last is None else last.manifest.dataset,
        )
        files = manifest.dataset.data_files()
        is_same_branch = last is not None and before is not None and before.identity == last.identity
        if last is not None and is_same_branch and (manifest.version, files) == (last.manifest.version, last.files):
            return manifest, last.state, last.identity
        object_ids = () if before is None else (commit_object_id(before.head),)
        state, rows = manifest.read_state_and(object_ids)
        identity = SEEN_HEADS.note((root, lance_branch), state.head, before, is_later=bool(rows))
        if identity is not None:
            _STATES.put(key, _NewestState(manifest, state, identity, files))
            return manifest, state, identity
    # Other threads read newer states in every attempt, so this state gets an identity of its own.
    return manifest, state, new_identity()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCommit:
    """A published commit: its id, the tables that it moved, the rows that it wrote, and the handle after it."""

    head: CommitId
    tables: tuple[TableRecord, ...]
    rows: pa.Table
    dataset: Dataset


def note_published(root: Location, before: Manifest, state: ManifestState, published: PublishedCommit) -> None:
    """Record the state after a publish of only these rows, so that the next read need not scan the manifest.

    Nothing is recorded if the version before is not the last one that this process read.
    """
    lance_branch, dataset = before.dataset.branch, published.dataset
    seen = SEEN_HEADS.find(root, lance_branch)
    rows = _rows_after(before, state, published)
    if seen is None or seen.head != state.head or rows is None:
        return
    identity = SEEN_HEADS.note((root, lance_branch), published.head, seen, is_later=True)
    if identity is not None:
        tables = {**state.tables, **{table.id: table for table in published.tables}}
        after = replace(state, head=published.head, tables=tables, rows=rows)
        newest = _NewestState(Manifest(dataset, before.stamp), after, identity, dataset.data_files())
        _STATES.put(_BranchKey.of(root, lance_branch), newest)


def _rows_after(before: Manifest, state: ManifestState, published: PublishedCommit) -> pa.Table | None:
    """Return the rows of the state after a publish, with their addresses; None if they must be read.

    The publish wrote its rows as one new fragment, in their order.
    """
    rows = published.rows
    added = published.dataset.new_fragment_rows(before.dataset)
    if state.rows is None or list(added.values()) != [rows.num_rows]:
        return None
    first = next(iter(added)) << 32
    columns: dict[str, Any] = {name: rows.column(name) for name in rows.column_names}
    columns[ADDRESS] = pa.array(range(first, first + rows.num_rows), pa.uint64())
    replaced = pc.is_in(state.rows.column("object_id"), value_set=rows.column("object_id").combine_chunks())
    current_rows = pa.concat_tables(
        [state.rows.filter(pc.invert(replaced)), pa.table(columns, schema=state.rows.schema)]
    )
    return current_rows.filter(pc.is_in(current_rows.column("object_type"), value_set=pa.array(before.state_kinds)))


def find_table(identity: BranchIdentity, location: Location, pin: Pin) -> Dataset | None:
    """Return the handle of a version if it is the last one of its table that this process committed."""
    dataset = _TABLES.find(_TableKey.of(identity, location, pin.branch))
    return dataset if dataset is not None and dataset.version == pin.version else None


def note_table(identity: BranchIdentity, dataset: Dataset) -> None:
    """Record the handle of a version of a table that this process committed."""
    if dataset.handle_bytes <= limits.NEWEST_TABLE_BYTES_MAX:
        _TABLES.put(_TableKey.of(identity, dataset.location, dataset.branch), dataset)


def forget_graph(root: Location) -> None:
    """Drop the states of a graph and the handles in them."""
    _STATES.forget(lambda key: key.root == root)
    _TABLES.forget(lambda key: key.location.root_uri == root.uri)
