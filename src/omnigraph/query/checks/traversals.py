"""One traversal: whether the edge exists, its ends fit, and its bounds are possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from omnigraph.base import limits
from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import NumberLiteral
from omnigraph.query.checks.context import SHOW_TYPES, Bound, Env
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan.operators import Link
from omnigraph.query.plan.types import Entity
from omnigraph.query.syntax import Bounds, Traversal, Variable
from omnigraph.schema.catalog import EdgeType, NodeType, TypeKind

_DIGITS_MAX: Final = 9


@dataclass(frozen=True, slots=True)
class CheckedTraversal:
    """A link, and the variables that it introduces; an anonymous one has no name."""

    link: Link
    introduced: tuple[tuple[str, Entity], ...]


def check_traversal(traversal: Traversal, env: Env) -> CheckedTraversal | None:
    """The link, or None after a problem."""
    context = env.context
    edge = context.catalog.edge_named(traversal.edge.text)
    if edge is None:
        _report_no_edge(traversal, env)
        return None
    bounds = _bounds(traversal, env)
    if not _ends_fit(traversal, edge, env) or bounds is None or not _binding_fits(traversal, bounds, env):
        return None
    introduced: list[tuple[str, Entity]] = []
    ends: list[Entity] = []
    for variable, type_id in ((traversal.source, edge.source), (traversal.target, edge.target)):
        entity = _known(variable, env) or dict(introduced).get(variable.name)
        if entity is None or variable.is_anonymous:
            node = context.catalog.type_with_id(type_id)
            assert isinstance(node, NodeType)
            entity = context.new_entity(variable, context.table(node))
            introduced.append((variable.name, entity))
        ends.append(entity)
    table = context.table(edge)
    bound = context.new_entity(traversal.binding, table) if traversal.binding else None
    if bound and traversal.binding:
        introduced.append((traversal.binding.name, bound))
    low, high = bounds
    link = Link(table, ends[0], ends[1], low, high, traversal.undirected, bound)
    return CheckedTraversal(link, tuple(introduced))


def _known(variable: Variable, env: Env) -> Entity | None:
    variable_binding = None if variable.is_anonymous else env.variables.get(variable.name)
    return variable_binding.entity if variable_binding else None


def _report_no_edge(traversal: Traversal, env: Env) -> None:
    name = traversal.edge.text
    edge_names = [edge.name[:1].lower() + edge.name[1:] for edge in env.context.catalog.edges]
    hint = env.context.problems.did_you_mean(name, edge_names) or SHOW_TYPES
    if env.context.catalog.node_named(name):
        hint = "this is a node; a traversal follows an edge"
    env.report(QueryCode.UNKNOWN_EDGE, traversal.edge.span, f"no edge is called {quoted(name)}", hint)


def _ends_fit(traversal: Traversal, edge: EdgeType, env: Env) -> bool:
    catalog = env.context.catalog
    source, target = catalog.source_of(edge), catalog.target_of(edge)
    if traversal.undirected and source != target:
        message = f"{edge.name} goes from {source.name} to {target.name}, so it has a direction"
        hint = f"write `${traversal.source.name} {traversal.edge.text} ${traversal.target.name}`"
        env.report(QueryCode.UNDIRECTED_ENDS, traversal.edge.span, message, hint)
        return False
    types = []
    for variable in (traversal.source, traversal.target):
        bound = None if variable.is_anonymous else env.variables.get(variable.name)
        if not _is_node(variable, bound, env):
            return False
        types.append(bound.entity.table.type_id if bound else None)
    left, right = types
    is_one = traversal.source == traversal.target and not traversal.source.is_anonymous
    if is_one and left is None and source != target:
        shown = quoted(f"${traversal.target.name}")
        message = f"{edge.name} goes from {source.name} to {target.name}, and {shown} stands at both ends"
        hint = "nodes of two types are never the same: write two variables"
        env.report(QueryCode.WRONG_ENDPOINT, traversal.target.span, message, hint)
        return False
    if left in {None, source.id} and right in {None, target.id}:
        return True
    if left in {None, target.id} and right in {None, source.id}:
        message = f"{edge.name} goes from {source.name} to {target.name}"
        hint = f"turn it round: `${traversal.target.name} {traversal.edge.text} ${traversal.source.name}`"
        env.report(QueryCode.WRONG_DIRECTION, traversal.edge.span, message, hint)
        return False
    wrong, expected = (
        (traversal.source, source) if left not in {None, source.id} else (traversal.target, target)
    )
    is_a = env.variables[wrong.name].entity.table.name
    message = (
        f"{edge.name} goes from {source.name} to {target.name}, and {quoted(f'${wrong.name}')} is a {is_a}"
    )
    env.report(QueryCode.WRONG_ENDPOINT, wrong.span, message, f"a {expected.name} is needed here")
    return False


def _is_node(variable: Variable, bound: Bound | None, env: Env) -> bool:
    shown = quoted(f"${variable.name}")
    if bound is None and variable.name in env.context.params:
        hint = "bind a node first: `$x: Type { key: $param }`"
        env.report(QueryCode.NOT_AN_ENTITY, variable.span, f"{shown} is a parameter, not a node", hint)
        return False
    if bound and bound.entity.table.kind is TypeKind.EDGE:
        env.report(QueryCode.NOT_AN_ENTITY, variable.span, f"{shown} is an edge, not a node")
        return False
    return True


def _binding_fits(traversal: Traversal, bounds: tuple[int, int], env: Env) -> bool:
    variable = traversal.binding
    if variable is None:
        return True
    if bounds != (1, 1):
        message = f"{quoted(f'${variable.name}')} is one edge, and the traversal has up to {bounds[1]} hops"
        env.report(QueryCode.EDGE_BINDING_HOPS, variable.span, message, "bind the edge of a single hop")
        return False
    if variable.name in env.context.params:
        message = f"{quoted(f'${variable.name}')} is a parameter"
        env.report(QueryCode.PARAMETER_SHADOWED, variable.span, message, "give the variable another name")
        return False
    ends = {traversal.source.name, traversal.target.name}
    if not variable.is_anonymous and (variable.name in env.variables or variable.name in ends):
        message = f"{quoted(f'${variable.name}')} is already bound"
        env.report(QueryCode.EDGE_BINDING_TWICE, variable.span, message, "an edge has a variable of its own")
        return False
    return True


def _bounds(traversal: Traversal, env: Env) -> tuple[int, int] | None:
    bounds = traversal.bounds
    if bounds is None:
        return 1, 1
    low, high = _hops(bounds.low), _ceiling(bounds, env)
    if low is None or high is None:
        if bounds.high is not None or env.context.hops_ceiling is not None:
            env.report(QueryCode.BOUNDS_ORDER, bounds.span, "the bounds are two whole numbers: `{1,3}`")
        return None
    if low == 0:
        hint = "begin at 1; the start itself is already a variable"
        env.report(QueryCode.BOUNDS_ZERO, bounds.span, "a traversal has at least one hop", hint)
        return None
    if max(low, high) > limits.TRAVERSAL_HOPS_MAX:
        message = f"a traversal has at most {limits.TRAVERSAL_HOPS_MAX} hops"
        env.report(QueryCode.BOUNDS_TOO_HIGH, bounds.span, message)
        return None
    if low > high:
        message = f"the lower bound {low} is above the upper bound {high}"
        env.report(QueryCode.BOUNDS_ORDER, bounds.span, message)
        return None
    return low, high


def _ceiling(bounds: Bounds, env: Env) -> int | None:
    if bounds.high is not None:
        return _hops(bounds.high)
    ceiling = env.context.hops_ceiling
    if ceiling is None:
        ceiling_argument = "`--max-hops 5`, in Python `limits=QueryLimits(hops=5)`"
        hint = f"write `{{{bounds.low.text},5}}`, or give a ceiling: {ceiling_argument}"
        message = "the traversal has no upper bound, and no ceiling is configured"
        env.report(QueryCode.BOUNDS_OPEN, bounds.span, message, hint)
    return ceiling


def _hops(number: NumberLiteral) -> int | None:
    digits = number.text.lstrip("0") or "0"
    if not digits.isdecimal():
        return None
    return int(digits) if len(digits) <= _DIGITS_MAX else 10**_DIGITS_MAX
