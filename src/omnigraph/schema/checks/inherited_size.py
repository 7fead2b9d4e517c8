"""How much the interfaces add to the nodes, counted before anything is expanded.

A short text can ask for a huge schema: many nodes that all implement one large interface. This is the only check that
runs before the expansion, so that the size of the expansion is bounded by it.
"""

from __future__ import annotations

from omnigraph.base import limits
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.problems import ProblemList
from omnigraph.schema.syntax import Body, InterfaceSyntax, NodeSyntax, Schema


def check_inherited_size(schema: Schema, problems: ProblemList) -> None:
    """Report S005."""
    sizes = {
        found.name.text: _parts(found.body)
        for found in schema.declarations
        if isinstance(found, InterfaceSyntax)
    }
    total = 0
    for declaration in schema.declarations:
        if not isinstance(declaration, NodeSyntax):
            continue
        total += sum(sizes.get(name.text, 0) for name in declaration.implements)
        if total > limits.SCHEMA_INHERITED_PARTS_MAX:
            problems.add(
                SchemaCode.TOO_MUCH_INHERITED,
                declaration.name.span,
                f"{declaration.label}: interfaces add more than {limits.SCHEMA_INHERITED_PARTS_MAX} properties and "
                "constraints to the nodes declared so far",
                "make the interfaces smaller",
            )
            return


def _parts(body: Body) -> int:
    """Properties, constraints, annotations and parameters: everything that is copied."""
    properties = sum(
        1 + len(found.annotations) + len(found.type.parameters or ()) for found in body.properties
    )
    return properties + sum(1 + len(found.arguments) for found in body.constraints)
