"""Plans check their inputs, show the figures of their steps, and can be pickled."""

from __future__ import annotations

import pickle
from typing import TypeVar, get_args

import pytest
from msgspec.structs import replace

from omnigraph.base.errors import InvariantError
from omnigraph.query.explain import StepFigures, explain_plan, numbered_steps
from omnigraph.query.plan import expressions as ex
from omnigraph.query.plan import operators as op
from omnigraph.query.plan.expression_walk import ScanFilter
from omnigraph.query.plan.statements import ReadPlan
from omnigraph.query.plan.types import I64, STRING
from omnigraph.query.plan.walk import reads_clock
from omnigraph.query.rules.run import rewrite_plan
from omnigraph.query.syntax import ComparisonOperator
from tests.query.golden_files import checked

T = TypeVar("T")
TEXT = 'query a() { match { $p: Person { slug: "a" } $p knows{1,2} $f } return { $f.name } limit 3 }'


def planned(text: str = TEXT) -> ReadPlan:
    (query,) = checked(text)
    plan = rewrite_plan(query.plan)
    assert isinstance(plan, ReadPlan)
    return plan


def step_of(plan: ReadPlan, kind: type[T]) -> T:
    return next(step for step in numbered_steps(plan) if isinstance(step, kind))


def test_step_requires_columns_of_its_input() -> None:
    plan = planned()
    scan, expand, lookup = step_of(plan, op.Scan), step_of(plan, op.Expand), step_of(plan, op.Lookup)
    project = step_of(plan, op.Project)
    age = ex.ColumnRef("p", "age", I64, nullable=True)
    with pytest.raises(InvariantError, match="reads"):
        replace(project, input=scan)
    with pytest.raises(InvariantError, match="reads"):
        op.FilterRows(scan, (ex.Compare(ComparisonOperator.EQ, age, ex.Literal(1, I64)),))
    with pytest.raises(InvariantError, match="not bound"):
        replace(expand, source=lookup.entity)
    with pytest.raises(InvariantError, match="bounds"):
        replace(expand, low=0)
    with pytest.raises(InvariantError, match="duplicate column"):
        op.CrossJoin(scan, scan)
    with pytest.raises(InvariantError, match="does not output the id"):
        replace(scan, columns=("name",))
    with pytest.raises(InvariantError, match="no column"):
        replace(scan, columns=("id", "nothing"))
    with pytest.raises(InvariantError, match="reads"):
        replace(lookup, filter=ScanFilter((ex.Compare(ComparisonOperator.EQ, age, ex.Literal(1, I64)),)))
    with pytest.raises(InvariantError, match="pushed down"):
        ScanFilter((ex.Substring(age, ex.Literal("x", STRING)),))
    with pytest.raises(InvariantError, match="bounds"):
        replace(step_of(unrewritten_plan(), op.Pattern).links[0], low=3)


def unrewritten_plan() -> ReadPlan:
    (query,) = checked(TEXT)
    assert isinstance(query.plan, ReadPlan)
    return query.plan


def test_figures_are_shown_with_their_step() -> None:
    figures = {
        4: StepFigures(rows_estimated=20, rows=17, seconds=0.0015, mode="indexed", reason="1 of 100000 nodes"),
        5: StepFigures(rows=1),
    }
    shown = explain_plan(planned(), figures).splitlines()
    assert shown[4].endswith("— indexed (1 of 100000 nodes), 17 rows (estimated 20), 1.5 ms")
    assert shown[5].endswith("— 1 row")
    assert "—" not in shown[3]


def test_lines_have_the_numbers_of_the_steps() -> None:
    plan = planned()
    lines = explain_plan(plan).splitlines()[1:]
    assert len(lines) == len(numbered_steps(plan))
    assert [line.split(".")[0].strip() for line in lines] == [str(number) for number in range(1, len(lines) + 1)]


def test_plan_can_be_pickled() -> None:
    plan = planned()
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan
    assert again.outputs == plan.outputs
    assert hash(again) == hash(plan)


def test_every_expression_has_parts() -> None:
    assert all(issubclass(kind, ex.Node) for kind in get_args(ex.Expr))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEXT, False),  # the name of the edge contains "now"
        ("query a() { match { $p: Person } return { $p.name, now() as t } }", True),
        ("query a() { match { $p: Person not { $p knows $f  now() > now() } } return { $p.name } }", True),
    ],
)
def test_reads_clock(text: str, expected: bool) -> None:
    assert reads_clock(planned(text)) is expected
