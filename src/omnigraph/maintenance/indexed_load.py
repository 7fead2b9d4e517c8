"""A load or an embed, and on request the indexes of its types, built directly after it as a commit of their own.

In: a planned load, or a request to embed. Out: a `LoadResult` or `EmbedResult`. If the index build fails the rows are
written: the error says so, with `applied: yes`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from omnigraph.base.display import Displayed, describe_rows
from omnigraph.base.errors import Applied, OmnigraphError, StorageError
from omnigraph.base.hints import Action, Hint, Value, action, hint
from omnigraph.base.ids import CommitId
from omnigraph.base.progress import log_event
from omnigraph.graph.manifest.records import CommitRecord
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.maintenance.optimize.options import IndexResult
from omnigraph.maintenance.optimize.plan import MaintenanceRequest
from omnigraph.maintenance.optimize.run import ensure_indices
from omnigraph.pipeline.embed.run import EmbedRequest, EmbedResult, embed
from omnigraph.pipeline.load.plan import LoadPlan, run_load
from omnigraph.pipeline.load.run import LoadCounts, Loaded
from omnigraph.pipeline.spark.auto import AutoRunner
from omnigraph.schema.tables import declared_indexes
from omnigraph.storage.location import Location

logger = logging.getLogger("omnigraph.load")


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class LoadResult(Displayed):
    """What a load did."""

    branch: str
    """The branch that was written to."""
    mode: str
    """`append`, `merge`, `patch` or `overwrite`."""
    counts: Mapping[str, int]
    """The rows of the input by the alias of their type, `node:Person` or `edge:Knows`."""
    actor: str
    """Who loaded."""
    commit: CommitRecord | None
    """The commit; None for a dry run and for an input without rows."""
    dry_run: bool = False
    """Whether the input was only checked."""
    branch_created: bool = False
    """Whether the load created its branch."""
    base_branch: str | None = None
    """The branch from which the load was to create its branch if that did not exist."""
    indexes: IndexResult | None = None
    """The indexes that were built directly after the load; None if that was not requested."""
    runner: str = "local"
    """Where the load ran: `local`, or `spark` and its master."""
    changes: Mapping[str, LoadCounts] = field(default_factory=dict)
    """What the load did with the rows of each type, by alias; what it would do, for a dry run."""
    unindexed: tuple[str, ...] = ()
    """The loaded types, by alias, whose declared indexes do not cover the new rows."""

    @property
    def total(self) -> int:
        """The number of rows of the input."""
        return sum(self.counts.values())

    def _summary(self) -> Mapping[str, object]:
        return {
            "branch": self.branch,
            "mode": f"{self.mode} (dry run)" if self.dry_run else self.mode,
            "commit": None if self.commit is None else self.commit.id,
            "total": f"{self.total:,}",
            **{alias: self._type_summary(alias) for alias in {**self.counts, **self.changes}},
        }

    def _type_summary(self, alias: str) -> str:
        """Return what happened to the rows of a type, as in `2 inserted, 1 unchanged`."""
        changes = self.changes.get(alias)
        if changes is None:
            return f"{self.counts[alias]:,}"
        return describe_rows(changes, dry_run=self.dry_run)


def load_with_indexes(plan: LoadPlan, *, build_indexes: bool = False) -> LoadResult:
    """Run a planned load, then build the declared indexes of the loaded types if that is requested."""
    started = time.monotonic()
    loaded, options = run_load(plan), plan.options
    log_event(
        logger,
        "checked" if options.dry_run else "loaded",
        branch=plan.branch,
        mode=options.mode,
        rows=dict(loaded.counts),
        commit=None if loaded.commit is None else loaded.commit.id,
        runner=options.runner.description,
        seconds=round(time.monotonic() - started, 3),
    )
    unindexed = _indexed_types(plan, loaded)
    indexes = None
    if build_indexes and unindexed:
        request = MaintenanceRequest(types=frozenset(unindexed), actor=options.actor)
        try:
            indexes = ensure_indices(plan.root, plan.branch, options.runner, request)
        except OmnigraphError as error:
            assert loaded.commit is not None, "only a commit is indexed"
            advice = hint("Do not load again. Run {} to build the indexes.", _optimize(loaded.commit.branch))
            raise _unindexed(
                error, loaded.commit.id, "the rows are loaded as", code="load_unindexed", hint=advice
            ) from error
    return LoadResult(
        branch=plan.branch,
        mode=options.mode,
        counts=loaded.counts,
        actor=options.actor,
        commit=loaded.commit,
        dry_run=options.dry_run,
        branch_created=loaded.branch_created,
        base_branch=options.base,
        indexes=indexes,
        runner=options.runner.description,
        changes=loaded.changes,
        unindexed=unindexed if indexes is None else (),
    )


def embed_with_indexes(
    root: Location, request: EmbedRequest, runner: AutoRunner, *, build_indexes: bool = False
) -> EmbedResult:
    """Fill vectors, then build the declared indexes of their types if that is requested."""
    result = embed(root, request, runner)
    names = {stats.type_name for stats in result.properties if stats.embedded}
    if not build_indexes or not result.commits:
        return result
    types = frozenset(
        entity.alias for entity in read_snapshot(root, request.branch).schema.catalog.types if entity.name in names
    )
    try:
        indexes = ensure_indices(root, request.branch, runner, MaintenanceRequest(types=types, actor=request.actor))
    except OmnigraphError as error:
        advice = hint("The vectors are committed. Run {} to build the indexes.", _optimize(request.branch))
        raise _unindexed(
            error, result.commits[-1], "the vectors are committed up to", code="embed_unindexed", hint=advice
        ) from error
    return replace(result, indexes=tuple(f"{row.table_key} {row.property}" for row in indexes.built))


def _indexed_types(plan: LoadPlan, loaded: Loaded) -> tuple[str, ...]:
    """Return the loaded types for which the schema declares indexes."""
    if loaded.commit is None:
        return ()
    types = read_snapshot(plan.root, plan.branch).schema.catalog.types
    return tuple(entity.alias for entity in types if loaded.counts.get(entity.alias) and declared_indexes(entity))


def _unindexed(error: OmnigraphError, commit: CommitId, written: str, *, code: str, hint: Hint) -> OmnigraphError:
    """Return the error of a failed index build, which says what is written as a commit."""
    failure = StorageError(
        f"{written} commit {commit}, but their indexes were not built: {error.message}",
        code=code,
        hint=hint,
        facts={**error.facts, "graph_commit_id": commit, "index_error_code": error.code},
    )
    failure.kind, failure.applied = error.kind, Applied.YES
    return failure


def _optimize(branch: str) -> Action:
    arguments: dict[str, Value] = {} if branch == MAIN else {"branch": branch}
    return action("optimize", **arguments)
