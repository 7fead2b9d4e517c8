"""The JSON document of an error has the same members on every surface."""

from __future__ import annotations

from omnigraph.base.errors import Applied, ErrorKind, UsageError
from omnigraph.integrity.report import ValidationError, Violation, ViolationReport
from omnigraph.integrity.rules import Rule
from omnigraph.wire.errors import error_document


def test_members_without_a_value_are_omitted() -> None:
    error = UsageError("no graph", code="graph_missing", facts={"uri": "x"})
    document = {"error": "no graph", "kind": "bad_request", "error_code": "graph_missing", "uri": "x"}
    assert error_document(error, error.hint) == document
    error.applied = Applied.NO
    assert list(error_document(error, "Pass a graph.").items()) == [
        ("error", "no graph"),
        ("kind", "bad_request"),
        ("error_code", "graph_missing"),
        ("hint", "Pass a graph."),
        ("applied", "no"),
        ("uri", "x"),
    ]


def test_only_existing_ids_are_a_conflict() -> None:
    existing = Violation(
        file="a.jsonl",
        line=1,
        property="id",
        value="ada",
        rule=Rule.KEY_CONFLICT,
        message="exists",
        table="node:Person",
    )
    invalid = Violation(file="a.jsonl", line=2, property="age", value="x", rule=Rule.DUPLICATE_ID, message="duplicate")
    for violations, kind in (((existing,), ErrorKind.CONFLICT), ((existing, invalid), ErrorKind.INVALID_CONTENT)):
        report = ViolationReport.of_violations(violations)
        error = ValidationError("rejected", report, head="the input", code="load_rejected", hint="")
        assert error.kind is kind
        expected = {"entity_kind": "node", "type_name": "Person", "entity_id": "ada"}
        assert error.facts.get("key_conflict") == (expected if kind is ErrorKind.CONFLICT else None)
