"""An edge goes from a node to a node, a countable number of times."""

from __future__ import annotations

from omnigraph.base import limits
from omnigraph.schema.annotations import find_annotation
from omnigraph.schema.checks.scope import Member, Scope
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.problems import ProblemList, quoted
from omnigraph.schema.property_types import Scalar, ScalarType
from omnigraph.schema.syntax import EdgeSyntax, Literal, Name, NodeSyntax, RangeArgument
from omnigraph.schema.values import value_from_literal


def check_edges(scope: Scope, problems: ProblemList) -> None:
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


def _check_endpoint(label: str, end: Name, scope: Scope, known: tuple[list[str], ProblemList]) -> None:
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


def _check_cardinality(member: Member, problems: ProblemList) -> None:
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
