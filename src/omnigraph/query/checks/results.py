"""Checks `return`, `having`, `order` and `limit`, and builds the relation of a read.

Input: the body of a read. Output: its relation, or None after a problem was reported. Over the relation of the `match`
this adds scores or groups with their conditions, then the order, the limit and the columns of the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from omnigraph.base import limits
from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import NumberLiteral, Span
from omnigraph.query.checks.blocks import QueryBlock, assemble, check_block
from omnigraph.query.checks.context import Context, Env, ExpressionPosition
from omnigraph.query.checks.expressions import check_condition, check_expression
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan import types
from omnigraph.query.plan.expression_walk import columns_of, replace_outermost, walk
from omnigraph.query.printer import print_expression
from omnigraph.query.syntax import Expression, Query, ReadBody, Variable
from omnigraph.schema.property_types import Scalar, ScalarType

_SIGN_OR_STRING: Final = re.compile(r'\$|("(?:[^"\\]|\\.)*")')


class _Result(Struct, frozen=True, kw_only=True):
    """The columns, conditions and order of a result with their spans; `limit` is the count and the offset.

    `relation` has the rows that they read, and `ties` its columns that make the order total.
    """

    relation: op.Relation
    columns: tuple[ex.NamedExpression[ex.Expr], ...]
    having: tuple[ex.Expr, ...]
    order: tuple[op.OrderKey, ...]
    limit: tuple[ex.Expr, ex.Expr | None] | None
    spans: tuple[Span, ...]
    ties: tuple[str, ...] = ()

    @property
    def expressions(self) -> tuple[ex.Expr, ...]:
        return (*(column.expression for column in self.columns), *self.after_groups)

    @property
    def after_groups(self) -> tuple[ex.Expr, ...]:
        """The expressions that can only use group keys and aggregates."""
        return (*self.having, *(key.expression for key in self.order))

    def over(self, relation: op.Relation, output_of: Callable[[ex.Expr], ex.Expr | None]) -> _Result:
        """Return the result over another relation, whose columns replace some of the expressions."""
        return replace(
            self,
            relation=relation,
            columns=tuple(
                replace(column, expression=replace_outermost(column.expression, output_of)) for column in self.columns
            ),
            having=tuple(replace_outermost(condition, output_of) for condition in self.having),
            order=tuple(replace(key, expression=replace_outermost(key.expression, output_of)) for key in self.order),
        )


def check_read(query: Query, body: ReadBody, context: Context) -> op.Relation | None:
    """Return the relation of the result, or None after a problem."""
    block = check_block(body.clauses, context, {}, query.name.span)
    columns = _check_columns(query, body, block)
    aliases = _aliases(body, columns)
    context.broken.update(_written_names(body) - aliases.keys())
    having = _check_having(body, replace(block.env(ExpressionPosition.HAVING), words=aliases), query.name.span)
    order = _check_order(body, replace(block.env(ExpressionPosition.ORDER), words=aliases), query.name.span)
    result = _Result(
        relation=op.Unit(),
        columns=tuple(column for column, _ in columns),
        having=tuple(condition for condition, _ in having),
        order=tuple(key for key, _ in order),
        limit=_check_limit(body, context),
        spans=tuple(span for _, span in (*columns, *having, *order)),
    )
    if having and not _is_aggregated(result.expressions):
        hint = "Write the condition in `match`, or add an aggregate such as `count(*)`."
        message = "`having` requires an aggregate in `return`, `having` or `order`"
        context.report(QueryCode.HAVING_WITHOUT_GROUPS, having[0][1], message, hint)
    _check_scores(result, context, has_limit=body.limit is not None)
    if context.problems.sorted():
        return None
    relation = assemble(block)
    ties = tuple(field.name for field in relation.outputs if field.name.endswith(".id"))
    return _build_relation(replace(result, relation=relation, ties=ties), block)


def _check_columns(query: Query, body: ReadBody, block: QueryBlock) -> list[tuple[ex.NamedExpression[ex.Expr], Span]]:
    env = block.env(ExpressionPosition.RETURN)
    if not body.projections:
        env.report(QueryCode.EMPTY_RETURN, query.name.span, "`return` has no expressions")
    columns: list[tuple[ex.NamedExpression[ex.Expr], Span]] = []
    seen: set[str] = set()
    for projection in body.projections:
        checked = check_expression(projection.expression, env)
        span = projection.alias.span if projection.alias else projection.expression.span
        name = projection.alias.text if projection.alias else _default_name(projection.expression)
        if name in seen:
            hint = "Rename one of them with `as`."
            env.report(QueryCode.OUTPUT_TWICE, span, f"duplicate column {quoted(name)}", hint)
        seen.add(name)
        if checked is not None and checked.type == ScalarType(Scalar.BLOB):
            hint = "Return whether it `is null`, or export the graph to read its content."
            env.report(QueryCode.NOT_RETURNABLE, projection.expression.span, "a Blob cannot be returned", hint)
        elif checked is not None:
            columns.append((ex.NamedExpression(name, checked), projection.expression.span))
    return columns


def _default_name(expression: Expression) -> str:
    """Return the text of an expression without `$`: `$x.prop` is named `x.prop`."""
    return _SIGN_OR_STRING.sub(r"\1", print_expression(expression))


def _aliases(body: ReadBody, columns: list[tuple[ex.NamedExpression[ex.Expr], Span]]) -> dict[str, ex.Expr]:
    """Return the columns that `as` names, which `having` and `order` can use."""
    written = _written_names(body)
    return {column.name: column.expression for column, _ in columns if column.name in written}


def _written_names(body: ReadBody) -> set[str]:
    return {projection.alias.text for projection in body.projections if projection.alias}


def _check_having(body: ReadBody, env: Env, span: Span) -> list[tuple[ex.Expr, Span]]:
    if body.having is not None and not body.having:
        env.report(QueryCode.EMPTY_RETURN, span, "`having` has no conditions")
    checked = [(check_condition(clause.condition, env), clause.span) for clause in body.having or ()]
    return [(condition, clause_span) for condition, clause_span in checked if condition is not None]


def _check_order(body: ReadBody, env: Env, span: Span) -> list[tuple[op.OrderKey, Span]]:
    if body.order is not None and not body.order:
        env.report(QueryCode.EMPTY_RETURN, span, "`order` has no expressions")
    keys: list[tuple[op.OrderKey, Span]] = []
    for ordering in body.order or ():
        checked = check_expression(ordering.expression, env)
        if checked is not None and not types.is_sortable(checked.type):
            message = f"cannot order by values of type {types.value_type_text(checked.type)}"
            hint = "Order by one of its properties." if isinstance(ordering.expression, Variable) else ""
            env.report(QueryCode.NOT_SORTABLE, ordering.expression.span, message, hint)
        elif checked is not None:
            keys.append((_order_key(checked, ordering.descending), ordering.expression.span))
    return keys


def _check_limit(body: ReadBody, context: Context) -> tuple[ex.Expr, ex.Expr | None] | None:
    if body.limit is None:
        return None
    count = _check_count(body.limit.count, context)
    offset = None if body.limit.offset is None else _check_count(body.limit.offset, context)
    return None if count is None else (count, offset)


def _check_count(number: NumberLiteral | Variable, context: Context) -> ex.Expr | None:
    if isinstance(number, NumberLiteral):
        if number.text.isdecimal() and int(number.text) <= limits.QUERY_LIMIT_MAX:
            return ex.Literal(int(number.text), types.I64)
        message = f"a limit must be an integer from 0 to {limits.QUERY_LIMIT_MAX:,}"
        context.report(QueryCode.LIMIT_VALUE, number.span, message)
        return None
    checked = check_expression(number, Env(context, {}, ExpressionPosition.RETURN))
    if checked is None:
        return None
    if not (isinstance(checked, ex.Param) and types.is_integer(checked.type) and not checked.nullable):
        shown = f"{types.value_type_text(checked.type)}{'?' if checked.nullable else ''}"
        message = f"expected an integer as limit, got {shown}"
        context.report(QueryCode.LIMIT_VALUE, number.span, message, "Declare the parameter as `I64`.")
        return None
    return checked


def _check_scores(result: _Result, context: Context, *, has_limit: bool) -> None:
    for expression, span in zip(result.expressions, result.spans, strict=True):
        scores = _scores_of((expression,))
        if scores and _is_aggregated(result.expressions):
            hint = "Use a separate query for the scores."
            context.report(QueryCode.SCORE_GROUPED, span, "a query with aggregates cannot use scores", hint)
        needs_limit = any(isinstance(score, ex.Nearest | ex.Rrf) for score in scores)
        if needs_limit and not has_limit:
            message = "`nearest` and `rrf` require a limit"
            context.report(QueryCode.LIMIT_NEEDED, span, message, "End the query with `limit 10`.")


def _build_relation(matched: _Result, block: QueryBlock) -> op.Relation | None:
    """Add scores or groups, order, limit and columns to the relation of a match."""
    result: _Result | None = matched
    if _is_aggregated(matched.expressions):
        result = _group(matched, block)
    elif _scores_of(matched.expressions):
        result = _add_scores(matched)
    if result is None:
        return None
    relation = result.relation
    if result.having:
        relation = op.FilterRows(relation, result.having)
    if result.order:
        relation = op.Order(relation, result.order, result.ties)
    if result.limit:
        relation = op.LimitRows(relation, *result.limit)
    return op.Project(relation, result.columns)


class _Groups(Struct):
    """The distinct group keys and aggregates of a result, each with the name of its column."""

    keys: dict[ex.Expr, str] = field(default_factory=dict)
    aggregates: dict[ex.AggregateCall, str] = field(default_factory=dict)
    entities: dict[str, ex.EntityRef] = field(default_factory=dict)

    def add_key(self, expression: ex.Expr) -> None:
        if isinstance(expression, ex.EntityRef):
            self.entities[expression.entity] = expression
            expression = expression.id
        name = expression.name if isinstance(expression, ex.ColumnRef) else f"key_{len(self.keys) + 1}"
        self.keys.setdefault(expression, name)

    def add_aggregates(self, expression: ex.Expr) -> None:
        for part in walk(expression):
            if isinstance(part, ex.AggregateCall):
                self.aggregates.setdefault(part, f"agg_{len(self.aggregates) + 1}")

    def output_of(self, expression: ex.Expr) -> ex.Expr | None:
        """Return the column of a key or an aggregate; None for any other expression."""
        if isinstance(expression, ex.AggregateCall):
            return ex.OutputRef(self.aggregates[expression], expression.type, expression.nullable)
        if expression in self.keys and not isinstance(expression, ex.ColumnRef):
            return ex.OutputRef(self.keys[expression], expression.type, expression.nullable)
        return None


def _is_aggregated(expressions: tuple[ex.Expr, ...]) -> bool:
    """Return whether an aggregate is used; then every other expression is a group key."""
    return any(isinstance(part, ex.AggregateCall) for expression in expressions for part in walk(expression))


def _group(result: _Result, block: QueryBlock) -> _Result | None:
    """Add the groups; return None after a problem."""
    groups = _Groups()
    for column in result.columns:
        _add_keys(column.expression, groups)
    for expression in result.expressions:
        groups.add_aggregates(expression)
    _check_groups(result, groups, block.context)
    if block.context.problems.sorted():
        return None
    keys = tuple(ex.NamedExpression(name, key) for key, name in groups.keys.items())
    aggregates = tuple(ex.NamedExpression(name, call) for call, name in groups.aggregates.items())
    grouped: op.Relation = op.Aggregate(result.relation, keys, aggregates)
    entities = {bound.entity.name: bound.entity for bound in block.visible.values()}
    for name, reference in groups.entities.items():
        grouped = _add_lookup(grouped, entities[name], reference)
    return replace(result.over(grouped, groups.output_of), ties=tuple(key.name for key in keys))


def _add_keys(expression: ex.Expr, groups: _Groups) -> None:
    """Add an expression without aggregates as one key; of one with aggregates, each column outside of them."""
    if not any(True for _ in columns_of(expression)):
        return
    if not _is_aggregated((expression,)) or isinstance(expression, ex.ColumnRef | ex.EntityRef):
        groups.add_key(expression)
    elif not isinstance(expression, ex.AggregateCall):
        for part in expression.parts:
            if isinstance(part, ex.ColumnRef | ex.EntityRef) or _is_aggregated((part,)):
                _add_keys(part, groups)
            else:
                for column in columns_of(part):
                    groups.add_key(column)


def _check_groups(result: _Result, groups: _Groups, context: Context) -> None:
    for column, span in zip(result.columns, result.spans, strict=False):
        if column.expression in groups.keys and types.is_opaque(column.expression.type):
            context.report(QueryCode.NOT_RETURNABLE, span, "a vector cannot be a group key")
    spans = result.spans[len(result.columns) :]
    for index, (expression, span) in enumerate(zip(result.after_groups, spans, strict=True)):
        rest = replace_outermost(expression, groups.output_of)
        missing = [column for column in columns_of(rest) if not _is_key(column, groups)]
        if missing:
            action = "filter groups" if index < len(result.having) else "order"
            message = f"cannot {action} by `${missing[0].name}`: it is not a group key"
            hint = f"Add it to `return`, or {action.removesuffix(' groups')} by an aggregate of it."
            context.report(QueryCode.NOT_GROUPED, span, message, hint)


def _is_key(column: ex.ColumnRef, groups: _Groups) -> bool:
    if column in groups.keys:
        return True
    entity = groups.entities.get(column.entity)
    return entity is not None and column.column in entity.table.entity_columns


def _add_lookup(grouped: op.Relation, entity: types.Entity, reference: ex.EntityRef) -> op.Relation:
    """Look up the columns of a grouped entity by its id, without those that are keys themselves."""
    existing_names = {field.name for field in grouped.outputs}
    columns = tuple(name for name in entity.table.entity_columns if f"{entity.name}.{name}" not in existing_names)
    if not columns:
        return grouped
    return op.Lookup(grouped, entity, columns, keep_missing=reference.nullable)


def _scores_of(expressions: tuple[ex.Expr, ...]) -> tuple[ex.Score, ...]:
    """Return the distinct scores, without those inside `rrf`."""
    scores: dict[ex.Score, None] = {}
    for expression in expressions:
        if isinstance(expression, ex.Score):
            scores[expression] = None
        else:
            scores.update(dict.fromkeys(_scores_of(expression.parts)))
    return tuple(scores)


def _order_key(expression: ex.Expr, descending: bool | None) -> op.OrderKey:
    """Return the key of an order; the default direction is best first for a score, and ascending otherwise."""
    if descending is None:
        descending = isinstance(expression, ex.Bm25 | ex.Rrf)
    return op.OrderKey(expression, descending, nulls_last=bool(_scores_of((expression,))))


def _add_scores(result: _Result) -> _Result:
    """Add the scores; without an order, the first column that is a score orders the rows, best first."""
    score_columns = (column.expression for column in result.columns if isinstance(column.expression, ex.Score))
    order = result.order or tuple(_order_key(score, None) for score in islice(score_columns, 1))
    result = replace(result, order=order)
    names = {score: f"score_{number}" for number, score in enumerate(_scores_of(result.expressions), start=1)}
    first = order[0].expression if result.limit and order else None
    ranked = first if isinstance(first, ex.Score) and first.nullable else None
    relation = result.relation
    # A rank depends on all matching rows; other scores do not, so that rows without a vector can be filtered first.
    filters_before = not any(isinstance(score, ex.Rrf) for score in names)
    if filters_before and isinstance(ranked, ex.Nearest):
        relation = op.FilterRows(relation, (ex.IsNull(ranked.column, negated=True),))
    relation = op.Search(relation, tuple(ex.NamedExpression(name, score) for score, name in names.items()))

    def output_of(expression: ex.Expr) -> ex.Expr | None:
        if not isinstance(expression, ex.Score):
            return None
        return ex.OutputRef(names[expression], expression.type, expression.nullable)

    if ranked is not None and not (filters_before and isinstance(ranked, ex.Nearest)):
        score = replace_outermost(ranked, output_of)
        relation = op.FilterRows(relation, (ex.IsNull(score, negated=True),))
    return result.over(relation, output_of)
