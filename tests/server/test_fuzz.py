"""Requests that schemathesis generates from the OpenAPI document, valid and invalid ones: every answer is documented.

The number of requests is bounded and the cases are the same in each run; `make soak` sends more and random ones.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import one_of

from omnigraph.server.openapi import openapi_document
from tests.server.process import ServerProcess
from tests.waiting import SECONDS_MAX

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed; run `make setup`")


@schemathesis.serializer("application/x-ndjson")  # type: ignore[untyped-decorator]
def lines(_: Any, value: Any) -> bytes:
    """Return a generated body as text: schemathesis knows no lines of JSON."""
    return str(value).encode("utf-8", "replace")


EXAMPLES = 10
EXAMPLES_OF_SOAK = 200
LABELS = [
    f"{method.upper()} {path}"
    for path, methods in openapi_document()["paths"].items()
    for method in methods
    if path != "/metrics"
]


def send_examples(server: ServerProcess, label: str, count: int, *, is_random: bool) -> None:
    """Send generated requests to one operation and check each response by the document."""
    checks = schemathesis.checks
    schema = schemathesis.openapi.from_dict(openapi_document())
    operation = next(item.ok() for item in schema.get_all_operations() if item.ok().label == label)
    valid = operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
    invalid = operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
    expected = [
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]

    @settings(
        max_examples=count,
        derandomize=not is_random,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(one_of(valid.map(lambda case: (case, True)), invalid.map(lambda case: (case, False))))
    def send(example: tuple[Any, bool]) -> None:
        case, is_valid = example
        if is_valid and "graph_id" in (case.path_parameters or {}):
            case.path_parameters["graph_id"] = "default"
        if isinstance(case.query, dict):
            case.query.pop("wait", None)  # a valid request may wait for a minute
        response = case.call(base_url=f"http://{server.address}", timeout=SECONDS_MAX)
        case.validate_response(response, checks=expected)

    send()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label", LABELS)
def test_answers_are_documented(server: ServerProcess, label: str) -> None:
    send_examples(server, label, EXAMPLES, is_random=False)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label", LABELS)
def test_answers_to_many_requests_are_documented(server: ServerProcess, label: str) -> None:
    send_examples(server, label, EXAMPLES_OF_SOAK, is_random=True)
