"""Checks of declarations: endpoints and cardinality of edges, interfaces of nodes, and types of properties."""

from __future__ import annotations

from omnigraph.base import limits
from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.lang.syntax import Literal, Name, RangeArgument
from omnigraph.schema.checks.scope import DeclaredType, SchemaScope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.property_types import Scalar, ScalarType
from omnigraph.schema.resolve import TYPE_NAMES, InvalidType, find_annotation, resolve_type
from omnigraph.schema.syntax import EdgeSyntax, InterfaceSyntax, NodeSyntax
from omnigraph.schema.values import value_from_literal


def check_edges(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S501 to S503."""
    for member in scope.members:
        if isinstance(member.declaration, EdgeSyntax):
            for end in (member.declaration.source, member.declaration.target):
                _check_endpoint(member.label, end, scope, problems)
            _check_cardinality(member, problems)


def cardinality_bound(literal: Literal | None) -> int | None:
    """Return a bound of `@card` as a count; None if it is open or not a valid count."""
    if literal is None:
        return None
    value = value_from_literal(literal, ScalarType(Scalar.U32))
    return value if isinstance(value, int) and value <= limits.CARDINALITY_MAX else None


def _check_endpoint(label: str, end: Name, scope: SchemaScope, problems: ProblemList) -> None:
    declaration = scope.by_name.get(end.text)
    if declaration is None:
        nodes = (name for name, declared in scope.by_name.items() if isinstance(declared, NodeSyntax))
        problems.report(
            SchemaCode.UNKNOWN_ENDPOINT,
            end.span,
            f"{label}: unknown node {quoted(end.text)}",
            problems.did_you_mean(end.text, nodes) or f"declare `node {end.text[:60]} {{ … }}`",
        )
    elif not isinstance(declaration, NodeSyntax):
        kind = declaration.label.split()[0]
        problems.report(
            SchemaCode.ENDPOINT_NOT_NODE,
            end.span,
            f"{label}: {quoted(end.text)} is an {kind}, expected a node",
            "declare one edge for each node that implements it" if kind == "interface" else "",
        )


def _check_cardinality(member: DeclaredType, problems: ProblemList) -> None:
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
        problems.report(SchemaCode.CARDINALITY, card.span, f"{member.label}: {message}", hint)


def check_interfaces(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S401 to S405."""
    interfaces = [name for name, declaration in scope.by_name.items() if isinstance(declaration, InterfaceSyntax)]
    for member in scope.members:
        if isinstance(member.declaration, NodeSyntax):
            _check_implements(member, scope, interfaces, problems)
            _check_conflicts(member, problems)
        elif member.declaration.implements:
            problems.report(
                SchemaCode.ONLY_NODES_IMPLEMENT,
                member.declaration.implements[0].span,
                f"{member.label}: only a node can implement an interface",
                "declare the properties here, or implement both interfaces in the nodes",
            )


def _check_implements(member: DeclaredType, scope: SchemaScope, interfaces: list[str], problems: ProblemList) -> None:
    seen: set[str] = set()
    for name in member.declaration.implements:
        declaration = scope.by_name.get(name.text)
        if declaration is None:
            problems.report(
                SchemaCode.UNKNOWN_INTERFACE,
                name.span,
                f"{member.label}: unknown interface {quoted(name.text)}",
                problems.did_you_mean(name.text, interfaces) or f"declare `interface {name.text[:60]} {{ … }}`",
            )
        elif not isinstance(declaration, InterfaceSyntax):
            message = f"{member.label}: {quoted(name.text)} is a {declaration.label.split()[0]}, not an interface"
            problems.report(
                SchemaCode.NOT_AN_INTERFACE, name.span, message, problems.did_you_mean(name.text, interfaces)
            )
        if name.text in seen:
            message = f"{member.label}: duplicate interface {quoted(name.text)}"
            problems.report(SchemaCode.DUPLICATE_INTERFACE, name.span, message, "remove one")
        seen.add(name.text)


def _check_conflicts(member: DeclaredType, problems: ProblemList) -> None:
    for conflict in member.expansion.conflicts:
        problems.report(
            SchemaCode.INTERFACE_CONFLICT,
            conflict.later.span,
            f"{member.label}: property {quoted(conflict.property_name)} has another {conflict.difference}"
            f" than in {conflict.first}",
            "remove it, or declare it as in the interface",
        )


def check_property_types(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S201 to S208."""
    for member in scope.members:
        for declared in member.declaration.body.properties:
            invalid = resolve_type(declared.type)
            if not isinstance(invalid, InvalidType):
                continue
            where = f"{member.label}: property {quoted(declared.name.text)}"
            hint = invalid.hint
            if invalid.code is SchemaCode.UNKNOWN_TYPE:
                hint = _unknown_type_hint(declared.type.name.text, invalid, scope, problems)
            problems.report(invalid.code, invalid.span, f"{where}: {invalid.message}", hint)


def _unknown_type_hint(name: str, invalid: InvalidType, scope: SchemaScope, problems: ProblemList) -> str:
    declaration = scope.by_name.get(name)
    if declaration is not None:
        return f"{declaration.label} is not a type of values; declare an edge to refer to other nodes"
    guess = invalid.hint or problems.did_you_mean(name, TYPE_NAMES)
    return guess or f"the types are {', '.join(TYPE_NAMES)}"
