"""A plan as text: one line per step, the last step of the run first, each with a number.

Comes in: a plan, and figures for some of its steps, by number: whoever runs or estimates the plan fills them in. Goes
out: text. Steps are numbered from 1 from the top down, outer before inner, as `numbered_steps` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from omnigraph.query.plan.estimates import fan_out, filtered_rows, rows_of, selectivity
from omnigraph.query.plan.expression_text import conjunction_text, expression_text
from omnigraph.query.plan.expression_walk import ScanFilter
from omnigraph.query.plan.expressions import Expr, Literal, Param
from omnigraph.query.plan.operators import (
    Aggregate,
    Argument,
    CrossJoin,
    Direction,
    EdgeExpand,
    EdgeScan,
    ExistsJoin,
    Expand,
    ExpandInto,
    FilterRows,
    LeftJoin,
    LimitRows,
    Link,
    Lookup,
    Order,
    Pattern,
    Project,
    Scan,
    Search,
    Unit,
)
from omnigraph.query.plan.statements import (
    Assigned,
    DeleteRows,
    InsertRow,
    MutationPlan,
    QueryPlan,
    ReadPlan,
    Relation,
    StatementPlan,
    UpdateRows,
)
from omnigraph.query.plan.types import IndexFact, PlanFacts, value_type_text
from omnigraph.query.plan.walk import inputs_of, roots_of, steps_of
from omnigraph.schema.property_types import IndexKind


@dataclass(frozen=True, slots=True)
class StepFigures:
    """What is known about a step. `mode` and `reason` say how a traversal is or was done, and why."""

    rows_estimated: int | None = None
    rows: int | None = None
    seconds: float | None = None
    mode: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """One line of an explained plan. A statement of a mutation has no number: its steps stand below it."""

    number: int | None
    depth: int
    text: str
    figures: StepFigures

    def render(self) -> str:
        number = "" if self.number is None else f"{self.number}. "
        return f"{'  ' * self.depth}{number}{self.text}{_figures_text(self.figures)}"


def explain_plan(plan: QueryPlan, figures: Mapping[int, StepFigures] | None = None) -> str:
    """The plan as text, with the figures of the steps that have some."""
    lines = [_head(plan), *(step.render() for step in explain_steps(plan, figures))]
    return "".join(f"{line}\n" for line in lines)


def explain_steps(
    plan: QueryPlan, figures: Mapping[int, StepFigures] | None = None
) -> tuple[ExplainedStep, ...]:
    """The lines below the head, in order."""
    lines: list[ExplainedStep] = []
    number = 0
    for relation, title in _titled(plan):
        if title:
            lines.append(ExplainedStep(None, 1, title, StepFigures()))
        for text, depth in _tree(relation, 2 if title else 1) if relation is not None else ():
            number += 1
            lines.append(ExplainedStep(number, depth, text, (figures or {}).get(number, StepFigures())))
    return tuple(lines)


def numbered_steps(plan: QueryPlan) -> tuple[Relation, ...]:
    """The steps in the order of their numbers; the first has number 1."""
    return tuple(step for root in roots_of(plan) for step in steps_of(root))


def _titled(plan: QueryPlan) -> Iterator[tuple[Relation | None, str]]:
    if isinstance(plan, ReadPlan):
        yield plan.root, ""
        return
    for statement in plan.statements:
        rows = None if isinstance(statement, InsertRow) else statement.rows
        yield rows, _statement(statement)


def _tree(relation: Relation, depth: int) -> Iterator[tuple[str, int]]:
    yield _step(relation), depth
    for below in inputs_of(relation):
        yield from _tree(below, depth + 1)


def _head(plan: QueryPlan) -> str:
    kind = "mutation" if isinstance(plan, MutationPlan) else "query"
    return f"{kind} {plan.name}({', '.join(_param(param) for param in plan.parameters)})"


def _param(param: Param) -> str:
    return f"${param.name}: {value_type_text(param.type)}{'?' if param.nullable else ''}"


def _statement(statement: StatementPlan) -> str:
    match statement:
        case InsertRow(table, values):
            word = "upsert" if table.key else "insert"
            return f"{word} {table.alias} {_values(values)}"
        case UpdateRows(entity, values):
            return f"update {entity.table.alias} {_values(values)}"
        case DeleteRows(entity):
            return f"delete {entity.table.alias}"
        case _:
            assert_never(statement)


def _values(values: tuple[Assigned, ...]) -> str:
    return (
        f"{{ {', '.join(f'{assigned.column}: {expression_text(assigned.value)}' for assigned in values)} }}"
    )


def _figures_text(figures: StepFigures) -> str:
    parts = []
    if figures.mode is not None:
        parts.append(figures.mode + (f" ({figures.reason})" if figures.reason else ""))
    if figures.rows_estimated is not None:
        parts.append(f"about {_rows(figures.rows_estimated)}")
    if figures.rows is not None:
        parts.append(_rows(figures.rows))
    if figures.seconds is not None:
        parts.append(f"{figures.seconds * 1000:.1f} ms")
    return f"  — {', '.join(parts)}" if parts else ""


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _step(relation: Relation) -> str:
    match relation:
        case Unit():
            return "unit"
        case Argument(columns):
            return f"outer rows [{', '.join(column.name for column in columns)}]"
        case Pattern() | Scan() | EdgeScan() | Expand() | ExpandInto() | EdgeExpand() | Lookup():
            return _read_step(relation)
        case FilterRows(_, conditions):
            return f"filter {conjunction_text(conditions)}"
        case CrossJoin(_, _, on):
            pairs = ", ".join(f"{left} = {right}" for left, right in on)
            return f"join on {pairs}" if on else "cross join"
        case ExistsJoin(_, _, keys, negated):
            return f"{'anti' if negated else 'semi'} join{_by(keys)}"
        case LeftJoin(_, _, keys):
            return f"left join{_by(keys)}"
        case Search(_, scores, index):
            shown = ", ".join(f"{expression_text(column.score)} as {column.name}" for column in scores)
            return f"search {shown}{_without(index)}"
        case Aggregate() | Order() | LimitRows() | Project():
            return _result_step(relation)
        case _:
            assert_never(relation)


def _result_step(relation: Aggregate | Order | LimitRows | Project) -> str:
    match relation:
        case Aggregate(_, keys, aggregates):
            by = ", ".join(
                key.name if key.name == (text := expression_text(key.expression)) else f"{text} as {key.name}"
                for key in keys
            )
            calls = ", ".join(f"{expression_text(column.call)} as {column.name}" for column in aggregates)
            return f"aggregate {calls}" + (f" by {by}" if keys else "")
        case Order(_, keys, ties):
            shown = ", ".join(
                f"{expression_text(key.expression)}{' desc' if key.descending else ''}" for key in keys
            )
            return f"order by {shown}; ties by {', '.join(ties) or 'nothing'}"
        case LimitRows(_, count, offset):
            skipped = f" offset {expression_text(offset)}" if offset is not None else ""
            return f"limit {expression_text(count)}{skipped}"
        case Project(_, columns):
            shown = ", ".join(
                column.name
                if column.name == (text := expression_text(column.expression))
                else f"{text} as {column.name}"
                for column in columns
            )
            return f"project {shown}"
        case _:
            assert_never(relation)


def _read_step(
    relation: Pattern | Scan | EdgeScan | Expand | ExpandInto | EdgeExpand | Lookup,
) -> str:
    match relation:
        case Pattern(_, entities, links, filters):
            shown = [f"{entity.name}: {entity.table.name}" for entity in entities]
            shown += [_link(link) for link in links]
            where = f" where {conjunction_text(filters)}" if filters else ""
            return f"pattern {', '.join(shown)}{where}"
        case Scan(entity, columns, scan_filter, index):
            return f"scan {entity.table.alias} as {entity.name}{_access(columns, scan_filter, index)}"
        case EdgeScan(edge, source, target, columns, undirected, scan_filter, index):
            arrow = "--" if undirected else "->"
            ends = f"{source.name} {arrow} {target.name}"
            return f"edge scan {edge.table.alias} as {edge.name} {ends}{_access(columns, scan_filter, index)}"
        case Expand(_, table, source, target, direction, low, high, index):
            return f"expand {_arrow(source.name, table.name, target.name, direction, (low, high))}{_index(index)}"
        case ExpandInto(_, table, source, target, direction, low, high, index):
            path = _arrow(source.name, table.name, target.name, direction, (low, high))
            return f"check {path}{_index(index)}"
        case EdgeExpand(_, edge, source, target, direction, columns, scan_filter, into, index):
            path = _arrow(source.name, f"{edge.name}:{edge.table.name}", target.name, direction, (1, 1))
            return f"{'check' if into else 'expand'} {path}{_access(columns, scan_filter, index)}"
        case Lookup(_, entity, columns, scan_filter, keep_missing, index):
            title = "lookup, keeping nulls," if keep_missing else "lookup"
            return f"{title} {entity.table.alias} as {entity.name}{_access(columns, scan_filter, index)}"
        case _:
            assert_never(relation)


def _link(link: Link) -> str:
    name = f"{link.edge.name}:{link.table.name}" if link.edge else link.table.name
    return _arrow(link.source.name, name, link.target.name, link.direction, (link.low, link.high))


def _arrow(source: str, edge: str, target: str, direction: Direction, bounds: tuple[int, int]) -> str:
    hops = "" if bounds == (1, 1) else f"{{{bounds[0]},{bounds[1]}}}"
    left = "<-" if direction is Direction.IN else "-"
    right = "->" if direction is Direction.OUT else "-"
    return f"{source} {left}[{edge}{hops}]{right} {target}"


def _access(columns: tuple[str, ...], scan_filter: ScanFilter, index: IndexFact | None) -> str:
    text = f" [{', '.join(columns)}]"
    if scan_filter.pushed:
        text += f" where {conjunction_text(scan_filter.pushed)}"
    if scan_filter.residual:
        text += f" then {conjunction_text(scan_filter.residual)}"
    return text + _index(index)


def _index(index: IndexFact | None) -> str:
    if index is None:
        return ""
    if index.kind in (IndexKind.INVERTED, IndexKind.VECTOR):
        return _without((index,))
    missing = f", {index.uncovered_rows:,} rows uncovered" if index.uncovered_fragments else ""
    return f" using {index.kind.value} on {index.column}{missing}"


def _without(indexes: tuple[IndexFact, ...]) -> str:
    """Searches are exact, so the indexes that there are for them are not asked."""
    named = " and ".join(f"the {index.kind.value} index on {index.column}" for index in indexes)
    return f" exactly, without {named}" if named else ""


def _by(keys: tuple[str, ...]) -> str:
    return f" by {', '.join(keys)}" if keys else ""


_KEPT_BY_CHECK: Final = 0.5
_GROUPS: Final = 0.1


def estimate_steps(plan: QueryPlan, facts: PlanFacts) -> Mapping[int, StepFigures]:
    """A figure for every numbered step of a rewritten plan."""
    rows = (estimate for root in roots_of(plan) for estimate in _walk(root, facts, 1.0))
    return {
        number: StepFigures(rows_estimated=round(estimate)) for number, estimate in enumerate(rows, start=1)
    }


def _walk(relation: Relation, facts: PlanFacts, outer: float) -> Iterator[float]:
    """The rows of a step and of those below it, in the order of their numbers."""
    yield _estimated_rows(relation, facts, outer)
    match relation:
        case ExistsJoin(below, inner) | LeftJoin(below, inner):
            yield from _walk(below, facts, outer)
            yield from _walk(inner, facts, _estimated_rows(below, facts, outer))
        case _:
            for below in inputs_of(relation):
                yield from _walk(below, facts, outer)


def _estimated_rows(relation: Relation, facts: PlanFacts, outer: float) -> float:
    match relation:
        case Unit():
            return 1.0
        case Argument():
            return outer
        case Scan(entity, _, scan_filter):
            return filtered_rows(entity, scan_filter.conjuncts, facts)
        case EdgeScan(edge, undirected=undirected, filter=scan_filter):
            return filtered_rows(edge, scan_filter.conjuncts, facts) * (2 if undirected else 1)
        case Pattern() | Expand() | ExpandInto() | EdgeExpand() | Lookup():
            return _extended(relation, facts, outer)
        case FilterRows(below, conditions):
            return _kept(_estimated_rows(below, facts, outer), conditions)
        case CrossJoin(left, right, on):
            pairs = _estimated_rows(left, facts, outer), _estimated_rows(right, facts, outer)
            return max(pairs) if on else pairs[0] * pairs[1]
        case ExistsJoin(below):
            return _estimated_rows(below, facts, outer) * _KEPT_BY_CHECK
        case LeftJoin(below, inner):
            rows = _estimated_rows(below, facts, outer)
            return max(rows, _estimated_rows(inner, facts, rows))
        case Aggregate(below, keys):
            return max(1.0, _estimated_rows(below, facts, outer) * _GROUPS) if keys else 1.0
        case LimitRows(below, Literal(int() as count)):
            return min(_estimated_rows(below, facts, outer), float(count))
        case LimitRows(below) | Search(below) | Order(below) | Project(below):
            return _estimated_rows(below, facts, outer)


def _extended(
    relation: Pattern | Expand | ExpandInto | EdgeExpand | Lookup, facts: PlanFacts, outer: float
) -> float:
    match relation:
        case Pattern(below, entities):
            rows = 1.0 if below is None else _estimated_rows(below, facts, outer)
            for entity in entities:
                rows *= rows_of(entity, facts)
            return rows
        case Expand(below, table, source, target, _, low, high):
            link = Link(table, source, target, low, high)
            return _estimated_rows(below, facts, outer) * fan_out(link, source, facts)
        case ExpandInto(below):
            return _estimated_rows(below, facts, outer) * _KEPT_BY_CHECK
        case EdgeExpand(below, edge, source, target, filter=scan_filter, into=into):
            rows = _estimated_rows(below, facts, outer) * fan_out(
                Link(edge.table, source, target), source, facts
            )
            return _kept(rows * (_KEPT_BY_CHECK if into else 1.0), scan_filter.conjuncts)
        case Lookup(below, _, _, scan_filter):
            return _kept(_estimated_rows(below, facts, outer), scan_filter.conjuncts)


def _kept(rows: float, conditions: tuple[Expr, ...]) -> float:
    for condition in conditions:
        rows *= selectivity(condition)
    return rows
