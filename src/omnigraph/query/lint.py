"""The warnings of lint: what is allowed, and probably not meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnigraph.base.errors import Fact, Problem, QueryTextError
from omnigraph.lang.problems import QueryProblems, quoted
from omnigraph.lang.syntax import Name, NumberLiteral, StringLiteral, TimeLiteral
from omnigraph.query.checks.run import CheckedQuery, CheckOptions, check_file
from omnigraph.query.codes import LintCode
from omnigraph.query.parser import parse_queries
from omnigraph.query.plan.operators import CrossJoin
from omnigraph.query.plan.statements import ReadPlan, UpdateRows
from omnigraph.query.plan.walk import steps_of
from omnigraph.query.rules.run import rewrite_plan
from omnigraph.query.shapes import QueryShape, query_shape
from omnigraph.query.syntax import (
    Binding,
    Clause,
    Comparison,
    ComparisonOperator,
    Expression,
    Filter,
    NotBlock,
    NullLiteral,
    OptionalBlock,
    Query,
    ReadBody,
    Traversal,
    Update,
    expressions_of,
    statement_expressions,
    variables_of,
)
from omnigraph.schema.catalog import Catalog


def warn_about_file(checked: Sequence[CheckedQuery], problems: QueryProblems) -> None:
    """The warnings that one query alone gives reason for."""
    for query in checked:
        _warn_about_names(query.query, problems)
        _warn_about_literals(query.query, problems)
        _warn_about_cross_joins(query, problems)


def warn_about_updates(
    files: Sequence[tuple[Sequence[CheckedQuery], QueryProblems]], catalog: Catalog
) -> None:
    """L201 looks at all files together: a property may be set by an update of another file."""
    updated: dict[str, set[str]] = {}
    first: dict[str, tuple[Name, str, QueryProblems]] = {}
    for checked, problems in files:
        for query in checked:
            for name, columns in _updates(query):
                updated.setdefault(name.text, set()).update(columns)
                first.setdefault(name.text, (name, query.name, problems))
    for type_name, columns in updated.items():
        entity = catalog.type_named(type_name)
        assert entity is not None, "the queries are checked"
        name, query_name, problems = first[type_name]
        missing = [
            prop.name
            for prop in entity.properties
            if prop.nullable and prop.embedding is None and prop.name not in columns
        ]
        if missing:
            listed = ", ".join(quoted(property_name) for property_name in missing)
            message = f"query {query_name}: no update of {type_name} ever sets {listed}"
            hint = "once null they stay null; add them to an update, or ignore this"
            problems.report(LintCode.NEVER_UPDATED, name.span, message, hint)


def _updates(query: CheckedQuery) -> Iterator[tuple[Name, set[str]]]:
    body, plan = query.query.body, query.plan
    if isinstance(body, ReadBody) or isinstance(plan, ReadPlan):
        return
    for statement, planned in zip(body.statements, plan.statements, strict=True):
        if isinstance(statement, Update) and isinstance(planned, UpdateRows):
            yield statement.type, {assigned.column for assigned in planned.values}


def _warn_about_names(query: Query, problems: QueryProblems) -> None:
    mentioned = variables_of(query)
    for parameter in query.parameters:
        name = parameter.variable.name
        if name not in mentioned:
            message = f"query {query.name.text}: the parameter {quoted(f'${name}')} is never used"
            problems.report(LintCode.UNUSED_PARAMETER, parameter.variable.span, message, "remove it")
    if not isinstance(query.body, ReadBody):
        return
    declared = {parameter.variable.name for parameter in query.parameters}
    for name, places in mentioned.items():
        if len(places) == 1 and name not in declared and name != "_":
            message = f"query {query.name.text}: {quoted(f'${name}')} is never used"
            problems.report(LintCode.UNUSED_VARIABLE, places[0].span, message, "write `$_`")


def _warn_about_literals(query: Query, problems: QueryProblems) -> None:
    body = query.body
    label = f"query {query.name.text}"
    expressions = (
        list(_clause_expressions(body.clauses))
        if isinstance(body, ReadBody)
        else [expression for statement in body.statements for expression in statement_expressions(statement)]
    )
    written: list[StringLiteral | NumberLiteral | TimeLiteral] = []
    for expression in expressions:
        for part in expressions_of(expression):
            if isinstance(part, Comparison):
                for side in (part.left, part.right):
                    if isinstance(side, NullLiteral):
                        _warn_about_null(side, label, problems)
            if isinstance(body, ReadBody):
                continue
            if isinstance(part, StringLiteral | NumberLiteral | TimeLiteral):
                written.append(part)
    if written:
        # One warning for all of them: a query that fills a graph has hundreds.
        count = "a hard-coded value" if len(written) == 1 else f"{len(written)} hard-coded values"
        hint = "make it a parameter, so that the query can be used again"
        problems.report(LintCode.HARD_CODED, written[0].span, f"{label}: a mutation has {count}", hint)


def _clause_expressions(clauses: tuple[Clause, ...]) -> Iterator[Expression]:
    """The conditions of the clauses; an inline value as the comparison that it is."""
    for clause in clauses:
        match clause:
            case Filter(condition):
                yield condition
            case NotBlock(inner) | OptionalBlock(inner):
                yield from _clause_expressions(inner)
            case Binding(properties=properties):
                for assignment in properties:
                    is_null = isinstance(assignment.value, NullLiteral)
                    yield (
                        Comparison(ComparisonOperator.EQ, assignment.value, assignment.value)
                        if is_null
                        else assignment.value
                    )
            case Traversal():
                pass


def _warn_about_null(literal: NullLiteral, label: str, problems: QueryProblems) -> None:
    message = f"{label}: a comparison with null is never true"
    problems.report(LintCode.NULL_COMPARISON, literal.span, message, "write `is null` or `is not null`")


def _warn_about_cross_joins(checked: CheckedQuery, problems: QueryProblems) -> None:
    plan = rewrite_plan(checked.plan)
    if not isinstance(plan, ReadPlan):
        return
    if any(isinstance(step, CrossJoin) and not step.on for step in steps_of(plan.root)):
        message = f"query {checked.name}: parts of the match are not connected, so all pairs are made"
        hint = "connect them by a traversal or an equality"
        problems.report(LintCode.CROSS_JOIN, checked.query.name.span, message, hint)


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
        file_warnings = QueryProblems(source, text)
        warn_about_file(checked, file_warnings)
        files.append((checked, file_warnings))
    warn_about_updates(files, catalog)
    for _, file_warnings in files:
        warnings.extend(file_warnings.sorted())
    shapes = tuple(query_shape(query, catalog) for checked, _ in files for query in checked)
    return LintReport(tuple(errors), tuple(warnings), shapes)
