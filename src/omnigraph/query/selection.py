"""Which query of a text is meant: by its name, or the only one."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.query.check import CheckedQuery
from omnigraph.schema.problems import ProblemList, quoted


def choose_query(queries: Sequence[CheckedQuery], name: str | None = None) -> CheckedQuery:
    """The query of this name; without a name, the only one. Raises where that is none or several."""
    listed = ", ".join(quoted(found.name) for found in queries[:20])
    if name is not None:
        chosen = next((found for found in queries if found.name == name), None)
        if chosen is None:
            near = ProblemList("", "").did_you_mean(name, [found.name for found in queries])
            hint = near or (f"there are {listed}" if queries else "the text has no queries")
            raise NotFoundError(f"no query is called {quoted(name)}", code="query_missing", hint=hint)
        return chosen
    if not queries:
        raise NotFoundError(
            "the text has no queries", code="query_missing", hint="write `query name() { … }`"
        )
    if len(queries) > 1:
        message = f"the text has {len(queries)} queries, and none is named"
        raise UsageError(message, code="query_unnamed", hint=f"name one of {listed}")
    return queries[0]
