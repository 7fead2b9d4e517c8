"""`Graph.plan_schema` and `Graph.apply_schema`: the way to another schema, shown or taken.

In: the text of the desired schema. Out: a plan, or what was done as one commit. Large tables are worked on by Spark,
which starts only for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.api.arguments import checked_methods

if TYPE_CHECKING:
    from omnigraph.base.progress import Report
    from omnigraph.graph.schema_plan import SchemaPlan
    from omnigraph.graph.snapshot import Snapshot
    from omnigraph.maintenance.schema_apply import SchemaApplied
    from omnigraph.storage.location import Location


@checked_methods
class SchemaMethods:
    """The methods of a graph that are about its schema."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def location(self) -> Location: ...

        @property
        def branch_name(self) -> str: ...

        def snapshot(self) -> Snapshot: ...

        def refuse_if_read_only(self) -> None: ...

        def _writer(self, named: str | None) -> str: ...

    def plan_schema(
        self, schema: str, *, allow_data_loss: bool = False, source_name: str = "<schema>"
    ) -> SchemaPlan:
        """What it takes to bring the branch to this `.pg` schema: steps with their costs, and what is refused.

        `allow_data_loss`: what is dropped goes for good. `source_name` is what errors in the text call it.
        """
        from omnigraph.graph.schema_plan import plan_schema

        return plan_schema(self.snapshot(), schema, source_name=source_name, hard=allow_data_loss)

    def apply_schema(  # noqa: PLR0913  # a program names what it wants
        self,
        schema: str,
        *,
        actor: str | None = None,
        allow_data_loss: bool = False,
        source_name: str = "<schema>",
        spark_master: str | None = None,
        report: Report | None = None,
    ) -> SchemaApplied:
        """Bring the branch to this `.pg` schema as one commit, or raise with nothing written.

        New rules are checked against the rows first. What is dropped can be read at earlier commits until cleanup; with
        `allow_data_loss` its values are in no file of the new commit, and the next cleanup removes the earlier ones.
        Large tables are worked on by Spark.
        """
        self.refuse_if_read_only()
        from omnigraph.graph.recovery.on_open import recover_on_open
        from omnigraph.maintenance.schema_apply import SchemaRequest, apply_schema
        from omnigraph.pipeline.spark_runner import on_master

        request = SchemaRequest(schema, self._writer(actor), source_name, allow_data_loss)
        recover_on_open(self.location, self.branch_name)
        return apply_schema(self.location, self.branch_name, request, on_master(spark_master, report))
