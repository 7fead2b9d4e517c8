"""Rule: turn every pattern into scans, traversals, lookups and joins, in a good order.

Greedy and deterministic: start with the entity of the fewest estimated rows, then follow the traversal that adds the
fewest. A traversal can be followed from either endpoint, because the shortest distance is the same in both directions.
Parts that are not connected are joined at the end, by an equality if there is one. Ties are broken by text order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.query.plan import operators as op
from omnigraph.query.plan.estimates import fan_out, filtered_rows, rows_of, selectivity
from omnigraph.query.plan.expression_walk import entities_of, split_filter
from omnigraph.query.plan.expressions import ColumnRef, Compare, Expr, names
from omnigraph.query.plan.types import Entity, PlanFacts
from omnigraph.query.plan.walk import transform_plan
from omnigraph.query.syntax import ComparisonOperator


def order_expands(root: op.Relation, facts: PlanFacts) -> op.Relation:
    """Replace every pattern with steps that can run."""
    return transform_plan(
        root,
        lambda relation: (
            _PatternPlanner(pattern=relation, facts=facts).run() if isinstance(relation, op.Pattern) else relation
        ),
    )


@dataclass(slots=True, kw_only=True)
class _PatternPlanner:
    """The entities, links and conditions of one pattern that are not part of the plan yet."""

    pattern: op.Pattern
    facts: PlanFacts
    entities: dict[str, Entity] = field(init=False)
    links: list[op.Link] = field(init=False)
    filters: list[Expr] = field(init=False)

    def __post_init__(self) -> None:
        self.entities = {entity.name: entity for entity in self.pattern.entities}
        self.links = list(self.pattern.links)
        self.filters = list(self.pattern.filters)

    def run(self) -> op.Relation:
        plan = self.pattern.input
        if plan is not None:
            plan = self._follow_links(plan)
        while self.entities:
            plan = self._join(plan, self._follow_links(self._start_scan()))
        return self._apply_conditions(plan or op.Unit())

    def _start_scan(self) -> op.Relation:
        """Return the scan of the fewest estimated rows: of nodes, or of edges that are bound."""
        nodes = list(self.entities.values())
        node = min(nodes, key=lambda entity: filtered_rows(entity, self._conditions_of(entity), self.facts))
        rows = filtered_rows(node, self._conditions_of(node), self.facts)
        for link in self.links:
            if link.edge and self._is_unbound(link):
                followed = rows * fan_out(link, link.source, self.facts)
                if filtered_rows(link.edge, self._conditions_of(link.edge), self.facts) <= followed:
                    return self._edge_scan(link, link.edge)
        del self.entities[node.name]
        return op.Scan(node, node.table.column_names, split_filter(self._take_conditions(node)))

    def _is_unbound(self, link: op.Link) -> bool:
        return {link.source.name, link.target.name} <= self.entities.keys() and link.source != link.target

    def _edge_scan(self, link: op.Link, edge: Entity) -> op.Relation:
        self.links.remove(link)
        columns = edge.table.column_names
        scanned: op.Relation = op.EdgeScan(
            edge, link.source, link.target, columns, link.undirected, split_filter(self._take_conditions(edge))
        )
        for end in (link.source, link.target):
            del self.entities[end.name]
            scanned = self._add_lookup(scanned, end)
        return scanned

    def _follow_links(self, plan: op.Relation) -> op.Relation:
        """Follow every link that is reachable from the plan."""
        plan = self._apply_conditions(plan)
        while link := self._next_link(plan):
            self.links.remove(link)
            plan = self._apply_conditions(self._follow(plan, link))
        return plan

    def _next_link(self, plan: op.Relation) -> op.Link | None:
        """Return a link between bound endpoints, which adds no rows, or else the one that adds the fewest."""
        bound = set(names(plan.outputs))
        reachable = [link for link in self.links if link.source.id in bound or link.target.id in bound]
        if not reachable:
            return None
        return min(reachable, key=lambda link: self._growth(link, bound))

    def _growth(self, link: op.Link, bound: set[str]) -> float:
        if link.source.id in bound and link.target.id in bound:
            return 0.0
        near, far = (link.source, link.target) if link.source.id in bound else (link.target, link.source)
        growth = fan_out(link, near, self.facts)
        for condition in self._conditions_of(link.edge) if link.edge else ():
            growth *= selectivity(condition)
        return growth * filtered_rows(far, self._conditions_of(far), self.facts) / rows_of(far, self.facts)

    def _follow(self, plan: op.Relation, link: op.Link) -> op.Relation:
        bound = set(names(plan.outputs))
        forward = link.source.id in bound
        near, far = (link.source, link.target) if forward else (link.target, link.source)
        direction = link.direction if forward else link.direction.reversed
        into = far.id in bound
        if link.edge:
            scan_filter = split_filter(self._take_conditions(link.edge))
            columns = link.edge.table.column_names
            plan = op.EdgeExpand(plan, link.edge, near, far, direction, columns, scan_filter, into)
        elif into:
            return op.ExpandInto(
                plan, link.table, near, far, direction, link.low, link.high, more=link.more, path=link.path
            )
        else:
            plan = op.Expand(
                plan, link.table, near, far, direction, link.low, link.high, more=link.more, path=link.path
            )
        if into:
            return plan
        del self.entities[far.name]
        return self._add_lookup(plan, far)

    def _add_lookup(self, plan: op.Relation, entity: Entity) -> op.Relation:
        columns = tuple(name for name in entity.table.column_names if name != "id")
        return op.Lookup(plan, entity, columns, split_filter(self._take_conditions(entity)))

    def _join(self, left: op.Relation | None, right: op.Relation) -> op.Relation:
        if left is None:
            return right
        pairs = []
        for condition in list(self.filters):
            pair = _equal_columns(condition, set(names(left.outputs)), set(names(right.outputs)))
            if pair:
                pairs.append(pair)
                self.filters.remove(condition)
        joined = op.CrossJoin(left, right, tuple(pairs))
        return self._follow_links(joined)

    def _conditions_of(self, entity: Entity) -> tuple[Expr, ...]:
        """Return the conditions that read only this entity."""
        return tuple(condition for condition in self.filters if entities_of(condition) == {entity.name})

    def _take_conditions(self, entity: Entity) -> tuple[Expr, ...]:
        """Remove and return the conditions that read only this entity, or no entity."""
        conditions = tuple(condition for condition in self.filters if entities_of(condition) <= {entity.name})
        self.filters = [condition for condition in self.filters if condition not in conditions]
        return conditions

    def _apply_conditions(self, plan: op.Relation) -> op.Relation:
        """Apply every condition whose entities are bound."""
        bound = {name.rpartition(".")[0] for name in names(plan.outputs)}
        ready = tuple(condition for condition in self.filters if entities_of(condition) <= bound)
        if not ready:
            return plan
        self.filters = [condition for condition in self.filters if condition not in ready]
        return op.FilterRows(plan, ready)


def _equal_columns(condition: Expr, left: set[str], right: set[str]) -> tuple[str, str] | None:
    match condition:
        case Compare(ComparisonOperator.EQ, ColumnRef() as first, ColumnRef() as second) if first.type == second.type:
            if first.name in left and second.name in right:
                return first.name, second.name
            if second.name in left and first.name in right:
                return second.name, first.name
    return None
