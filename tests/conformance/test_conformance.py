"""Runs all cases on all backends, and tests the parser of case files.

`make test` runs each case in each mode, with and without indexes, optimized, and on a branch; `make soak` adds the
backends that combine two of these.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.backends import REFERENCE_BACKENDS, BackendSession, QueryBackend, outcome
from tests.conformance.case_files import (
    CaseFile,
    Changed,
    Expected,
    Failed,
    LanguageCase,
    Rows,
    parse_cases,
    read_case_files,
)
from tests.conformance.comparison import difference
from tests.conformance.engine_backend import ENGINE_BACKENDS, SOAK_BACKENDS

FILES = read_case_files()
BACKENDS: tuple[QueryBackend, ...] = (*REFERENCE_BACKENDS, *ENGINE_BACKENDS)
CASES_MIN = 500


@pytest.fixture(scope="session")
def sessions() -> dict[tuple[str, str], BackendSession]:
    """Return the open graphs by file and backend; all cases that do not change a graph share it."""
    return {}


def every_case() -> Iterator[object]:
    """Yield all cases; those of one file run in one process, which creates their graphs once."""
    for file in FILES:
        group = pytest.mark.xdist_group(f"conformance {file.name}")
        for case in file.cases:
            name = f"{file.name}: {case.title}"
            yield pytest.param(file, case, BACKENDS, id=name, marks=group)
            yield pytest.param(file, case, SOAK_BACKENDS, id=f"{name} [soak]", marks=(group, pytest.mark.soak))


@pytest.mark.parametrize(("file", "case", "backends"), tuple(every_case()))
def test_case(
    file: CaseFile,
    case: LanguageCase,
    backends: tuple[QueryBackend, ...],
    sessions: dict[tuple[str, str], BackendSession],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    failures = []
    for backend in filter(lambda backend: backend.runs(case), backends):
        session = sessions.get((file.name, backend.name))
        if session is None:
            session = sessions[file.name, backend.name] = backend.open(file, tmp_path_factory.mktemp("graph"))
        if case.changes:
            session = session.copy(tmp_path_factory.mktemp("copy"))
        failures += [f"{backend.name}: {text}" for text in failures_of(case, session, file)]
    assert failures == []


def failures_of(case: LanguageCase, session: BackendSession, file: CaseFile) -> Iterator[str]:
    """Run the steps until the first with another outcome."""
    for step in case.steps:
        if message := difference(outcome(session, step), step.expected):
            yield f"cases/{file.name}.txt:{step.line}\n{step.text}\n{message}"
            return


def test_there_are_enough_cases() -> None:
    assert sum(len(file.cases) for file in FILES) >= CASES_MIN


SMALL = """\
# An example.
== schema
node A { x: I32 }
== data
{"type": "A", "data": {"x": 1}}
== two steps
query a() { insert A { x: 2 } }
-- changed 1 0
query b($x: I32) { match { $a: A { x: $x } }
  return { $a.x } }
-- params {"x": 2}
-- rows in order
["a.x"]
[2]
== an error
query b() {}
-- error Q000 T101
"""


def test_parse_cases() -> None:
    file = parse_cases("small", SMALL)
    assert (file.schema, file.data) == ("node A { x: I32 }\n", ('{"type": "A", "data": {"x": 1}}',))
    first, second = file.cases
    assert first.changes
    assert not second.changes
    assert [step.expected for step in first.steps] == [Changed(nodes=1, edges=0), Rows(("a.x",), ((2,),), ordered=True)]
    assert (first.steps[1].params, first.steps[1].line) == ({"x": 2}, 9)
    assert second.steps[0].expected == Failed(("Q000", "T101"))


@pytest.mark.parametrize("text", ["query a() {}", "query a() {}\n-- rows", "query a() {}\n-- nothing"])
def test_invalid_case_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="small"):
        parse_cases("small", f"== schema\n== data\n== a\n{text}\n")


EXPECTED = Rows(("a",), ((1,), (2,)))
ORDERED = Rows(("a",), ((1,), (2,)), ordered=True)
ROUNDED = Rows(("a",), (("~0.2929",),))
UNCHANGED = Changed(nodes=0, edges=0)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        pytest.param(Rows(("a",), ((2,), (1,))), EXPECTED, id="another order"),
        pytest.param(Rows(("a",), ((0.29289,),)), ROUNDED, id="equal after rounding"),
    ],
)
def test_no_difference(actual: Rows, expected: Rows) -> None:
    assert difference(actual, expected) is None


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        pytest.param(Rows(("a",), ((2,), (1,))), ORDERED, id="another order"),
        pytest.param(Rows(("a",), ((1,),)), ORDERED, id="a row is missing"),
        pytest.param(Rows(("a",), ((1,), (2,), (2,))), ORDERED, id="a row is repeated"),
        pytest.param(Rows(("a",), ((1.0,), (2,))), ORDERED, id="float instead of integer"),
        pytest.param(Rows(("a",), ((True,), (2,))), ORDERED, id="bool instead of integer"),
        pytest.param(Rows(("b",), ((1,), (2,))), EXPECTED, id="another column name"),
        pytest.param(Rows(("a",), ((0.30,),)), ROUNDED, id="another number"),
        pytest.param(Changed(nodes=0, edges=0, committed=False), UNCHANGED, id="no commit"),
        pytest.param(Failed(("T101",)), Failed(("T102",)), id="another error"),
        pytest.param(Failed(("T101",)), EXPECTED, id="error instead of rows"),
    ],
)
def test_difference(actual: Expected, expected: Expected) -> None:
    assert difference(actual, expected) is not None
