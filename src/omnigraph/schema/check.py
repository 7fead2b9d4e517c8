"""Whether a syntax tree is a schema: runs every check and raises all problems together.

Comes in: a `Schema` as parsed. Goes out: nothing, or one `SchemaTextError` with the problems in the order of the text.
What interfaces multiply is counted first, because every check works on the expanded declarations. After that each
check sees the whole schema and reports on its own; none of them relies on another having passed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from omnigraph.schema.checks.annotations import check_annotations
from omnigraph.schema.checks.constraints import check_constraints
from omnigraph.schema.checks.defaults import check_defaults
from omnigraph.schema.checks.edges import check_edges
from omnigraph.schema.checks.embeds import check_embeds
from omnigraph.schema.checks.inherited_size import check_inherited_size
from omnigraph.schema.checks.interfaces import check_interfaces
from omnigraph.schema.checks.keys import check_keys
from omnigraph.schema.checks.names import check_names
from omnigraph.schema.checks.property_types import check_property_types
from omnigraph.schema.checks.ranges import check_ranges
from omnigraph.schema.checks.renames import check_renames
from omnigraph.schema.checks.scope import Scope, build_scope
from omnigraph.schema.problems import ProblemList
from omnigraph.schema.syntax import Schema

CHECKS: Final[tuple[Callable[[Scope, ProblemList], None], ...]] = (
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


def check_schema(schema: Schema) -> None:
    """Raise `SchemaTextError` with every problem of the schema, or return."""
    problems = ProblemList(schema.source, schema.text)
    check_inherited_size(schema, problems)
    problems.raise_if_any()
    scope = build_scope(schema)
    for check in CHECKS:
        check(scope, problems)
    problems.raise_if_any()
