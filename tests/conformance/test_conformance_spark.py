"""Runs all cases without changes on Spark: the same rows, and the same errors.

Spark takes almost a second per query, so `make test` runs a share of the cases (`tests/shares.py`), `make soak` all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.backends import outcome
from tests.conformance.case_files import CaseFile, LanguageCase, Rows, read_case_files
from tests.conformance.comparison import difference
from tests.conformance.spark_backend import SparkBackend, SparkGraph, small_session

pytestmark = pytest.mark.xdist_group("spark")

BACKEND = SparkBackend()
CASES_MIN = 250


def every_case() -> Iterator[tuple[CaseFile, LanguageCase]]:
    for file in read_case_files():
        for case in filter(BACKEND.runs, file.cases):
            # Errors before the run come from the same code for all backends.
            if all(isinstance(step.expected, Rows) or _fails_late(step.expected) for step in case.steps):
                yield file, case


def _fails_late(expected: object) -> bool:
    return bool({"integer_overflow", "date_overflow"} & set(getattr(expected, "codes", ())))


CASES = tuple(every_case())


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, SparkGraph]]:
    """Return the open graphs of the session."""
    with small_session(tmp_path_factory.mktemp("spark-home")):
        yield {}


@pytest.mark.parametrize(
    ("file", "case"), [pytest.param(file, case, id=f"{file.name}: {case.title}") for file, case in CASES]
)
def test_case(
    file: CaseFile, case: LanguageCase, graphs: dict[str, SparkGraph], tmp_path_factory: pytest.TempPathFactory
) -> None:
    if file.name not in graphs:
        graphs[file.name] = BACKEND.open(file, tmp_path_factory.mktemp("graph"))
    for step in case.steps:
        message = difference(outcome(graphs[file.name], step), step.expected)
        assert message is None, f"cases/{file.name}.txt:{step.line}\n{step.text}\n{message}"


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= CASES_MIN
