"""`__manifest`, the only authority: open it, read it, find a commit in it. Nothing here writes.

In: a graph's location, a graph branch, a version. Out: a `Manifest` handle pinned to one version, and its
state. The stamp is read before anything else. The state leaves commits and recoveries aside, so that its cost
does not follow history.
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
from omnigraph.base.ids import CommitId, OperationId
from omnigraph.graph.manifest.encoding import (
    HEAD_OBJECT_ID,
    MANIFEST_SCHEMA,
    branch_object_id,
    commit_object_id,
    decode_branch,
    decode_commit,
    decode_head,
    decode_recovery,
    decode_schema,
    decode_tables,
    decode_tombstone,
    recovery_object_id,
)
from omnigraph.graph.manifest.layout import INIT_MARKERS, MANIFEST
from omnigraph.graph.manifest.records import (
    BranchRecord,
    CommitRecord,
    RecoveryRecord,
    SchemaRecord,
    StreamBatch,
    TableId,
    TableRecord,
    TombstoneRecord,
)
from omnigraph.graph.manifest.stamp import FORMAT, ROOT_KEY, Format, read_stamp
from omnigraph.storage.lance.dataset import Dataset, any_of, open_dataset, text_literal
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore

# A branch's manifest starts as a copy of its parent's, so the branch rows in it are old ones of main.
_BRANCH_STATE_KINDS: Final = ("table", "table_tombstone", "schema", "graph_head")
_MAIN: Final = "main"
_STATE_KINDS: Final = (*_BRANCH_STATE_KINDS, "branch")

FoundRow = Mapping[str, Any]
"""A row as read, by column."""


@dataclass(frozen=True, slots=True)
class ManifestState:
    """What one version of a manifest publishes. `branches` is filled on main's manifest only.

    `rows` are the rows it was read from, with their addresses, so that who replaces some need not look for them again.
    """

    head: CommitId
    schema: SchemaRecord
    tables: Mapping[TableId, TableRecord]
    tombstones: tuple[TombstoneRecord, ...]
    branches: Mapping[str, BranchRecord]
    rows: pa.Table | None = field(default=None, compare=False, repr=False)

    def live_tables(self) -> Mapping[TableId, TableRecord]:
        """The tables of the snapshot: those that no tombstone takes out."""
        gone = {stone.table for stone in self.tombstones if self._covers(stone)}
        return {key: table for key, table in self.tables.items() if key not in gone} if gone else self.tables

    def _covers(self, stone: TombstoneRecord) -> bool:
        table = self.tables.get(stone.table)
        return table is not None and table.pin.version >= stone.version


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest opened at one version. `stamp` is the branch's format stamp."""

    dataset: Dataset
    stamp: int

    @property
    def version(self) -> int:
        return self.dataset.version

    @property
    def root_uri(self) -> str:
        """Where the graph was created."""
        return self.dataset.metadata.get(ROOT_KEY, "")

    def read_state(self) -> ManifestState:
        """Everything a snapshot needs, in one scan."""
        return self.read_state_and(())[0]

    def read_state_and(self, object_ids: tuple[str, ...]) -> tuple[ManifestState, tuple[FoundRow, ...]]:
        """The state, and in the same scan those rows of `object_ids` that there are, with all their columns."""
        kinds = _STATE_KINDS if self.dataset.branch is None else _BRANCH_STATE_KINDS
        wanted = f" OR {any_of('object_id', object_ids)}" if object_ids else ""
        rows = self._read(None, any_of("object_type", kinds) + wanted, with_addresses=True)
        found = select_rows(rows, object_ids) if object_ids else ()
        return _decode_state(rows, kinds, self.dataset.uri), found

    def find_rows(self, object_ids: tuple[str, ...]) -> tuple[FoundRow, ...]:
        """The `object_id` and `metadata` of those rows of `object_ids` that there are."""
        if not object_ids:
            return ()
        rows = self._read(["object_id", "metadata"], any_of("object_id", object_ids))
        return select_rows(rows, object_ids)

    def read_head(self) -> CommitId:
        """The newest commit of this version."""
        rows = self.find_rows((HEAD_OBJECT_ID,))
        if len(rows) != 1:
            raise damaged_manifest(self.dataset.uri, f"{len(rows)} graph_head rows where 1 belongs")
        return decode_head(rows[0])

    def find_commit(self, commit: CommitId) -> CommitRecord | None:
        """The commit's row, if this version has it."""
        rows = self.find_rows((commit_object_id(commit),))
        return decode_commit(rows[0]) if rows else None

    def find_recovery(self, operation: OperationId) -> RecoveryRecord | None:
        """The audit row of a finished recovery, if this version has it."""
        rows = self.find_rows((recovery_object_id(operation),))
        return decode_recovery(rows[0]) if rows else None

    def read_commits(self) -> tuple[CommitRecord, ...]:
        """Every commit of this branch's lineage that the manifest holds, in no order."""
        return tuple(decode_commit(row) for row in self._rows_of("graph_commit"))

    def read_commit_ids(self) -> tuple[CommitId, ...]:
        """Their ids alone."""
        with _explained_damage(self._graph_uri):
            rows = self.dataset.read(["object_id"], "object_type = 'graph_commit'")
        start = len(commit_object_id(CommitId("")))
        return tuple(CommitId(str(found)[start:]) for found in rows.column("object_id").to_pylist())

    def read_history(
        self, known: Mapping[CommitId, CommitRecord]
    ) -> tuple[CommitId, tuple[CommitRecord, ...]]:
        """The head and every commit, in one read. Those that are known already are not decoded."""
        wanted = any_of("object_type", ("graph_head", "graph_commit"))
        rows = self._read(["object_id", "metadata"], wanted)
        there = {commit_object_id(commit): record for commit, record in known.items()}
        columns = (rows.column(name).to_pylist() for name in ("object_id", "metadata"))
        commits: list[CommitRecord] = []
        for object_id, metadata in zip(*columns, strict=True):
            if object_id in there:
                commits.append(there[object_id])
            elif object_id.startswith(commit_object_id(CommitId(""))):
                commits.append(decode_commit({"object_id": object_id, "metadata": metadata}))
        (head,) = select_rows(rows, (HEAD_OBJECT_ID,))
        return decode_head(head), tuple(commits)

    def read_commits_naming(self, text: str) -> tuple[CommitRecord, ...]:
        """The commits whose row has this text anywhere; only these are decoded."""
        with _explained_damage(self._graph_uri):
            rows = self.dataset.read(
                ["object_id", "metadata"],
                f"object_type = 'graph_commit' AND contains(metadata, {text_literal(text)})",
            )
        return tuple(decode_commit(row) for row in rows.to_pylist())

    def has_stream_batch(self, wanted: StreamBatch) -> bool:
        """Whether a commit is of this batch of its query or of a later one."""
        found = (commit.stream for commit in self.read_commits_naming(wanted.query))
        return any(
            batch is not None and batch.query == wanted.query and batch.batch >= wanted.batch
            for batch in found
        )

    def read_recoveries(self) -> tuple[RecoveryRecord, ...]:
        """Every finished recovery, in no order."""
        return tuple(decode_recovery(row) for row in self._rows_of("recovery"))

    def _rows_of(self, object_type: str) -> list[dict[str, Any]]:
        with _explained_damage(self._graph_uri):
            rows = self.dataset.read(["object_id", "metadata"], f"object_type = '{object_type}'")
        return rows.to_pylist()

    def _read(self, columns: list[str] | None, where: str, *, with_addresses: bool = False) -> pa.Table:
        """At least the rows of `where`. A small manifest is read whole: planning a filter costs more than its rows."""
        with _explained_damage(self._graph_uri):
            is_small = self.dataset.count_rows() <= limits.MANIFEST_WHOLE_READ_ROWS_MAX
            return self.dataset.read(columns, None if is_small else where, with_addresses=with_addresses)

    @property
    def _graph_uri(self) -> str:
        return self.dataset.location.uri.removesuffix(f"/{MANIFEST}")


def open_manifest(
    root: Location, *, lance_branch: str | None = None, version: int | None = None, rules: Format = FORMAT
) -> Manifest:
    """Open a manifest branch at its newest version or at the given one, and judge its stamp."""
    try:
        with _explained_damage(root.uri):
            dataset = open_dataset(root.child(MANIFEST), branch=lance_branch, version=version)
    except NotFoundError as missing:
        if missing.code == "object_missing":
            raise _explain_missing(root, lance_branch, version) from missing
        raise
    except StorageError as blocked:
        if blocked.code == "path_is_file" and (file := _file_in_the_way(root)) is not None:
            raise _explain_file(root, file) from blocked
        raise
    return Manifest(dataset, read_stamp(dataset, rules))


def _file_in_the_way(root: Location) -> Path | None:
    """The file that stands where the graph's directory, or one above it, would be."""
    place = Path(root.uri)
    return next((path for path in (place, *place.parents) if path.is_file()), None)


def _explain_file(root: Location, file: Path) -> NotFoundError:
    is_root = str(file) == root.uri
    return NotFoundError(
        f"{root} is a file, not a graph" if is_root else f"there is no graph at {root}: {file} is a file",
        code="not_a_graph" if is_root else "graph_missing",
        hint="check the path; a graph is a directory",
        facts={"uri": root.uri},
    )


@contextmanager
def _explained_damage(graph_uri: str) -> Iterator[None]:
    """Say of a broken file that it is the manifest's; what the library said of it stays in the facts."""
    try:
        yield
    except FormatError as broken:
        if broken.code != "dataset_unreadable":
            raise
        raise FormatError(
            f"the manifest of the graph at {graph_uri} is damaged: one of its files is corrupt, cut off or missing",
            code=broken.code,
            hint="restore the graph's directory from a backup; `--debug` shows what was found",
            facts={**broken.facts, "uri": graph_uri},
        ) from broken


def select_rows(rows: pa.Table, object_ids: tuple[str, ...]) -> tuple[FoundRow, ...]:
    """Those rows of `object_ids` that are among these."""
    ids = enumerate(rows.column("object_id").to_pylist())
    return tuple(rows.slice(index, 1).to_pylist()[0] for index, object_id in ids if object_id in object_ids)


class _Branches(Mapping[str, BranchRecord]):
    """The branches by name. A row is decoded when somebody asks for it: a commit needs one of a thousand."""

    def __init__(self, rows: Mapping[str, FoundRow]) -> None:
        self._rows = rows
        self._decoded: dict[str, BranchRecord] = {}

    def __getitem__(self, name: str) -> BranchRecord:
        if name not in self._decoded:
            self._decoded[name] = decode_branch(self._rows[name])
        return self._decoded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _read_branches(rows: pa.Table, uri: str) -> _Branches:
    found = rows.select(["object_id", "metadata"]).to_pylist()
    branches = {str(row["object_id"]).removeprefix(branch_object_id("")): row for row in found}
    if len(branches) != len(found):
        raise damaged_manifest(uri, f"{len(found)} branch rows where {len(branches)} belong")
    if _MAIN not in branches:
        raise damaged_manifest(uri, f"no {branch_object_id(_MAIN)} row")
    return _Branches(branches)


def _decode_state(rows: pa.Table, kinds: tuple[str, ...], uri: str) -> ManifestState:
    """The rows of these kinds as records. This is on the path of every read, so it works on whole columns."""
    names = MANIFEST_SCHEMA.names
    if missing := set(names) - set(rows.column_names):
        raise damaged_manifest(uri, f"no column {', '.join(sorted(missing))}")
    is_branch = pc.equal(rows.column("object_type"), pa.scalar("branch"))
    branches = _read_branches(rows.filter(is_branch), uri) if "branch" in kinds else {}
    others = rows.filter(pc.invert(is_branch))
    columns = [others.column(name).to_pylist() for name in names]
    found: dict[str, list[tuple[Any, ...]]] = {kind: [] for kind in kinds}
    for kind, values in zip(columns[names.index("object_type")], zip(*columns, strict=True), strict=True):
        if kind in found:
            found[kind].append(values)

    def of(kind: str) -> Iterator[FoundRow]:
        return (dict(zip(names, values, strict=True)) for values in found.get(kind, ()))

    tables = {table.id: table for table in decode_tables(found["table"])}
    expected = {"schema": 1, "graph_head": 1, "table": len(tables)}
    for kind, of_kind in found.items():
        if len(of_kind) != expected.get(kind, len(of_kind)):
            raise damaged_manifest(uri, f"{len(of_kind)} {kind} rows where {expected[kind]} belong")
    return ManifestState(
        head=decode_head(next(of("graph_head"))),
        schema=decode_schema(next(of("schema"))),
        tables=tables,
        tombstones=tuple(map(decode_tombstone, of("table_tombstone"))),
        branches=branches,
        rows=rows,
    )


def _explain_missing(root: Location, lance_branch: str | None, version: int | None) -> OmnigraphError:
    facts = {"uri": root.uri}
    names = ObjectStore(root).list_names()
    is_newest_of_main = lance_branch is None and version is None
    if MANIFEST in names and not is_newest_of_main:
        what = "the newest version" if version is None else f"version {version}"
        branch = "" if lance_branch is None else f" on the Lance branch {lance_branch}"
        return NotFoundError(
            f"{what} of the manifest at {root} is not there{branch}",
            code="manifest_version_missing",
            hint="it never was or has been collected; `omnigraph commit list` shows what can be read",
            facts=facts,
        )
    if INIT_MARKERS in names:
        return NotFoundError(
            f"the graph at {root} was never finished: its init was interrupted",
            code="init_unfinished",
            hint="run `omnigraph init` again; it removes what the interrupted one left",
            facts=facts,
        )
    if MANIFEST in names:
        return FormatError(
            f"the manifest of the graph at {root} is damaged: it has no version at all",
            code="manifest_damaged",
            hint="restore the graph's directory from a backup",
            facts=facts,
        )
    if names:
        return NotFoundError(
            f"{root} is not an Omnigraph graph: it has no {MANIFEST}",
            code="not_a_graph",
            hint="check the path; `omnigraph init --schema schema.pg URI` makes a new graph",
            facts=facts,
        )
    return NotFoundError(
        f"there is no graph at {root}",
        code="graph_missing",
        hint="check the path; `omnigraph init --schema schema.pg URI` makes a new graph",
        facts=facts,
    )


def damaged_manifest(uri: str, found: str) -> FormatError:
    """The error for a manifest that says impossible things."""
    return FormatError(
        f"{uri} is damaged: it has {found}",
        code="manifest_damaged",
        hint="open an older version with `omnigraph snapshot --version`, or restore the directory from a backup",
        facts={"uri": uri},
    )
