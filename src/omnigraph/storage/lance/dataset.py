"""A Lance dataset at one version: create, open, read.

In: a location, a Lance branch, a version. Out: an immutable `Dataset` handle. Every dataset is created with stable row
ids, storage version 2.2 and no automatic cleanup. Nothing here changes an existing dataset. All handles of a process
share one Lance session, so that the metadata of a data file is cached once and the cache has a limit. A crash during
`create_dataset` leaves files that no version references, or a complete version 1.
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
from omnigraph.storage.errors import DatasetExistsError, translate_error, translate_errors
from omnigraph.storage.lance import durability
from omnigraph.storage.location import Location
from omnigraph.storage.sync import SyncError, sync_entries

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from lance.lance import _Session as Session

    Texts = pa.Array[Any]
else:
    Texts = pa.Array

DATA_STORAGE_VERSION: Final = "2.2"
IDENTITY: Final = "_rowid"
"""The column with the identity of a row, which does not change when the row moves to another fragment."""
ADDRESS: Final = "_rowaddr"
"""The column with the address of a row: its fragment in the upper 32 bits, its offset there in the lower ones."""

_INDEX_IN_PLAN: Final = re.compile(r"\]@(\S+?)\(")
_HANDLE_BYTES: Final = 64 * 1024
_FRAGMENT_BYTES: Final = 1536
_sessions: Final[dict[int, Session]] = {}


@dataclass(frozen=True, slots=True)
class BranchVersion:
    """A version of a dataset on one of its Lance branches; None is Lance's main."""

    branch: str | None
    version: int


@dataclass(frozen=True, slots=True)
class Dataset:
    """An open dataset, pinned to the version at which it was opened. `branch` None is Lance's main."""

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
        """The location of this handle's Lance branch, for messages."""
        return self.directory.uri

    @property
    def directory(self) -> Location:
        """The directory with the files that this handle's Lance branch wrote."""
        return branch_location(self.location, self.branch)

    def read(
        self, columns: list[str] | None = None, where: str | None = None, *, with_addresses: bool = False
    ) -> pa.Table:
        """Read the rows as one table. `where` is SQL over the columns. `with_addresses` adds the column `ADDRESS`."""
        with translate_errors("read the dataset", self.uri):
            return self.native.scanner(
                columns=columns, filter=where, late_materialization=True, with_row_address=with_addresses
            ).to_table()

    def read_by_text(self, column: str, values: Texts, columns: list[str]) -> pa.Table:
        """Read the rows with one of the values, with their addresses: by filter for a few values, by scan for many."""
        where = None
        if len(values) <= limits.LOOKUP_FILTER_VALUES_MAX:
            where = any_of(column, values.to_pylist())
        rows = self.read(list(dict.fromkeys((*columns, column))), where, with_addresses=True)
        return rows if where else rows.filter(pc.is_in(rows.column(column), value_set=values))

    def read_batches(
        self,
        columns: list[str] | None = None,
        where: str | None = None,
        *,
        batch_rows: int | None = None,
        batch_bytes: int | None = None,
        with_identities: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a table of any size as batches of at most about `batch_rows` and `batch_bytes`.

        `with_identities` adds the columns `IDENTITY` and `ADDRESS`.
        """
        with translate_errors("read the dataset", self.uri):
            yield from self.native.scanner(
                columns=columns,
                filter=where,
                batch_size=batch_rows,
                batch_size_bytes=batch_bytes,
                with_row_id=with_identities,
                with_row_address=with_identities,
                # Without these limits, Lance reads far ahead of a slow reader: gigabytes of a large table.
                io_buffer_size=None if batch_bytes is None else 2 * batch_bytes,
                batch_readahead=None if batch_bytes is None else 2,
                fragment_readahead=None if batch_bytes is None else 1,
            ).to_batches()

    def read_head(self, column: str, rows: int) -> Texts:
        """Read a column of the first rows."""
        with translate_errors("read the dataset", self.uri):
            head: Any = self.native.scanner(columns=[column], limit=rows).to_table().column(column).combine_chunks()
        return head  # type: ignore[no-any-return]

    @property
    def handle_bytes(self) -> int:
        """The memory of this open handle in addition to the shared session: its fragments, about 1 KiB each."""
        return _HANDLE_BYTES + _FRAGMENT_BYTES * len(self.native.fragment_ids())

    def data_bytes(self) -> int:
        """Return the total size of the data files, as far as metadata records it."""
        with translate_errors("list the data files", self.uri):
            files = (file for part in self.native.get_fragments() for file in part.data_files())
            return sum(file.file_size_bytes or 0 for file in files)

    def indexes_used(self, columns: list[str], where: str) -> tuple[str, ...]:
        """Return the names of the indexes that Lance plans to use for a scan with this filter."""
        with translate_errors("plan a scan", self.uri):
            plan = self.native.scanner(columns=columns, filter=where).explain_plan()
        lines = (line for line in plan.splitlines() if line.lstrip().startswith("ScalarIndexQuery"))
        return tuple(dict.fromkeys(name for line in lines for name in _INDEX_IN_PLAN.findall(line)))

    def take(self, offsets: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Read the rows at these offsets, which count the live rows from 0 in scan order."""
        with translate_errors("read rows of the dataset", self.uri):
            return self.native.take(list(offsets), columns=list(columns))

    def read_fragments(
        self, fragments: Sequence[int], columns: list[str], where: str | None = None, *, with_identities: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of some fragments as batches. `with_identities` adds the columns `IDENTITY` and `ADDRESS`."""
        with translate_errors("read the dataset", self.uri):
            yield from self.native.scanner(
                columns=columns,
                filter=where,
                fragments=self.fragments(fragments),
                with_row_id=with_identities,
                with_row_address=with_identities,
            ).to_batches()

    def fragments(self, numbers: Sequence[int]) -> list[LanceFragment]:
        """Return those of these fragments that exist, for the scanner of Lance."""
        fragments = (self.native.get_fragment(number) for number in numbers)
        return [fragment for fragment in fragments if fragment is not None]

    def fragment_rows(self) -> dict[int, int]:
        """Return the number of live rows by fragment id, in order, from metadata alone."""
        with translate_errors("count the rows", self.uri):
            return {fragment.fragment_id: fragment.metadata.num_rows for fragment in self.native.get_fragments()}

    def has_deleted_rows(self) -> bool:
        """Return whether a fragment holds deleted rows, from metadata alone."""
        with translate_errors("count the rows", self.uri):
            return any(fragment.metadata.deletion_file is not None for fragment in self.native.get_fragments())

    def new_fragment_rows(self, older: Dataset) -> dict[int, int]:
        """Return the number of live rows of each fragment that an older version does not have, by fragment id."""
        with translate_errors("count the rows", self.uri):
            added = sorted(set(self.native.fragment_ids()) - set(older.native.fragment_ids()))
            return {fragment.fragment_id: fragment.metadata.num_rows for fragment in self.fragments(added)}

    def count_rows(self, where: str | None = None) -> int:
        with translate_errors("count the rows", self.uri):
            return int(self.native.count_rows(where))

    def data_files(self) -> tuple[str, ...]:
        """Return the names of the data files. Names are never reused, so they distinguish two datasets."""
        with translate_errors("list the data files", self.uri):
            return tuple(
                durability.file_path(file) for part in self.native.get_fragments() for file in part.data_files()
            )

    def row_files(self) -> tuple[str, ...]:
        """Return the names of the files that determine the rows: data files and deletion files."""
        with translate_errors("list the data files", self.uri):
            deletions = (part.deletion_file() for part in self.native.get_fragments())
            return (*self.data_files(), *(name for name in deletions if name))

    def at_version(self, version: int) -> Dataset:
        """Open the same dataset and branch at another version."""
        return open_dataset(self.location, branch=self.branch, version=version)

    def newest(self) -> Dataset:
        """Return the same dataset and branch at its newest version, from a listing.

        A copy of the handle is updated, which costs less than an open. If that fails, the dataset is opened: an open
        skips version files that a power cut left empty, and its error names what is missing.
        """
        native = self.native_copy()
        try:
            with translate_errors("open the dataset", self.uri):
                native.checkout_latest()  # type: ignore[no-untyped-call]
        except OmnigraphError:
            return open_dataset(self.location, branch=self.branch)
        return Dataset(self.location, self.branch, native)

    def newest_version(self) -> int:
        """Return the newest version of this dataset and branch, from a listing."""
        with translate_errors("list the versions", self.uri):
            return int(self.native.latest_version)

    def native_copy(self) -> lance.LanceDataset:
        """Return a native handle for calls that change their handle; this one does not change."""
        return copy(self.native)

    def config(self) -> dict[str, str]:
        """Return Lance's settings of the dataset, such as those of automatic cleanup."""
        with translate_errors("read the settings", self.uri):
            return dict(self.native.config())

    def lance_branches(self) -> dict[str, BranchVersion]:
        """Return every Lance branch of the dataset, with the version that it was created from."""
        with translate_errors("list the Lance branches", self.uri):
            branches = self.native.branches.list()
        return {
            name: BranchVersion(branch["parent_branch"], int(branch["parent_version"]))
            for name, branch in branches.items()
        }

    def lance_tags(self) -> frozenset[BranchVersion]:
        """Return the versions that have a tag of Lance."""
        with translate_errors("list the tags", self.uri):
            tags = self.native.tags.list().values()
        return frozenset(BranchVersion(tag["branch"], int(tag["version"])) for tag in tags)

    def versions(self) -> tuple[int, ...]:
        """Return every version that can be opened, oldest first, from one listing."""
        with translate_errors("list the versions", self.uri):
            return tuple(sorted(int(ref["version"]) for ref in self.native.version_refs()))


@dataclass(frozen=True, slots=True)
class DatasetVersion:
    """One version of a dataset, not opened: what is sent to workers."""

    location: Location
    branch: str | None
    version: int

    @classmethod
    def of(cls, dataset: Dataset) -> DatasetVersion:
        """Return the version that a handle is pinned to."""
        return cls(dataset.location, dataset.branch, dataset.version)

    def open(self) -> Dataset:
        return open_dataset(self.location, branch=self.branch, version=self.version)


def create_dataset(location: Location, rows: pa.Table, properties: Mapping[str, str] | None = None) -> Dataset:
    """Create a dataset whose version 1 has `rows`; raise `DatasetExistsError` if one exists.

    Of two concurrent creators one succeeds. `lance.write_dataset` does not guarantee that: it retries and commits the
    other creator's rows as version 2.
    """
    announce("dataset.create", location.uri)
    with translate_errors("create the dataset", location.uri):
        staged: Any = write_fragments(
            rows,
            location.lance_uri,
            return_transaction=True,
            mode="create",
            enable_stable_row_ids=True,
            data_storage_version=DATA_STORAGE_VERSION,
            storage_options=location.storage_options,
        )
        durability.make_durable(location, durability.fragment_files(staged.operation.fragments))
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
        except OSError as rejected:
            native = _own_first_version(location, first.uuid, rejected)
    try:
        durability.make_version_durable(location, 1)
        if location.is_synced:
            sync_entries([Path(location.uri)])
    except SyncError:
        durability.delete_first_version(location)  # the caller deletes what it created, and must not leave a dataset
        raise
    return Dataset(location, None, native)


def _own_first_version(location: Location, uuid: str, rejected: OSError) -> lance.LanceDataset:
    """Return version 1 if this process created it and its acknowledgement was lost; otherwise raise."""
    try:
        newest = _open_native(location, None)
    except OmnigraphError:
        raise rejected from None
    with suppress(OSError, ValueError):
        transaction = newest.read_transaction(1)
        if transaction is not None and transaction.uuid == uuid:
            return newest.checkout_version(1)
    raise DatasetExistsError(
        f"{location.uri} already exists",
        code="dataset_exists",
        hint="Choose another location.",
        facts={"uri": location.uri},
    )


def open_dataset(location: Location, *, branch: str | None = None, version: int | None = None) -> Dataset:
    """Open a dataset at a version; default: the newest, from a listing."""
    directory = branch_location(location, branch)
    try:
        native = _open_native(directory, version)
    except (FormatError, StorageError):
        complete = durability.find_newest_complete_version(directory) if version is None else None
        if complete is None:
            raise
        if complete == 0:
            missing = FileNotFoundError("every version file is empty")
            raise translate_error(missing, "open the dataset", directory.uri) from None
        logger.warning("skipped empty version files, which a power cut leaves: %s", directory.uri)
        native = _open_native(directory, complete)
    return Dataset(location, branch, native)


def shared_session() -> Session:
    """Return the Lance session of this process.

    Without it every handle has its own session, which caches about 4 KiB for each data file that it read, again for
    each version. A forked process gets its own. Lance's cache entries belong to the exact version file that was read,
    so a dataset that was replaced at its path is read again: `tests/storage/test_surface_sessions.py`.
    """
    session = _sessions.get(os.getpid())
    if session is None:
        session = lance.Session(  # type: ignore[attr-defined]  # it is documented
            index_cache_size_bytes=limits.LANCE_INDEX_CACHE_BYTES,
            metadata_cache_size_bytes=limits.LANCE_METADATA_CACHE_BYTES,
        )
        # Two threads that create a session at the same time use the same one.
        session = _sessions.setdefault(os.getpid(), session)
    return session


def _open_native(directory: Location, version: int | None) -> lance.LanceDataset:
    with translate_errors("open the dataset", directory.uri):
        return lance.dataset(
            directory.lance_uri, version=version, storage_options=directory.storage_options, session=shared_session()
        )


def make_durable_since(dataset: Dataset, version: int) -> None:
    """Check and sync every file that was added since an older version; every file if that version was deleted."""
    if not dataset.location.is_local:
        return
    try:
        older = dataset.at_version(version).native
    except NotFoundError:
        older = None
    durability.make_change_durable(dataset.directory, dataset.native, older)


def branch_location(location: Location, branch: str | None) -> Location:
    """Return where Lance stores a branch of a dataset."""
    return location if branch is None else location.child(f"tree/{branch}")


def branch_data_path(path: str, branch: str) -> str:
    """Return the directory of the data files that a branch of the dataset at `path` wrote; a new branch has none."""
    return f"{path}/tree/{branch}/data"


def column_text(name: str) -> str:
    """Return a column's name as SQL, quoted so that its case is kept."""
    return f"`{name}`"


def text_literal(value: str) -> str:
    """Return a string as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def any_of(column: str, texts: Iterable[object]) -> str:
    """Return the SQL condition that a column has one of these values; `false` without values."""
    literals = ", ".join(text_literal(str(text)) for text in texts)
    return f"{column_text(column)} IN ({literals})" if literals else "false"
