"""A real server process for tests, and plain HTTP requests to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import urllib3

from tests.forked import ForkedProcess
from tests.server.contract import check_response
from tests.waiting import SECONDS_MAX

SCHEMA = """
node Person { slug: String @key  name: String?  age: I64? }
node Team { name: String @key  members: U64? }
edge Knows: Person -> Person { since: I32? }
"""
LINES = (
    '{"type":"Person","data":{"slug":"ada","name":"Ada","age":36}}\n'
    '{"type":"Person","data":{"slug":"bob","name":"Bob"}}\n'
    '{"edge":"Knows","from":"ada","to":"bob","data":{"since":2020}}\n'
)
ALL_PEOPLE = "query q() { match { $p: Person } return { $p.slug } order { $p.slug } }"
READ, WRITE = "read-token", "write-token"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """The response to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """A running server."""

    process: ForkedProcess | subprocess.Popen[str]
    address: str
    log: Path
    pool: urllib3.PoolManager
    scheme: str = "http"

    def send(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        body: Any = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Send one request and check the response by the OpenAPI document.

        A path that does not begin with `/` is one of the graph.
        """
        url = f"{self.scheme}://{self.address}" + (path if path.startswith("/") else f"/graphs/default/{path}")
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        if document is not None:
            body = json.dumps(document).encode()
            sent["Content-Type"] = "application/json"
        response = self.pool.request(method, url, body=body, headers={**sent, **(headers or {})}, retries=False)
        check_response(method, urlsplit(url).path, response.status, response.headers, response.data)
        return HttpAnswer(status=response.status, headers=response.headers, body=response.data)

    def query(self, text: str = ALL_PEOPLE, **members: Any) -> HttpAnswer:
        return self.send("POST", "query", {"query": text, **members})

    def mutate(self, text: str, **members: Any) -> HttpAnswer:
        return self.send("POST", "mutate", {"query": text, **members})

    def insert(self, slug: str, **members: Any) -> HttpAnswer:
        return self.mutate(f'query add() {{ insert Person {{ slug: "{slug}" }} }}', **members)

    def slugs(self, **members: Any) -> list[str]:
        answer = self.query(**members)
        assert answer.status == 200, answer.body
        return [row["p.slug"] for row in answer.document["rows"]]

    def connect(self) -> socket.socket:
        """Open a connection for bytes that are not a request."""
        host, _, port = self.address.rpartition(":")
        return socket.create_connection((host, int(port)), SECONDS_MAX)

    def runs(self, kind: str, count: int) -> bool:
        """Return whether a number of requests of a kind runs."""
        return f'omnigraph_running{{kind="{kind}"}} {count}.0'.encode() in self.send("GET", "/metrics").body

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS_MAX)


@contextmanager
def serve(
    graph: str | Path,
    directory: Path,
    *flags: str,
    environment: Mapping[str, str] | None = None,
    certificate: Path | None = None,
) -> Iterator[ServerProcess]:
    """Start a server on a free port and kill it at the end. Without tokens it is open to all."""
    log = directory / "server.log"
    variables = {**os.environ, **(environment or {"OMNIGRAPH_UNAUTHENTICATED": "1"})}
    arguments = ["serve", str(graph), "--bind", "127.0.0.1:0", *flags]
    reader, writer = os.pipe()
    with os.fdopen(reader) as stdout, log.open("ab") as stderr:
        process = ForkedProcess(arguments, stdout=writer, stderr=stderr.fileno(), variables=variables)
        os.close(writer)
        try:
            line = stdout.readline()
            assert line.startswith("OMNIGRAPH_LISTEN_ADDR="), log.read_text()
            address = line.strip().partition("=")[2]
            timeout = urllib3.Timeout(connect=SECONDS_MAX, read=SECONDS_MAX)
            pool = urllib3.PoolManager(maxsize=32, timeout=timeout, ca_certs=certificate and str(certificate))
            scheme = "http" if certificate is None else "https"
            yield ServerProcess(process=process, address=address, log=log, pool=pool, scheme=scheme)
        finally:
            process.kill()
