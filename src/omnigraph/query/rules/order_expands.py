"""Turns every pattern into scans, traversals, lookups and joins, in a good order.

Greedy and the same every time: begin where the fewest rows are expected, then always follow the traversal that is
expected to leave the fewest; a traversal may be followed from either end, which gives the same pairs, because the
shortest distance is the same both ways. Parts that nothing connects are joined at the end, by equality where a
condition asks for it. Ties go by the order of the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.query.plan.estimates import fan_out, filtered_rows, rows_of, selectivity
from omnigraph.query.plan.expression_walk import entities_of, split_filter
from omnigraph.query.plan.expressions import ColumnRef, Compare, Expr, names
from omnigraph.query.plan.operators import (
    CrossJoin,
    EdgeExpand,
    EdgeScan,
    Expand,
    ExpandInto,
    FilterRows,
    Link,
    Lookup,
    Pattern,
    Scan,
    Unit,
)
from omnigraph.query.plan.statements import Relation
from omnigraph.query.plan.types import Entity, PlanFacts
from omnigraph.query.plan.walk import rewritten_plan
from omnigraph.query.syntax import ComparisonOperator


def order_expands(root: Relation, facts: PlanFacts) -> Relation:
    """The rule."""
    return rewritten_plan(
        root, lambda relation: _Ordering(relation, facts).run() if isinstance(relation, Pattern) else relation
    )


@dataclass(slots=True)
class _Ordering:
    """What of one pattern is still to be done. Conditions leave `filters` when a step has taken them."""

    pattern: Pattern
    facts: PlanFacts
    entities: dict[str, Entity] = field(init=False)
    links: list[Link] = field(init=False)
    filters: list[Expr] = field(init=False)

    def __post_init__(self) -> None:
        self.entities = {entity.name: entity for entity in self.pattern.entities}
        self.links = list(self.pattern.links)
        self.filters = list(self.pattern.filters)

    def run(self) -> Relation:
        plan = self.pattern.input
        if plan is not None:
            plan = self._grown(plan)
        while self.entities:
            plan = self._joined(plan, self._grown(self._start()))
        return self._filtered(plan or Unit())

    def _start(self) -> Relation:
        """The leaf that gives the fewest rows: a scan of nodes, or of the edges when the edge is bound."""
        nodes = list(self.entities.values())
        node = min(nodes, key=lambda entity: filtered_rows(entity, self._own(entity), self.facts))
        rows = filtered_rows(node, self._own(node), self.facts)
        for link in self.links:
            if link.edge and self._is_unbound(link):
                followed = rows * fan_out(link, link.source, self.facts)
                if filtered_rows(link.edge, self._own(link.edge), self.facts) <= followed:
                    return self._edge_scan(link, link.edge)
        del self.entities[node.name]
        return Scan(node, node.table.column_names, split_filter(self._take(node)))

    def _is_unbound(self, link: Link) -> bool:
        return {link.source.name, link.target.name} <= self.entities.keys() and link.source != link.target

    def _edge_scan(self, link: Link, edge: Entity) -> Relation:
        self.links.remove(link)
        columns = edge.table.column_names
        scanned: Relation = EdgeScan(
            edge, link.source, link.target, columns, link.undirected, split_filter(self._take(edge))
        )
        for end in (link.source, link.target):
            del self.entities[end.name]
            scanned = self._looked_up(scanned, end)
        return scanned

    def _grown(self, plan: Relation) -> Relation:
        """The plan with every link followed that can be reached from it."""
        plan = self._filtered(plan)
        while link := self._next(plan):
            self.links.remove(link)
            plan = self._filtered(self._followed(plan, link))
        return plan

    def _next(self, plan: Relation) -> Link | None:
        """A link between two bound ends first, since it only takes rows away; then the one that adds the fewest."""
        bound = set(names(plan.outputs))
        reachable = [link for link in self.links if link.source.id in bound or link.target.id in bound]
        if not reachable:
            return None
        return min(reachable, key=lambda link: self._growth(link, bound))

    def _growth(self, link: Link, bound: set[str]) -> float:
        if link.source.id in bound and link.target.id in bound:
            return 0.0
        near, far = (link.source, link.target) if link.source.id in bound else (link.target, link.source)
        growth = fan_out(link, near, self.facts)
        for condition in self._own(link.edge) if link.edge else ():
            growth *= selectivity(condition)
        return growth * filtered_rows(far, self._own(far), self.facts) / rows_of(far, self.facts)

    def _followed(self, plan: Relation, link: Link) -> Relation:
        bound = set(names(plan.outputs))
        forward = link.source.id in bound
        near, far = (link.source, link.target) if forward else (link.target, link.source)
        direction = link.direction if forward else link.direction.reversed
        into = far.id in bound
        if link.edge:
            scan_filter = split_filter(self._take(link.edge))
            columns = link.edge.table.column_names
            plan = EdgeExpand(plan, link.edge, near, far, direction, columns, scan_filter, into)
        elif into:
            return ExpandInto(plan, link.table, near, far, direction, link.low, link.high)
        else:
            plan = Expand(plan, link.table, near, far, direction, link.low, link.high)
        if into:
            return plan
        del self.entities[far.name]
        return self._looked_up(plan, far)

    def _looked_up(self, plan: Relation, entity: Entity) -> Relation:
        columns = tuple(name for name in entity.table.column_names if name != "id")
        return Lookup(plan, entity, columns, split_filter(self._take(entity)))

    def _joined(self, left: Relation | None, right: Relation) -> Relation:
        if left is None:
            return right
        pairs = []
        for condition in list(self.filters):
            pair = _equal_columns(condition, set(names(left.outputs)), set(names(right.outputs)))
            if pair:
                pairs.append(pair)
                self.filters.remove(condition)
        joined = CrossJoin(left, right, tuple(pairs))
        return self._grown(joined)

    def _own(self, entity: Entity) -> tuple[Expr, ...]:
        """The conditions on this entity alone."""
        return tuple(condition for condition in self.filters if entities_of(condition) == {entity.name})

    def _take(self, entity: Entity) -> tuple[Expr, ...]:
        """The conditions on this entity alone, and those on none, which any read can decide; they are done then."""
        taken = tuple(condition for condition in self.filters if entities_of(condition) <= {entity.name})
        self.filters = [condition for condition in self.filters if condition not in taken]
        return taken

    def _filtered(self, plan: Relation) -> Relation:
        """The plan with every condition applied whose entities are bound."""
        bound = {name.removesuffix(".id") for name in names(plan.outputs) if name.endswith(".id")}
        ready = tuple(condition for condition in self.filters if entities_of(condition) <= bound)
        if not ready:
            return plan
        self.filters = [condition for condition in self.filters if condition not in ready]
        return FilterRows(plan, ready)


def _equal_columns(condition: Expr, left: set[str], right: set[str]) -> tuple[str, str] | None:
    match condition:
        case Compare(ComparisonOperator.EQ, ColumnRef() as first, ColumnRef() as second) if (
            first.type == second.type
        ):
            if first.name in left and second.name in right:
                return first.name, second.name
            if second.name in left and first.name in right:
                return second.name, first.name
    return None
