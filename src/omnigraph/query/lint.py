"""Checks query files without running them: parse errors, type errors, warnings, and the shape of each query.

Comes in: texts with the names to show for them, and a catalog. Goes out: a `LintReport`. Never raises for what a text
says. A query with errors does not hide the others; a file that cannot be parsed has no queries to look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.base.errors import Fact, Problem, QueryTextError
from omnigraph.query.check import CheckedQuery, CheckOptions, check_file
from omnigraph.query.lint_warnings import warn_about_file, warn_about_updates
from omnigraph.query.parser import parse_queries
from omnigraph.query.problems import QueryProblems
from omnigraph.query.shapes import QueryShape, query_shape
from omnigraph.schema.catalog import Catalog


@dataclass(frozen=True, slots=True)
class LintReport:
    """What was found. The files are good when there are no errors; warnings are only said."""

    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    queries: tuple[QueryShape, ...]

    @property
    def is_good(self) -> bool:
        return not self.errors

    def render(self) -> str:
        """Every problem with its line and caret, errors first."""
        return "".join(f"{problem.render()}\n" for problem in (*self.errors, *self.warnings))

    def to_json(self) -> dict[str, Fact]:
        return {
            "errors": [problem.to_json() for problem in self.errors],
            "warnings": [problem.to_json() for problem in self.warnings],
            "queries": [query.to_json() for query in self.queries],
        }


def lint_queries(
    texts: Sequence[tuple[str, str]], catalog: Catalog, options: CheckOptions | None = None
) -> LintReport:
    """Look at files, given as pairs of a name and a text."""
    errors: list[Problem] = []
    warnings: list[Problem] = []
    files: list[tuple[tuple[CheckedQuery, ...], QueryProblems]] = []
    for source, text in texts:
        problems = QueryProblems(source, text)
        try:
            file = parse_queries(text, source)
        except QueryTextError as error:
            errors.extend(error.problems)
            continue
        checked = check_file(file, catalog, options or CheckOptions(), problems)
        errors.extend(problems.sorted())
        found = QueryProblems(source, text)
        warn_about_file(checked, found)
        files.append((checked, found))
    warn_about_updates(files, catalog)
    for _, found in files:
        warnings.extend(found.sorted())
    shapes = tuple(query_shape(query, catalog) for checked, _ in files for query in checked)
    return LintReport(tuple(errors), tuple(warnings), shapes)
