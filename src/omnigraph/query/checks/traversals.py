"""Checks one traversal: whether the edge exists, its endpoints have the right types, and its bounds are valid.

Returns the link of the plan and the variables that the traversal introduces, or None after it reported a problem.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.base import limits
from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import Name, NumberLiteral
from omnigraph.query.checks.context import Env, VariableBinding
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan.operators import Link
from omnigraph.query.plan.types import Entity, path_table
from omnigraph.query.syntax import Bounds, Traversal, Variable
from omnigraph.schema.catalog import EdgeType, NodeType, TypeKind

_DIGITS_MAX: Final = 9


class CheckedTraversal(Struct, frozen=True):
    """A link, and the entities that it introduces, by the name of their variable."""

    link: Link
    introduced: tuple[tuple[str, Entity], ...]


def check_traversal(traversal: Traversal, env: Env) -> CheckedTraversal | None:
    """Return the link, or None after a problem."""
    context = env.context
    named = [(name, context.catalog.edge_named(name.text)) for name in (traversal.edge, *traversal.more)]
    for name, candidate in named:
        if candidate is None:
            _report_unknown_edge(name, env)
    edges = [candidate for _, candidate in named if candidate is not None]
    if len(edges) < len(named) or not _are_alternatives(traversal, edges, env):
        return None
    edge = edges[0]
    bounds = _check_bounds(traversal, env)
    if not _endpoints_match(traversal, edge, env) or bounds is None or not _is_valid_binding(traversal, env):
        return None
    introduced: list[tuple[str, Entity]] = []
    ends: list[Entity] = []
    for variable, type_id in ((traversal.source, edge.source), (traversal.target, edge.target)):
        bound = _binding_of(variable, env)
        entity = bound.entity if bound else dict(introduced).get(variable.name)
        if entity is None or variable.is_anonymous:
            node = context.catalog.type_with_id(type_id)
            assert isinstance(node, NodeType)
            entity = context.new_entity(variable, context.table(node))
            introduced.append((variable.name, entity))
        ends.append(entity)
    table = context.table(edge)
    bound_edge = path = None
    if traversal.binding and bounds == (1, 1):
        bound_edge = context.new_entity(traversal.binding, table)
        introduced.append((traversal.binding.name, bound_edge))
    elif traversal.binding and not traversal.binding.is_anonymous:
        path = context.new_entity(traversal.binding, path_table(table))
        introduced.append((traversal.binding.name, path))
    low, high = bounds
    more = tuple(context.table(other) for other in edges[1:])
    link = Link(table, ends[0], ends[1], low, high, traversal.undirected, bound_edge, more, path)
    return CheckedTraversal(link, tuple(introduced))


def _binding_of(variable: Variable, env: Env) -> VariableBinding | None:
    return None if variable.is_anonymous else env.variables.get(variable.name)


def _are_alternatives(traversal: Traversal, edges: list[EdgeType], env: Env) -> bool:
    """Return whether the edges are different, connect the same types and are not bound; report it otherwise."""
    first = edges[0]
    if traversal.more and traversal.binding and traversal.bounds is None:
        message = "cannot bind one of several edges"
        hint = "Remove the variable, write one query for each edge, or add bounds to bind the path."
        env.report(QueryCode.EDGE_ALTERNATIVES, traversal.binding.span, message, hint)
        return False
    for position, (edge, name) in enumerate(zip(edges[1:], traversal.more, strict=True), start=1):
        if edge in edges[:position]:
            env.report(QueryCode.EDGE_ALTERNATIVES, name.span, f"duplicate edge {quoted(name.text)}", "Remove it.")
            return False
        if (edge.source, edge.target) != (first.source, first.target):
            expected, actual = (_endpoints_text(other, env) for other in (first, edge))
            message = f"the edges connect different types: expected {expected}, got {actual}"
            env.report(QueryCode.EDGE_ALTERNATIVES, name.span, message, "Write one query for each edge.")
            return False
    return True


def _endpoints_text(edge: EdgeType, env: Env) -> str:
    catalog = env.context.catalog
    return f"{catalog.source_of(edge).name} to {catalog.target_of(edge).name}"


def _report_unknown_edge(edge_name: Name, env: Env) -> None:
    name = edge_name.text
    edge_names = [edge.name[:1].lower() + edge.name[1:] for edge in env.context.catalog.edges]
    hint = env.context.suggest_name(name, edge_names)
    if env.context.catalog.node_named(name):
        hint = f"{name} is a node type. Write the name of an edge type."
    env.report(QueryCode.UNKNOWN_EDGE, edge_name.span, f"unknown edge type {quoted(name)}", hint)


def _endpoints_match(traversal: Traversal, edge: EdgeType, env: Env) -> bool:
    catalog = env.context.catalog
    source, target = catalog.source_of(edge), catalog.target_of(edge)
    if traversal.undirected and source != target:
        message = f"{edge.name} connects {source.name} to {target.name}, so it cannot be undirected"
        directed = replace(traversal, undirected=False)
        hint = f"Write `${traversal.source.name} {directed.edge_text} ${traversal.target.name}`."
        env.report(QueryCode.UNDIRECTED_ENDS, traversal.edge.span, message, hint)
        return False
    types = []
    for variable in (traversal.source, traversal.target):
        bound = _binding_of(variable, env)
        if not _is_node(variable, bound, env):
            return False
        types.append(bound.entity.table.type_id if bound else None)
    left, right = types
    is_one = traversal.source == traversal.target and not traversal.source.is_anonymous
    if is_one and left is None and source != target:
        shown = quoted(f"${traversal.target.name}")
        message = f"{edge.name} connects {source.name} to {target.name}, but {shown} is both endpoints"
        hint = "Use two variables, because the endpoints have different types."
        env.report(QueryCode.WRONG_ENDPOINT, traversal.target.span, message, hint)
        return False
    if left in {None, source.id} and right in {None, target.id}:
        return True
    if left in {None, target.id} and right in {None, source.id}:
        message = f"wrong direction: {edge.name} connects {source.name} to {target.name}"
        hint = f"Swap the variables: `${traversal.target.name} {traversal.edge_text} ${traversal.source.name}`."
        env.report(QueryCode.WRONG_DIRECTION, traversal.edge.span, message, hint)
        return False
    wrong, expected = (traversal.source, source) if left not in {None, source.id} else (traversal.target, target)
    actual = env.variables[wrong.name].entity.table.name
    message = (
        f"{edge.name} connects {source.name} to {target.name}: "
        f"expected {quoted(f'${wrong.name}')} to be {expected.name}, got {actual}"
    )
    env.report(QueryCode.WRONG_ENDPOINT, wrong.span, message)
    return False


def _is_node(variable: Variable, bound: VariableBinding | None, env: Env) -> bool:
    shown = quoted(f"${variable.name}")
    if bound is None and variable.name in env.context.params:
        hint = "Bind a node: `$x: Type { key: $param }`."
        env.report(QueryCode.NOT_AN_ENTITY, variable.span, f"expected a node, got parameter {shown}", hint)
        return False
    if bound and bound.entity.table.kind is TypeKind.EDGE:
        env.report(QueryCode.NOT_AN_ENTITY, variable.span, f"expected a node, got edge {shown}")
        return False
    return True


def _is_valid_binding(traversal: Traversal, env: Env) -> bool:
    variable = traversal.binding
    if variable is None:
        return True
    if variable.name in env.context.params:
        env.context.report_shadowed_parameter(variable)
        return False
    ends = {traversal.source.name, traversal.target.name}
    if not variable.is_anonymous and (variable.name in env.variables or variable.name in ends):
        message = f"{quoted(f'${variable.name}')} is already bound"
        env.report(QueryCode.EDGE_BINDING_TWICE, variable.span, message, "Use another variable for the edge.")
        return False
    return True


def _check_bounds(traversal: Traversal, env: Env) -> tuple[int, int] | None:
    bounds = traversal.bounds
    if bounds is None:
        return 1, 1
    low, high = _parse_hops(bounds.low), _upper_bound(bounds, env)
    if low is None or high is None:
        if bounds.high is not None or env.context.hops_ceiling is not None:
            message = "the bounds of a traversal must be two integers"
            env.report(QueryCode.BOUNDS_ORDER, bounds.span, message, "Write them as in `{1,3}`.")
        return None
    if low == 0:
        message = "the lower bound of a traversal must be at least 1, got 0"
        hint = "Start at 1. The start node is bound to the first variable."
        env.report(QueryCode.BOUNDS_ZERO, bounds.span, message, hint)
        return None
    if max(low, high) > limits.TRAVERSAL_HOPS_MAX:
        message = f"too many hops: expected at most {limits.TRAVERSAL_HOPS_MAX}"
        env.report(QueryCode.BOUNDS_TOO_HIGH, bounds.span, message)
        return None
    if low > high:
        message = f"the lower bound {low} is larger than the upper bound {high}"
        env.report(QueryCode.BOUNDS_ORDER, bounds.span, message)
        return None
    return low, high


def _upper_bound(bounds: Bounds, env: Env) -> int | None:
    if bounds.high is not None:
        return _parse_hops(bounds.high)
    ceiling = env.context.hops_ceiling
    if ceiling is None:
        hint = (
            f"Write `{{{bounds.low.text},5}}`, or set a maximum: option `max-hops` of the command, "
            "`limits=QueryLimits(hops=5)` in Python."
        )
        message = "the traversal has no upper bound, and no maximum is configured"
        env.report(QueryCode.BOUNDS_OPEN, bounds.span, message, hint)
    return ceiling


def _parse_hops(number: NumberLiteral) -> int | None:
    """Return the number, or None if it is not an integer; 10**9 for more than 9 digits, which exceeds every limit."""
    digits = number.text.lstrip("0") or "0"
    if not digits.isdecimal():
        return None
    return int(digits) if len(digits) <= _DIGITS_MAX else 10**_DIGITS_MAX
