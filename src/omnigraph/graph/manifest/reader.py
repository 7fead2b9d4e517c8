"""Open and read `__manifest`, the only authority on what a graph contains. Nothing here writes.

In: the location of a graph, a Lance branch, a version. Out: a `Manifest` handle pinned to one version, and its state.
The format stamp is read before anything else. The state excludes commits and recoveries, so that its cost does not
grow with history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base import limits
from omnigraph.base.errors import FormatError, NotFoundError, OmnigraphError, StorageError
from omnigraph.base.hints import CAUSE, Placeholder, action, hint
from omnigraph.base.ids import CommitId, OperationId
from omnigraph.graph.manifest import encoding, records
from omnigraph.graph.manifest.layout import INIT_MARKERS, MANIFEST
from omnigraph.graph.manifest.stamp import FORMAT, ROOT_KEY, StorageFormat, read_stamp
from omnigraph.storage.lance.dataset import Dataset, any_of, open_dataset, text_literal
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

# The manifest of a branch starts as a copy of its parent's, so its branch rows are old rows of main.
_BRANCH_STATE_KINDS: Final = ("table", "table_tombstone", "schema", "graph_head")
_MAIN: Final = "main"
_STATE_KINDS: Final = (*_BRANCH_STATE_KINDS, "branch")

_CREATE_HINT: Final = hint(
    "Check the path, or run {} to create a graph.", action("init", schema=Placeholder("schema.pg"))
)

ManifestRow = Mapping[str, Any]
"""A row as read, by column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestState:
    """What one version of a manifest publishes. Only the manifest of main has `branches`.

    `rows` are the rows that it was read from, with their addresses, so that a publish that replaces rows need not find
    them.
    """

    head: CommitId
    schema: records.SchemaRecord
    tables: Mapping[records.TableId, records.TableRecord]
    tombstones: tuple[records.TombstoneRecord, ...]
    branches: Mapping[str, records.BranchRecord]
    rows: pa.Table | None = field(default=None, compare=False, repr=False)

    def live_tables(self) -> Mapping[records.TableId, records.TableRecord]:
        """Return the tables of the snapshot: those without a tombtombstone."""
        dropped = {
            tombstone.table
            for tombstone in self.tombstones
            if tombstone.table in self.tables and self.tables[tombstone.table].pin.version >= tombstone.version
        }
        if not dropped:
            return self.tables
        return {table: record for table, record in self.tables.items() if table not in dropped}


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest opened at one version. `stamp` is the format stamp of the branch."""

    dataset: Dataset
    stamp: int

    @property
    def version(self) -> int:
        return self.dataset.version

    @property
    def root_uri(self) -> str:
        """The location at which the graph was created."""
        return self.dataset.metadata.get(ROOT_KEY, "")

    @property
    def state_kinds(self) -> tuple[str, ...]:
        """The types of the rows that are part of the state."""
        return _STATE_KINDS if self.dataset.branch is None else _BRANCH_STATE_KINDS

    def read_state(self) -> ManifestState:
        """Read everything that a snapshot needs, in one scan."""
        return self.read_state_and(())[0]

    def read_state_and(self, object_ids: tuple[str, ...]) -> tuple[ManifestState, tuple[ManifestRow, ...]]:
        """Read the state and, in the same scan, the existing rows of `object_ids` with all columns."""
        kinds = self.state_kinds
        or_ids = f" OR {any_of('object_id', object_ids)}" if object_ids else ""
        rows = self._read(None, any_of("object_type", kinds) + or_ids, with_addresses=True)
        matches = select_rows(rows, object_ids) if object_ids else ()
        return _decode_state(rows, kinds, self.dataset.uri), matches

    def find_rows(self, object_ids: tuple[str, ...]) -> tuple[ManifestRow, ...]:
        """Read `object_id` and `metadata` of the existing rows of `object_ids`."""
        if not object_ids:
            return ()
        rows = self._read(["object_id", "metadata"], any_of("object_id", object_ids))
        return select_rows(rows, object_ids)

    def read_head(self) -> CommitId:
        """Read the newest commit of this version."""
        rows = self.find_rows((encoding.HEAD_OBJECT_ID,))
        if len(rows) != 1:
            raise damaged_manifest(self.dataset.uri, f"expected 1 graph_head row, got {len(rows)}")
        return encoding.decode_head(rows[0])

    def find_commit(self, commit: CommitId) -> records.CommitRecord | None:
        """Read the row of a commit; None if this version does not have it."""
        rows = self.find_rows((encoding.commit_object_id(commit),))
        return encoding.decode_commit(rows[0]) if rows else None

    def find_recovery(self, operation: OperationId) -> records.RecoveryRecord | None:
        """Read the audit row of a finished recovery; None if this version does not have it."""
        rows = self.find_rows((encoding.recovery_object_id(operation),))
        return encoding.decode_recovery(rows[0]) if rows else None

    def read_commits(self) -> tuple[records.CommitRecord, ...]:
        """Read every commit of the lineage of this branch that the manifest has, in no order."""
        return tuple(map(encoding.decode_commit, self._read_rows("object_type = 'graph_commit'")))

    def read_commit_ids(self) -> tuple[CommitId, ...]:
        """Read the ids of these commits."""
        with _explain_damage(self._graph_uri):
            rows = self.dataset.read(["object_id"], "object_type = 'graph_commit'")
        start = len(encoding.commit_object_id(CommitId("")))
        return tuple(CommitId(str(object_id)[start:]) for object_id in rows.column("object_id").to_pylist())

    def read_history(
        self, decoded: Mapping[CommitId, records.CommitRecord]
    ) -> tuple[CommitId, tuple[records.CommitRecord, ...]]:
        """Read the head and every commit, in one scan. Commits in `decoded` are not decoded again."""
        where = any_of("object_type", ("graph_head", "graph_commit"))
        rows = self._read(["object_id", "metadata"], where)
        decoded_by_key = {encoding.commit_object_id(commit): record for commit, record in decoded.items()}
        columns = (rows.column(name).to_pylist() for name in ("object_id", "metadata"))
        commits: list[records.CommitRecord] = []
        for object_id, metadata in zip(*columns, strict=True):
            if object_id in decoded_by_key:
                commits.append(decoded_by_key[object_id])
            elif object_id.startswith(encoding.commit_object_id(CommitId(""))):
                commits.append(encoding.decode_commit({"object_id": object_id, "metadata": metadata}))
        (head,) = select_rows(rows, (encoding.HEAD_OBJECT_ID,))
        return encoding.decode_head(head), tuple(commits)

    def read_commits_naming(self, text: str) -> tuple[records.CommitRecord, ...]:
        """Read the commits whose row contains this text. Only these are decoded."""
        rows = self._read_rows(f"object_type = 'graph_commit' AND contains(metadata, {text_literal(text)})")
        return tuple(map(encoding.decode_commit, rows))

    def has_stream_batch(self, batch: records.StreamBatch) -> bool:
        """Return whether a commit has this batch of its query or a later one."""
        committed = (commit.stream for commit in self.read_commits_naming(batch.query))
        return any(
            stream is not None and stream.query == batch.query and stream.batch >= batch.batch for stream in committed
        )

    def read_recoveries(self) -> tuple[records.RecoveryRecord, ...]:
        """Read every finished recovery, in no order."""
        return tuple(map(encoding.decode_recovery, self._read_rows("object_type = 'recovery'")))

    def _read_rows(self, where: str) -> list[dict[str, Any]]:
        """Read `object_id` and `metadata` of the rows of `where`."""
        with _explain_damage(self._graph_uri):
            return self.dataset.read(["object_id", "metadata"], where).to_pylist()

    def _read(self, columns: list[str] | None, where: str, *, with_addresses: bool = False) -> pa.Table:
        """Read at least the rows of `where`. A small manifest is read whole, which costs less than a filter."""
        with _explain_damage(self._graph_uri):
            is_small = self.dataset.count_rows() <= limits.MANIFEST_WHOLE_READ_ROWS_MAX
            return self.dataset.read(columns, None if is_small else where, with_addresses=with_addresses)

    @property
    def _graph_uri(self) -> str:
        return self.dataset.location.uri.removesuffix(f"/{MANIFEST}")


def open_manifest(
    root: Location,
    *,
    lance_branch: str | None = None,
    version: int | None = None,
    storage_format: StorageFormat = FORMAT,
    last: Dataset | None = None,
) -> Manifest:
    """Open a manifest branch at its newest version or at `version`, and check its format stamp.

    `last` is a handle of the same branch, which is brought forward to the newest version.
    """
    try:
        with _explain_damage(root.uri):
            if last is None:
                dataset = open_dataset(root.child(MANIFEST), branch=lance_branch, version=version)
            else:
                dataset = last.newest()
    except NotFoundError as missing:
        if missing.code == "object_missing":
            raise _explain_missing(root, lance_branch, version) from missing
        raise
    except StorageError as blocked:
        path = Path(root.uri)
        file = next((parent for parent in (path, *path.parents) if parent.is_file()), None)
        if blocked.code != "path_is_file" or file is None:
            raise
        raise NotFoundError(
            f"{root} is a file, not a graph" if file == path else f"no graph at {root}: {file} is a file",
            code="not_a_graph" if file == path else "graph_missing",
            hint="Pass the directory of a graph.",
            facts={"uri": root.uri, "file": str(file)},
        ) from blocked
    return Manifest(dataset, read_stamp(dataset, storage_format))


@contextmanager
def _explain_damage(graph_uri: str) -> Iterator[None]:
    """Raise errors of damaged files with the location of the graph. The facts have the message of the library."""
    try:
        yield
    except FormatError as broken:
        if broken.code != "dataset_unreadable":
            raise
        raise FormatError(
            f"the manifest of the graph at {graph_uri} is damaged: a file is corrupt, truncated or missing",
            code=broken.code,
            hint=hint("Restore the directory of the graph from a backup. {} shows the cause.", CAUSE),
            facts={**broken.facts, "uri": graph_uri},
        ) from broken


def select_rows(rows: pa.Table, object_ids: tuple[str, ...]) -> tuple[ManifestRow, ...]:
    """Return the rows of `object_ids` among these rows."""
    ids = enumerate(rows.column("object_id").to_pylist())
    return tuple(rows.slice(index, 1).to_pylist()[0] for index, object_id in ids if object_id in object_ids)


class _Branches(Mapping[str, records.BranchRecord]):
    """The branches by name. A row is decoded when it is read first: a commit needs one of a thousand."""

    def __init__(self, rows: Mapping[str, ManifestRow]) -> None:
        self._rows = rows
        self._decoded: dict[str, records.BranchRecord] = {}

    def __getitem__(self, name: str) -> records.BranchRecord:
        if name not in self._decoded:
            self._decoded[name] = encoding.decode_branch(self._rows[name])
        return self._decoded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _read_branches(rows: pa.Table, uri: str) -> _Branches:
    branch_rows = rows.select(["object_id", "metadata"]).to_pylist()
    branches = {str(row["object_id"]).removeprefix(encoding.branch_object_id("")): row for row in branch_rows}
    if len(branches) != len(branch_rows):
        raise damaged_manifest(uri, f"expected {len(branches)} branch rows, got {len(branch_rows)}")
    if _MAIN not in branches:
        raise damaged_manifest(uri, f"it has no {encoding.branch_object_id(_MAIN)} row")
    return _Branches(branches)


def _decode_state(rows: pa.Table, kinds: tuple[str, ...], uri: str) -> ManifestState:
    """Return the rows of these kinds as records. Every read calls it, so it works on whole columns."""
    names = encoding.MANIFEST_SCHEMA.names
    if missing := set(names) - set(rows.column_names):
        raise damaged_manifest(uri, f"it has no column {', '.join(sorted(missing))}")
    is_branch = pc.equal(rows.column("object_type"), pa.scalar("branch"))
    branches = _read_branches(rows.filter(is_branch), uri) if "branch" in kinds else {}
    others = rows.filter(pc.invert(is_branch))
    columns = [others.column(name).to_pylist() for name in names]
    values_by_kind: dict[str, list[tuple[Any, ...]]] = {kind: [] for kind in kinds}
    for kind, values in zip(columns[names.index("object_type")], zip(*columns, strict=True), strict=True):
        if kind in values_by_kind:
            values_by_kind[kind].append(values)

    def rows_of(kind: str) -> Iterator[ManifestRow]:
        return (dict(zip(names, values, strict=True)) for values in values_by_kind.get(kind, ()))

    tables = {table.id: table for table in encoding.decode_tables(values_by_kind["table"])}
    expected = {"schema": 1, "graph_head": 1, "table": len(tables)}
    for kind, of_kind in values_by_kind.items():
        if len(of_kind) != expected.get(kind, len(of_kind)):
            raise damaged_manifest(uri, f"expected {expected[kind]} {kind} rows, got {len(of_kind)}")
    return ManifestState(
        head=encoding.decode_head(next(rows_of("graph_head"))),
        schema=encoding.decode_schema(next(rows_of("schema"))),
        tables=tables,
        tombstones=tuple(map(encoding.decode_tombstone, rows_of("table_tombstone"))),
        branches=branches,
        rows=rows,
    )


def _explain_missing(root: Location, lance_branch: str | None, version: int | None) -> OmnigraphError:
    facts = {"uri": root.uri}
    names = ObjectStore(root).list_names()
    is_newest_of_main = lance_branch is None and version is None
    if MANIFEST in names and not is_newest_of_main:
        name = "the newest version" if version is None else f"version {version}"
        branch = "" if lance_branch is None else f" on the Lance branch {lance_branch}"
        return NotFoundError(
            f"{name} of the manifest at {root} does not exist{branch}",
            code="manifest_version_missing",
            hint=hint(
                "It was not published yet, or `cleanup` deleted it. Run {} to list readable commits.",
                action("commit list"),
            ),
            facts=facts,
        )
    if INIT_MARKERS in names:
        return NotFoundError(
            f"the graph at {root} is incomplete: its `init` was interrupted",
            code="init_unfinished",
            hint=hint("Run {} again. It deletes the files of the interrupted run.", action("init")),
            facts=facts,
        )
    if MANIFEST in names:
        return FormatError(
            f"the manifest of the graph at {root} is damaged: it has no version",
            code="manifest_damaged",
            hint="Restore the directory of the graph from a backup.",
            facts=facts,
        )
    if names:
        return NotFoundError(
            f"{root} is not an Omnigraph graph: it has no {MANIFEST}",
            code="not_a_graph",
            hint=_CREATE_HINT,
            facts=facts,
        )
    return NotFoundError(f"no graph at {root}", code="graph_missing", hint=_CREATE_HINT, facts=facts)


def damaged_manifest(uri: str, problem: str) -> FormatError:
    """Return the error for a manifest whose rows contradict each other."""
    return FormatError(
        f"{uri} is damaged: {problem}", code="manifest_damaged", hint=records.OLDER_VERSION_HINT, facts={"uri": uri}
    )
