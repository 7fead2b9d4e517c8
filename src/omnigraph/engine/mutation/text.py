"""Mutations from their text.

In: text and parameters. Out: one commit, or none if nothing matched.

The text is checked against the schema of the snapshot on which it is staged. The time that `now()` means is fixed once,
even if the mutation is staged again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.display import Displayed
from omnigraph.base.errors import UsageError
from omnigraph.base.hints import action, hint
from omnigraph.engine.mutation.run import BoundMutation
from omnigraph.engine.mutation.stage import EntityCounts, MutationWriter, Prepare
from omnigraph.engine.options import NO_LIMITS, QueryLimits
from omnigraph.engine.prepare import QuerySource
from omnigraph.engine.run import gather_facts
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.lineage import require_full_id
from omnigraph.graph.manifest.records import CommitRecord, WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.query.checks.run import check_query
from omnigraph.query.parameters import bind_plan, coerce_params
from omnigraph.query.parser import parse_queries
from omnigraph.query.plan.statements import MutationPlan
from omnigraph.query.rules.run import rewrite_plan
from omnigraph.query.shapes import query_shape
from omnigraph.query.syntax import MutationBody
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationOptions:
    """Actor, branch, the commit that the branch must have, and the limits of the query."""

    actor: str
    branch: str = MAIN
    if_commit: str | None = None
    environment: WriteEnvironment | None = None
    limits: QueryLimits = NO_LIMITS


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class MutationResult(Displayed):
    """What a mutation did. A node or an edge counts once, however many statements changed it."""

    query_name: str
    """The name of the mutation in its text."""
    branch: str
    """The branch that was written to."""
    nodes: EntityCounts
    """How many nodes changed."""
    edges: EntityCounts
    """How many edges changed, including those that were deleted with their nodes."""
    actor: str
    """Who made the change."""
    commit: CommitRecord | None
    """The one commit, or None when nothing matched and nothing was written."""

    @property
    def affected_nodes(self) -> int:
        """All nodes that were inserted, updated or deleted."""
        return self.nodes.total

    @property
    def affected_edges(self) -> int:
        """All edges that were inserted, updated or deleted."""
        return self.edges.total

    def _summary(self) -> Mapping[str, object]:
        return {
            "query_name": self.query_name,
            "branch": self.branch,
            "nodes": self.nodes,
            "edges": self.edges,
            "actor": self.actor,
            "commit": None if self.commit is None else self.commit.id,
        }


def run_mutation_text(
    root: Location, source: QuerySource, params: Mapping[str, object] | None, options: MutationOptions
) -> MutationResult:
    """Run one mutation of a text as one commit."""
    clock = SYSTEM_CLOCK if options.environment is None else options.environment.clock
    now = datetime.fromtimestamp(clock.now_us() / 1_000_000, UTC)
    return mutate(root, lambda snapshot: bind_mutation(snapshot, source, params or {}, now), options)


def mutate(root: Location, prepare: Prepare, options: MutationOptions) -> MutationResult:
    """Run a mutation as one commit, or raise with nothing written; `prepare` is called for each snapshot."""
    if_commit = None if options.if_commit is None else require_full_id(options.if_commit)
    writer = MutationWriter(prepare=prepare, if_commit=if_commit, limits=options.limits)
    request = WriteRequest(
        kind=WriteOperation.MUTATE, actor=options.actor, stage=writer.stage, restage=writer.restage, is_short=True
    )
    commit = write(root, options.branch, request, options.environment)
    assert writer.mutation is not None, "a write is staged"
    return MutationResult(
        query_name=writer.mutation.plan.name,
        branch=options.branch,
        nodes=writer.nodes,
        edges=writer.edges,
        actor=options.actor,
        commit=commit,
    )


def bind_mutation(
    snapshot: Snapshot, source: QuerySource, params: Mapping[str, object], now: datetime
) -> BoundMutation:
    """Check the text against the schema of a snapshot, and plan it for the tables of the snapshot."""
    catalog = snapshot.schema.catalog
    checked = check_query(parse_queries(source.text, source.source), source.name, catalog)
    body = checked.query.body
    if not isinstance(body, MutationBody):
        raise UsageError(
            f"query '{checked.name}' is not a mutation",
            code="query_is_read",
            hint=hint("Run it with {}.", action("query")),
        )
    values = coerce_params(checked.plan.parameters, params)
    facts = gather_facts(snapshot, query_shape(checked, catalog).reads)
    plan = bind_plan(rewrite_plan(checked.plan, facts), values, now)
    assert isinstance(plan, MutationPlan), "its body is a mutation's"
    lines = tuple(statement.span.line for statement in body.statements)
    return BoundMutation(plan, lines, source.source)
