"""The part of `Graph` that keeps its tables healthy: optimize, ensuring indexes, repair, and looking at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.api.arguments import checked_methods
from omnigraph.base.errors import UsageError
from omnigraph.base.process import login_name

if TYPE_CHECKING:
    from omnigraph.base.progress import Report
    from omnigraph.maintenance.health import Finding
    from omnigraph.maintenance.index_outcome import IndexOutcome
    from omnigraph.maintenance.index_status import IndexCoverage
    from omnigraph.maintenance.optimize_stats import TableOptimizeStats
    from omnigraph.maintenance.repair_outcome import TableRepairStats
    from omnigraph.storage.location import Location


@checked_methods
class Maintained:
    """What keeps the tables of a graph healthy."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def location(self) -> Location: ...

        @property
        def branch_name(self) -> str: ...

        @property
        def read_only(self) -> bool: ...

        @property
        def actor(self) -> str | None: ...

    def optimize(  # noqa: PLR0913  # a program names what it wants
        self,
        *,
        tables: tuple[str, ...] = (),
        dry_run: bool = False,
        partial_progress: bool = False,
        max_rows_per_task: int | None = None,
        max_tasks: int | None = None,
        spark_master: str | None = None,
        report: Report | None = None,
    ) -> list[TableOptimizeStats]:
        """Compact the tables of the branch, fold and build their indexes, as at most one commit that changes no row.

        `tables` are types by name or alias, all unless given. `dry_run` only plans. `partial_progress` commits groups
        of tasks as they finish. The bounds are for one task and for the run. One row per table, then `__manifest`.
        Writes that stopped, on any branch, are recovered first.
        """
        if not dry_run:
            self.refuse_if_read_only()
        from omnigraph.graph.recovery.on_open import recover_every_branch
        from omnigraph.maintenance.optimize import OptimizeOptions, optimize_all_tables
        from omnigraph.pipeline.spark_runner import on_master

        options = OptimizeOptions(
            tables=frozenset(tables) or None,
            dry_run=dry_run,
            partial_progress=partial_progress,
            rows_per_task=max_rows_per_task,
            tasks_max=max_tasks,
        )
        options.refuse_nonsense()
        if not dry_run:
            recover_every_branch(self.location)
        return optimize_all_tables(self, options, on_master(spark_master, report))

    def ensure_indices(
        self, *, tables: tuple[str, ...] = (), spark_master: str | None = None, report: Report | None = None
    ) -> IndexOutcome:
        """Build the declared indexes that tables lack, as at most one commit; one row per declared index."""
        self.refuse_if_read_only()
        from omnigraph.maintenance.ensure_indices import IndexOptions, ensure_indices
        from omnigraph.pipeline.spark_runner import on_master

        options, workers = IndexOptions(frozenset(tables) or None), on_master(spark_master, report)
        return ensure_indices(self.location, self.branch_name, workers, options)

    def doctor(self, *, deep: bool = False) -> list[Finding]:
        """Everything about the graph and this machine in one go, each finding with the command that helps.

        `deep` also opens each data file and index, and looks for edges without nodes in large tables.
        """
        from omnigraph.maintenance.doctor import examine

        return examine(self, deep=deep)

    def index_status(self) -> list[IndexCoverage]:
        """How well the declared indexes cover the tables of the branch, and which columns have none."""
        from omnigraph.maintenance.index_status import index_status

        return index_status(self, self.branch_name)

    def repair(
        self, *, confirm: bool = False, force: bool = False, discard: bool = False
    ) -> list[TableRepairStats]:
        """Look at what foreign tools did to the tables of every branch; with `confirm`, put it right.

        `force` publishes what is not known to be harmless, `discard` drops it. One row per table and branch. With
        `confirm`, writes that stopped, on any branch, are recovered first.
        """
        if confirm:
            self.refuse_if_read_only()
        from omnigraph.graph.recovery.on_open import recover_every_branch
        from omnigraph.maintenance.repair import repair_all_tables
        from omnigraph.maintenance.repair_outcome import RepairOptions

        options = RepairOptions(confirm, force, discard)
        options.refuse_contradiction()
        if confirm:
            recover_every_branch(self.location)
        return repair_all_tables(self, options)

    def refuse_if_read_only(self) -> None:
        """Raise when the graph was opened for reading only."""
        if self.read_only:
            raise UsageError(
                "the graph is open for reading only", code="graph_read_only", hint="open it without read_only"
            )

    def _writer(self, named: str | None) -> str:
        """Who writes: whom a call names, or whom the graph was opened by, or the login name."""
        return named or self.actor or login_name()
