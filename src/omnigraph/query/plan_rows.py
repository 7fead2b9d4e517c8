"""The steps of a plan that only work on rows: filters, joins, scores, groups, order, limits and the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.query.expressions import AggregateCall, Expr, Score, require
from omnigraph.query.facts import IndexFact
from omnigraph.query.fields import Field, Fields, Named, joined, names, nullable
from omnigraph.query.plan_checks import Step, require_columns, require_keys

if TYPE_CHECKING:
    from omnigraph.query.plan import Relation


@dataclass(frozen=True, slots=True)
class Filter(Step):
    """The rows for which every condition is true."""

    input: Relation
    conditions: tuple[Expr, ...]

    def _check(self) -> None:
        require(bool(self.conditions), "a filter has conditions")
        require_columns(self.conditions, self.input.outputs)

    def _outputs(self) -> Fields:
        return self.input.outputs


@dataclass(frozen=True, slots=True)
class CrossJoin(Step):
    """Every pair of rows; with `on`, only pairs in which these columns are equal and not null."""

    left: Relation
    right: Relation
    on: tuple[tuple[str, str], ...] = ()

    def _check(self) -> None:
        left, right = names(self.left.outputs), names(self.right.outputs)
        require(all(one in left and other in right for one, other in self.on), "a side lacks a join column")

    def _outputs(self) -> Fields:
        return joined(self.left.outputs, self.right.outputs)


@dataclass(frozen=True, slots=True)
class ExistsJoin(Step):
    """The rows for which the inner plan has a match (semi join), or with `negated` none (anti join)."""

    input: Relation
    inner: Relation
    keys: tuple[str, ...]
    negated: bool

    def _check(self) -> None:
        require_keys(self.input, self.inner, self.keys)

    def _outputs(self) -> Fields:
        return self.input.outputs


@dataclass(frozen=True, slots=True)
class LeftJoin(Step):
    """Each row with each match of the inner plan, or once with nulls where there is none."""

    input: Relation
    inner: Relation
    keys: tuple[str, ...]

    def _check(self) -> None:
        require_keys(self.input, self.inner, self.keys)

    def _outputs(self) -> Fields:
        known = set(names(self.input.outputs))
        new = tuple(field for field in self.inner.outputs if field.name not in known)
        return joined(self.input.outputs, nullable(new))


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """A score and the column it becomes."""

    name: str
    score: Score

    @property
    def field(self) -> Field:
        return Field(self.name, self.score.type, self.score.nullable)


@dataclass(frozen=True, slots=True)
class Search(Step):
    """Adds scores to the rows of the input."""

    input: Relation
    scores: tuple[ScoreColumn, ...]
    index: tuple[IndexFact, ...] = ()

    def _check(self) -> None:
        require_columns(tuple(found.score for found in self.scores), self.input.outputs)

    def _outputs(self) -> Fields:
        return joined(self.input.outputs, tuple(found.field for found in self.scores))


@dataclass(frozen=True, slots=True)
class AggregateColumn:
    """An aggregate and the column it becomes."""

    name: str
    call: AggregateCall

    @property
    def field(self) -> Field:
        return Field(self.name, self.call.type, self.call.nullable)


@dataclass(frozen=True, slots=True)
class Aggregate(Step):
    """One row per distinct keys, nulls equal; without keys exactly one, for no rows too: counts 0, the rest null."""

    input: Relation
    keys: tuple[Named, ...]
    aggregates: tuple[AggregateColumn, ...]

    def _check(self) -> None:
        require_columns(tuple(key.expression for key in self.keys), self.input.outputs)
        require_columns(tuple(found.call for found in self.aggregates), self.input.outputs)

    def _outputs(self) -> Fields:
        return joined(tuple(key.field for key in self.keys), tuple(found.field for found in self.aggregates))


@dataclass(frozen=True, slots=True)
class OrderKey:
    """An expression to sort by. Nulls come first ascending, last descending; with `nulls_last` always last."""

    expression: Expr
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True, slots=True)
class Order(Step):
    """The rows sorted by the keys, then by the columns of `ties`, ascending, which make the order total."""

    input: Relation
    keys: tuple[OrderKey, ...]
    ties: tuple[str, ...]

    def _check(self) -> None:
        require_columns(tuple(key.expression for key in self.keys), self.input.outputs)
        require(set(self.ties) <= set(names(self.input.outputs)), "a tie is broken by a column that exists")

    def _outputs(self) -> Fields:
        return self.input.outputs


@dataclass(frozen=True, slots=True)
class Limit(Step):
    """At most `count` rows after the first `offset`; both are integers that are not negative."""

    input: Relation
    count: Expr
    offset: Expr | None = None

    def _outputs(self) -> Fields:
        return self.input.outputs


@dataclass(frozen=True, slots=True)
class Project(Step):
    """The columns of the result, in order, and no others."""

    input: Relation
    columns: tuple[Named, ...]

    def _check(self) -> None:
        require_columns(tuple(found.expression for found in self.columns), self.input.outputs)

    def _outputs(self) -> Fields:
        return joined(tuple(found.field for found in self.columns))
