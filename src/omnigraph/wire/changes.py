"""The JSON documents of changed entities: those of one commit, of a feed, and between two states.

A type is named by `id`, which is its table id: it never changes, and no other type gets it. `authored_at` is in
microseconds since the epoch. A member that is omitted when it has no value is `UNSET`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from omnigraph.wire.results import feed_step_output

if TYPE_CHECKING:
    from omnigraph.types import CommitChanges, CommitRecord, EntityChange

_OPERATIONS: Final = {"inserted": "insert", "updated": "update", "deleted": "delete"}


class EntityTypeOutput(msgspec.Struct, frozen=True):
    """The type of an entity."""

    id: str
    name: str


class EndpointsOutput(msgspec.Struct, frozen=True, rename={"source": "from", "target": "to"}):
    """The ids of the nodes of an edge."""

    source: str
    target: str


class EntityStateOutput(msgspec.Struct, frozen=True):
    """An entity before or after a change, with every property of its type. An edge also has its endpoints."""

    properties: dict[str, Any]
    endpoints: EndpointsOutput | msgspec.UnsetType = msgspec.UNSET


class EntityChangeOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A node or an edge that changed."""

    kind: str
    type: EntityTypeOutput
    id: str
    op: str
    before: EntityStateOutput | msgspec.UnsetType = msgspec.UNSET
    after: EntityStateOutput | msgspec.UnsetType = msgspec.UNSET


class ChangeCauseOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The commit that made changes."""

    graph_commit_id: str
    parent_commit_id: str | msgspec.UnsetType = msgspec.UNSET
    merged_parent_commit_id: str | msgspec.UnsetType = msgspec.UNSET
    authored_branch: str
    actor_id: str
    authored_at: int
    operation: str


class ChangeBlockOutput(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of a feed: its schema steps, if it has any, and its changes."""

    cause: ChangeCauseOutput
    schema_steps: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    changes: list[EntityChangeOutput]


class ChangeFeedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Commits of a branch after a cursor, oldest first. `caught_up` is present if there are no more.

    A page has a cursor, or the token of the next page.
    """

    cursor: str | msgspec.UnsetType = msgspec.UNSET
    caught_up: bool | msgspec.UnsetType = msgspec.UNSET
    blocks: list[ChangeBlockOutput]
    next_page_token: str | msgspec.UnsetType = msgspec.UNSET


class CommitChangesOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one commit compared with its first parent."""

    cause: ChangeCauseOutput
    changes: list[EntityChangeOutput]
    next_page_token: str | msgspec.UnsetType = msgspec.UNSET


class DiffOutput(msgspec.Struct, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}):
    """The changes from one commit to another."""

    before: str
    after: str
    changes: list[EntityChangeOutput]
    next_page_token: str | msgspec.UnsetType = msgspec.UNSET


def entity_change_output(change: EntityChange, *, wide_as_text: bool = False) -> EntityChangeOutput:
    """Return the document of a changed entity; with `wide_as_text`, 64-bit integers are text."""
    wide = change.wide_properties if wide_as_text else frozenset()
    kind, _, type_name = change.table.partition(":")
    return EntityChangeOutput(
        kind=kind,
        type=EntityTypeOutput(change.table_id, type_name),
        id=change.id,
        op=_OPERATIONS[change.kind.value],
        before=_state_output(change.before, change.properties, wide),
        after=_state_output(change.after, change.properties, wide),
    )


def block_output(commit_changes: CommitChanges) -> ChangeBlockOutput:
    """Return the document of a commit of a feed without its changes, which are read later."""
    steps = [feed_step_output(step) for step in commit_changes.schema_steps]
    return ChangeBlockOutput(cause=cause_output(commit_changes.commit), schema_steps=steps or msgspec.UNSET, changes=[])


def cause_output(commit: CommitRecord) -> ChangeCauseOutput:
    """Return the document of the commit that made changes."""
    return ChangeCauseOutput(
        graph_commit_id=commit.id,
        parent_commit_id=commit.parent or msgspec.UNSET,
        merged_parent_commit_id=commit.merged_parent or msgspec.UNSET,
        authored_branch=commit.branch,
        actor_id=commit.actor,
        authored_at=commit.created_us,
        operation=commit.operation.value,
    )


def _state_output(
    entity: dict[str, Any] | None, properties: tuple[str, ...], wide: frozenset[str]
) -> EntityStateOutput | msgspec.UnsetType:
    if entity is None:
        return msgspec.UNSET
    values = {name: entity["data"].get(name) for name in properties}
    values.update({name: _as_text(values[name]) for name in wide})
    return EntityStateOutput(
        values, EndpointsOutput(entity["from"], entity["to"]) if "from" in entity else msgspec.UNSET
    )


def _as_text(value: Any) -> Any:
    """Return an integer as text, and a list of them as a list of texts."""
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    return str(value) if isinstance(value, int) else value
