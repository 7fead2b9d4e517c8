"""`return`, `order` and `limit`: the columns of the result, and whether they make sense together."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from omnigraph.base import limits
from omnigraph.query.checks.assembly import assemble
from omnigraph.query.checks.blocks import Block, check_block
from omnigraph.query.checks.context import Context, Env, Place
from omnigraph.query.checks.expressions import check_expression
from omnigraph.query.checks.grouping import group, is_aggregated
from omnigraph.query.checks.scoring import add_scores, implied_order, order_key, scores_of
from omnigraph.query.codes import QueryCode
from omnigraph.query.expressions import Expr, Literal, Nearest, Param, Rrf
from omnigraph.query.fields import Named
from omnigraph.query.plan import Limit, Order, OrderKey, Project, Relation
from omnigraph.query.printer import print_expression
from omnigraph.query.syntax import Expression, Query, ReadBody, Variable
from omnigraph.query.value_types import I64, is_integer, is_sortable, value_type_text
from omnigraph.schema.problems import quoted
from omnigraph.schema.property_types import Scalar, ScalarType
from omnigraph.schema.syntax import NumberLiteral, Span

_SIGN_OR_STRING: Final = re.compile(r'\$|("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True)
class Result:
    """The checked expressions of a result, and the place of each; `limit` None means that there is none."""

    columns: tuple[Named, ...]
    order: tuple[OrderKey, ...]
    limit: tuple[Expr, Expr | None] | None
    spans: tuple[Span, ...]

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return (*(found.expression for found in self.columns), *(key.expression for key in self.order))


def check_read(query: Query, body: ReadBody, context: Context) -> Relation | None:
    """The relation that gives the result, or None after a problem."""
    block = check_block(body.clauses, context, {}, query.name.span)
    columns = _columns(query, body, block)
    order = _order(body, columns, block, query.name.span)
    limit = _limit(body, context)
    result = Result(
        tuple(column for column, _ in columns),
        tuple(key for key, _ in order),
        limit,
        (*(span for _, span in columns), *(span for _, span in order)),
    )
    _check_scores(result, context, has_limit=body.limit is not None)
    return None if context.problems.sorted() else _relation(result, block)


def _columns(query: Query, body: ReadBody, block: Block) -> list[tuple[Named, Span]]:
    env = block.env(Place.RETURN)
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
    body: ReadBody, columns: list[tuple[Named, Span]], block: Block, span: Span
) -> list[tuple[OrderKey, Span]]:
    written = {found.alias.text for found in body.projections if found.alias}
    aliases = {column.name: column.expression for column, _ in columns if column.name in written}
    env = replace(block.env(Place.ORDER), words=aliases)
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


def _count(given: NumberLiteral | Variable, context: Context) -> Expr | None:
    if isinstance(given, NumberLiteral):
        if given.text.isdecimal() and int(given.text) <= limits.QUERY_LIMIT_MAX:
            return Literal(int(given.text), I64)
        message = f"a limit is a whole number from 0 to {limits.QUERY_LIMIT_MAX}"
        context.report(QueryCode.LIMIT_VALUE, given.span, message)
        return None
    checked = check_expression(given, Env(context, {}, Place.RETURN))
    if checked is None:
        return None
    if not (isinstance(checked, Param) and is_integer(checked.type) and not checked.nullable):
        shown = f"{value_type_text(checked.type)}{'?' if checked.nullable else ''}"
        message = f"a limit needs an integer, and this is {shown}"
        context.report(QueryCode.LIMIT_VALUE, given.span, message, "declare the parameter as `I64`")
        return None
    return checked


def _check_scores(result: Result, context: Context, *, has_limit: bool) -> None:
    for expression, span in zip(result.expressions, result.spans, strict=True):
        scores = scores_of((expression,))
        if scores and is_aggregated(result.expressions):
            hint = "rank first, in a query of its own"
            context.report(QueryCode.SCORE_GROUPED, span, "a query with aggregates has no scores", hint)
        needs_limit = any(isinstance(score, Nearest | Rrf) for score in scores)
        if needs_limit and not has_limit:
            message = "`nearest` and `rrf` need a limit"
            context.report(QueryCode.LIMIT_NEEDED, span, message, "end the query with `limit 10`")


def _relation(result: Result, block: Block) -> Relation | None:
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
        relation = Limit(relation, *result.limit)
    return Project(relation, columns)
