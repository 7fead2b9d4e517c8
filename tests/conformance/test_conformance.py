"""Every case in every world, and that the case files are read as they are meant.

`make test` has every case in every mode, with and without indexes, optimized, and on a branch; `make soak` adds the
worlds that join two of these.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.case_files import Case, CaseFile, Changed, Failed, Rows, parse_cases, read_case_files
from tests.conformance.comparison import difference
from tests.conformance.engine_world import ENGINE_WORLDS, SOAK_WORLDS
from tests.conformance.worlds import REFERENCE_WORLDS, Session, WriteEnvironment, outcome

FILES = read_case_files()
WORLDS: tuple[WriteEnvironment, ...] = (*REFERENCE_WORLDS, *ENGINE_WORLDS, *SOAK_WORLDS)
CASES_MIN = 500


@pytest.fixture(scope="session")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Session]:
    """The graphs that were opened, by file and world; one graph serves all cases that do not change it."""
    return {}


def every_case() -> Iterator[object]:
    """The cases of a file stay in one process, which makes their graphs once."""
    for file in FILES:
        together = pytest.mark.xdist_group(f"conformance {file.name}")
        for world in WORLDS:
            for case in filter(world.runs, file.cases):
                name = f"{file.name}: {case.title} [{world.name}]"
                marks = (together, pytest.mark.soak) if world in SOAK_WORLDS else (together,)
                yield pytest.param(file, case, world, id=name, marks=marks)


@pytest.mark.parametrize(("file", "case", "world"), tuple(every_case()))
def test_case(
    file: CaseFile,
    case: Case,
    world: WriteEnvironment,
    sessions: dict[tuple[str, str], Session],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    session = sessions.get((file.name, world.name))
    if session is None:
        session = sessions[file.name, world.name] = world.open(file, tmp_path_factory.mktemp("graph"))
    if case.changes:
        session = session.copy(tmp_path_factory.mktemp("copy"))
    for step in case.steps:
        wrong = difference(outcome(session, step), step.expected)
        assert wrong is None, f"cases/{file.name}.txt:{step.line}\n{step.text}\n{wrong}"


def test_there_are_enough_cases() -> None:
    assert sum(len(file.cases) for file in FILES) >= CASES_MIN


SMALL = """\
# About nothing.
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


def test_a_file_is_read() -> None:
    file = parse_cases("small", SMALL)
    assert (file.schema, file.data) == ("node A { x: I32 }\n", ('{"type": "A", "data": {"x": 1}}',))
    first, second = file.cases
    assert first.changes
    assert not second.changes
    assert [step.expected for step in first.steps] == [Changed(1, 0), Rows(("a.x",), ((2,),), ordered=True)]
    assert (first.steps[1].params, first.steps[1].line) == ({"x": 2}, 9)
    assert second.steps[0].expected == Failed(("Q000", "T101"))


@pytest.mark.parametrize("wrong", ["query a() {}", "query a() {}\n-- rows", "query a() {}\n-- nothing"])
def test_what_is_no_case_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="small"):
        parse_cases("small", f"== schema\n== data\n== a\n{wrong}\n")


def test_results_are_told_apart() -> None:
    expected = Rows(("a",), ((1,), (2,)))
    assert difference(Rows(("a",), ((2,), (1,))), expected) is None
    ordered = Rows(("a",), ((1,), (2,)), ordered=True)
    for other in (((2,), (1,)), ((1,),), ((1.0,), (2,)), ((True,), (2,)), ((1,), (2,), (2,))):
        assert difference(Rows(("a",), other), ordered) is not None
    assert difference(Rows(("b",), ((1,), (2,))), expected) is not None
    assert difference(Rows(("a",), ((0.29289,),)), Rows(("a",), (("~0.2929",),))) is None
    assert difference(Rows(("a",), ((0.30,),)), Rows(("a",), (("~0.2929",),))) is not None
    assert difference(Changed(0, 0, committed=False), Changed(0, 0)) is not None
    assert difference(Failed(("T101",)), Failed(("T102",))) is not None
    assert difference(Failed(("T101",)), expected) is not None
