"""Checks of declarations: endpoints and cardinality of edges, interfaces of nodes, and types of properties."""

from __future__ import annotations

from omnigraph.base import limits
from omnigraph.lang.problems import quoted
from omnigraph.lang.syntax import Literal, Name, RangeArgument
from omnigraph.schema.checks.scope import DeclaredType, SchemaScope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.property_types import Scalar, ScalarType
from omnigraph.schema.resolve import TYPE_NAMES, InvalidType, find_annotation, resolve_type
from omnigraph.schema.syntax import EdgeSyntax, InterfaceSyntax, NodeSyntax
from omnigraph.schema.values import value_from_literal


def check_edges(scope: SchemaScope) -> None:
    """Report edges with an invalid endpoint or cardinality (S501 to S503)."""
    for member in scope.members:
        if isinstance(member.declaration, EdgeSyntax):
            for endpoint in (member.declaration.source, member.declaration.target):
                _check_endpoint(member, endpoint, scope)
            _check_cardinality(member)


def cardinality_bound(literal: Literal | None) -> int | None:
    """Return a bound of `@card` as a count; None if it is open or not a valid count."""
    if literal is None:
        return None
    value = value_from_literal(literal, ScalarType(Scalar.U32))
    return value if isinstance(value, int) and value <= limits.CARDINALITY_MAX else None


def _check_endpoint(member: DeclaredType, endpoint: Name, scope: SchemaScope) -> None:
    name = endpoint.text
    declaration = scope.by_name.get(name)
    if declaration is None:
        nodes = (other for other, declared in scope.by_name.items() if isinstance(declared, NodeSyntax))
        hint = scope.problems.did_you_mean(name, nodes) or f"declare `node {name[:60]} {{ … }}`"
        member.report(SchemaCode.UNKNOWN_ENDPOINT, endpoint.span, f"unknown node {quoted(name)}", hint)
    elif not isinstance(declaration, NodeSyntax):
        is_interface = isinstance(declaration, InterfaceSyntax)
        message = f"{quoted(name)} is an {declaration.keyword}, expected a node"
        hint = "declare one edge for each node that implements it" if is_interface else ""
        member.report(SchemaCode.ENDPOINT_NOT_NODE, endpoint.span, message, hint)


def _check_cardinality(member: DeclaredType) -> None:
    card = find_annotation(member.declaration.annotations, "card")
    if card is None:
        return
    message = ""
    if len(card.arguments) != 1 or not isinstance(card.arguments[0], RangeArgument):
        message = "`@card` takes one range"
    else:
        bounds = card.arguments[0]
        low, high = cardinality_bound(bounds.low), cardinality_bound(bounds.high)
        if (bounds.low is not None and low is None) or (bounds.high is not None and high is None):
            message = f"a bound of `@card` is not an integer from 0 to {limits.CARDINALITY_MAX}"
        elif high is not None and (low or 0) > high:
            message = f"the minimum {low} of `@card` is above its maximum {high}"
        elif high == 0:
            message = "the maximum of `@card` is 0"
    if message:
        hint = "write `@card(0..1)`, or `@card(1..*)` for no upper bound"
        member.report(SchemaCode.CARDINALITY, card.span, message, hint)


def check_interfaces(scope: SchemaScope) -> None:
    """Report invalid lists of interfaces, and properties that differ from their interface (S401 to S405)."""
    interfaces = [name for name, declaration in scope.by_name.items() if isinstance(declaration, InterfaceSyntax)]
    for member in scope.members:
        implements = member.declaration.implements
        if isinstance(member.declaration, NodeSyntax):
            _check_implements(member, scope, interfaces)
            _check_conflicts(member)
        elif implements:
            message = "only a node can implement an interface"
            hint = "declare the properties here, or implement both interfaces in the nodes"
            member.report(SchemaCode.ONLY_NODES_IMPLEMENT, implements[0].span, message, hint)


def _check_implements(member: DeclaredType, scope: SchemaScope, interfaces: list[str]) -> None:
    seen: set[str] = set()
    for name in member.declaration.implements:
        declaration = scope.by_name.get(name.text)
        if not isinstance(declaration, InterfaceSyntax):
            hint = scope.problems.did_you_mean(name.text, interfaces)
            if declaration is None:
                hint = hint or f"declare `interface {name.text[:60]} {{ … }}`"
                member.report(SchemaCode.UNKNOWN_INTERFACE, name.span, f"unknown interface {quoted(name.text)}", hint)
            else:
                message = f"{quoted(name.text)} is a {declaration.keyword}, not an interface"
                member.report(SchemaCode.NOT_AN_INTERFACE, name.span, message, hint)
        if name.text in seen:
            message = f"duplicate interface {quoted(name.text)}"
            member.report(SchemaCode.DUPLICATE_INTERFACE, name.span, message, "remove one")
        seen.add(name.text)


def _check_conflicts(member: DeclaredType) -> None:
    for conflict in member.expansion.conflicts:
        where = f"property {quoted(conflict.property_name)}"
        message = f"{where} has another {conflict.difference} than in {conflict.first}"
        hint = "remove it, or declare it as in the interface"
        member.report(SchemaCode.INTERFACE_CONFLICT, conflict.later.span, message, hint)


def check_property_types(scope: SchemaScope) -> None:
    """Report properties with an invalid type (S201 to S208)."""
    for member in scope.members:
        for declared in member.declaration.body.properties:
            invalid = resolve_type(declared.type)
            if isinstance(invalid, InvalidType):
                hint = invalid.hint
                if invalid.code is SchemaCode.UNKNOWN_TYPE:
                    hint = _unknown_type_hint(declared.type.name.text, invalid, scope)
                message = f"property {quoted(declared.name.text)}: {invalid.message}"
                member.report(invalid.code, invalid.span, message, hint)


def _unknown_type_hint(name: str, invalid: InvalidType, scope: SchemaScope) -> str:
    declaration = scope.by_name.get(name)
    if declaration is not None:
        return f"{declaration.label} is not a type of values; declare an edge to refer to other nodes"
    guess = invalid.hint or scope.problems.did_you_mean(name, TYPE_NAMES)
    return guess or f"the types are {', '.join(TYPE_NAMES)}"
