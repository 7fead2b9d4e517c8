"""Renders a plan as text: one line for each step, the last step of the run first, each with a number.

Input: a plan, and figures by step number, which the engine measures or `estimate_steps` estimates. Output: text. Steps
are numbered from 1, from the top down, outer before inner, in the order of `numbered_steps`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from msgspec.structs import replace

from omnigraph.base.display import format_count
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan import statements
from omnigraph.query.plan.estimates import estimate_rows
from omnigraph.query.plan.expression_text import conjunction_text, expression_text
from omnigraph.query.plan.expression_walk import ScanFilter
from omnigraph.query.plan.types import IndexFact, PlanFacts, value_type_text
from omnigraph.query.plan.walk import inputs_of, roots_of, steps_of
from omnigraph.schema.property_types import IndexKind

_INDEXED: Final = "indexed"
"""The mode of a traversal that used its planned index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """Estimates and measurements of a step; `mode` is how a traversal runs, and `reason` why."""

    rows_estimated: int | None = None
    rows: int | None = None
    seconds: float | None = None
    mode: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """One line of an explained plan. A statement of a mutation has no number; its steps are below it."""

    number: int | None
    depth: int
    text: str
    figures: StepFigures

    def render(self) -> str:
        number = "" if self.number is None else f"{self.number}. "
        return f"{'  ' * self.depth}{number}{self.text}{_figures_text(self.figures)}"


def explain_plan(plan: statements.QueryPlan, figures: Mapping[int, StepFigures] | None = None) -> str:
    """Return the plan as text, with the figures of its steps."""
    lines = [_first_line(plan), *(step.render() for step in explain_steps(plan, figures))]
    return "".join(f"{line}\n" for line in lines)


def explain_steps(
    plan: statements.QueryPlan, figures: Mapping[int, StepFigures] | None = None
) -> tuple[ExplainedStep, ...]:
    """Return the lines below the first one, in order."""
    lines: list[ExplainedStep] = []
    number = 0
    for relation, title in _titled_relations(plan):
        if title:
            lines.append(ExplainedStep(None, 1, title, StepFigures()))
        for step, depth in _steps_by_depth(relation, 2 if title else 1) if relation is not None else ():
            number += 1
            measured = (figures or {}).get(number, StepFigures())
            lines.append(ExplainedStep(number, depth, _step_text(_without_unused_index(step, measured)), measured))
    return tuple(lines)


def _without_unused_index(step: op.Relation, figures: StepFigures) -> op.Relation:
    """Return a step that ran without its planned index, unless it used it: the mode says what the run did."""
    is_indexable = isinstance(step, op.Scan | op.EdgeScan | op.Expand | op.ExpandInto | op.EdgeExpand)
    if not is_indexable or figures.rows is None or figures.mode in (None, _INDEXED):
        return step
    return replace(step, index=None)


def numbered_steps(plan: statements.QueryPlan) -> tuple[op.Relation, ...]:
    """Return the steps in the order of their numbers; the first has number 1."""
    return tuple(step for root in roots_of(plan) for step in steps_of(root))


def estimate_steps(plan: statements.QueryPlan, facts: PlanFacts) -> Mapping[int, StepFigures]:
    """Return the estimated rows of every numbered step of a rewritten plan."""
    return {
        number: StepFigures(rows_estimated=round(rows))
        for number, rows in enumerate(estimate_rows(plan, facts), start=1)
    }


def _titled_relations(plan: statements.QueryPlan) -> Iterator[tuple[op.Relation | None, str]]:
    if isinstance(plan, statements.ReadPlan):
        yield plan.root, ""
        return
    for statement in plan.statements:
        rows = None if isinstance(statement, statements.InsertRow) else statement.rows
        yield rows, _statement_text(statement)


def _steps_by_depth(relation: op.Relation, depth: int) -> Iterator[tuple[op.Relation, int]]:
    yield relation, depth
    for input_step in inputs_of(relation):
        yield from _steps_by_depth(input_step, depth + 1)


def _first_line(plan: statements.QueryPlan) -> str:
    kind = "mutation" if isinstance(plan, statements.MutationPlan) else "query"
    parameters = ", ".join(
        f"${param.name}: {value_type_text(param.type)}{'?' if param.nullable else ''}" for param in plan.parameters
    )
    return f"{kind} {plan.name}({parameters})"


def _statement_text(statement: statements.StatementPlan) -> str:
    match statement:
        case statements.InsertRow(table, values):
            word = "upsert" if table.key else "insert"
            return f"{word} {table.alias} {_values_text(values)}"
        case statements.UpdateRows(entity, values):
            return f"update {entity.table.alias} {_values_text(values)}"
        case statements.DeleteRows(entity):
            return f"delete {entity.table.alias}"
        case _:
            assert_never(statement)


def _values_text(values: tuple[statements.ColumnAssignment, ...]) -> str:
    return f"{{ {', '.join(f'{assigned.column}: {expression_text(assigned.value)}' for assigned in values)} }}"


def _figures_text(figures: StepFigures) -> str:
    parts = []
    if figures.mode is not None:
        parts.append(figures.mode + (f" ({figures.reason})" if figures.reason else ""))
    estimate = figures.rows_estimated
    if figures.rows is not None:
        parts.append(format_count(figures.rows, "row") + ("" if estimate is None else f" (estimated {estimate:,})"))
    elif estimate is not None:
        parts.append(f"about {format_count(estimate, 'row')}")
    if figures.seconds is not None:
        parts.append(f"{figures.seconds * 1000:.1f} ms")
    return f"  — {', '.join(parts)}" if parts else ""


def _step_text(relation: op.Relation) -> str:  # noqa: PLR0912 - one case per operator
    match relation:
        case op.Unit():
            return "unit"
        case op.OuterRow(columns):
            return f"outer rows [{', '.join(column.name for column in columns)}]"
        case op.Pattern(_, entities, links, filters):
            shown = [f"{entity.name}: {entity.table.name}" for entity in entities]
            shown += [_link_text(link) for link in links]
            where = f" where {conjunction_text(filters)}" if filters else ""
            return f"pattern {', '.join(shown)}{where}"
        case op.Scan(entity, columns, scan_filter, index):
            return f"scan {entity.table.alias} as {entity.name}{_access_text(columns, scan_filter, index)}"
        case op.EdgeScan(edge, source, target, columns, undirected, scan_filter, index):
            ends = f"{source.name} {'--' if undirected else '->'} {target.name}"
            return f"edge scan {edge.table.alias} as {edge.name} {ends}{_access_text(columns, scan_filter, index)}"
        case op.Expand(_, _, source, target, direction, low, high, index) | op.ExpandInto(
            _, _, source, target, direction, low, high, index
        ):
            edges = (f"{relation.path.name}:" if relation.path else "") + "|".join(
                table.name for table in relation.tables
            )
            path = _traversal_text(source.name, edges, target.name, direction, (low, high))
            return f"{'expand' if isinstance(relation, op.Expand) else 'check'} {path}{_index_text(index)}"
        case op.EdgeExpand(_, edge, source, target, direction, columns, scan_filter, into, index):
            path = _traversal_text(source.name, f"{edge.name}:{edge.table.name}", target.name, direction, (1, 1))
            return f"{'check' if into else 'expand'} {path}{_access_text(columns, scan_filter, index)}"
        case op.Lookup(_, entity, columns, scan_filter, keep_missing, index):
            title = "lookup, keeping nulls," if keep_missing else "lookup"
            return f"{title} {entity.table.alias} as {entity.name}{_access_text(columns, scan_filter, index)}"
        case op.FilterRows(_, conditions):
            return f"filter {conjunction_text(conditions)}"
        case op.CrossJoin(_, _, on):
            pairs = ", ".join(f"{left} = {right}" for left, right in on)
            return f"join on {pairs}" if on else "cross join"
        case op.ExistsJoin(_, _, keys, negated):
            return f"{'anti' if negated else 'semi'} join{_keys_text(keys)}"
        case op.LeftJoin(_, _, keys):
            return f"left join{_keys_text(keys)}"
        case op.Search(_, scores):
            return f"search {_columns_text(scores)}"
        case op.Aggregate(_, group_keys, aggregates):
            by = f" by {_columns_text(group_keys)}" if group_keys else ""
            return f"aggregate {_columns_text(aggregates)}{by}"
        case op.Order(_, order_keys, ties):
            keys_text = ", ".join(
                f"{expression_text(key.expression)}{' desc' if key.descending else ''}" for key in order_keys
            )
            return f"order by {keys_text}; ties by {', '.join(ties) or 'nothing'}"
        case op.LimitRows(_, count, offset):
            skipped = f" offset {expression_text(offset)}" if offset is not None else ""
            return f"limit {expression_text(count)}{skipped}"
        case op.Project(_, output_columns):
            return f"project {_columns_text(output_columns)}"
        case _:
            assert_never(relation)


def _columns_text(columns: tuple[ex.NamedExpression[ex.Expr], ...]) -> str:
    texts = ((expression_text(column.expression), column.name) for column in columns)
    return ", ".join(name if text == name else f"{text} as {name}" for text, name in texts)


def _link_text(link: op.Link) -> str:
    bound = link.edge or link.path
    name = (f"{bound.name}:" if bound else "") + "|".join(table.name for table in link.tables)
    return _traversal_text(link.source.name, name, link.target.name, link.direction, (link.low, link.high))


def _traversal_text(source: str, edge: str, target: str, direction: op.Direction, bounds: tuple[int, int]) -> str:
    hops = "" if bounds == (1, 1) else f"{{{bounds[0]},{bounds[1]}}}"
    left = "<-" if direction is op.Direction.IN else "-"
    right = "->" if direction is op.Direction.OUT else "-"
    return f"{source} {left}[{edge}{hops}]{right} {target}"


def _access_text(columns: tuple[str, ...], scan_filter: ScanFilter, index: IndexFact | None) -> str:
    text = f" [{', '.join(columns)}]"
    if scan_filter.pushed:
        text += f" where {conjunction_text(scan_filter.pushed)}"
    if scan_filter.residual:
        text += f" then {conjunction_text(scan_filter.residual)}"
    return text + _index_text(index)


def _index_text(index: IndexFact | None) -> str:
    if index is None:
        return ""
    if index.kind is IndexKind.INVERTED:
        return ""  # whether a search uses it is decided when it runs, and shown as its mode
    missing = f", {format_count(index.uncovered_rows, 'row')} uncovered" if index.uncovered_fragments else ""
    return f" using {index.kind.value} on {index.column}{missing}"


def _keys_text(keys: tuple[str, ...]) -> str:
    return f" by {', '.join(keys)}" if keys else ""
