"""Values of `omnigraph.types` from the documents of a server. Pure: nothing here sends a request."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from omnigraph.base.decoding import convert
from omnigraph.base.ids import BranchId, CommitId, OperationId, SchemaHash
from omnigraph.graph.diff import ChangeKind, EntityChange
from omnigraph.graph.manifest.records import CommitRecord, Pin, TableId, TableMove, WriteOperation
from omnigraph.pipeline.load.run import LoadCounts
from omnigraph.query.explain import ExplainedStep, StepFigures

if TYPE_CHECKING:
    from omnigraph.wire.changes import EntityChangeOutput, EntityStateOutput
    from omnigraph.wire.commits import CommitOutput, PinOutput
    from omnigraph.wire.results import LoadedTypeOutput

_KINDS: Final = {"insert": ChangeKind.INSERTED, "update": ChangeKind.UPDATED, "delete": ChangeKind.DELETED}


def load_counts_value(loaded: LoadedTypeOutput) -> LoadCounts:
    """Return what a load did with the rows of a type."""
    return convert(
        {name: value for name, value in msgspec.to_builtins(loaded).items() if name not in ("name", "entities_loaded")},
        LoadCounts,
    )


def commit_value(document: CommitOutput) -> CommitRecord:
    """Return a commit. A server does not say its `branch_id` and `operation_id`."""
    return CommitRecord(
        id=CommitId(document.graph_commit_id),
        parent=None if document.parent_commit_id is None else CommitId(document.parent_commit_id),
        merged_parent=None if document.merged_parent_commit_id is None else CommitId(document.merged_parent_commit_id),
        branch=document.graph_branch,
        branch_id=BranchId(""),
        actor=document.actor_id,
        operation=WriteOperation(document.operation),
        operation_id=OperationId(""),
        created_us=document.created_at,
        manifest_hint=Pin(None, document.graph_manifest_version),
        tables=tuple(
            TableMove(TableId(move.table_id), _pin(move.before), _pin(move.after)) for move in document.tables
        ),
        counts=document.counts,
        schema_hash=SchemaHash(""),
    )


def _pin(document: PinOutput | None) -> Pin | None:
    return None if document is None else Pin(document.branch, document.version)


def explained_step_value(document: dict[str, Any]) -> ExplainedStep:
    """Return a step of an explanation."""
    figures = {name: value for name, value in document.items() if name not in ("number", "depth", "step")}
    return ExplainedStep(document["number"], document["depth"], document["step"], convert(figures, StepFigures))


def change_value(document: EntityChangeOutput) -> EntityChange:
    """Return a changed entity. A server does not say its `wide_properties`."""
    states = [
        None if isinstance(state, msgspec.UnsetType) else _entity(document, state)
        for state in (document.before, document.after)
    ]
    properties = next(
        tuple(state.properties)
        for state in (document.after, document.before)
        if not isinstance(state, msgspec.UnsetType)
    )
    return EntityChange(
        table=f"{document.kind}:{document.type.name}",
        table_id=document.type.id,
        id=document.id,
        kind=_KINDS[document.op],
        before=states[0],
        after=states[1],
        properties=properties,
    )


def _entity(document: EntityChangeOutput, state: EntityStateOutput) -> dict[str, Any]:
    """Return an entity as an object that `load` reads."""
    values = {name: value for name, value in state.properties.items() if value is not None}
    data = {"id": document.id, **values}
    if isinstance(state.endpoints, msgspec.UnsetType):
        return {"type": document.type.name, "data": data}
    return {"edge": document.type.name, "from": state.endpoints.source, "to": state.endpoints.target, "data": data}


def to_arrow(values: list[Any], kind: Any) -> Any:
    """Return JSON values as an Arrow array. Times and numbers that JSON has as text are parsed."""
    if pa.types.is_struct(kind):
        members = [
            to_arrow([None if value is None else value.get(member.name) for value in values], member.type)
            for member in kind
        ]
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        if pa.types.is_struct(kind.value_type):
            offsets = pa.array([0, *accumulate(len(value or ()) for value in values)], pa.int32())
            items = to_arrow([item for value in values for item in value or ()], kind.value_type)
            return pa.ListArray.from_arrays(
                offsets, items, type=kind, mask=pa.array([value is None for value in values])
            )
        if not _is_text_in_json(kind.value_type):
            return pa.array(values, kind)
        texts = pa.array(values, pa.list_(pa.utf8()))
        return texts.cast(kind)
    if _is_text_in_json(kind):
        return pa.array(values, pa.utf8()).cast(kind)
    return pa.array(values, kind)


def _is_text_in_json(kind: Any) -> bool:
    return bool(pa.types.is_temporal(kind) or pa.types.is_decimal(kind) or pa.types.is_binary(kind))
