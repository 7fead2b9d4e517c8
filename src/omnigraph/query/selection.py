"""Which query of a text is meant: by its name, or the only one. Only that one is checked.

What the other queries of a file need, such as a ceiling for `{1,}`, is no matter of the one that runs; `lint` checks a
whole file.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.query.check import CheckedQuery, CheckOptions, check_queries
from omnigraph.query.syntax import QueryFile
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.problems import ProblemList, quoted


def check_chosen(
    file: QueryFile, name: str | None, catalog: Catalog, options: CheckOptions | None = None
) -> CheckedQuery:
    """The query of this name, checked; without a name, the only one. Raises where that is none or several."""
    return check_queries(_chosen(file, name), catalog, options)[0]


def _chosen(file: QueryFile, name: str | None) -> QueryFile:
    """The file with the queries that the name means; two of one name are for the check to refuse."""
    names = [query.name.text for query in file.queries]
    listed = ", ".join(quoted(found) for found in names[:20])
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
