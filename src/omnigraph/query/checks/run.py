"""Checks the queries of a file against a catalog.

Input: a `QueryFile`, a catalog, and the maximum number of hops of a traversal without an upper bound. Output: one
`CheckedQuery` for each query, with its plan before any rewrite rule; or one `QueryTextError` with the problems of all
queries, in text order. Does no I/O.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.lang.problems import ProblemList, QueryProblems, quoted
from omnigraph.lang.syntax import StringLiteral
from omnigraph.query.checks.context import Context
from omnigraph.query.checks.mutations import check_mutation
from omnigraph.query.checks.results import check_read
from omnigraph.query.codes import QueryCode
from omnigraph.query.plan.expressions import Param
from omnigraph.query.plan.statements import MutationPlan, QueryPlan, ReadPlan
from omnigraph.query.syntax import Query, QueryFile, ReadBody, variables_of
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.resolve import TYPE_NAMES, InvalidType, find_annotation, resolve_type


class CheckedQuery(Struct, frozen=True):
    """A query without problems, and its plan before the rewrite rules."""

    query: Query
    plan: QueryPlan
    description: str | None = None

    @property
    def name(self) -> str:
        return self.query.name.text

    @property
    def is_mutation(self) -> bool:
        return isinstance(self.plan, MutationPlan)


def check_queries(file: QueryFile, catalog: Catalog, hops_ceiling: int | None = None) -> tuple[CheckedQuery, ...]:
    """Return every query of the file, or raise `QueryTextError` with all problems."""
    problems = QueryProblems(file.source, file.text)
    checked = check_file(file, catalog, hops_ceiling, problems)
    problems.raise_if_any()
    return checked


def check_file(
    file: QueryFile, catalog: Catalog, hops_ceiling: int | None, problems: QueryProblems
) -> tuple[CheckedQuery, ...]:
    """Return the queries without problems, and add the problems of the others to the list."""
    checked_queries: list[CheckedQuery] = []
    for query in file.queries:
        own = QueryProblems(file.source, file.text)
        context = Context(
            catalog=catalog,
            problems=own,
            label=f"query {query.name.text}",
            hops_ceiling=hops_ceiling,
            reserved=frozenset(variables_of(query)),
        )
        checked = _check_query(query, context)
        problems.include(own)
        if checked and not own.sorted():
            checked_queries.append(checked)
    _check_names(file, problems)
    return tuple(checked_queries)


def check_query(file: QueryFile, name: str | None, catalog: Catalog, hops_ceiling: int | None = None) -> CheckedQuery:
    """Check the query of this name; without a name, the only query. Raise if there is none, or several."""
    return check_queries(_select(file, name), catalog, hops_ceiling)[0]


def _check_query(query: Query, context: Context) -> CheckedQuery | None:
    _declare_parameters(query, context)
    description = _description(query, context)
    params = tuple(context.params.values())
    if not isinstance(query.body, ReadBody):
        statements = check_mutation(query.body, context)
        return CheckedQuery(query, MutationPlan(query.name.text, params, statements), description)
    root = check_read(query, query.body, context)
    return None if root is None else CheckedQuery(query, ReadPlan(query.name.text, params, root), description)


def _check_names(file: QueryFile, problems: QueryProblems) -> None:
    seen: set[str] = set()
    for query in file.queries:
        name = query.name
        if name.text in seen:
            message = f"query {name.text}: duplicate query name"
            problems.report(QueryCode.QUERY_TWICE, name.span, message, "Rename one of the queries.")
        seen.add(name.text)


def _declare_parameters(query: Query, context: Context) -> None:
    for parameter in query.parameters:
        variable = parameter.variable
        shown = quoted(f"${variable.name}")
        resolved = resolve_type(parameter.type)
        if isinstance(resolved, InvalidType):
            hint = resolved.hint or context.problems.did_you_mean(parameter.type.name.text, TYPE_NAMES)
            message = f"parameter {shown}: {resolved.message}"
            context.report(QueryCode.PARAMETER_TYPE, resolved.span, message, hint)
            continue
        if variable.name in context.params:
            message = f"duplicate parameter {shown}"
            context.report(QueryCode.PARAMETER_TWICE, variable.span, message, "Remove one of them.")
        if variable.is_anonymous:
            context.report(QueryCode.ANONYMOUS_USED, variable.span, "a parameter requires a name")
        context.params[variable.name] = Param(variable.name, resolved, parameter.type.nullable)


def _description(query: Query, context: Context) -> str | None:
    """Return the text of `@description`; other annotations have no meaning here."""
    descriptions = [annotation for annotation in query.annotations if annotation.name.text == "description"]
    if len(descriptions) > 1:
        message = "duplicate annotation `@description`"
        context.report(QueryCode.ANNOTATION, descriptions[1].span, message, "Remove one of them.")
    first = find_annotation(query.annotations, "description")
    if first is None:
        return None
    match first.arguments:
        case [StringLiteral(text)]:
            return text
        case _:
            message = "`@description` requires one string"
            context.report(QueryCode.ANNOTATION, first.span, message, 'Write `@description("…")`.')
            return None


def _select(file: QueryFile, name: str | None) -> QueryFile:
    """Return the file with only the queries of this name; the check reports a duplicate name."""
    names = [query.name.text for query in file.queries]
    listed = ", ".join(quoted(query_name) for query_name in names[:20])
    if not names:
        raise NotFoundError("the text has no queries", code="query_missing", hint="Write `query name() { … }`.")
    if name is None and len(set(names)) > 1:
        message = f"the text has {len(names)} queries, and no query name was passed"
        raise UsageError(message, code="query_unnamed", hint=f"Pass the name of one query: {listed}.")
    if name is None:
        return file
    if name not in names:
        hint = ProblemList("", "").did_you_mean(name, names) or f"The queries are {listed}."
        raise NotFoundError(f"unknown query {quoted(name)}", code="query_missing", hint=hint)
    return replace(file, queries=tuple(query for query in file.queries if query.name.text == name))
