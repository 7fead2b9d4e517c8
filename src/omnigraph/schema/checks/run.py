"""All checks of a schema: runs each of them and raises all problems together.

In: a `Schema` as parsed. Out: nothing, or one `SchemaTextError` with the problems in the order of the text. The size of
the expanded declarations is checked first, because every other check works on them. After that each check reads the
whole schema and reports on its own; no check relies on another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from omnigraph.base import limits
from omnigraph.base.errors import ResourceLimit
from omnigraph.lang.problems import ProblemList
from omnigraph.schema.checks.annotations import check_annotations
from omnigraph.schema.checks.constraints import check_constraints, check_keys, check_ranges
from omnigraph.schema.checks.declarations import check_edges, check_interfaces, check_property_types
from omnigraph.schema.checks.names import check_names, check_renames
from omnigraph.schema.checks.scope import SchemaScope, build_scope
from omnigraph.schema.checks.values import check_defaults, check_embeds
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.syntax import Body, InterfaceSyntax, NodeSyntax, Schema

CHECKS: Final[tuple[Callable[[SchemaScope], None], ...]] = (
    check_names,
    check_renames,
    check_property_types,
    check_annotations,
    check_interfaces,
    check_edges,
    check_constraints,
    check_keys,
    check_ranges,
    check_defaults,
    check_embeds,
)


def require_valid_schema(schema: Schema) -> None:
    """Raise `SchemaTextError` with every problem of the schema, or return."""
    problems = ProblemList(schema.source, schema.text)
    _check_inherited_size(schema, problems)
    problems.raise_if_any()
    scope = build_scope(schema, problems)
    for check in CHECKS:
        check(scope)
    problems.raise_if_any()


def _check_inherited_size(schema: Schema, problems: ProblemList) -> None:
    """Report nodes that copy too many properties and constraints from interfaces (S005)."""
    sizes = {
        declaration.name.text: _count_parts(declaration.body)
        for declaration in schema.declarations
        if isinstance(declaration, InterfaceSyntax)
    }
    total = 0
    for declaration in schema.declarations:
        if not isinstance(declaration, NodeSyntax):
            continue
        total += sum(sizes.get(name.text, 0) for name in declaration.implements)
        if total > limits.SCHEMA_INHERITED_PARTS_MAX:
            message = (
                f"{declaration.label}: interfaces add more than {limits.SCHEMA_INHERITED_PARTS_MAX} properties and "
                "constraints to the nodes declared so far"
            )
            hint = "remove properties or constraints from the interfaces"
            limit = ResourceLimit("schema_inherited_parts", limits.SCHEMA_INHERITED_PARTS_MAX, "parts")
            problems.report(SchemaCode.TOO_MUCH_INHERITED, declaration.name.span, message, hint, limit)
            return


def _count_parts(body: Body) -> int:
    """Count everything that is copied: properties, constraints, annotations and parameters."""
    properties = sum(1 + len(part.annotations) + len(part.type.parameters or ()) for part in body.properties)
    return properties + sum(1 + len(part.arguments) for part in body.constraints)
