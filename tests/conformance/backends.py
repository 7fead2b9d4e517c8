"""The backends that run all cases: ways to run a query that must all return the same results.

A backend opens the graph of a case file once; a case that changes its graph gets a copy. `run` returns the result of a
step in the form of the case files, or raises the error of the Python API.
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
from tests.conformance.case_files import CaseFile, CaseStep, Changed, Expected, Failed, LanguageCase, Rows
from tests.conformance.comparison import to_json
from tests.conformance.model import ModelGraph, RulesBrokenError
from tests.query.reference import run
from tests.schema.incarnations import catalog_of


class BackendSession(Protocol):
    """An open graph of a backend."""

    def run(self, step: CaseStep) -> Expected:
        """Run one step."""
        ...

    def copy(self, directory: Path) -> BackendSession:
        """Return a separate graph with the same contents; the directory is empty."""
        ...


class QueryBackend(Protocol):
    """One way to run queries."""

    @property
    def name(self) -> str: ...

    def runs(self, case: LanguageCase) -> bool:
        """Return whether the case can have another result than on other backends."""
        ...

    def open(self, cases: CaseFile, directory: Path) -> BackendSession:
        """Create the graph of the file in an empty directory."""
        ...


def outcome(session: BackendSession, step: CaseStep) -> Expected:
    """Return the result of a step, or its error."""
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
                tuple(sorted(str(violation["code"]) for violation in violations if isinstance(violation, dict)))
            )
        return Failed((error.code,))


@dataclass(frozen=True, slots=True)
class ReferenceBackend:
    """The literal evaluator, for the plan before or after the rewrite rules."""

    rewritten: bool

    @property
    def name(self) -> str:
        return "reference, rewritten" if self.rewritten else "reference"

    def runs(self, case: LanguageCase) -> bool:
        return True

    def open(self, cases: CaseFile, directory: Path) -> BackendSession:
        graph = ModelGraph(catalog_of(cases.schema))
        graph.load(cases.data)
        assert not list(graph.broken_rules(set())), f"the data of {cases.name} violates rules"
        return ReferenceSession(graph, self.rewritten)


@dataclass(frozen=True, slots=True)
class ReferenceSession:
    """One graph of the reference."""

    graph: ModelGraph
    rewritten: bool

    def run(self, step: CaseStep) -> Expected:
        checked = check_query(parse_queries(step.text), None, self.graph.catalog)
        plan = rewrite_plan(checked.plan) if self.rewritten else checked.plan
        bound = bind_plan(plan, coerce_params(plan.parameters, step.params), datetime.now(UTC))
        if isinstance(bound, MutationPlan):
            nodes, edges = self.graph.mutate(bound)
            return Changed(nodes, edges, committed=nodes + edges > 0)
        rows = run(bound.root, self.graph.tables)
        fields = bound.outputs
        cells = tuple(tuple(to_json(row[field.name], field) for field in fields) for row in rows)
        return Rows(tuple(field.name for field in fields), cells)

    def copy(self, directory: Path) -> BackendSession:
        return ReferenceSession(self.graph.copy(), self.rewritten)


REFERENCE_BACKENDS: Final = (ReferenceBackend(rewritten=False), ReferenceBackend(rewritten=True))
