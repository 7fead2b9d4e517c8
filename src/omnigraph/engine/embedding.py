"""Replaces the text arguments of `nearest` by vectors before a query runs.

In: a bound plan and the caller's provider; without one, the provider that the environment configures. Out: a plan with
a vector of the property's length in place of each text. Each text is embedded once per run and length. Only the
provider may use a network.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from omnigraph.base.errors import UsageError
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import transform, walk
from omnigraph.query.plan.statements import ReadPlan
from omnigraph.query.plan.walk import steps_of, transform_plan, with_expressions
from omnigraph.schema.property_types import VectorType

if TYPE_CHECKING:
    from omnigraph.embedding.provider import AnyProvider


def embed_texts(plan: ReadPlan, provider: AnyProvider | None) -> ReadPlan:
    """Return the plan with a vector in place of each text; the same plan if it has no text."""
    searches = [step for step in steps_of(plan.root) if isinstance(step, op.Search)]
    parts = (part for step in searches for column in step.scores for part in walk(column.expression))
    if not any(isinstance(part, ex.Nearest) and part.embed for part in parts):
        return plan

    from omnigraph.embedding.provider import find_provider, require_model, require_provider

    chosen = require_provider(provider or find_provider(os.environ), "the text of `nearest`")
    vectors: dict[tuple[str, int], tuple[float, ...]] = {}

    def change(expr: ex.Expr) -> ex.Expr:
        match expr:
            case ex.Nearest(column, ex.Literal(str() as text), True, model, exact):
                assert isinstance(column.type, VectorType)
                _require_text(text)
                require_model(chosen, model)
                key = (text, column.type.size)
                if key not in vectors:
                    vectors[key] = chosen.query_vector(*key)
                return ex.Nearest(column, ex.Literal(vectors[key], column.type), exact=exact)
            case _:
                return expr

    root = transform_plan(plan.root, lambda step: with_expressions(step, lambda expr: transform(expr, change)))
    return replace(plan, root=root)


def _require_text(text: str) -> None:
    """Raise for blank text: it means nothing, and most providers reject it with an error of their own."""
    if not text.strip():
        raise UsageError(
            f"`nearest` has no text to search for: expected text, got '{text}'",
            code="search_text_blank",
            hint="Pass text that is not blank.",
        )
