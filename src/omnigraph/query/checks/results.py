"""`return`, `order` and `limit`: the columns of the result, and whether they make sense together."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

from omnigraph.base import limits
from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import NumberLiteral, Span
from omnigraph.query.checks.blocks import QueryBlock, assemble, check_block
from omnigraph.query.checks.context import Context, Env, ExpressionPosition
from omnigraph.query.checks.expressions import check_expression
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan.expression_walk import columns_of, parts_of, replaced, walk
from omnigraph.query.plan.expressions import (
    AggregateCall,
    Bm25,
    ColumnRef,
    EntityRef,
    Expr,
    IsNull,
    Literal,
    Named,
    Nearest,
    OutputRef,
    Param,
    Rrf,
    Score,
)
from omnigraph.query.plan.operators import (
    Aggregate,
    AggregateColumn,
    FilterRows,
    LimitRows,
    Lookup,
    Order,
    OrderKey,
    Project,
    ScoreColumn,
    Search,
)
from omnigraph.query.plan.statements import Relation
from omnigraph.query.plan.types import (
    I64,
    Entity,
    EntityValueType,
    NullType,
    is_integer,
    is_opaque,
    is_sortable,
    value_type_text,
)
from omnigraph.query.printer import print_expression
from omnigraph.query.syntax import Expression, Query, ReadBody, Variable
from omnigraph.schema.property_types import Scalar, ScalarType

Grouped = tuple[Relation, tuple[Named, ...], tuple[OrderKey, ...], tuple[str, ...]]


@dataclass(slots=True)
class _Groups:
    """The keys and aggregates found so far, each once."""

    keys: dict[Expr, str] = field(default_factory=dict)
    aggregates: dict[AggregateCall, str] = field(default_factory=dict)
    entities: dict[str, EntityRef] = field(default_factory=dict)

    def add_key(self, expression: Expr) -> None:
        if isinstance(expression, EntityRef):
            self.entities[expression.entity] = expression
            expression = expression.id
        name = expression.name if isinstance(expression, ColumnRef) else f"key_{len(self.keys) + 1}"
        self.keys.setdefault(expression, name)

    def add_aggregates(self, expression: Expr) -> None:
        for part in walk(expression):
            if isinstance(part, AggregateCall):
                self.aggregates.setdefault(part, f"agg_{len(self.aggregates) + 1}")

    def read(self, expression: Expr) -> Expr | None:
        """How a result reads a key or an aggregate; None looks further inside."""
        if isinstance(expression, AggregateCall):
            return OutputRef(self.aggregates[expression], expression.type, expression.nullable)
        if expression in self.keys and not isinstance(expression, ColumnRef):
            return OutputRef(self.keys[expression], expression.type, expression.nullable)
        return None


def is_aggregated(expressions: tuple[Expr, ...]) -> bool:
    """Whether any aggregate is used, which makes every other expression a group key."""
    return any(isinstance(part, AggregateCall) for expression in expressions for part in walk(expression))


def group(
    relation: Relation,
    columns: tuple[Named, ...],
    order: tuple[OrderKey, ...],
    block: QueryBlock,
    spans: tuple[Span, ...],
) -> Grouped | None:
    """The groups, and the columns, order and ties over them; None after a problem."""
    groups = _Groups()
    for column in columns:
        _add_keys(column.expression, groups)
    for expression in (*(column.expression for column in columns), *(key.expression for key in order)):
        groups.add_aggregates(expression)
    if not _keys_are_possible(columns, groups, block, spans) or not _is_grouped(order, groups, block, spans):
        return None
    keys = tuple(Named(name, key) for key, name in groups.keys.items())
    aggregates = tuple(AggregateColumn(name, call) for call, name in groups.aggregates.items())
    grouped: Relation = Aggregate(relation, keys, aggregates)
    entities = {bound.entity.name: bound.entity for bound in block.visible.values()}
    for name, reference in groups.entities.items():
        grouped = _looked_up(grouped, entities[name], reference)
    return (
        grouped,
        tuple(Named(column.name, replaced(column.expression, groups.read)) for column in columns),
        tuple(replace(key, expression=replaced(key.expression, groups.read)) for key in order),
        tuple(key.name for key in keys),
    )


def _add_keys(expression: Expr, groups: _Groups) -> None:
    """The whole of a column without aggregates; beside an aggregate, each column that is read."""
    if not any(True for _ in columns_of(expression)):
        return
    if not is_aggregated((expression,)) or isinstance(expression, ColumnRef | EntityRef):
        groups.add_key(expression)
    elif not isinstance(expression, AggregateCall):
        for part in parts_of(expression):
            if isinstance(part, ColumnRef | EntityRef) or is_aggregated((part,)):
                _add_keys(part, groups)
            else:
                for column in columns_of(part):
                    groups.add_key(column)


def _keys_are_possible(
    columns: tuple[Named, ...], groups: _Groups, block: QueryBlock, spans: tuple[Span, ...]
) -> bool:
    good = True
    for column, span in zip(columns, spans, strict=False):
        expression = column.expression
        if (
            expression in groups.keys
            and not isinstance(expression.type, EntityValueType | NullType)
            and is_opaque(expression.type)
        ):
            message = "a vector cannot be a group key"
            block.context.report(QueryCode.NOT_RETURNABLE, span, message)
            good = False
    return good


def _is_grouped(
    order: tuple[OrderKey, ...], groups: _Groups, block: QueryBlock, spans: tuple[Span, ...]
) -> bool:
    good = True
    for key, span in zip(order, spans[len(spans) - len(order) :], strict=True):
        rest = replaced(key.expression, groups.read)
        missing = [column for column in columns_of(rest) if not _is_key(column, groups)]
        if missing:
            message = f"`${missing[0].name}` has no single value in a group"
            hint = "return it as well, or order by an aggregate of it"
            block.context.report(QueryCode.NOT_GROUPED, span, message, hint)
            good = False
    return good


def _is_key(column: ColumnRef, groups: _Groups) -> bool:
    if column in groups.keys:
        return True
    entity = groups.entities.get(column.entity)
    return entity is not None and column.column in entity.table.entity_columns


def _looked_up(grouped: Relation, entity: Entity, reference: EntityRef) -> Relation:
    """The columns of an entity that its id brings back; those that are keys themselves are there already."""
    existing_names = {field.name for field in grouped.outputs}
    columns = tuple(
        name for name in entity.table.entity_columns if f"{entity.name}.{name}" not in existing_names
    )
    if not columns:
        return grouped
    return Lookup(grouped, entity, columns, keep_missing=reference.nullable)


Scored = tuple[Relation, tuple[Named, ...], tuple[OrderKey, ...]]


def scores_of(expressions: tuple[Expr, ...]) -> tuple[Score, ...]:
    """The distinct scores, outermost only: those inside `rrf` belong to it."""
    scores: dict[Score, None] = {}
    for expression in expressions:
        if isinstance(expression, Score):
            scores[expression] = None
        else:
            scores.update(dict.fromkeys(scores_of(parts_of(expression))))
    return tuple(scores)


def order_key(expression: Expr, descending: bool | None) -> OrderKey:
    """Return the key of an order; without a written direction a score is best first, anything else ascending."""
    if descending is None:
        descending = isinstance(expression, Bm25 | Rrf)
    return OrderKey(expression, descending, nulls_last=bool(scores_of((expression,))))


def implied_order(columns: tuple[Named, ...]) -> tuple[OrderKey, ...]:
    """Best first, by the first column that is a score."""
    first = next((column.expression for column in columns if isinstance(column.expression, Score)), None)
    return () if first is None else (order_key(first, None),)


def add_scores(
    relation: Relation, columns: tuple[Named, ...], keys: tuple[OrderKey, ...], *, has_limit: bool
) -> Scored:
    """The relation with its scores, and the expressions over their columns."""
    scores = scores_of((*(column.expression for column in columns), *(key.expression for key in keys)))
    named = {score: f"score_{number}" for number, score in enumerate(scores, start=1)}
    first = keys[0].expression if has_limit and keys else None
    ranked = first if isinstance(first, Score) and first.nullable else None
    # A distance depends on its own row only, so that rows without a vector need not be read.
    filters_before = isinstance(ranked, Nearest) and all(isinstance(score, Nearest) for score in scores)
    if filters_before and isinstance(ranked, Nearest):
        relation = FilterRows(relation, (IsNull(ranked.column, negated=True),))
    relation = Search(relation, tuple(ScoreColumn(name, score) for score, name in named.items()))

    def read(expression: Expr) -> Expr | None:
        if not isinstance(expression, Score):
            return None
        return OutputRef(named[expression], expression.type, expression.nullable)

    if ranked is not None and not filters_before:
        relation = FilterRows(relation, (IsNull(replaced(ranked, read), negated=True),))
    return (
        relation,
        tuple(Named(column.name, replaced(column.expression, read)) for column in columns),
        tuple(replace(key, expression=replaced(key.expression, read)) for key in keys),
    )


_SIGN_OR_STRING: Final = re.compile(r'\$|("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True)
class CheckedResult:
    """The checked expressions of a result, and the place of each; `limit` None means that there is none."""

    columns: tuple[Named, ...]
    order: tuple[OrderKey, ...]
    limit: tuple[Expr, Expr | None] | None
    spans: tuple[Span, ...]

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return (*(column.expression for column in self.columns), *(key.expression for key in self.order))


def check_read(query: Query, body: ReadBody, context: Context) -> Relation | None:
    """The relation that gives the result, or None after a problem."""
    block = check_block(body.clauses, context, {}, query.name.span)
    columns = _columns(query, body, block)
    order = _order(body, columns, block, query.name.span)
    limit = _limit(body, context)
    result = CheckedResult(
        tuple(column for column, _ in columns),
        tuple(key for key, _ in order),
        limit,
        (*(span for _, span in columns), *(span for _, span in order)),
    )
    _check_scores(result, context, has_limit=body.limit is not None)
    return None if context.problems.sorted() else _relation(result, block)


def _columns(query: Query, body: ReadBody, block: QueryBlock) -> list[tuple[Named, Span]]:
    env = block.env(ExpressionPosition.RETURN)
    if not body.projections:
        env.report(QueryCode.EMPTY_RETURN, query.name.span, "`return` has no expressions")
    columns: list[tuple[Named, Span]] = []
    seen: set[str] = set()
    for projection in body.projections:
        checked = check_expression(projection.expression, env)
        span = projection.alias.span if projection.alias else projection.expression.span
        name = projection.alias.text if projection.alias else _default_name(projection.expression)
        if name in seen:
            hint = "give one of them another name with `as`"
            env.report(QueryCode.OUTPUT_TWICE, span, f"two columns are called {quoted(name)}", hint)
        seen.add(name)
        if checked is not None and checked.type == ScalarType(Scalar.BLOB):
            hint = "`omnigraph export` writes its bytes; `is null` can be asked here"
            env.report(
                QueryCode.NOT_RETURNABLE, projection.expression.span, "a Blob cannot be returned", hint
            )
        elif checked is not None:
            columns.append((Named(name, checked), projection.expression.span))
    return columns


def _default_name(expression: Expression) -> str:
    """`$x.prop` is called `x.prop`, and everything else is named alike: as it is written, without the sign."""
    return _SIGN_OR_STRING.sub(r"\1", print_expression(expression))


def _order(
    body: ReadBody, columns: list[tuple[Named, Span]], block: QueryBlock, span: Span
) -> list[tuple[OrderKey, Span]]:
    written = {projection.alias.text for projection in body.projections if projection.alias}
    aliases = {column.name: column.expression for column, _ in columns if column.name in written}
    env = replace(block.env(ExpressionPosition.ORDER), words=aliases)
    if body.order is not None and not body.order:
        env.report(QueryCode.EMPTY_RETURN, span, "`order` has no expressions")
    keys: list[tuple[OrderKey, Span]] = []
    for ordering in body.order or ():
        checked = check_expression(ordering.expression, env)
        if checked is not None and not is_sortable(checked.type):
            message = f"{value_type_text(checked.type)} has no order"
            hint = "order by one of its properties" if isinstance(ordering.expression, Variable) else ""
            env.report(QueryCode.NOT_SORTABLE, ordering.expression.span, message, hint)
        elif checked is not None:
            keys.append((order_key(checked, ordering.descending), ordering.expression.span))
    return keys


def _limit(body: ReadBody, context: Context) -> tuple[Expr, Expr | None] | None:
    if body.limit is None:
        return None
    count = _count(body.limit.count, context)
    offset = None if body.limit.offset is None else _count(body.limit.offset, context)
    return None if count is None else (count, offset)


def _count(number: NumberLiteral | Variable, context: Context) -> Expr | None:
    if isinstance(number, NumberLiteral):
        if number.text.isdecimal() and int(number.text) <= limits.QUERY_LIMIT_MAX:
            return Literal(int(number.text), I64)
        message = f"a limit is a whole number from 0 to {limits.QUERY_LIMIT_MAX}"
        context.report(QueryCode.LIMIT_VALUE, number.span, message)
        return None
    checked = check_expression(number, Env(context, {}, ExpressionPosition.RETURN))
    if checked is None:
        return None
    if not (isinstance(checked, Param) and is_integer(checked.type) and not checked.nullable):
        shown = f"{value_type_text(checked.type)}{'?' if checked.nullable else ''}"
        message = f"a limit needs an integer, and this is {shown}"
        context.report(QueryCode.LIMIT_VALUE, number.span, message, "declare the parameter as `I64`")
        return None
    return checked


def _check_scores(result: CheckedResult, context: Context, *, has_limit: bool) -> None:
    for expression, span in zip(result.expressions, result.spans, strict=True):
        scores = scores_of((expression,))
        if scores and is_aggregated(result.expressions):
            hint = "rank first, in a query of its own"
            context.report(QueryCode.SCORE_GROUPED, span, "a query with aggregates has no scores", hint)
        needs_limit = any(isinstance(score, Nearest | Rrf) for score in scores)
        if needs_limit and not has_limit:
            message = "`nearest` and `rrf` need a limit"
            context.report(QueryCode.LIMIT_NEEDED, span, message, "end the query with `limit 10`")


def _relation(result: CheckedResult, block: QueryBlock) -> Relation | None:
    """Match, scores, groups, order, limit, columns: each step over the columns of the one below it."""
    relation = assemble(block)
    columns, keys = result.columns, result.order
    ties = tuple(field.name for field in relation.outputs if field.name.endswith(".id"))
    if is_aggregated(result.expressions):
        grouped = group(relation, columns, keys, block, result.spans)
        if grouped is None:
            return None
        relation, columns, keys, ties = grouped
    elif scores_of(result.expressions):
        keys = keys or implied_order(columns)
        relation, columns, keys = add_scores(relation, columns, keys, has_limit=result.limit is not None)
    if keys:
        relation = Order(relation, keys, ties)
    if result.limit:
        relation = LimitRows(relation, *result.limit)
    return Project(relation, columns)
