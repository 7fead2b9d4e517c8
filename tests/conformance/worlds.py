"""The worlds in which every case runs: ways to run a query that must all give the same.

A world opens a case file's graph once; a case that changes its graph gets a copy. `run` gives what a step gave, in the
words of the case files, or raises what the surface raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from omnigraph.base.errors import OmnigraphError, TextError
from omnigraph.query.checks.run import check_query
from omnigraph.query.parameters import bind_plan, coerce_params
from omnigraph.query.parser import parse_queries
from omnigraph.query.plan.statements import MutationPlan
from omnigraph.query.rules.run import rewrite_plan
from tests.conformance.case_files import Case, CaseFile, Changed, Expected, Failed, Rows, Step
from tests.conformance.comparison import shown
from tests.conformance.model import ModelGraph, RulesBrokenError
from tests.query.reference import run
from tests.schema.incarnations import catalog_of


class Session(Protocol):
    """An open graph of one world."""

    def run(self, step: Step) -> Expected:
        """Run one step."""
        ...

    def copy(self, place: Path) -> Session:
        """A graph of its own with the same contents; `place` is an empty directory."""
        ...


class WriteEnvironment(Protocol):
    """One way to run queries."""

    @property
    def name(self) -> str: ...

    def runs(self, case: Case) -> bool:
        """Whether a case can tell something new here."""
        ...

    def open(self, cases: CaseFile, place: Path) -> Session:
        """The file's graph, made in an empty directory."""
        ...


def outcome(session: Session, step: Step) -> Expected:
    """What a step gives, errors included."""
    try:
        return session.run(step)
    except RulesBrokenError as broken:
        return Failed(broken.codes)
    except TextError as error:
        return Failed(tuple(problem.code for problem in error.problems))
    except OmnigraphError as error:
        violations = error.facts.get("validation_errors")
        if isinstance(violations, list):
            return Failed(
                tuple(sorted(str(found["code"]) for found in violations if isinstance(found, dict)))
            )
        return Failed((error.code,))


@dataclass(frozen=True, slots=True)
class ReferenceWorld:
    """The literal evaluator: of the plan as the text says it, or after the rules."""

    rewritten: bool

    @property
    def name(self) -> str:
        return "reference, rewritten" if self.rewritten else "reference"

    def runs(self, case: Case) -> bool:
        return True

    def open(self, cases: CaseFile, place: Path) -> Session:
        graph = ModelGraph(catalog_of(cases.schema))
        graph.load(cases.data)
        assert not list(graph.broken_rules(set())), f"the data of {cases.name} is not sound"
        return ReferenceSession(graph, self.rewritten)


@dataclass(frozen=True, slots=True)
class ReferenceSession:
    """One graph of the reference."""

    graph: ModelGraph
    rewritten: bool

    def run(self, step: Step) -> Expected:
        checked = check_query(parse_queries(step.text), None, self.graph.catalog)
        plan = rewrite_plan(checked.plan) if self.rewritten else checked.plan
        bound = bind_plan(plan, coerce_params(plan.parameters, step.params), datetime.now(UTC))
        if isinstance(bound, MutationPlan):
            nodes, edges = self.graph.mutate(bound)
            return Changed(nodes, edges, committed=nodes + edges > 0)
        rows = run(bound.root, self.graph.tables)
        fields = bound.outputs
        cells = tuple(tuple(shown(row[field.name], field) for field in fields) for row in rows)
        return Rows(tuple(field.name for field in fields), cells)

    def copy(self, place: Path) -> Session:
        return ReferenceSession(self.graph.copy(), self.rewritten)


REFERENCE_WORLDS: Final = (ReferenceWorld(rewritten=False), ReferenceWorld(rewritten=True))
