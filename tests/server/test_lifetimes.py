"""Clients that go away, servers that end or are killed, several servers, streams, and requests that wait."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import urllib3

import omnigraph as og
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from tests.cli.process import omnigraph
from tests.maintenance.cleaning import Place, TomorrowClock
from tests.server.process import ALL_PEOPLE, ServerProcess, serve
from tests.waiting import SECONDS_MAX, wait_until


def peak_memory_bytes(server: ServerProcess) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def send(connection: socket.socket, path: str, document: object) -> None:
    """Send a whole request."""
    body = json.dumps(document).encode()
    head = f"POST /graphs/default/{path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def send_and_disconnect(server: ServerProcess, path: str, document: object) -> None:
    """Send a whole request and close the connection without reading the answer."""
    with server.connect() as connection:
        send(connection, path, document)


def test_an_admitted_write_completes_without_its_client(graph_path: Path, tmp_path: Path) -> None:
    with serve(graph_path, tmp_path) as server:
        send_and_disconnect(server, "mutate", {"query": 'query a() { insert Person { slug: "gone" } }'})
        wait_until(lambda: "gone" in server.slugs(), "the write is there")
        with server.connect() as connection:  # a server cannot tell a half-closed connection from a closed one
            send(connection, "mutate", {"query": 'query a() { insert Person { slug: "half-closed" } }'})
            connection.shutdown(socket.SHUT_WR)
            wait_until(lambda: "half-closed" in server.slugs(), "the write is there")
        assert server.stop() == 0
    assert "gone" in [
        row["p.slug"] for row in og.open(graph_path).query("query q() { match { $p: Person } return { $p.slug } }")
    ]


def test_sigterm_lets_requests_finish(graph_path: Path, tmp_path: Path) -> None:
    with serve(graph_path, tmp_path) as server, ThreadPoolExecutor() as threads:
        waiting = threads.submit(server.send, "GET", "changes?wait=60")
        wait_until(lambda: 'omnigraph_running{kind="read"}' in server.send("GET", "/metrics").body.decode(), "it runs")
        answers = [threads.submit(server.insert, f"t{number}") for number in range(4)]
        done = [future.result() for future in answers]
        assert server.stop() == 0
        assert waiting.result().status == 200
    assert [answer.status for answer in done] == [200] * 4
    assert len(og.open(graph_path).log()) == 6


def test_sigkill_loses_no_acknowledged_write(graph_path: Path, tmp_path: Path) -> None:
    acknowledged = []
    with serve(graph_path, tmp_path) as server:
        for number in range(3):
            assert server.insert(f"k{number}").status == 200
            acknowledged.append(f"k{number}")
        send_and_disconnect(server, "load", {"data": '{"type":"Person","data":{"slug":"half"}}\n'})
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(SECONDS_MAX)
    with serve(graph_path, tmp_path) as again:
        assert set(acknowledged) <= set(again.slugs())
        assert again.insert("after").status == 200


@pytest.mark.parametrize("point", ["arm.after", "commit.after", "publish.before", "publish.after"])
def test_sigkill_during_a_load_leaves_all_of_it_or_nothing(point: str, graph_path: Path, tmp_path: Path) -> None:
    lines = "".join(f'{{"type":"Person","data":{{"slug":"n{number}"}}}}\n' for number in range(50))
    lines += '{"type":"Team","data":{"name":"new"}}\n'
    environment = {"OMNIGRAPH_UNAUTHENTICATED": "1", "OMNIGRAPH_FAILPOINTS": f"{point}=kill"}
    with serve(graph_path, tmp_path, environment=environment) as server:
        send_and_disconnect(server, "load", {"data": lines, "mode": "append"})
        assert server.process.wait(SECONDS_MAX) == -signal.SIGKILL
    with serve(graph_path, tmp_path) as again:
        assert again.insert("after").status == 200
        slugs = set(again.slugs())
        counts = again.send("GET", "catalog").document["entity_counts"]
    assert (len(slugs), counts["node:Team"]) in {(3, 0), (53, 1)}
    assert {"ada", "bob", "after"} <= slugs


def test_a_disconnect_during_a_query_frees_its_thread(graph_path: Path, tmp_path: Path) -> None:
    data = tmp_path / "people.jsonl"
    data.write_text("".join(f'{{"type":"Person","data":{{"slug":"m{number}"}}}}\n' for number in range(400)))
    og.open(graph_path).load(data)

    product = "match { $a: Person  $b: Person  $c: Person  $d: Person } return { count($d) as n }"
    with serve(graph_path, tmp_path) as server:
        with server.connect() as connection:
            send(connection, "query", {"query": f"query endless() {{ {product} }}"})
            wait_until(lambda: server.runs("read", 1), "the query runs")
        wait_until(lambda: server.runs("read", 0), "its thread is free")
        wait_until(lambda: "path=/graphs/default/query status=499" in server.log.read_text(), "the log line")
        assert server.slugs()[0] == "ada"


@pytest.mark.soak
def test_readers_writers_and_commands_at_the_same_time(graph_path: Path, tmp_path: Path) -> None:
    """16 readers, 8 writers and the command line: no failure of the server, and every acknowledged write is present."""
    statuses: list[int] = []

    def read(_: int) -> None:
        statuses.extend(server.query().status for _ in range(20))

    def write(writer: int) -> None:
        for number in range(10):
            answer = server.insert(f"w{writer}-{number}")
            statuses.append(answer.status)
            if answer.status == 200:
                acknowledged.append(f"w{writer}-{number}")

    def command(_: int) -> None:
        for number in range(5):
            text = f'query add() {{ insert Person {{ slug: "c{number}" }} }}'
            assert omnigraph("mutate", "--store", graph_path, "-e", text).exit_code == 0
            acknowledged.append(f"c{number}")

    acknowledged: list[str] = []
    with serve(graph_path, tmp_path) as server, ThreadPoolExecutor(25) as threads:
        jobs = [threads.submit(read, number) for number in range(16)]
        jobs += [threads.submit(write, number) for number in range(8)]
        jobs.append(threads.submit(command, 0))
        for job in jobs:
            job.result()
        assert set(statuses) == {200}
        assert set(acknowledged) <= set(server.slugs())
        assert len(acknowledged) == 85


def test_two_servers_and_a_command_write_one_graph(graph_path: Path, tmp_path: Path) -> None:
    first_directory, second_directory = tmp_path / "1", tmp_path / "2"
    first_directory.mkdir()
    second_directory.mkdir()
    with (
        serve(graph_path, first_directory) as first,
        serve(graph_path, second_directory) as second,
        ThreadPoolExecutor() as threads,
    ):
        servers = [(server, name) for name, server in (("a", first), ("b", second)) for _ in range(4)]
        writes = [threads.submit(server.insert, f"{name}{number}") for number, (server, name) in enumerate(servers)]
        text = 'query add() { insert Person { slug: "command" } }'
        assert omnigraph("mutate", "--store", graph_path, "-e", text).exit_code == 0
        assert [future.result().status for future in writes] == [200] * 8
        expected = {"ada", "bob", "command", *(f"{name}{number}" for number, (_, name) in enumerate(servers))}
        assert set(first.slugs()) == set(second.slugs()) == expected


def test_clients_that_wait(graph_path: Path, tmp_path: Path) -> None:
    with serve(graph_path, tmp_path) as server, ThreadPoolExecutor() as threads:
        cursor = server.send("GET", "changes").document["cursor"]
        waiting = threads.submit(server.send, "GET", f"changes?cursor={cursor}&wait=60")
        og.open(graph_path).mutate('query a() { insert Person { slug: "elsewhere" } }')
        page = waiting.result().document
        (block,) = page["blocks"]
        assert [change["id"] for change in block["changes"]] == ["elsewhere"]
        assert page["caught_up"]
        # A client that waits and goes away frees its place.
        with server.connect() as connection:
            connection.sendall(b"GET /graphs/default/changes?wait=60 HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_until(lambda: server.runs("wait", 1), "it waits")
        wait_until(lambda: server.runs("wait", 0), "it does not wait")
        wait_until(lambda: "path=/graphs/default/changes status=499" in server.log.read_text(), "the log line")
        # A client that goes away while it sends is no failure.
        with server.connect() as connection:
            head = "POST /graphs/default/load HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: 1000\r\n\r\n".encode() + b"{")
        wait_until(lambda: "path=/graphs/default/load status=499" in server.log.read_text(), "the log line")
        assert "Traceback" not in server.log.read_text()


def test_a_feed_in_pages_is_the_feed_in_one_page(graph_path: Path, tmp_path: Path) -> None:
    with serve(graph_path, tmp_path) as server:
        lines = "".join(f'{{"type":"Team","data":{{"name":"t{number:03}"}}}}\n' for number in range(25))
        assert server.send("POST", "load", {"data": lines}).status == 200
        assert server.insert("z").status == 200
        whole = server.send("GET", "changes?start=beginning").document
        ids = [change["id"] for block in whole["blocks"] for change in block["changes"]]
        page = server.send("GET", "changes?start=beginning&limit=4").document
        paged = []
        while True:
            paged += [change["id"] for block in page["blocks"] for change in block["changes"]]
            assert ("cursor" in page) != ("next_page_token" in page)
            if "cursor" in page:
                break
            assert server.insert(f"new{len(paged)}").status == 200  # the pages end at the head that the first one saw
            page = server.send("GET", f"changes?limit=4&page_token={page['next_page_token']}").document
        assert paged == ids
        assert page["caught_up"]
        later = server.send("GET", f"changes?cursor={page['cursor']}").document
        assert [change["op"] for block in later["blocks"] for change in block["changes"]].count("insert") > 0
        teams = server.send("GET", "changes?start=beginning&type=Team&kind=node&op=insert").document
        assert {change["type"]["name"] for block in teams["blocks"] for change in block["changes"]} == {"Team"}
        other_filter = server.send("GET", f"changes?type=Team&cursor={page['cursor']}")
        assert other_filter.status == 400
        assert other_filter.document["error"].startswith("change cursor rejected: ")


def test_a_commit_without_its_state(graph_path: Path, tmp_path: Path) -> None:
    """`cleanup` keeps the record of a commit and deletes what it changed."""
    graph = og.open(graph_path)
    graph.mutate('query a() { insert Person { slug: "newest" } }')
    newest, commit, *_ = (commit.id for commit in graph.log())
    policy = CleanupPolicyOptions(keep_versions=1, confirm=True)
    cleanup_all_tables(Place(graph.location), policy, environment=WriteEnvironment(clock=TomorrowClock()))
    with serve(graph_path, tmp_path) as server:
        assert server.send("GET", f"commits/{commit}").document["readable"] is False
        for path in (f"commits/{commit}/changes", f"commits/{newest}/changes", f"changes?start=after:{commit}"):
            answer = server.send("GET", path)
            assert (answer.status, answer.document["error_code"]) == (410, "change_feed_gap")
        assert server.send("GET", f"snapshot?snapshot={commit}").document["error_code"] == "snapshot_collected"


def test_an_export_is_the_same_as_that_of_the_command(graph_path: Path, tmp_path: Path) -> None:
    lines = "".join(
        f'{{"type":"Person","data":{{"slug":"p{number:05}","name":"{"n" * 200}"}}}}\n' for number in range(5_000)
    )
    data = tmp_path / "more.jsonl"
    data.write_text(lines)
    og.open(graph_path).load(data)
    expected = tmp_path / "expected.jsonl"
    og.open(graph_path).export(expected)
    with serve(graph_path, tmp_path) as server:
        answer = server.send("POST", "export", {})
        assert answer.body == expected.read_bytes()
        assert answer.headers["transfer-encoding"] == "chunked"
        # A client that reads a little and goes away delays no other.
        send_and_disconnect(server, "export", {})
        assert server.slugs()[0] == "ada"


def test_a_body_above_the_limit_is_rejected_also_in_chunks(graph_path: Path, tmp_path: Path) -> None:
    with serve(graph_path, tmp_path) as server:
        headers = {"Content-Type": "application/x-ndjson"}
        line = b'{"type":"Team","data":{"name":"' + b"x" * 1_000_000 + b'"}}\n'
        chunks = (line for _ in range(34))
        answer = server.send("POST", "load/ndjson", body=chunks, headers=headers)
        assert answer.status == 413
        assert answer.document["resource_limit"]["limit"] == 32 * 1024 * 1024
        before = peak_memory_bytes(server)
        for _ in range(3):
            assert server.send("POST", "load/ndjson", body=(line for _ in range(34)), headers=headers).status == 413
        assert peak_memory_bytes(server) - before < 32 * 1024 * 1024
        with server.connect() as connection:
            head = "POST /graphs/default/load/ndjson HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"
            connection.sendall(f"{head}Content-Length: {33 * 1024 * 1024}\r\n\r\n".encode())
            assert connection.makefile("rb").readline().startswith(b"HTTP/1.1 413"), "before the body is sent"
        assert server.slugs() == ["ada", "bob"]


def test_a_new_process_prints_one_line_and_never_imports_pyspark(graph_path: Path, tmp_path: Path) -> None:
    """The servers of other tests are forks of a process that has imported everything."""
    log = tmp_path / "server.log"
    command = [sys.executable, "-X", "importtime", "-m", "omnigraph.cli.main", "serve", str(graph_path)]
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            [*command, "--unauthenticated", "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as process,
    ):
        assert process.stdout is not None
        address = process.stdout.readline().strip().removeprefix("OMNIGRAPH_LISTEN_ADDR=")
        server = ServerProcess(process=process, address=address, log=log, pool=urllib3.PoolManager(timeout=SECONDS_MAX))
        lines = '{"type":"Team","data":{"name":"new"}}\n'
        requests: list[tuple[str, str, object]] = [
            ("POST", "query", {"query": ALL_PEOPLE}),
            ("POST", "explain", {"query": ALL_PEOPLE, "analyze": True}),
            ("POST", "lint", {"files": [{"name": "a.gq", "text": ALL_PEOPLE}]}),
            ("POST", "branches", {"name": "side"}),
            ("POST", "mutate", {"query": 'query a() { insert Person { slug: "new" } }', "branch": "side"}),
            ("POST", "load", {"data": lines, "branch": "side"}),
            ("POST", "branches/merge", {"source": "side", "delete_branch": True}),
            ("POST", "export", {}),
            *(("GET", path, None) for path in ("catalog", "health", "log", "changes", "diff?from=main&to=main")),
        ]
        for method, path, document in requests:
            answer = server.send(method, path, document)
            assert answer.status == 200, answer.body
        process.terminate()
        assert process.stdout.read() == ""
    assert process.returncode == 0
    imported = [line.rpartition("|")[2].strip() for line in log.read_text().splitlines() if "import time:" in line]
    assert "omnigraph.server.process" in imported
    assert [name for name in imported if name.partition(".")[0] == "pyspark"] == []


def test_a_write_that_outlives_the_grace_period(graph_path: Path, tmp_path: Path) -> None:
    held = tmp_path / "held"
    environment = {"OMNIGRAPH_UNAUTHENTICATED": "1", "OMNIGRAPH_FAILPOINTS": f"publish.before@1=hold:{held}"}
    with serve(graph_path, tmp_path, "--shutdown-grace-seconds", "0", environment=environment) as server:
        send_and_disconnect(server, "mutate", {"query": 'query a() { insert Person { slug: "held" } }'})
        wait_until(lambda: held.with_suffix(".reached").exists(), "the write waits before its commit")
        assert server.stop() == 1
        assert "shutdown incomplete" in server.log.read_text()
    with serve(graph_path, tmp_path) as again:
        assert again.insert("after").status == 200
        assert {"ada", "bob", "after"} <= set(again.slugs())
