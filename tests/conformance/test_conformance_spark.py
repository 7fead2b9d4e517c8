"""Every case without search and without changes on Spark: the same rows, and the same errors.

A query takes Spark most of a second, so `make test` runs a share of the cases, over all files, and `make soak` all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.case_files import Case, CaseFile, Rows, read_case_files
from tests.conformance.comparison import difference
from tests.conformance.spark_world import OnSpark, SparkWorld, small_session
from tests.conformance.worlds import outcome

pytestmark = pytest.mark.xdist_group("spark")

WORLD = SparkWorld()
CASES_MIN = 250
SHARE = 12  # every twelfth case in `make test`, all of them in `make soak`


def every_case() -> Iterator[tuple[CaseFile, Case]]:
    for file in read_case_files():
        for case in filter(WORLD.runs, file.cases):
            # What is refused before it runs is refused by the same code everywhere.
            if all(isinstance(step.expected, Rows) or _fails_late(step.expected) for step in case.steps):
                yield file, case


def _fails_late(expected: object) -> bool:
    return "integer_overflow" in getattr(expected, "codes", ())


CASES = tuple(every_case())


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, OnSpark]]:
    """The graphs that were opened, while there is a session."""
    with small_session(tmp_path_factory.mktemp("spark-home")):
        yield {}


@pytest.mark.parametrize(
    ("file", "case"),
    [
        pytest.param(
            *found,
            id=f"{found[0].name}: {found[1].title}",
            marks=() if number % SHARE == 0 else (pytest.mark.soak,),
        )
        for number, found in enumerate(CASES)
    ],
)
def test_case(
    file: CaseFile, case: Case, graphs: dict[str, OnSpark], tmp_path_factory: pytest.TempPathFactory
) -> None:
    if file.name not in graphs:
        graphs[file.name] = WORLD.open(file, tmp_path_factory.mktemp("graph"))
    for step in case.steps:
        wrong = difference(outcome(graphs[file.name], step), step.expected)
        assert wrong is None, f"cases/{file.name}.txt:{step.line}\n{step.text}\n{wrong}"


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= CASES_MIN
