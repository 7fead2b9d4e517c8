"""A checked block to the relation that matches it, before any rule.

Stage by stage: the optional block as a left join, the pattern, a filter, then the negations as anti joins. An inner
block begins with the outer rows that it depends on; one that depends on none is the same for every row.
"""

from __future__ import annotations

from omnigraph.query.checks.blocks import Block, Stage, outer_columns
from omnigraph.query.plan import (
    Argument,
    ExistsJoin,
    Filter,
    LeftJoin,
    Pattern,
    Relation,
    Unit,
)


def assemble(block: Block, outer: Relation | None = None) -> Relation:
    """The relation of a block; `outer` gives the rows that it extends."""
    relation = outer
    for stage in block.stages:
        if stage.optional:
            inner, keys = _inner(stage.optional)
            relation = LeftJoin(relation or Unit(), inner, keys)
        if stage.entities or stage.links:
            relation = Pattern(relation, tuple(stage.entities), tuple(stage.links))
        if stage.conditions:
            relation = Filter(relation or Unit(), tuple(stage.conditions))
        for negation in stage.negations:
            relation = _exists(relation or Unit(), negation)
    return relation or Unit()


def _exists(relation: Relation, negation: Block) -> ExistsJoin:
    """`not { not { … } }` asks whether there is a match, which needs one join and not two."""
    twice = _only_negation(negation)
    inner, keys = _inner(twice or negation)
    return ExistsJoin(relation, inner, keys, negated=twice is None)


def _only_negation(block: Block) -> Block | None:
    match block.stages:
        case [Stage(None, [], [], [], [only])]:
            return only
        case _:
            return None


def _inner(block: Block) -> tuple[Relation, tuple[str, ...]]:
    columns = outer_columns(block)
    keys = tuple(column.name for column in columns if column.column == "id")
    return assemble(block, Argument(columns) if columns else None), keys
