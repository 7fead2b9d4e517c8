"""Whether the queries of a file fit a catalog: runs every check and raises all problems together.

Comes in: a `QueryFile`, a catalog, and what is configured. Goes out: one `CheckedQuery` per query, with its plan as the
text says it, before any rule; or one `QueryTextError` with the problems of all queries in the order of the text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from omnigraph.schema.resolve import TYPE_NAMES, TypeMistake, find_annotation, resolve_type


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What is configured: the ceiling of traversals that are written without an upper bound, if any."""

    hops_ceiling: int | None = None


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A query without problems, and its plan as the text says it."""

    query: Query
    plan: QueryPlan
    description: str | None = None

    @property
    def name(self) -> str:
        return self.query.name.text

    @property
    def is_mutation(self) -> bool:
        return isinstance(self.plan, MutationPlan)


def check_queries(
    file: QueryFile, catalog: Catalog, options: CheckOptions | None = None
) -> tuple[CheckedQuery, ...]:
    """Every query of the file, or `QueryTextError` with everything that is wrong."""
    problems = QueryProblems(file.source, file.text)
    checked = check_file(file, catalog, options or CheckOptions(), problems)
    problems.raise_if_any()
    return checked


def check_file(
    file: QueryFile, catalog: Catalog, options: CheckOptions, problems: QueryProblems
) -> tuple[CheckedQuery, ...]:
    """The queries that have no problem; the problems of the others go to the list."""
    checked_queries: list[CheckedQuery] = []
    for query in file.queries:
        own = QueryProblems(file.source, file.text)
        context = Context(
            catalog,
            own,
            f"query {query.name.text}",
            hops_ceiling=options.hops_ceiling,
            reserved=frozenset(variables_of(query)),
        )
        checked = _check_query(query, context)
        problems.include(own)
        if checked and not own.sorted():
            checked_queries.append(checked)
    _check_names(file, problems)
    return tuple(checked_queries)


def _check_query(query: Query, context: Context) -> CheckedQuery | None:
    _declare(query, context)
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
            message = f"query {name.text}: two queries have this name"
            problems.report(QueryCode.QUERY_TWICE, name.span, message, "rename one")
        seen.add(name.text)


def _declare(query: Query, context: Context) -> None:
    for parameter in query.parameters:
        variable = parameter.variable
        shown = quoted(f"${variable.name}")
        resolved = resolve_type(parameter.type)
        if isinstance(resolved, TypeMistake):
            hint = resolved.hint or context.problems.did_you_mean(parameter.type.name.text, TYPE_NAMES)
            message = f"parameter {shown}: {resolved.message}"
            context.report(QueryCode.PARAMETER_TYPE, resolved.span, message, hint)
            continue
        if variable.name in context.params:
            message = f"{shown} is declared twice"
            context.report(QueryCode.PARAMETER_TWICE, variable.span, message, "remove one")
        if variable.is_anonymous:
            context.report(QueryCode.ANONYMOUS_USED, variable.span, "a parameter needs a name")
        context.params[variable.name] = Param(variable.name, resolved, parameter.type.nullable)


def _description(query: Query, context: Context) -> str | None:
    """The text of `@description`; every other annotation is only kept."""
    descriptions = [annotation for annotation in query.annotations if annotation.name.text == "description"]
    if len(descriptions) > 1:
        context.report(
            QueryCode.ANNOTATION, descriptions[1].span, "`@description` is given twice", "remove one"
        )
    first = find_annotation(query.annotations, "description")
    if first is None:
        return None
    match first.arguments:
        case [StringLiteral(text)]:
            return text
        case _:
            message = "`@description` needs one string"
            context.report(QueryCode.ANNOTATION, first.span, message, 'write `@description("…")`')
            return None


def check_chosen(
    file: QueryFile, name: str | None, catalog: Catalog, options: CheckOptions | None = None
) -> CheckedQuery:
    """The query of this name, checked; without a name, the only one. Raises where that is none or several."""
    return check_queries(_chosen(file, name), catalog, options)[0]


def _chosen(file: QueryFile, name: str | None) -> QueryFile:
    """The file with the queries that the name means; two of one name are for the check to refuse."""
    names = [query.name.text for query in file.queries]
    listed = ", ".join(quoted(query_name) for query_name in names[:20])
    if not names:
        raise NotFoundError(
            "the text has no queries", code="query_missing", hint="write `query name() { … }`"
        )
    if name is None and len(set(names)) > 1:
        message = f"the text has {len(names)} queries, and none is named"
        raise UsageError(message, code="query_unnamed", hint=f"name one of {listed}")
    if name is None:
        return file
    if name not in names:
        hint = ProblemList("", "").did_you_mean(name, names) or f"there are {listed}"
        raise NotFoundError(f"no query is called {quoted(name)}", code="query_missing", hint=hint)
    return replace(file, queries=tuple(query for query in file.queries if query.name.text == name))
