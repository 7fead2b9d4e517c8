"""Merges and reverts as callers ask for them: sides and decisions as text come in, one commit or all conflicts go out.

A decision about an entity that is in no conflict is an error, raised before anything is written: it is a typing error,
or it is about a conflict that no longer exists. Interrupted writes to the branch are recovered first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.base.hints import Argument, hint
from omnigraph.graph.merge.conflicts import ConflictKind, EntityName, Side
from omnigraph.graph.merge.plan import Resolution
from omnigraph.graph.merge.run import MergeOutcome, MergeRequest, MergeResult, merge_branch, revert_commit
from omnigraph.graph.recovery.run import recover_on_open
from omnigraph.schema.catalog import Catalog, type_alias
from omnigraph.storage.location import Location

_NAMED_MAX: Final = 10


def run_merge(root: Location, request: MergeRequest) -> MergeResult:
    """Merge a branch, or a commit of one, into a branch as one commit."""
    return _run(root, request, merge_branch)


def run_revert(root: Location, request: MergeRequest) -> MergeResult:
    """Undo what a commit changed compared with its first parent, as a new commit."""
    return _run(root, request, revert_commit)


def _run(
    root: Location, request: MergeRequest, operation: Callable[[Location, MergeRequest], MergeResult]
) -> MergeResult:
    if not request.dry_run:
        recover_on_open(root, request.target)

    def preview(resolution: Resolution) -> MergeResult:
        return operation(root, replace(request, resolution=resolution, dry_run=True))

    _reject_unused_decisions(preview, request.resolution)
    return operation(root, request)


def make_resolution(
    strategy: str | Mapping[str, str] | None,
    resolve: Mapping[tuple[str, str], str] | None,
    read_catalog: Callable[[], Catalog] = Catalog,
) -> Resolution:
    """Return how to resolve conflicts: a side for all kinds or for each kind, and a side for single entities.

    `read_catalog` returns the types of the target; it is called only for decisions about entities.
    """
    catalog = read_catalog() if resolve else Catalog()
    kinds = {kind.value: strategy for kind in ConflictKind} if isinstance(strategy, str) else strategy or {}
    return Resolution(
        {
            EntityName(_table_name(table, catalog), entity_id): _parse_side(side)
            for (table, entity_id), side in (resolve or {}).items()
        },
        {_parse_kind(kind): _parse_side(side) for kind, side in kinds.items()},
    )


def _reject_unused_decisions(preview: Callable[[Resolution], MergeResult], resolution: Resolution) -> None:
    """Raise for decisions about entities that are in no conflict."""
    # A decision can cause a conflict of another entity, which a later decision is about: the nodes of a taken edge are
    # taken too. So decisions are added to the preview until no more of them are in a conflict. Each round reads the
    # changes of both sides. There are usually two rounds, at most one per decision, and none without decisions.
    unused = set(resolution.entities)
    trial = Resolution()
    while unused:
        result = preview(trial)
        if result.outcome is MergeOutcome.ALREADY_UP_TO_DATE or any(
            conflict.entity is None for conflict in result.conflicts
        ):
            return  # there is nothing to decide, or another error has to be reported first
        unused -= {
            name
            for conflict in result.conflicts
            for name in (conflict.entity, *conflict.ours, *conflict.theirs)
            if name
        }
        decided = {name: side for name, side in resolution.entities.items() if name not in unused}
        next_trial = Resolution(decided, resolution.kinds)
        if next_trial == trial:
            break
        trial = next_trial
    if unused:
        names = sorted(f"{name.table} {name.id}" for name in unused)
        more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
        raise UsageError(
            f"unused decisions: these entities have no conflict: {', '.join(names[:_NAMED_MAX])}{more}",
            code="merge_decisions",
            hint=hint("Remove these decisions. Pass {} to list the conflicts.", Argument("dry_run")),
            facts={"entities": [*names]},
        )


def _table_name(name: str, catalog: Catalog) -> str:
    """Return the alias of a type; one that the target lacks can be a type of the source."""
    kind, _, rest = name.partition(":")
    if ":" in rest and name.startswith(("node:", "edge:")):
        name = type_alias(kind, rest)  # a decision of the command line or a server: its kind, then a name or alias
    try:
        return catalog.require_type(name).alias
    except NotFoundError:
        if name.startswith(("node:", "edge:")):
            return name  # if no conflict has it, the decision is rejected as unused
        raise


def _parse_kind(name: str) -> ConflictKind:
    try:
        return ConflictKind(name)
    except ValueError:
        raise UsageError(
            f"unknown kind of conflict: '{name}'",
            code="merge_strategy",
            hint=f"Use one of {', '.join(ConflictKind)}.",
            facts={"conflict_kind": name},
        ) from None


def _parse_side(name: str) -> Side:
    try:
        return Side(name)
    except ValueError:
        raise UsageError(
            f"unknown side of a merge: expected 'ours' or 'theirs', got '{name}'",
            code="merge_strategy",
            hint="Use 'ours' for the state of the target, 'theirs' for the state of the source.",
            facts={"side": name},
        ) from None
