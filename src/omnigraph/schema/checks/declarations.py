"""An edge goes from a node to a node, a countable number of times."""

from __future__ import annotations

from omnigraph.base import limits
from omnigraph.lang.problems import ProblemList, quoted
from omnigraph.lang.syntax import Literal, Name, RangeArgument
from omnigraph.schema.checks.scope import DeclaredType, SchemaScope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.property_types import Scalar, ScalarType
from omnigraph.schema.resolve import TYPE_NAMES, TypeMistake, find_annotation, resolve_type
from omnigraph.schema.syntax import EdgeSyntax, InterfaceSyntax, NodeSyntax
from omnigraph.schema.values import value_from_literal


def check_edges(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S501 to S503."""
    nodes = [name for name, found in scope.by_name.items() if isinstance(found, NodeSyntax)]
    for member in scope.members:
        if isinstance(member.declaration, EdgeSyntax):
            for end in (member.declaration.source, member.declaration.target):
                _check_endpoint(member.label, end, scope, (nodes, problems))
            _check_cardinality(member, problems)


def cardinality_bound(literal: Literal | None) -> int | None:
    """A bound of `@card` as a count; None when it is open or no count."""
    if literal is None:
        return None
    value = value_from_literal(literal, ScalarType(Scalar.U32))
    return value if isinstance(value, int) and value <= limits.CARDINALITY_MAX else None


def _check_endpoint(label: str, end: Name, scope: SchemaScope, known: tuple[list[str], ProblemList]) -> None:
    nodes, problems = known
    found = scope.by_name.get(end.text)
    if found is None:
        problems.add(
            SchemaCode.UNKNOWN_ENDPOINT,
            end.span,
            f"{label}: there is no node {quoted(end.text)}",
            problems.did_you_mean(end.text, nodes) or f"declare `node {end.text[:60]} {{ … }}`",
        )
    elif not isinstance(found, NodeSyntax):
        kind = found.label.split()[0]
        problems.add(
            SchemaCode.ENDPOINT_NOT_NODE,
            end.span,
            f"{label}: {quoted(end.text)} is an {kind}, and an edge ends at nodes",
            "declare one edge per implementing node" if kind == "interface" else "",
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
            message = f"the bounds of `@card` are whole numbers from 0 to {limits.CARDINALITY_MAX}"
        elif high is not None and (low or 0) > high:
            message = f"`@card` has the minimum {low} above the maximum {high}"
        elif high == 0:
            message = "`@card` allows no edge at all"
    if message:
        hint = "write `@card(0..1)`, or `@card(1..*)` for no upper bound"
        problems.add(SchemaCode.CARDINALITY, card.span, f"{member.label}: {message}", hint)


def check_interfaces(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S401 to S405."""
    interfaces = [name for name, found in scope.by_name.items() if isinstance(found, InterfaceSyntax)]
    for member in scope.members:
        if isinstance(member.declaration, NodeSyntax):
            _check_implements(member, scope, interfaces, problems)
            _check_conflicts(member, problems)
        elif member.declaration.implements:
            problems.add(
                SchemaCode.ONLY_NODES_IMPLEMENT,
                member.declaration.implements[0].span,
                f"{member.label}: only a node can implement an interface",
                "declare the properties here, or let the nodes implement both interfaces",
            )


def _check_implements(
    member: DeclaredType, scope: SchemaScope, interfaces: list[str], problems: ProblemList
) -> None:
    seen: set[str] = set()
    for name in member.declaration.implements:
        found = scope.by_name.get(name.text)
        if found is None:
            problems.add(
                SchemaCode.UNKNOWN_INTERFACE,
                name.span,
                f"{member.label}: unknown interface {quoted(name.text)}",
                problems.did_you_mean(name.text, interfaces)
                or f"declare `interface {name.text[:60]} {{ … }}`",
            )
        elif not isinstance(found, InterfaceSyntax):
            message = f"{member.label}: {quoted(name.text)} is a {found.label.split()[0]}, not an interface"
            problems.add(
                SchemaCode.NOT_AN_INTERFACE, name.span, message, problems.did_you_mean(name.text, interfaces)
            )
        if name.text in seen:
            message = f"{member.label}: implements {quoted(name.text)} twice"
            problems.add(SchemaCode.INTERFACE_TWICE, name.span, message, "remove one")
        seen.add(name.text)


def _check_conflicts(member: DeclaredType, problems: ProblemList) -> None:
    for conflict in member.expansion.conflicts:
        problems.add(
            SchemaCode.INTERFACE_CONFLICT,
            conflict.place.span,
            f"{member.label}: property {quoted(conflict.property_name)} has another {conflict.what}"
            f" than in {conflict.first}",
            "leave it to the interface, or declare it the same",
        )


def check_property_types(scope: SchemaScope, problems: ProblemList) -> None:
    """Report S201 to S208."""
    for member in scope.members:
        for found in member.declaration.body.properties:
            mistake = resolve_type(found.type)
            if not isinstance(mistake, TypeMistake):
                continue
            where = f"{member.label}: property {quoted(found.name.text)}"
            hint = mistake.hint
            if mistake.code is SchemaCode.UNKNOWN_TYPE:
                hint = _unknown_type_hint(found.type.name.text, mistake, scope, problems)
            problems.add(mistake.code, mistake.span, f"{where}: {mistake.message}", hint)


def _unknown_type_hint(name: str, mistake: TypeMistake, scope: SchemaScope, problems: ProblemList) -> str:
    named = scope.by_name.get(name)
    if named is not None:
        return f"{named.label} is not a type of values; to point at other nodes, declare an edge"
    guess = mistake.hint or problems.did_you_mean(name, TYPE_NAMES)
    return guess or f"the types are {', '.join(TYPE_NAMES)}"
