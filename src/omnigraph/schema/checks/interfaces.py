"""`implements` names interfaces, each once, and nobody disagrees about a property."""

from __future__ import annotations

from omnigraph.schema.checks.scope import Member, Scope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.problems import ProblemList, quoted
from omnigraph.schema.syntax import InterfaceSyntax, NodeSyntax


def check_interfaces(scope: Scope, problems: ProblemList) -> None:
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


def _check_implements(member: Member, scope: Scope, interfaces: list[str], problems: ProblemList) -> None:
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


def _check_conflicts(member: Member, problems: ProblemList) -> None:
    for conflict in member.expansion.conflicts:
        problems.add(
            SchemaCode.INTERFACE_CONFLICT,
            conflict.place.span,
            f"{member.label}: property {quoted(conflict.property_name)} has another {conflict.what}"
            f" than in {conflict.first}",
            "leave it to the interface, or declare it the same",
        )
