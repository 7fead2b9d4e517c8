"""The clauses of a `match`, `not` or `optional`: which variables exist, and what must hold for them.

A variable is introduced by its first binding wherever that stands in the block, or else by its first traversal in the
order of the text; a further binding to the same type adds its filters. What an `optional` introduces can be null and is
seen by the clauses after it, and by every filter and `not`. What a `not` introduces is seen inside it only. A block is
worked out in stages: first everything that needs no optional variable, then one stage per `optional` with what depends
on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import Span
from omnigraph.query.checks.context import SHOW_TYPES, Bound, Context, Env, ExpressionPosition
from omnigraph.query.checks.expressions import check_condition, report_no_property
from omnigraph.query.checks.traversals import check_traversal
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan.expression_walk import columns_of, entities_of
from omnigraph.query.plan.expressions import ColumnRef, EntityRef, Expr, IsNull, Param
from omnigraph.query.plan.operators import Argument, ExistsJoin, FilterRows, LeftJoin, Link, Pattern, Unit
from omnigraph.query.plan.statements import Relation
from omnigraph.query.plan.types import Entity
from omnigraph.query.syntax import (
    Access,
    Assignment,
    Binding,
    Clause,
    Comparison,
    ComparisonOperator,
    Filter,
    ListLiteral,
    NotBlock,
    OptionalBlock,
    Traversal,
    Variable,
    Word,
    expressions_of,
)
from omnigraph.schema.property_types import ListType


@dataclass(slots=True)
class MatchStage:
    """What is matched together: the optional block it begins with, entities, links, conditions and negations."""

    optional: QueryBlock | None = None
    entities: list[Entity] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)
    negations: list[QueryBlock] = field(default_factory=list)

    @property
    def own(self) -> frozenset[str]:
        """The names of the entities that exist from here on."""
        edges = (link.edge for link in self.links if link.edge)
        introduced = frozenset(entity.name for entity in (*self.entities, *edges))
        return introduced | (self.optional.own if self.optional else frozenset())


@dataclass(slots=True)
class QueryBlock:
    """A checked block. `visible` is everything a clause in it can name; `outer` the part that comes from outside."""

    context: Context
    outer: Mapping[str, Bound]
    visible: dict[str, Bound]
    stages: list[MatchStage]

    @property
    def own(self) -> frozenset[str]:
        return frozenset[str]().union(*(stage.own for stage in self.stages))

    def env(self, place: ExpressionPosition = ExpressionPosition.FILTER) -> Env:
        return Env(self.context, self.visible, place)

    def stage_of(self, entities: frozenset[str]) -> MatchStage:
        """The first stage in which all these entities exist."""
        seen: frozenset[str] = frozenset()
        required = entities & self.own
        for stage in self.stages:
            seen |= stage.own
            if required <= seen:
                return stage
        raise AssertionError("every entity of a block belongs to a stage")

    def add(self, condition: Expr) -> None:
        """Let a condition hold from the first stage on in which all that it reads exists."""
        self.stage_of(entities_of(condition)).conditions.append(condition)


def check_block(
    clauses: tuple[Clause, ...], context: Context, outer: Mapping[str, Bound], span: Span
) -> QueryBlock:
    """The block with every problem of it reported; parts with problems are left out."""
    block = QueryBlock(context, outer, dict(outer), [MatchStage()])
    if not clauses:
        hint = "write at least one clause, as in `$p: Person`"
        context.report(QueryCode.EMPTY_BLOCK, span, "the block has no clauses", hint)
    bound = [_check_binding(clause, block) for clause in clauses if isinstance(clause, Binding)]
    for clause in clauses:
        if isinstance(clause, Traversal):
            _check_traversal(clause, block)
        elif isinstance(clause, OptionalBlock):
            _check_optional(clause, block)
    for clause in clauses:
        if isinstance(clause, NotBlock):
            _check_not(clause, block)
    for binding, variable_binding in (pair for pair in bound if pair is not None):
        _check_properties(binding, variable_binding, block)
    for clause in clauses:
        if isinstance(clause, Filter):
            condition = check_condition(clause.condition, block.env())
            if condition is not None:
                block.add(condition)
    return block


def _check_binding(binding: Binding, block: QueryBlock) -> tuple[Binding, Bound] | None:
    context, variable, name = block.context, binding.variable, binding.type
    node = context.catalog.node_named(name.text)
    if node is None:
        _report_no_node(name.text, name.span, context)
    earlier = None if variable.is_anonymous else block.visible.get(variable.name)
    if earlier and node and earlier.entity.table.type_id == node.id:
        if earlier.nullable:
            # What an `optional` outside did not find is no node here.
            block.add(
                IsNull(EntityRef(earlier.entity.name, earlier.entity.table, nullable=True).id, negated=True)
            )
        return binding, earlier
    if not _is_free(variable, block) or node is None:
        context.broken.add(variable.name)
        return None
    entity = context.new_entity(variable, context.table(node))
    block.stages[0].entities.append(entity)
    if not variable.is_anonymous:
        block.visible[variable.name] = Bound(entity)
    return binding, Bound(entity)


def _report_no_node(name: str, span: Span, context: Context) -> None:
    catalog = context.catalog
    if catalog.edge_named(name):
        lower = name[:1].lower() + name[1:]
        hint = f"{name} is an edge; it is bound between two nodes: `$a $e:{lower} $b`"
    elif catalog.interface_named(name):
        nodes = [node.name for node in catalog.nodes if name in node.implements]
        hint = (
            f"{name} is an interface; bind a node that implements it: {', '.join(nodes) or 'there is none'}"
        )
    else:
        hint = context.problems.did_you_mean(name, (node.name for node in catalog.nodes)) or SHOW_TYPES
    context.report(QueryCode.UNKNOWN_TYPE, span, f"no node is called {quoted(name)}", hint)


def _is_free(variable: Variable, block: QueryBlock) -> bool:
    shown = quoted(f"${variable.name}")
    if variable.is_anonymous:
        return True
    if variable.name in block.context.params:
        hint = "give the variable another name"
        block.context.report(QueryCode.PARAMETER_SHADOWED, variable.span, f"{shown} is a parameter", hint)
        return False
    if (bound := block.visible.get(variable.name)) is not None:
        hint = "a second binding has the same type and adds its filters; give another node another variable"
        message = f"{shown} is already bound to {quoted(bound.entity.table.name)}"
        block.context.report(QueryCode.VARIABLE_TWICE, variable.span, message, hint)
        return False
    return True


def _check_traversal(traversal: Traversal, block: QueryBlock) -> None:
    checked = check_traversal(traversal, block.env())
    if checked is None:
        ends = (traversal.source, traversal.target, *((traversal.binding,) if traversal.binding else ()))
        block.context.broken.update(end.name for end in ends if end.name not in block.visible)
        return
    link = checked.link
    introduced = {entity.name for _, entity in checked.introduced}
    stage = block.stage_of(frozenset({link.source.name, link.target.name} - introduced))
    stage.links.append(link)
    for name, entity in checked.introduced:
        if entity is not link.edge:
            stage.entities.append(entity)
        if name != "_":
            block.visible[name] = Bound(entity)


def _check_optional(optional: OptionalBlock, block: QueryBlock) -> None:
    inner = check_block(optional.clauses, block.context, dict(block.visible), optional.span)
    block.stages.append(MatchStage(inner))
    for name, bound in inner.visible.items():
        if name not in block.visible:
            block.visible[name] = replace(bound, nullable=True)


def _check_not(negation: NotBlock, block: QueryBlock) -> None:
    inner = check_block(negation.clauses, block.context, dict(block.visible), negation.span)
    block.context.inside_not.update(inner.visible.keys() - block.visible.keys())
    needed = frozenset(column.entity for column in outer_columns(inner))
    block.stage_of(needed).negations.append(inner)


def outer_columns(block: QueryBlock) -> tuple[ColumnRef, ...]:
    """The columns of outer entities that a block reads: the id of each of them first."""
    columns: dict[str, ColumnRef] = {}
    nullable = {bound.entity.name: bound.nullable for bound in block.outer.values()}
    own = block.own

    def add(column: ColumnRef) -> None:
        if column.entity not in own:
            columns.setdefault(column.name, column)

    def add_id(entity: Entity) -> None:
        add(ColumnRef(entity.name, "id", entity.table.columns[0].type, nullable.get(entity.name, False)))

    for stage in block.stages:
        for link in stage.links:
            add_id(link.source)
            add_id(link.target)
        for condition in stage.conditions:
            for column in columns_of(condition):
                add(column)
        for inner in (*stage.negations, *((stage.optional,) if stage.optional else ())):
            for column in outer_columns(inner):
                add(column)
    entities = {bound.entity.name: bound.entity for bound in block.outer.values()}
    for name in {column.entity for column in columns.values()}:
        add_id(entities[name])
    return tuple(sorted(columns.values(), key=lambda column: (column.column != "id", column.name)))


def _check_properties(binding: Binding, bound: Bound, block: QueryBlock) -> None:
    entity = bound.entity
    seen: set[str] = set()
    for assignment in binding.properties:
        name = assignment.name
        column = entity.table.column(name.text)
        if column is None:
            report_no_property(entity.table.name, name.text, name.span, block.env())
            continue
        if name.text in seen:
            message = f"{quoted(name.text)} is given twice"
            block.context.report(QueryCode.PROPERTY_TWICE, name.span, message, "use a filter for the other")
        seen.add(name.text)
        reference = ColumnRef(entity.name, column.name, column.type, column.nullable or bound.nullable)
        condition = _inline(assignment, reference, block)
        if condition is not None:
            block.add(condition)


def _inline(assignment: Assignment, column: ColumnRef, block: QueryBlock) -> Expr | None:
    value, name = assignment.value, assignment.name
    # No text can write the empty word, so that a value cannot mean the property itself.
    env = replace(block.env(ExpressionPosition.INLINE), words={"": column})
    if isinstance(value, ListLiteral):
        hint = "write the condition as a filter: `$x.prop in [ … ]`"
        env.report(QueryCode.INLINE_VALUE, value.span, "an inline value is not a list", hint)
        return None
    for part in expressions_of(value):
        if isinstance(part, Access) or (isinstance(part, Variable) and part.name in block.visible):
            hint = "compare two variables in a filter: `$x.prop = $y.prop`"
            env.report(QueryCode.INLINE_VALUE, part.span, "an inline value uses no variable", hint)
            return None
    is_list = isinstance(column.type, ListType) and not _is_list_param(value, block)
    operator = ComparisonOperator.CONTAINS if is_list else ComparisonOperator.EQ
    return check_condition(Comparison(operator, Word("", name.span), value, value.span), env)


def _is_list_param(value: object, block: QueryBlock) -> bool:
    param = block.context.params.get(value.name) if isinstance(value, Variable) else None
    return isinstance(param, Param) and isinstance(param.type, ListType)


def assemble(block: QueryBlock, outer: Relation | None = None) -> Relation:
    """The relation of a block; `outer` gives the rows that it extends."""
    relation = outer
    for stage in block.stages:
        if stage.optional:
            inner, keys = _inner(stage.optional)
            relation = LeftJoin(relation or Unit(), inner, keys)
        if stage.entities or stage.links:
            relation = Pattern(relation, tuple(stage.entities), tuple(stage.links))
        if stage.conditions:
            relation = FilterRows(relation or Unit(), tuple(stage.conditions))
        for negation in stage.negations:
            relation = _exists(relation or Unit(), negation)
    return relation or Unit()


def _exists(relation: Relation, negation: QueryBlock) -> ExistsJoin:
    """`not { not { … } }` asks whether there is a match, which needs one join and not two."""
    twice = _only_negation(negation)
    inner, keys = _inner(twice or negation)
    return ExistsJoin(relation, inner, keys, negated=twice is None)


def _only_negation(block: QueryBlock) -> QueryBlock | None:
    match block.stages:
        case [MatchStage(None, [], [], [], [only])]:
            return only
        case _:
            return None


def _inner(block: QueryBlock) -> tuple[Relation, tuple[str, ...]]:
    columns = outer_columns(block)
    keys = tuple(column.name for column in columns if column.column == "id")
    return assemble(block, Argument(columns) if columns else None), keys
