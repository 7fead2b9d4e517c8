"""Checks the clauses of a `match`, `not` or `optional`, and builds the relation that matches them.

The first binding of a variable introduces it, at any position in the block; without a binding, its first traversal in
text order does. Another binding to the same type adds filters. A variable of an `optional` can be null; the clauses
after it and every filter and `not` can use it. A variable of a `not` exists only inside it. A block has stages: the
first has everything that needs no optional variable; each `optional` adds one, with what depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import Span
from omnigraph.query import syntax
from omnigraph.query.checks.context import Context, Env, ExpressionPosition, VariableBinding
from omnigraph.query.checks.expressions import check_condition, report_unknown_property
from omnigraph.query.checks.traversals import check_traversal
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import columns_of, entities_of
from omnigraph.query.plan.types import Entity
from omnigraph.schema.property_types import ListType


class MatchStage(Struct):
    """What one stage matches: an optional block, then entities, links, conditions and negated blocks."""

    optional: QueryBlock | None = None
    entities: list[Entity] = field(default_factory=list)
    links: list[op.Link] = field(default_factory=list)
    conditions: list[ex.Expr] = field(default_factory=list)
    negations: list[QueryBlock] = field(default_factory=list)

    @property
    def own(self) -> frozenset[str]:
        """The names of the entities that this stage introduces."""
        edges = (link.edge for link in self.links if link.edge)
        paths = (link.path for link in self.links if link.path)
        introduced = frozenset(entity.name for entity in (*self.entities, *edges, *paths))
        return introduced | (self.optional.own if self.optional else frozenset())


class QueryBlock(Struct):
    """A checked block. Its clauses can use the variables of `visible`; those of `outer` are bound outside it."""

    context: Context
    outer: Mapping[str, VariableBinding]
    visible: dict[str, VariableBinding]
    stages: list[MatchStage]

    @property
    def own(self) -> frozenset[str]:
        return frozenset[str]().union(*(stage.own for stage in self.stages))

    def env(self, position: ExpressionPosition = ExpressionPosition.FILTER) -> Env:
        return Env(self.context, self.visible, position)

    def stage_of(self, entities: frozenset[str]) -> MatchStage:
        """Return the first stage in which all these entities exist."""
        seen: frozenset[str] = frozenset()
        required = entities & self.own
        for stage in self.stages:
            seen |= stage.own
            if required <= seen:
                return stage
        raise AssertionError("every entity of a block belongs to a stage")

    def add(self, condition: ex.Expr) -> None:
        """Add a condition to the first stage in which all entities that it reads exist."""
        self.stage_of(entities_of(condition)).conditions.append(condition)


def check_block(
    clauses: tuple[syntax.Clause, ...], context: Context, outer: Mapping[str, VariableBinding], span: Span
) -> QueryBlock:
    """Check a block: report every problem, and return the block without the parts that have problems."""
    block = QueryBlock(context, outer, dict(outer), [MatchStage()])
    if not clauses:
        hint = "Write at least one clause, such as `$p: Person`."
        context.report(QueryCode.EMPTY_BLOCK, span, "the block has no clauses", hint)
    bindings = [_check_binding(clause, block) for clause in clauses if isinstance(clause, syntax.Binding)]
    for clause in clauses:
        if isinstance(clause, syntax.Traversal):
            _check_traversal(clause, block)
        elif isinstance(clause, syntax.OptionalBlock):
            _check_optional(clause, block)
    for clause in clauses:
        if isinstance(clause, syntax.NotBlock):
            _check_not(clause, block)
    for pair in bindings:
        if pair is not None:
            _check_properties(*pair, block)
    for clause in clauses:
        if isinstance(clause, syntax.Filter):
            condition = check_condition(clause.condition, block.env())
            if condition is not None:
                block.add(condition)
    return block


def _check_binding(binding: syntax.Binding, block: QueryBlock) -> tuple[syntax.Binding, VariableBinding] | None:
    context, variable, name = block.context, binding.variable, binding.type
    node = context.catalog.node_named(name.text)
    if node is None:
        _report_unknown_node(name.text, name.span, context)
    earlier = None if variable.is_anonymous else block.visible.get(variable.name)
    if earlier and node and earlier.entity.table.type_id == node.id:
        if earlier.nullable:
            # The binding matches a node, so that it excludes the nulls of an outer `optional`.
            entity_id = ex.EntityRef(earlier.entity.name, earlier.entity.table, nullable=True).id
            block.add(ex.IsNull(entity_id, negated=True))
        return binding, earlier
    if not _is_free(variable, block) or node is None:
        context.broken.add(variable.name)
        return None
    entity = context.new_entity(variable, context.table(node))
    block.stages[0].entities.append(entity)
    if not variable.is_anonymous:
        block.visible[variable.name] = VariableBinding(entity)
    return binding, VariableBinding(entity)


def _report_unknown_node(name: str, span: Span, context: Context) -> None:
    catalog = context.catalog
    if catalog.edge_named(name):
        lower = name[:1].lower() + name[1:]
        hint = f"{name} is an edge type. Bind it between two nodes: `$a $e:{lower} $b`."
    elif catalog.interface_named(name):
        nodes = [node.name for node in catalog.nodes if name in node.implements]
        hint = f"{name} is an interface. " + (
            f"Bind a node type that implements it: {', '.join(nodes)}." if nodes else "No node type implements it."
        )
    else:
        hint = context.suggest_name(name, [node.name for node in catalog.nodes])
    context.report(QueryCode.UNKNOWN_TYPE, span, f"unknown node type {quoted(name)}", hint)


def _is_free(variable: syntax.Variable, block: QueryBlock) -> bool:
    """Return whether the variable can be introduced; report it otherwise."""
    if variable.is_anonymous:
        return True
    if variable.name in block.context.params:
        block.context.report_shadowed_parameter(variable)
        return False
    if (bound := block.visible.get(variable.name)) is not None:
        hint = "Use another variable. A second binding of a variable must have the same type."
        message = f"{quoted(f'${variable.name}')} is already bound to type {quoted(bound.entity.table.name)}"
        block.context.report(QueryCode.VARIABLE_TWICE, variable.span, message, hint)
        return False
    return True


def _check_traversal(traversal: syntax.Traversal, block: QueryBlock) -> None:
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
        if entity is not link.edge and entity is not link.path:
            stage.entities.append(entity)
        if name != "_":
            block.visible[name] = VariableBinding(entity)


def _outer_variables(block: QueryBlock) -> dict[str, VariableBinding]:
    """Return the variables that an inner block can use: not the paths, which have no ids to join on."""
    return {name: bound for name, bound in block.visible.items() if not bound.is_path}


def _check_optional(optional: syntax.OptionalBlock, block: QueryBlock) -> None:
    inner = check_block(optional.clauses, block.context, _outer_variables(block), optional.span)
    block.stages.append(MatchStage(optional=inner))
    for name, bound in inner.visible.items():
        if name not in block.visible:
            block.visible[name] = replace(bound, nullable=True)


def _check_not(negation: syntax.NotBlock, block: QueryBlock) -> None:
    inner = check_block(negation.clauses, block.context, _outer_variables(block), negation.span)
    block.context.inside_not.update(inner.visible.keys() - block.visible.keys())
    needed = frozenset(column.entity for column in outer_columns(inner))
    block.stage_of(needed).negations.append(inner)


def outer_columns(block: QueryBlock) -> tuple[ex.ColumnRef, ...]:
    """Return the columns of outer entities that a block reads, the id of each entity first."""
    columns: dict[str, ex.ColumnRef] = {}
    nullable = {bound.entity.name: bound.nullable for bound in block.outer.values()}
    own = block.own

    def add(column: ex.ColumnRef) -> None:
        if column.entity not in own:
            columns.setdefault(column.name, column)

    def add_id(entity: Entity) -> None:
        add(ex.ColumnRef(entity.name, "id", entity.table.columns[0].type, nullable.get(entity.name, False)))

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


def _check_properties(binding: syntax.Binding, bound: VariableBinding, block: QueryBlock) -> None:
    entity = bound.entity
    seen: set[str] = set()
    for assignment in binding.properties:
        name = assignment.name
        column = entity.table.column(name.text)
        if column is None:
            report_unknown_property(entity.table.name, name.text, name.span, block.env())
            continue
        if name.text in seen:
            message = f"duplicate property {quoted(name.text)}"
            hint = "Write the second condition as a filter."
            block.context.report(QueryCode.PROPERTY_TWICE, name.span, message, hint)
        seen.add(name.text)
        reference = ex.ColumnRef.of(entity.name, column, is_optional=bound.nullable)
        condition = _check_inline_value(assignment, reference, block)
        if condition is not None:
            block.add(condition)


def _check_inline_value(assignment: syntax.Assignment, column: ex.ColumnRef, block: QueryBlock) -> ex.Expr | None:
    value, name = assignment.value, assignment.name
    # The empty word cannot occur in a text, so that a value cannot refer to the property itself.
    env = replace(block.env(ExpressionPosition.INLINE), words={"": column})
    if isinstance(value, syntax.ListLiteral):
        hint = "Write the condition as a filter: `$x.prop in [ … ]`."
        env.report(QueryCode.INLINE_VALUE, value.span, "an inline value cannot be a list", hint)
        return None
    for part in syntax.walk(value):
        if not isinstance(part, syntax.Access | syntax.Variable):
            continue
        if isinstance(part, syntax.Access) or part.name in block.visible:
            hint = "Compare two variables in a filter: `$x.prop = $y.prop`."
            env.report(QueryCode.INLINE_VALUE, part.span, "an inline value cannot use a variable", hint)
            return None
    is_list = isinstance(column.type, ListType) and not _is_list_param(value, block)
    operator = syntax.ComparisonOperator.CONTAINS if is_list else syntax.ComparisonOperator.EQ
    return check_condition(syntax.Comparison(operator, syntax.Word("", name.span), value, value.span), env)


def _is_list_param(value: object, block: QueryBlock) -> bool:
    param = block.context.params.get(value.name) if isinstance(value, syntax.Variable) else None
    return isinstance(param, ex.Param) and isinstance(param.type, ListType)


def assemble(block: QueryBlock, outer: op.Relation | None = None) -> op.Relation:
    """Build the relation of a block, which extends the rows of `outer`."""
    relation = outer
    for stage in block.stages:
        if stage.optional:
            inner, keys = _assemble_inner(stage.optional)
            relation = op.LeftJoin(relation or op.Unit(), inner, keys)
        if stage.entities or stage.links:
            relation = op.Pattern(relation, tuple(stage.entities), tuple(stage.links))
        if stage.conditions:
            relation = op.FilterRows(relation or op.Unit(), tuple(stage.conditions))
        for negation in stage.negations:
            relation = _assemble_negation(relation or op.Unit(), negation)
    return relation or op.Unit()


def _assemble_negation(relation: op.Relation, negation: QueryBlock) -> op.ExistsJoin:
    """Build the anti join of a `not`; `not { not { … } }` needs one semi join instead of two anti joins."""
    match negation.stages:
        case [MatchStage(optional=None, entities=[], links=[], conditions=[], negations=[inner_negation])]:
            inner, keys = _assemble_inner(inner_negation)
            return op.ExistsJoin(relation, inner, keys, negated=False)
        case _:
            inner, keys = _assemble_inner(negation)
            return op.ExistsJoin(relation, inner, keys, negated=True)


def _assemble_inner(block: QueryBlock) -> tuple[op.Relation, tuple[str, ...]]:
    """Return the inner relation of a join, and the ids that it joins on."""
    columns = outer_columns(block)
    keys = tuple(column.name for column in columns if column.column == "id")
    return assemble(block, op.OuterRow(columns) if columns else None), keys
