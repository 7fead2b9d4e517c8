"""Texts that a query gives to `nearest` become vectors before it runs.

Comes in: a bound plan and the provider that the caller gave. Goes out: a plan whose texts are vectors of the property's
length. Every text is embedded once per run. What the provider does is its own; nothing here talks to a network.
"""

from __future__ import annotations

import math
from dataclasses import replace

from omnigraph.base.errors import RunError, UsageError
from omnigraph.embedding.provider import EmbeddingProvider
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import rewritten
from omnigraph.query.plan.statements import ReadPlan
from omnigraph.query.plan.walk import rewritten_plan, steps_of, with_expressions
from omnigraph.schema.property_types import VectorType


def embed_texts(plan: ReadPlan, provider: EmbeddingProvider | None) -> ReadPlan:
    """The plan with a vector for every text; the plan itself if it has none."""
    if not any(_has_text(step) for step in steps_of(plan.root) if isinstance(step, op.Search)):
        return plan
    made: dict[str, tuple[float, ...]] = {}

    def change(expr: ex.Expr) -> ex.Expr:
        match expr:
            case ex.Nearest(column, ex.Literal(str() as text), True, model):
                assert isinstance(column.type, VectorType)
                if text not in made:
                    made[text] = _vector(text, model, column.type.size, provider)
                return ex.Nearest(column, ex.Literal(made[text], column.type))
            case _:
                return expr

    root = rewritten_plan(
        plan.root, lambda step: with_expressions(step, lambda expr: rewritten(expr, change))
    )
    return replace(plan, root=root)


def _has_text(step: op.Search) -> bool:
    scores = (found.score for found in step.scores)
    parts = (part for score in scores for part in _parts(score))
    return any(isinstance(part, ex.Nearest) and part.embed for part in parts)


def _parts(score: ex.Expr) -> tuple[ex.Expr, ...]:
    return (score.first, score.second) if isinstance(score, ex.Rrf) else (score,)


def _vector(text: str, model: str | None, size: int, provider: EmbeddingProvider | None) -> tuple[float, ...]:
    if provider is None:
        raise RunError(
            "`nearest` has a text, and nothing is configured that makes a vector from it",
            code="embedding_provider_missing",
            hint="give a vector as the parameter, or in Python pass `embed=EmbeddingProvider(…)`",
        )
    if model is not None and provider.model != model:
        raise UsageError(
            f"the vectors were made by the model '{model}', and the provider's is "
            + ("not named" if provider.model is None else f"'{provider.model}'"),
            code="embedding_model_differs",
            hint="vectors of two models cannot be compared; give a provider of the schema's model",
            facts={"expected": model, "actual": provider.model},
        )
    vector = tuple(float(number) for number in provider.embed(text))
    if len(vector) != size or not all(math.isfinite(number) for number in vector):
        raise RunError(
            f"the provider gave {len(vector)} numbers, and the property has {size}"
            if len(vector) != size
            else "the provider gave a number that is not finite",
            code="embedding_malformed",
            hint="is it the model that made the vectors of the graph?",
        )
    return vector
