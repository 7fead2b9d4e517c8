"""A Lance dataset at one version: create, open, read.

In: a location, a Lance branch, a version. Out: an immutable `Dataset` handle. Every dataset is created with
stable row ids, storage version 2.2 and no automatic cleanup. Nothing here changes an existing dataset.
All handles of a process share one Lance session, so the metadata of a data file is held once and its bytes are bounded.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import LanceFragment, write_fragments

from omnigraph.base import limits
from omnigraph.base.errors import FormatError, NotFoundError, OmnigraphError, StorageError
from omnigraph.base.failpoints import announce
from omnigraph.storage.errors import DatasetExistsError, nothing_at, substrate_errors
from omnigraph.storage.lance.durability import (
    delete_first_version,
    find_newest_whole_version,
    fragment_files,
    make_change_durable,
    make_durable,
    make_version_durable,
)
from omnigraph.storage.location import Location
from omnigraph.storage.sync import SyncError, sync_entries


def column_text(name: str) -> str:
    """A column's name, quoted so that its case counts."""
    return f"`{name}`"


def text_literal(value: str) -> str:
    """A text, quoted."""
    return "'" + value.replace("'", "''") + "'"


def any_of(column: str, texts: Iterable[object]) -> str:
    """That a column is one of these texts; without any it never is."""
    listed = ", ".join(text_literal(str(text)) for text in texts)
    return f"{column_text(column)} IN ({listed})" if listed else "false"


logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from lance.lance import _Session as Session

    Texts = pa.Array[Any]
else:
    Texts = pa.Array

DATA_STORAGE_VERSION: Final = "2.2"
_INDEX_ASKED: Final = re.compile(r"\]@(\S+?)\(")
IDENTITY: Final = "_rowid"
"""The column with the identity of a row, which it keeps when it moves."""
ADDRESS: Final = "_rowaddr"
"""The column with the address of a row: its fragment in the upper half, its place there in the lower one."""


_HANDLE_BYTES: Final = 64 * 1024
_FRAGMENT_BYTES: Final = 1536
_sessions: Final[dict[int, Session]] = {}


@dataclass(frozen=True, slots=True)
class Dataset:
    """An open dataset, pinned to the version it was opened at. `branch` None is Lance's main."""

    location: Location
    branch: str | None
    native: lance.LanceDataset

    @property
    def version(self) -> int:
        return int(self.native.version)

    @property
    def schema(self) -> pa.Schema:
        return self.native.schema

    @property
    def metadata(self) -> dict[str, str]:
        """The schema-level metadata as text."""
        return {key.decode(): value.decode() for key, value in (self.schema.metadata or {}).items()}

    @property
    def uri(self) -> str:
        """Where this handle's Lance branch lives, for messages."""
        return self.place.uri

    @property
    def place(self) -> Location:
        """The directory with the files that this handle's Lance branch wrote itself."""
        return branch_location(self.location, self.branch)

    def read(
        self, columns: list[str] | None = None, where: str | None = None, *, with_addresses: bool = False
    ) -> pa.Table:
        """The rows as one table. `where` is SQL over the columns. With addresses: where each row lies, as `ADDRESS`."""
        with substrate_errors("read the dataset", self.uri):
            return self.native.scanner(
                columns=columns, filter=where, late_materialization=True, with_row_address=with_addresses
            ).to_table()

    def read_by_text(self, column: str, values: Texts, columns: list[str]) -> pa.Table:
        """The rows whose text is one of the values, with their addresses: by filter for a few, by a scan for many."""
        where = None
        if len(values) <= limits.LOOKUP_FILTER_VALUES_MAX:
            where = any_of(column, values.to_pylist())
        found = self.read(list(dict.fromkeys((*columns, column))), where, with_addresses=True)
        if where is None:
            found = found.filter(pc.is_in(found.column(column), value_set=values))
        return found

    def read_batches(
        self,
        columns: list[str] | None = None,
        where: str | None = None,
        *,
        batch_rows: int | None = None,
        batch_bytes: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows as a stream of batches of at most about so many rows and bytes, for tables of any size."""
        with substrate_errors("read the dataset", self.uri):
            yield from self.native.scanner(
                columns=columns, filter=where, batch_size=batch_rows, batch_size_bytes=batch_bytes
            ).to_batches()

    @property
    def handle_bytes(self) -> int:
        """The memory that this open handle holds, next to the shared session: its fragments, about 1 KiB each."""
        return _HANDLE_BYTES + _FRAGMENT_BYTES * len(self.native.fragment_ids())

    def data_bytes(self) -> int:
        """The bytes of the files with the rows, as far as metadata says."""
        with substrate_errors("list the data files", self.uri):
            files = (file for part in self.native.get_fragments() for file in part.data_files())
            return sum(file.file_size_bytes or 0 for file in files)

    def indexes_used(self, columns: list[str], where: str) -> tuple[str, ...]:
        """The names of the indexes that a scan with this filter asks, as the library plans it."""
        with substrate_errors("plan a scan", self.uri):
            plan = self.native.scanner(columns=columns, filter=where).explain_plan()
        asked = (line for line in plan.splitlines() if line.lstrip().startswith("ScalarIndexQuery"))
        return tuple(dict.fromkeys(name for line in asked for name in _INDEX_ASKED.findall(line)))

    def take(self, offsets: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """The rows at these offsets, which count the live rows from 0 in the order of a scan."""
        with substrate_errors("read rows of the dataset", self.uri):
            return self.native.take(list(offsets), columns=list(columns))

    def read_fragments(
        self, fragments: Sequence[int], columns: list[str], *, with_identities: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The rows of some fragments as a stream of batches. With identities: `IDENTITY` and `ADDRESS` of each."""
        with substrate_errors("read the dataset", self.uri):
            yield from self.native.scanner(
                columns=columns,
                fragments=self.fragments(fragments),
                with_row_id=with_identities,
                with_row_address=with_identities,
            ).to_batches()

    def fragments(self, numbers: Sequence[int]) -> list[LanceFragment]:
        """Those of the fragments with these numbers that there are, as the library's scanner takes them."""
        found = (self.native.get_fragment(number) for number in numbers)
        return [fragment for fragment in found if fragment is not None]

    def fragment_rows(self) -> dict[int, int]:
        """Live rows of each fragment by its number, in order; from metadata where it says."""
        with substrate_errors("count the rows", self.uri):
            found = {}
            for fragment in self.native.get_fragments():
                rows = fragment.metadata.num_rows
                found[fragment.fragment_id] = fragment.count_rows() if rows is None else rows
            return found

    def count_rows(self, where: str | None = None) -> int:
        with substrate_errors("count the rows", self.uri):
            return int(self.native.count_rows(where))

    def data_files(self) -> tuple[str, ...]:
        """The names of the files with the rows, which are never given twice: what tells two datasets apart."""
        with substrate_errors("list the data files", self.uri):
            return tuple(file.path for part in self.native.get_fragments() for file in part.data_files())

    def row_files(self) -> tuple[str, ...]:
        """The names of the files that decide which rows there are: the data files and those with deletions."""
        with substrate_errors("list the data files", self.uri):
            deletions = (part.deletion_file() for part in self.native.get_fragments())
            return (*self.data_files(), *(name for name in deletions if name))

    def at(self, version: int) -> Dataset:
        """The same dataset and branch at another version."""
        return open_dataset(self.location, branch=self.branch, version=version)

    def newest(self) -> Dataset:
        """The same dataset and branch as it is now."""
        return open_dataset(self.location, branch=self.branch)

    def newest_version(self) -> int:
        """The number of the newest version of this dataset and branch, by listing."""
        with substrate_errors("list the versions", self.uri):
            return int(self.native.latest_version)

    def movable(self) -> lance.LanceDataset:
        """A native handle for calls that move the handle they are called on; this one stays where it is."""
        return copy(self.native)

    def config(self) -> dict[str, str]:
        """Lance's own settings of the dataset (where automatic cleanup would be switched on)."""
        with substrate_errors("read the settings", self.uri):
            return dict(self.native.config())

    def lance_branches(self) -> Mapping[str, str | None]:
        """Every Lance branch of the dataset, with the one it was made from; None is Lance's main."""
        with substrate_errors("list the Lance branches", self.uri):
            return {name: found["parent_branch"] for name, found in self.native.branches.list().items()}

    def versions(self) -> tuple[int, ...]:
        """Every version that can be opened, oldest first, from one listing."""
        with substrate_errors("list the versions", self.uri):
            return tuple(sorted(int(ref["version"]) for ref in self.native.version_refs()))


@dataclass(frozen=True, slots=True)
class DatasetVersion:
    """One version of a dataset, not open: what travels to workers."""

    location: Location
    branch: str | None
    version: int

    @classmethod
    def of(cls, dataset: Dataset) -> DatasetVersion:
        """The version that a handle is pinned to."""
        return cls(dataset.location, dataset.branch, dataset.version)

    def open(self) -> Dataset:
        return open_dataset(self.location, branch=self.branch, version=self.version)


def create_dataset(
    location: Location, rows: pa.Table, properties: Mapping[str, str] | None = None
) -> Dataset:
    """Create a dataset whose version 1 holds `rows`; raise `DatasetExistsError` if there is one.

    Of two creators at the same moment one wins. `lance.write_dataset` does not promise that: its retries put the
    loser's rows on top as version 2.
    """
    announce("dataset.create", location.uri)
    with substrate_errors("create the dataset", location.uri):
        staged: Any = write_fragments(
            rows,
            location.lance_uri,
            return_transaction=True,
            mode="create",
            enable_stable_row_ids=True,
            data_storage_version=DATA_STORAGE_VERSION,
            storage_options=location.storage_options,
        )
        make_durable(location, fragment_files(staged.operation.fragments))
        first = lance.Transaction(
            staged.read_version, staged.operation, staged.uuid, transaction_properties=dict(properties or {})
        )
        try:
            native = lance.LanceDataset.commit(
                location.lance_uri,
                first,
                max_retries=0,
                storage_options=location.storage_options,
                enable_v2_manifest_paths=True,
                enable_stable_row_ids=True,
            )
        except OSError as refused:
            native = _own_first_version(location, first.uuid, refused)
    try:
        make_version_durable(location, 1)
        if location.is_synced:
            sync_entries([Path(location.uri)])
    except SyncError:
        delete_first_version(location)  # the caller deletes what it made, and must not leave a dataset behind
        raise
    return Dataset(location, None, native)


def _own_first_version(location: Location, uuid: str, refused: OSError) -> lance.LanceDataset:
    """Version 1 if it is ours after all, as after a lost answer; otherwise somebody else was first."""
    try:
        newest = _open_native(location, None)
    except OmnigraphError:
        raise refused from None
    with suppress(OSError, ValueError):
        found = newest.read_transaction(1)
        if found is not None and found.uuid == uuid:
            return newest.checkout_version(1)
    raise DatasetExistsError(
        f"{location.uri} already exists",
        code="dataset_exists",
        hint="choose another place",
        facts={"uri": location.uri},
    )


def open_dataset(location: Location, *, branch: str | None = None, version: int | None = None) -> Dataset:
    """Open a dataset at its newest version (found by listing) or at the given one."""
    place = branch_location(location, branch)
    try:
        native = _open_native(place, version)
    except (FormatError, StorageError):
        whole = find_newest_whole_version(place) if version is None else None
        if whole is None:
            raise
        if whole == 0:
            raise nothing_at("open the dataset", place.uri) from None
        logger.warning("skipped version files without content, as a power cut leaves: %s", place.uri)
        native = _open_native(place, whole)
    return Dataset(location, branch, native)


def shared_session() -> Session:
    """Return the Lance session of this process.

    Without it every handle has a session of its own, which keeps about 4 KiB for each data file that it read, again
    for each version. A forked process gets its own. Lance's entries belong to the exact version file that was read,
    so a dataset that was replaced at its path is read again: `tests/storage/test_surface_sessions.py`.
    """
    session = _sessions.get(os.getpid())
    if session is None:
        session = lance.Session(  # type: ignore[attr-defined]  # it is documented
            index_cache_size_bytes=limits.LANCE_INDEX_CACHE_BYTES,
            metadata_cache_size_bytes=limits.LANCE_METADATA_CACHE_BYTES,
        )
        # Two threads that start together keep one of the two.
        session = _sessions.setdefault(os.getpid(), session)
    return session


def _open_native(place: Location, version: int | None) -> lance.LanceDataset:
    with substrate_errors("open the dataset", place.uri):
        return lance.dataset(
            place.lance_uri, version=version, storage_options=place.storage_options, session=shared_session()
        )


def make_durable_since(dataset: Dataset, version: int) -> None:
    """Check and sync every file that the handle's version has and an older one has not; all if that is collected."""
    if not dataset.location.is_local:
        return
    try:
        older = dataset.at(version).native
    except NotFoundError:
        older = None
    make_change_durable(dataset.place, dataset.native, older)


def branch_location(location: Location, branch: str | None) -> Location:
    """Where Lance keeps a branch of a dataset."""
    return location if branch is None else location.child(f"tree/{branch}")


def own_files(path: str, branch: str) -> str:
    """The folder of the data files that a branch of the dataset at `path` wrote itself; a new one has none."""
    return f"{path}/tree/{branch}/data"
