"""Lint: the errors of query files, and warnings about valid queries that are probably wrong.

Input: the names and texts of files, and a catalog. Output: a `LintReport` with errors, warnings and the shape of every
valid query. Never raises for a problem of a text, and reads no files itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.base.display import Displayed
from omnigraph.base.errors import Problem, QueryTextError
from omnigraph.lang.problems import QueryProblems, quoted
from omnigraph.lang.syntax import Name, NumberLiteral, StringLiteral, TimeLiteral
from omnigraph.query import syntax
from omnigraph.query.checks.run import CheckedQuery, check_file
from omnigraph.query.codes import LintCode
from omnigraph.query.parser import parse_queries
from omnigraph.query.plan.operators import CrossJoin
from omnigraph.query.plan.statements import ReadPlan, UpdateRows
from omnigraph.query.plan.walk import steps_of
from omnigraph.query.rules.run import rewrite_plan
from omnigraph.query.shapes import QueryShape, query_shape
from omnigraph.schema.catalog import Catalog


@dataclass(frozen=True, slots=True, repr=False)
class LintReport(Displayed):
    """The result of lint. Only errors make the files invalid, warnings do not."""

    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    queries: tuple[QueryShape, ...]

    @property
    def is_valid(self) -> bool:
        return not self.errors

    def _summary(self) -> Mapping[str, object]:
        return {
            "is_valid": self.is_valid,
            "queries": len(self.queries),
            **{
                f"{kind} {number}": f"{problem.source}:{problem.line}: {problem.message}"
                for kind, members in (("error", self.errors), ("warning", self.warnings))
                for number, problem in enumerate(members, 1)
            },
        }

    def render(self) -> str:
        """Return every problem with its line and caret, errors first."""
        return "".join(f"{problem.render()}\n" for problem in (*self.errors, *self.warnings))


def lint_queries(texts: Sequence[tuple[str, str]], catalog: Catalog, hops_ceiling: int | None = None) -> LintReport:
    """Check files, which are pairs of a name and a text."""
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
        checked = check_file(file, catalog, hops_ceiling, problems)
        errors.extend(problems.sorted())
        file_warnings = QueryProblems(source, text)
        for query in checked:
            _warn_about_names(query.query, file_warnings)
            _warn_about_literals(query.query, file_warnings)
            _warn_about_cross_joins(query, file_warnings)
        files.append((checked, file_warnings))
    _warn_about_updates(files, catalog)
    for _, file_warnings in files:
        warnings.extend(file_warnings.sorted())
    shapes = tuple(query_shape(query, catalog) for checked, _ in files for query in checked)
    return LintReport(tuple(errors), tuple(warnings), shapes)


def _warn_about_updates(files: Sequence[tuple[Sequence[CheckedQuery], QueryProblems]], catalog: Catalog) -> None:
    """Add the warnings L201, which depend on the updates of all files."""
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
            message = f"query {query_name}: no update of {type_name} sets {listed}"
            hint = "Add them to an update, unless they are set only by inserts and loads."
            problems.report(LintCode.NEVER_UPDATED, name.span, message, hint)


def _updates(query: CheckedQuery) -> Iterator[tuple[Name, set[str]]]:
    body, plan = query.query.body, query.plan
    if isinstance(body, syntax.ReadBody) or isinstance(plan, ReadPlan):
        return
    for statement, planned in zip(body.statements, plan.statements, strict=True):
        if isinstance(planned, UpdateRows):
            columns = {assigned.column for assigned in planned.values}
            yield Name(planned.entity.table.name, statement.span), columns


def _warn_about_names(query: syntax.Query, problems: QueryProblems) -> None:
    mentioned = syntax.variables_of(query)
    for parameter in query.parameters:
        name = parameter.variable.name
        if name not in mentioned:
            message = f"query {query.name.text}: parameter {quoted(f'${name}')} is never used"
            problems.report(LintCode.UNUSED_PARAMETER, parameter.variable.span, message, "Remove it.")
    if not isinstance(query.body, syntax.ReadBody):
        return
    declared = {parameter.variable.name for parameter in query.parameters}
    match query.body.clauses:
        case [syntax.Binding(variable=only)]:  # without another clause it needs a variable, as for `count(*)`
            declared.add(only.name)
    for name, mentions in mentioned.items():
        if len(mentions) == 1 and name not in declared and name != "_":
            message = f"query {query.name.text}: variable {quoted(f'${name}')} is never used"
            problems.report(LintCode.UNUSED_VARIABLE, mentions[0].span, message, "Write `$_` instead.")


def _warn_about_literals(query: syntax.Query, problems: QueryProblems) -> None:
    label = f"query {query.name.text}"
    body = query.body
    is_read = isinstance(body, syntax.ReadBody)
    hard_coded: list[StringLiteral | NumberLiteral | TimeLiteral] = []
    parts = (body.clauses, body.having or ()) if isinstance(body, syntax.ReadBody) else body.statements
    for node in syntax.walk(parts):
        match node:
            case syntax.Comparison(left=left, right=right):
                _warn_about_nulls((left, right), label, problems)
            case syntax.Between(operand, low, high):
                _warn_about_nulls((operand, low, high), label, problems)
            case syntax.Binding(properties=properties):
                _warn_about_nulls(tuple(assignment.value for assignment in properties), label, problems)
            case StringLiteral() | NumberLiteral() | TimeLiteral() if not is_read:
                hard_coded.append(node)
    if hard_coded:
        # One warning for all of them, since a query that fills a graph has hundreds.
        count = "a hard-coded value" if len(hard_coded) == 1 else f"{len(hard_coded):,} hard-coded values"
        hint = "Use parameters, so that the query can be reused."
        problems.report(LintCode.HARD_CODED, hard_coded[0].span, f"{label}: a mutation has {count}", hint)


def _warn_about_nulls(operands: tuple[syntax.Expression, ...], label: str, problems: QueryProblems) -> None:
    for operand in operands:
        if isinstance(operand, syntax.NullLiteral):
            message = f"{label}: a comparison with null is never true"
            hint = "Write `is null` or `is not null`."
            problems.report(LintCode.NULL_COMPARISON, operand.span, message, hint)


def _warn_about_cross_joins(checked: CheckedQuery, problems: QueryProblems) -> None:
    plan = rewrite_plan(checked.plan)
    if not isinstance(plan, ReadPlan):
        return
    if any(isinstance(step, CrossJoin) and not step.on for step in steps_of(plan.root)):
        message = f"query {checked.name}: the clauses of the match are not connected, so that it returns all pairs"
        hint = "Connect them with a traversal or an equality."
        problems.report(LintCode.CROSS_JOIN, checked.query.name.span, message, hint)
