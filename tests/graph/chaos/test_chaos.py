"""The oracle of the chaos run finds what it must find, and a short run finds nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.graph.chaos.oracle import GraphContents, Inspection, Oracle, Outcome
from tests.graph.chaos.run import run_chaos

EMPTY = GraphContents(items={}, tags=[], edges=[])


def contents(**items: int) -> GraphContents:
    return GraphContents(items=items, tags=list(items), edges=[(slug, slug) for slug in items])


def inspection(contents_read: GraphContents, *commits: str, **branches: GraphContents) -> Inspection:
    return Inspection(contents=contents_read, branches=branches, commits=list(commits), problems=[])


def oracle(outcome: Outcome, commit: str | None = None, **changes: int | None) -> Oracle:
    result = Oracle()
    result.end(result.begin(changes), outcome, commit)
    return result


def test_oracle_accepts_the_states_that_are_possible() -> None:
    assert oracle(Outcome.ACKNOWLEDGED, "c", a=1).check(inspection(contents(a=1), "c")) == []
    assert oracle(Outcome.REJECTED, a=1).check(inspection(EMPTY)) == []
    for state in (EMPTY, contents(a=1, b=1)):
        unknown = oracle(Outcome.UNKNOWN, a=1, b=1)
        assert unknown.check(inspection(state)) == []
        assert unknown.check(inspection(state)) == [], "then it is certain"
        assert unknown.check(inspection(contents(a=2, b=2)))


@pytest.mark.parametrize(
    ("outcome", "contents_read"),
    [
        pytest.param(Outcome.ACKNOWLEDGED, EMPTY, id="lost"),
        pytest.param(Outcome.ACKNOWLEDGED, contents(a=2, b=2), id="an older or newer state"),
        pytest.param(Outcome.ACKNOWLEDGED, contents(a=1, b=1, c=1), id="a row of no writer"),
        pytest.param(Outcome.REJECTED, contents(a=1, b=1), id="applied although rejected"),
        pytest.param(Outcome.UNKNOWN, contents(a=1), id="one of two rows"),
        pytest.param(Outcome.UNKNOWN, msgspec.structs.replace(contents(a=1, b=1), tags=["a"]), id="a missing tag"),
        pytest.param(Outcome.UNKNOWN, msgspec.structs.replace(contents(a=1, b=1), edges=[("a", "a")]), id="an edge"),
    ],
)
def test_oracle_finds_a_violation(outcome: Outcome, contents_read: GraphContents) -> None:
    assert oracle(outcome, a=1, b=1).check(inspection(contents_read))


def test_oracle_checks_the_history_and_branches() -> None:
    acknowledged = oracle(Outcome.ACKNOWLEDGED, "c", a=1)
    assert acknowledged.check(inspection(contents(a=1), "d")) == ["acknowledged commit c is not in the history"]
    branch = Oracle()
    branch.note_branch("review", "a")
    assert branch.check(inspection(EMPTY, review=contents(a=1))) == []
    assert branch.check(inspection(EMPTY, review=EMPTY)) == ["branch review: ['a'] is acknowledged but missing"]
    assert branch.check(inspection(EMPTY)), "the branch is missing"
    branch.forget_branch("review")
    assert branch.check(inspection(EMPTY)) == []


@pytest.mark.soak
def test_short_chaos_run(tmp_path: Path) -> None:
    report = run_chaos(60.0, "test", tmp_path, round_seconds=30.0)
    print(report.render())  # noqa: T201
    assert report.violations == []
    assert report.rounds >= 2
    assert report.counts
