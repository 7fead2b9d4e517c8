"""The JSON document of an error has the same members on every surface."""

from __future__ import annotations

import pytest

from omnigraph.base.errors import Applied, ErrorKind, OmnigraphError, UsageError
from omnigraph.integrity.report import ValidationError, Violation, ViolationReport
from omnigraph.integrity.rules import Rule
from omnigraph.wire.errors import error_document, http_status


def test_members_without_a_value_are_omitted() -> None:
    error = UsageError("no graph", code="graph_missing", facts={"uri": "x"})
    members = {"error": "no graph", "kind": "bad_request", "error_code": "graph_missing", "code": "bad_request"}
    assert error_document(error, error.hint) == {**members, "uri": "x"}
    error.applied = Applied.NO
    assert list(error_document(error, "Pass a graph.").items()) == [
        ("error", "no graph"),
        ("kind", "bad_request"),
        ("error_code", "graph_missing"),
        ("code", "bad_request"),
        ("hint", "Pass a graph."),
        ("applied", "no"),
        ("uri", "x"),
    ]


def test_a_fact_never_replaces_a_member_of_every_error() -> None:
    error = UsageError("no graph", code="graph_missing", facts={"kind": "x", "error": "y", "uri": "z"})
    document = error_document(error, "")
    assert (document["kind"], document["error"], document["uri"]) == ("bad_request", "no graph", "z")


@pytest.mark.parametrize(
    ("kind", "error_code", "status", "code"),
    [
        (ErrorKind.BAD_REQUEST, "usage", 400, "bad_request"),
        (ErrorKind.INVALID_CONTENT, "Q000", 400, "bad_request"),
        (ErrorKind.LIMIT_EXCEEDED, "query_memory", 413, "bad_request"),
        (ErrorKind.LIMIT_EXCEEDED, "query_time", 504, None),
        (ErrorKind.UNAUTHORIZED, "x", 401, "unauthorized"),
        (ErrorKind.FORBIDDEN, "x", 403, "forbidden"),
        (ErrorKind.NOT_FOUND, "branch_missing", 404, "not_found"),
        (ErrorKind.CONFLICT, "merge_conflicts", 409, "conflict"),
        (ErrorKind.CONFLICT, "change_feed_gap", 410, None),
        (ErrorKind.PRECONDITION_FAILED, "precondition_failure", 412, None),
        (ErrorKind.REFUSED, "drift", 409, "conflict"),
        (ErrorKind.TOO_MANY_REQUESTS, "x", 429, "too_many_requests"),
        (ErrorKind.UNAVAILABLE, "disk_full", 503, "service_unavailable"),
        (ErrorKind.UNAVAILABLE, "recovery_required", 503, None),
        (ErrorKind.UNAVAILABLE, "publish_unknown", 503, None),
        (ErrorKind.UNREADABLE, "stamp_too_new", 500, "internal"),
        (ErrorKind.INTERNAL, "defect", 500, "internal"),
    ],
)
def test_code_is_the_word_of_the_status(kind: ErrorKind, error_code: str, status: int, code: str | None) -> None:
    error = OmnigraphError("x", code=error_code)
    error.kind = kind
    assert (http_status(error), error_document(error, "").get("code")) == (status, code)


def test_only_existing_ids_are_a_conflict() -> None:
    existing = Violation(
        file="a.jsonl",
        line=1,
        property="id",
        value="ad…",
        rule=Rule.KEY_CONFLICT,
        message="exists",
        table="node:Person",
        entity_id="ada",
    )
    invalid = Violation(file="a.jsonl", line=2, property="age", value="x", rule=Rule.DUPLICATE_ID, message="duplicate")
    for violations, kind in (((existing,), ErrorKind.CONFLICT), ((existing, invalid), ErrorKind.INVALID_CONTENT)):
        report = ViolationReport.of_violations(violations)
        error = ValidationError("rejected", report, head="the input", code="load_rejected", hint="")
        assert error.kind is kind
        expected = {"entity_kind": "node", "type_name": "Person", "entity_id": "ada"}
        assert error.facts.get("key_conflict") == (expected if kind is ErrorKind.CONFLICT else None)
