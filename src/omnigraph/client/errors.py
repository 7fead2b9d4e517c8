"""The errors of a server as our errors: of the same classes as without a server, so that programs catch both.

In: the document of an error and its status. Out: an error with its kind, code, hint, facts and `applied`. Never sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from omnigraph.base.authorization import AccessDeniedError
from omnigraph.base.decoding import convert
from omnigraph.base.display import format_count
from omnigraph.base.errors import (
    Applied,
    ConflictError,
    ContentError,
    ErrorKind,
    FormatError,
    InvariantError,
    LimitExceededError,
    NotFoundError,
    OmnigraphError,
    ParameterError,
    Problem,
    QueryTextError,
    RefusedError,
    ResourceLimit,
    RunError,
    StorageError,
    UsageError,
    fact_rows,
    list_all,
)
from omnigraph.base.hints import Hint, hint_from_json

if TYPE_CHECKING:
    from omnigraph.graph.merge.conflicts import Conflict

_SIDES: Final = ("base", "ours", "theirs")
KINDS_OF_STATUSES: Final = {
    400: ErrorKind.BAD_REQUEST,
    401: ErrorKind.UNAUTHORIZED,
    403: ErrorKind.FORBIDDEN,
    404: ErrorKind.NOT_FOUND,
    409: ErrorKind.CONFLICT,
    412: ErrorKind.PRECONDITION_FAILED,
    413: ErrorKind.LIMIT_EXCEEDED,
    429: ErrorKind.TOO_MANY_REQUESTS,
    503: ErrorKind.UNAVAILABLE,
}


class RemoteError(OmnigraphError):
    """A request that the server answered with an error, or did not answer."""

    def __init__(
        self, message: str, *, code: str, kind: ErrorKind, hint: str | Hint = "", facts: Mapping[str, Any] | None = None
    ) -> None:
        # Not `super()`: the class without a server, which may be the next one, has other arguments.
        OmnigraphError.__init__(self, message, code=code, hint=hint, facts=facts)
        self.kind = kind

    def render(self) -> str:
        """Return the message, and one line for each conflict, rejected row or parameter."""
        conflicts = [str(row["text"]) for row in fact_rows(self.facts, "merge_conflicts") if "text" in row]
        rows = [_describe_row(row) for row in fact_rows(self.facts, "validation_errors")]
        parameters = [f"`{row['parameter']}`: {row['message']}" for row in fact_rows(self.facts, "parameters")]
        if rows:
            total = self.facts.get("total", len(rows))
            return list_all(f"the input has {format_count(int(str(total)), 'error')}", rows)
        if len(parameters) > 1:
            return list_all(f"{len(parameters)} parameters do not fit", parameters)
        return list_all(self.message, conflicts) if conflicts else self.message


def _describe_row(row: Mapping[str, Any]) -> str:
    """Return a rejected row as one line."""
    origin = f"{row['file']}:{row['line']}" if "file" in row else f"line {row['line']}"
    subject = f"{row['property']}: " if row.get("property") else ""
    return f"{origin}: {row['code']} {subject}{row['message']}" + (f" ({row['value']})" if row.get("value") else "")


def error_of_document(message: str, document: dict[str, Any], status: int) -> RemoteError:
    """Return the error of an error document, with its hint as a value if it has one."""
    try:
        kind = ErrorKind(document.pop("kind", None))
    except ValueError:
        kind = KINDS_OF_STATUSES.get(status, ErrorKind.INTERNAL)
        if status == 400 and ("problems" in document or "validation_errors" in document):
            kind = ErrorKind.INVALID_CONTENT
    advice, text = document.pop("advice", None), str(document.pop("hint", ""))
    applied = document.pop("applied", None)
    document.pop("code", None)
    code = str(document.pop("error_code", "server_answer"))
    failure = _remote_class(_local_class(code, kind))(
        message, code=code, kind=kind, hint=Hint(text) if advice is None else hint_from_json(advice), facts=document
    )
    if applied is not None:
        failure.applied = Applied(applied)
    if "validation_errors" in document:
        _add_report(failure)
    if code == "merge_conflicts":
        failure.conflicts = tuple(map(conflict_of_document, fact_rows(document, code)))  # type: ignore[attr-defined]
    return failure


def conflict_of_document(row: Mapping[str, Any]) -> Conflict:
    """Return a conflict of a merge. A document does not say which other entities a side changes."""
    from omnigraph.graph.merge.conflicts import Conflict, ConflictKind, EntityName, EntityStates

    kind, plans = row["entity_kind"], row.get("plans", {})
    states = [None if row[side] is None else msgspec.json.encode(row[side]).decode() for side in _SIDES]
    return Conflict(
        kind=ConflictKind(row["kind"]),
        entity=None if kind is None else EntityName(f"{kind}:{row['type_name']}", row["entity_id"]),
        message=row["message"],
        properties=tuple(row["properties"]),
        states=None if kind is None else EntityStates(*states),
        plans=(tuple(plans.get("ours", ())), tuple(plans.get("theirs", ()))),
    )


def with_source(error: RemoteError, text: str, source: str) -> OmnigraphError:
    """Return an error about query text with the lines of the text, so that it is shown with carets."""
    problems = error.facts.get("problems")
    if not isinstance(problems, list) or not problems:
        return error
    lines = text.split("\n")
    limited = error.facts.get("resource_limit")
    limit = None if limited is None else convert(limited, ResourceLimit)
    failure = QueryTextError(
        tuple(
            Problem(
                text=lines[item["line"] - 1] if item["line"] <= len(lines) else "",
                limit=limit if number == 0 else None,
                **{"length": 1, **item, "source": source},
            )
            for number, item in enumerate(convert(problems, list[dict[str, Any]]))
        )
    )
    failure.applied = error.applied
    return failure


def _local_class(code: str, kind: ErrorKind) -> type[OmnigraphError]:
    """Return the class of an error without a server. A class that no caller can name is its base class."""
    from omnigraph.engine.mutation.run import MutationRejectedError
    from omnigraph.graph.feed import ChangeFeedGapError
    from omnigraph.graph.manifest.requirements import PreconditionFailedError
    from omnigraph.graph.merge.conflicts import MergeConflictError
    from omnigraph.pipeline.load.run import LoadRejectedError

    codes: dict[str, type[OmnigraphError]] = {
        "change_feed_gap": ChangeFeedGapError,
        "date_overflow": RunError,
        "integer_overflow": RunError,
        "load_rejected": LoadRejectedError,
        "merge_conflicts": MergeConflictError,
        "mutation_rejected": MutationRejectedError,
        "query_parameter": ParameterError,
    }
    kinds: dict[ErrorKind, type[OmnigraphError]] = {
        ErrorKind.BAD_REQUEST: UsageError,
        ErrorKind.INVALID_CONTENT: ContentError,
        ErrorKind.LIMIT_EXCEEDED: LimitExceededError,
        ErrorKind.FORBIDDEN: AccessDeniedError,
        ErrorKind.NOT_FOUND: NotFoundError,
        ErrorKind.CONFLICT: ConflictError,
        ErrorKind.PRECONDITION_FAILED: PreconditionFailedError,
        ErrorKind.REFUSED: RefusedError,
        ErrorKind.UNAVAILABLE: StorageError,
        ErrorKind.UNREADABLE: FormatError,
        ErrorKind.INTERNAL: InvariantError,
    }
    return codes.get(code) or kinds.get(kind, OmnigraphError)


def _remote_class(local: type[OmnigraphError]) -> type[RemoteError]:
    """Return the class of an error of a server that is also of a class without a server, with its name."""
    if local is OmnigraphError:
        return RemoteError
    return type(local.__name__, (RemoteError, local), {"__doc__": local.__doc__, "__module__": local.__module__})


def _add_report(failure: RemoteError) -> None:
    """Give an error about rows the report that it has without a server; rows of a server have no file."""
    from omnigraph.integrity.report import ValidationError, Violation, ViolationReport
    from omnigraph.integrity.rules import Rule

    if not isinstance(failure, ValidationError):
        return
    rules = {rule.code: rule for rule in Rule}
    names = ("line", "property", "value", "message", "entity_id", "earlier_line")
    violations = [
        Violation(
            file=str(row.get("file", "")),
            rule=rules[str(row["code"])],
            **convert({name: row.get(name) for name in names}, dict[str, Any]),
        )
        for row in fact_rows(failure.facts, "validation_errors")
        if row.get("code") in rules
    ]
    failure.report = ViolationReport.of_violations(violations)
