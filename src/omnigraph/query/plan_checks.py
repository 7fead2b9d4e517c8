"""What all steps of a plan have in common: columns, and checks when a step is made; a breach is a defect of a rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.query.access import ScanFilter
from omnigraph.query.expression_walk import columns_of, reads_of
from omnigraph.query.expressions import Expr, require
from omnigraph.query.fields import Fields, names
from omnigraph.query.tables import Entity

if TYPE_CHECKING:
    from omnigraph.query.plan import Relation


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a plan. Its columns are worked out once, so that the cost of a plan does not grow with its square."""

    outputs: Fields = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "outputs", self._outputs())
        self._check()

    def _outputs(self) -> Fields:
        raise NotImplementedError

    def _check(self) -> None:
        """Raises if the inputs do not have what the step needs."""


def require_columns(expressions: tuple[Expr, ...], fields: Fields) -> None:
    """Every column that the expressions read is there."""
    known = set(names(fields))
    for expression in expressions:
        missing = reads_of(expression) - known
        require(not missing, f"an expression reads {sorted(missing)}, of {sorted(known)}")


def require_own(scan_filter: ScanFilter, entity: Entity) -> None:
    """A filter reads the columns of its own entity only."""
    for conjunct in scan_filter.conjuncts:
        others = {found.entity for found in columns_of(conjunct)} - {entity.name}
        require(not others, f"the filter of {entity.name} reads {sorted(others)}")


def require_keys(outer: Relation, inner: Relation, keys: tuple[str, ...]) -> None:
    """Both sides of a join have the columns it is by."""
    outside, inside = names(outer.outputs), names(inner.outputs)
    require(all(key in outside and key in inside for key in keys), f"a side lacks one of {keys}")
