"""The application without a process: what a server answers that has graphs and can serve none of them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from omnigraph.server.admission import Admission
from omnigraph.server.app import Serving, make_app
from omnigraph.server.auth import TokenTable
from omnigraph.server.boot import AccessState
from omnigraph.server.gate import AccessGate
from omnigraph.server.metrics import Metrics
from omnigraph.server.served import QuarantinedGraph, ServedRevision
from omnigraph.server.waiting import Waiting
from tests.server.contract import check_response


def get(served: ServedRevision, path: str) -> tuple[int, Any]:
    """Send a request to a server of a revision; return the status and the document."""
    admission, waiting = Admission(), Waiting()
    serving = Serving(
        current=lambda: served,
        applied_revision=lambda: served.revision,
        admission=admission,
        tokens=lambda: TokenTable.make({}),
        metrics=Metrics(admission, waiting),
        waiting=waiting,
    )
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [], "scheme": "http"}
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(make_app(serving)(scope, receive, send))  # type: ignore[arg-type]
    start, body = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    check_response("GET", path, start["status"], headers, body["body"])
    return start["status"], json.loads(body["body"])


def test_readiness() -> None:
    quarantined = QuarantinedGraph("damaged", "it is damaged", AccessGate(AccessState.READ), "/graph")
    status, document = get(
        ServedRevision(graphs={}, state=AccessState.READ, quarantined={"g": quarantined}, revision=1), "/readyz"
    )
    assert (status, document["ready"], document["status"], document["quarantined_graph_count"]) == (
        503,
        False,
        "degraded",
        1,
    )
    status, document = get(ServedRevision(graphs={}, state=AccessState.READ, revision=1), "/readyz")
    assert (status, document["ready"], document["status"]) == (200, True, "serving"), "a cluster without graphs"
