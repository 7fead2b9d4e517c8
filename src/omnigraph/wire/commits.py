"""The JSON documents of commits, snapshots and branches, as `--json` prints them and HTTP sends them.

Scripts rely on them: later releases only add members. `created_at` is in microseconds since the epoch; `created` is the
same time as text, as `--at` takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from omnigraph.base.clock import format_timestamp
from omnigraph.schema.catalog import display_order

if TYPE_CHECKING:
    from omnigraph.api.history import CommitHistory, GraphLog, TableNames
    from omnigraph.base.ids import CommitId
    from omnigraph.types import BranchRecord, BranchStatus, CommitRecord, Pin, Snapshot


class PinOutput(msgspec.Struct, frozen=True):
    """A published version of a Lance dataset."""

    branch: str | None
    version: int


class TableMoveOutput(msgspec.Struct, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}):
    """A table that a commit changed."""

    table_id: str
    table_key: str | None
    before: PinOutput | None
    after: PinOutput | None


class CommitOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A commit. `readable`: whether `cleanup` kept its data, which a log does not say."""

    graph_commit_id: str
    graph_branch: str
    graph_manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str
    created_at: int
    created: str
    operation: str
    counts: Mapping[str, int]
    tables: list[TableMoveOutput]
    readable: bool | msgspec.UnsetType = msgspec.UNSET


class CommitListOutput(msgspec.Struct, frozen=True):
    """The commits of a branch, newest first."""

    graph_branch: str
    commits: list[CommitOutput]


class LogOutput(msgspec.Struct, frozen=True):
    """The commits of all branches, newest first, and the newest commit of each branch; null if it is not readable."""

    heads: Mapping[str, str | None]
    commits: list[CommitOutput]
    next_page_token: str | msgspec.UnsetType = msgspec.UNSET


class DatasetOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The dataset of a type, as a snapshot publishes it."""

    table_key: str
    entity_kind: str
    type_name: str
    dataset_path: str
    published_dataset_version: int
    native_dataset_branch: str | None
    entity_count: int


class SnapshotOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What one manifest version publishes."""

    graph_branch: str
    graph_commit_id: str
    graph_manifest_version: int
    internal_schema_version: int
    schema_hash: str
    datasets: list[DatasetOutput]


class SchemaOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The schema of a state: its text, and the catalog that was created from it."""

    graph_branch: str
    graph_commit_id: str
    schema_hash: str
    schema_source: str
    catalog: dict[str, Any]


class BranchOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A branch, its newest commit, and its distance from main."""

    name: str
    branch_id: str
    parent_branch: str | None
    parent_commit_id: str | None
    actor_id: str
    created_at: int
    created: str
    graph_commit_id: str | None
    committed_at: int | None
    committed: str | None
    ahead: int | None
    behind: int | None
    readable: bool
    error: str | None
    protected: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether the policy of a server protects the branch. Omitted without a policy."""


class BranchListOutput(msgspec.Struct, frozen=True):
    """The names of all branches, and each branch in detail."""

    branches: list[str]
    details: list[BranchOutput]


class BranchCreateOutput(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from"}):
    """A branch that was created."""

    uri: str
    source: str
    name: str
    actor_id: str
    branch_id: str
    parent_commit_id: str | None
    created_at: int
    created: str


class BranchDeleteOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A branch that was deleted."""

    uri: str
    name: str
    actor_id: str | None
    branch_id: str


def snapshot_output(snapshot: Snapshot) -> SnapshotOutput:
    """Return the document of a snapshot: nodes before edges, each by name."""
    tables = sorted(snapshot.tables.items(), key=lambda entry: display_order(entry[0]))
    return SnapshotOutput(
        graph_branch=snapshot.branch.name,
        graph_commit_id=snapshot.head,
        graph_manifest_version=snapshot.version,
        internal_schema_version=snapshot.stamp,
        schema_hash=snapshot.schema.hash,
        datasets=[
            DatasetOutput(
                table_key=alias,
                entity_kind=alias.partition(":")[0],
                type_name=alias.partition(":")[2],
                dataset_path=table.path,
                published_dataset_version=table.pin.version,
                native_dataset_branch=table.pin.branch,
                entity_count=table.row_count,
            )
            for alias, table in tables
        ],
    )


def init_output(snapshot: Snapshot) -> dict[str, Any]:
    """Return the document of a new graph: its location, and its first snapshot."""
    return {"uri": snapshot.root.uri, **msgspec.to_builtins(snapshot_output(snapshot))}


def schema_output(snapshot: Snapshot) -> SchemaOutput:
    """Return the document of the schema of a snapshot."""
    return SchemaOutput(
        graph_branch=snapshot.branch.name,
        graph_commit_id=snapshot.head,
        schema_hash=snapshot.schema.hash,
        schema_source=snapshot.schema.source,
        catalog=msgspec.json.decode(snapshot.schema.catalog_json),
    )


def commit_output(commit: CommitRecord, names: TableNames, *, readable: bool | None = None) -> CommitOutput:
    """Return the document of a commit."""
    return CommitOutput(
        graph_commit_id=commit.id,
        graph_branch=commit.branch,
        graph_manifest_version=commit.manifest_hint.version,
        parent_commit_id=commit.parent,
        merged_parent_commit_id=commit.merged_parent,
        actor_id=commit.actor,
        created_at=commit.created_us,
        created=format_timestamp(commit.created_us),
        operation=commit.operation.value,
        counts=dict(commit.counts),
        tables=[
            TableMoveOutput(
                table_id=move.table,
                table_key=names.get(move.table),
                before=_pin_output(move.before),
                after=_pin_output(move.after),
            )
            for move in sorted(commit.tables, key=lambda move: display_order(names.get(move.table, "")))
        ],
        readable=msgspec.UNSET if readable is None else readable,
    )


def new_commit_output(commit: CommitRecord | None, names: TableNames) -> CommitOutput | None:
    """Return the document of a commit that was just created; None if nothing was written."""
    return None if commit is None else commit_output(commit, names, readable=True)


def commit_outputs(history: CommitHistory) -> list[CommitOutput]:
    """Return the documents of commits of a branch, with whether they are readable."""
    return [
        commit_output(commit, history.table_names, readable=commit.id in history.readable) for commit in history.commits
    ]


def log_output(log: GraphLog, names: Mapping[CommitId, TableNames]) -> LogOutput:
    """Return the document of a log, with the commits that have names of tables."""
    return LogOutput(
        log.heads, [commit_output(commit, names[commit.id]) for commit in log.commits if commit.id in names]
    )


def branch_list_output(statuses: Sequence[BranchStatus]) -> BranchListOutput:
    """Return the document of all branches."""
    return BranchListOutput(
        sorted(status.record.name for status in statuses), [_branch_output(status) for status in statuses]
    )


def with_protection(document: BranchListOutput, is_protected: Callable[[str], bool]) -> BranchListOutput:
    """Return the document of all branches, with what a policy protects."""
    details = [msgspec.structs.replace(row, protected=is_protected(row.name)) for row in document.details]
    return BranchListOutput(document.branches, details)


def branch_create_output(uri: str, source: str, record: BranchRecord) -> BranchCreateOutput:
    """Return the document of a branch that was created from `source`."""
    return BranchCreateOutput(
        uri=uri,
        source=source,
        name=record.name,
        actor_id=record.creator,
        branch_id=record.id,
        parent_commit_id=None if record.parent is None else record.parent.commit,
        created_at=record.created_us,
        created=format_timestamp(record.created_us),
    )


def branch_delete_output(uri: str, record: BranchRecord, actor: str | None = None) -> BranchDeleteOutput:
    """Return the document of a branch that an actor deleted, if it is known who."""
    return BranchDeleteOutput(uri=uri, name=record.name, actor_id=actor, branch_id=record.id)


def _branch_output(status: BranchStatus) -> BranchOutput:
    record, head = status.record, status.head
    return BranchOutput(
        name=record.name,
        branch_id=record.id,
        parent_branch=None if record.parent is None else record.parent.branch,
        parent_commit_id=None if record.parent is None else record.parent.commit,
        actor_id=record.creator,
        created_at=record.created_us,
        created=format_timestamp(record.created_us),
        graph_commit_id=None if head is None else head.id,
        committed_at=None if head is None else head.created_us,
        committed=None if head is None else format_timestamp(head.created_us),
        ahead=status.ahead,
        behind=status.behind,
        readable=status.is_readable,
        error=status.error or None,
    )


def _pin_output(pin: Pin | None) -> PinOutput | None:
    return None if pin is None else PinOutput(pin.branch, pin.version)
