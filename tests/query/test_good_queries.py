"""Valid queries: tree, canonical text, plans before and after the rules, and shape; the text round-trips."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph.query.checks.run import CheckedQuery
from omnigraph.query.explain import explain_plan, numbered_steps
from omnigraph.query.parser import parse_queries
from omnigraph.query.plan.operators import Pattern
from omnigraph.query.plan.statements import ReadPlan
from omnigraph.query.rules.run import rewrite_plan
from omnigraph.query.shapes import query_shape
from omnigraph.wire.results import query_output
from tests.query.golden_files import GOOD, catalog, checked, compare, query_files, read_text
from tests.query.query_text import print_queries
from tests.query.tree_text import tree_text

FILES = query_files(GOOD)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path, update_golden: bool) -> None:
    file = parse_queries(read_text(path), path.name)
    queries = checked(read_text(path), path.name)
    shapes = [query_output(query_shape(query, catalog())) for query in queries]
    shown = json.dumps(shapes, indent=2, ensure_ascii=False)
    compare(path.with_suffix(".tree.txt"), tree_text(file), update=update_golden)
    compare(path.with_suffix(".canonical.gq"), print_queries(file), update=update_golden)
    compare(path.with_suffix(".plan.txt"), plans_text(queries), update=update_golden)
    compare(path.with_suffix(".shape.json"), shown + "\n", update=update_golden)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_canonical_text_round_trips(path: Path) -> None:
    file = parse_queries(read_text(path), path.name)
    canonical = print_queries(file)
    assert parse_queries(canonical) == file
    assert print_queries(parse_queries(canonical)) == canonical


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rules_keep_the_columns_and_leave_no_pattern(path: Path) -> None:
    for query in checked(read_text(path)):
        plan = rewrite_plan(query.plan)
        assert not [step for step in numbered_steps(plan) if isinstance(step, Pattern)]
        if isinstance(plan, ReadPlan):
            assert isinstance(query.plan, ReadPlan)
            assert plan.outputs == query.plan.outputs


def plans_text(queries: tuple[CheckedQuery, ...]) -> str:
    return "\n".join(
        f"{explain_plan(query.plan)}after the rules:\n{explain_plan(rewrite_plan(query.plan))}" for query in queries
    )
