"""Requests to a real server: routes, documents, errors, and everything that is rejected before work."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

import omnigraph as og
from omnigraph.base import limits
from omnigraph.server.openapi import openapi_document
from tests.server.process import ALL_PEOPLE, LINES, ServerProcess


def test_health_and_readiness(server: ServerProcess) -> None:
    health = server.send("GET", "/healthz")
    assert health.document["status"] == "ok"
    assert health.document["version"] == og.__version__
    assert health.document["internal_schema_version"] == 1
    assert server.send("GET", "/readyz").document["served_graph_count"] == 1


def test_graphs_never_show_where_they_are_stored(server: ServerProcess) -> None:
    assert server.send("GET", "/graphs").document == {"graphs": [{"graph_id": "default", "uri": "graphs/default"}]}


def test_whoami_without_tokens(server: ServerProcess) -> None:
    document = server.send("GET", "/whoami").document
    assert document["actor_id"] is None
    assert document["state"] == "open"
    assert set(document["graphs"][0]["actions"].values()) == {"all"}


def test_query(server: ServerProcess) -> None:
    document = server.query(branch="main").document
    assert document["query_name"] == "q"
    assert document["target"] == {"branch": "main", "snapshot": None}
    assert document["columns"] == ["p.slug"]
    assert document["row_count"] == len(document["rows"])
    assert {"p.slug": "ada"} in document["rows"]


def test_query_of_a_commit(server: ServerProcess) -> None:
    before = server.query().document
    assert server.insert("later").status == 200
    document = server.query(snapshot=before["graph_commit_id"]).document
    assert document["rows"] == before["rows"]
    assert document["target"]["snapshot"] == before["graph_commit_id"]
    assert "later" in server.slugs()


def test_parameters_and_names(server: ServerProcess) -> None:
    text = (
        "query a() { match { $p: Person } return { $p.slug } } "
        "query b($n: String) { match { $p: Person {name: $n} } return { $p.slug } }"
    )
    assert server.query(text, name="b", params={"n": "Ada"}).document["rows"] == [{"p.slug": "ada"}]
    assert server.query(text).status == 400


INTEGERS = [
    *(("I64", "Person", "slug", "age", value) for value in (2**63 - 1, -(2**63), 2**53 + 1)),
    *(("U64", "Team", "name", "members", value) for value in (2**64 - 1, 2**53 + 1)),
]


@pytest.mark.parametrize("case", INTEGERS, ids=str)
def test_64_bit_integers_are_exact(server: ServerProcess, case: tuple[str, str, str, str, int]) -> None:
    kind, node, key, name, value = case
    insert = f'query add($v: {kind}) {{ insert {node} {{ {key}: "big{value}", {name}: $v }} }}'
    receipt = server.mutate(insert, params={"v": value})
    assert receipt.status == 200
    rows = {"query": f'query q() {{ match {{ $x: {node} {{{key}: "big{value}"}} }} return {{ $x.{name}, $x }} }}'}
    commit = receipt.document["commit"]
    changes = f"commits/{commit['graph_commit_id']}/changes"
    diff = f"diff?from={commit['parent_commit_id']}&to={commit['graph_commit_id']}"
    feed = f"changes?start=after:{commit['parent_commit_id']}"
    as_text = {"Accept": "application/json; bigint=string"}
    requests: list[tuple[str, str, Any]] = [("POST", "query", rows)]
    requests += [("GET", path, None) for path in (changes, diff, feed)]
    for method, path, body in requests:
        assert f'{name}":{value}'.encode() in server.send(method, path, body).body
        assert f'{name}":"{value}"'.encode() in server.send(method, path, body, headers=as_text).body


def test_mutation_receipt_equals_the_commit(server: ServerProcess) -> None:
    receipt = server.insert("receipt").document
    assert receipt["affected_nodes"] == 1
    assert receipt["actor_id"] == "anonymous"
    commit = server.send("GET", f"commits/{receipt['commit']['graph_commit_id']}").document
    assert receipt["commit"] == commit


def test_receipts_of_loads_and_merges_equal_the_commit(server: ServerProcess) -> None:
    body = '{"type":"Team","data":{"name":"receipts"}}\n'
    loaded = server.send("POST", "load", {"data": body, "branch": "receipts", "from": "main"}).document["commit"]
    assert server.insert("receipts").status == 200
    merged = server.send("POST", "branches/merge", {"source": "receipts"}).document["commit"]
    assert (merged["merged_parent_commit_id"], merged["graph_branch"]) == (loaded["graph_commit_id"], "main")
    for commit in (loaded, merged):
        assert server.send("GET", f"commits/{commit['graph_commit_id']}").document == commit


def test_mutation_of_nothing_has_no_commit(server: ServerProcess) -> None:
    document = server.mutate('query d() { delete Person where slug = "absent" }').document
    assert document["commit"] is None


def test_conditional_mutation(server: ServerProcess) -> None:
    head = server.query().document["graph_commit_id"]
    body = {"query": 'query a() { insert Person { slug: "conditional" } }'}
    header = {"Omnigraph-If-Graph-Commit": head}
    assert server.send("POST", "mutate/if-graph-commit", body, headers=header).status == 200
    newest = server.query().document["graph_commit_id"]
    late = {"query": 'query a() { insert Person { slug: "too-late" } }'}
    stale = server.send("POST", "mutate/if-graph-commit", late, headers=header)
    assert stale.status == 412
    assert stale.document["kind"] == "precondition_failed"
    assert stale.document["precondition_failure"]["expected"] == head
    assert stale.document["precondition_failure"]["actual"] == newest
    assert server.query().document["graph_commit_id"] == newest, "nothing was written"
    assert {"conditional"} == {"conditional", "too-late"} & set(server.slugs())
    assert server.send("POST", "mutate/if-graph-commit", body).status == 400
    for value in (head[:8], "HEAD", f"{head}, {head}", ""):
        short = server.send("POST", "mutate/if-graph-commit", body, headers={"Omnigraph-If-Graph-Commit": value})
        assert (short.status, short.document["error_code"]) == (400, "condition_missing"), value
    assert server.send("POST", "mutate", body, headers=header).status == 400


def test_a_read_and_a_change_are_different_routes(server: ServerProcess) -> None:
    answer = server.query('query a() { insert Person { slug: "x" } }')
    assert answer.status == 400
    answer = server.mutate(ALL_PEOPLE)
    assert answer.status == 400


def test_load(server: ServerProcess) -> None:
    body = '{"type":"Person","data":{"slug":"loaded"}}\n'
    created = server.send("POST", "load", {"data": body, "branch": "load/1", "from": "main"}).document
    assert created["branch_created"]
    assert created["base_branch"] == "main"
    assert created["mode"] == "merge"
    assert created["uri"] == "graphs/default"
    assert [(each["name"], each["entities_loaded"], each["inserted"]) for each in created["nodes"]] == [
        ("Person", 1, 1)
    ]
    assert "loaded" in server.slugs(branch="load/1")
    assert "loaded" not in server.slugs()


def test_load_of_lines(server: ServerProcess) -> None:
    headers = {"Content-Type": "application/x-ndjson"}
    body = '{"type":"Person","data":{"slug":"line"}}\n'
    loaded = server.send("POST", "load/ndjson?mode=append", body=body, headers=headers)
    assert (loaded.status, loaded.document["total_entities"], "uri" in loaded.document) == (200, 1, False)
    again = server.send("POST", "load/ndjson?mode=append", body=body, headers=headers)
    assert again.status == 409
    assert again.document["kind"] == "conflict"
    assert again.document["key_conflict"]["entity_id"] == "line"
    assert server.send("POST", "load/ndjson?branch=none", body=body, headers=headers).status == 404


def test_the_longest_load(server: ServerProcess) -> None:
    start, end = '{"type":"Team","data":{"name":"', '"}}\n'
    line_bytes = limits.SERVER_LOAD_BYTES_MAX // 32
    names = [f"{number:02}".ljust(line_bytes - len(start + end), "x") for number in range(32)]
    body = "".join(f"{start}{name}{end}" for name in names)
    assert len(body) == limits.SERVER_LOAD_BYTES_MAX
    loaded = server.send("POST", "load/ndjson", body=body, headers={"Content-Type": "application/x-ndjson"})
    assert (loaded.status, loaded.document["total_entities"]) == (200, 32)


def test_a_patch_keeps_what_a_line_omits(server: ServerProcess) -> None:
    def load(mode: str, **data: object) -> None:
        body = json.dumps({"type": "Person", "data": {"slug": "patched", **data}})
        assert server.send("POST", "load", {"data": body, "mode": mode}).status == 200

    def age() -> object:
        text = 'query q() { match { $p: Person  $p.slug = "patched" } return { $p.age } }'
        return server.query(text).document["rows"][0]["p.age"]

    load("append", age=5)
    load("patch")
    assert age() == 5
    load("patch", age=None)
    assert age() is None


def test_rejected_rows_name_no_file(server: ServerProcess) -> None:
    headers = {"Content-Type": "application/x-ndjson"}
    answer = server.send("POST", "load/ndjson", body='{"type":"Person","data":{"slug":1}}\n', headers=headers)
    assert answer.status == 400
    (violation,) = answer.document["validation_errors"]
    assert "file" not in violation
    assert b"/tmp" not in answer.body


def test_export(server: ServerProcess) -> None:
    first = server.query().document["graph_commit_id"]
    answer = server.send("POST", "export", {"snapshot": first, "type_names": ["Knows"]})
    assert answer.headers["content-type"] == "application/x-ndjson"
    (line,) = answer.body.splitlines()
    assert json.loads(line)["data"]["since"] == 2020
    assert server.insert("exported").status == 200
    everything = server.send("POST", "export", {}).body
    assert everything.count(b"\n") > len(LINES.splitlines())


def test_what_fails_before_an_export_is_an_error(server: ServerProcess) -> None:
    assert server.send("POST", "export", {"type_names": ["Nope"]}).status == 404
    assert server.send("POST", "export", {"branch": "nope"}).status == 404


@pytest.mark.parametrize("name", ["a/b", "merge", "feature/x/y"])
def test_branches(server: ServerProcess, name: str) -> None:
    created = server.send("POST", "branches", {"name": name})
    assert created.status == 200, created.body
    assert server.send("POST", "branches", {"name": name}).status == 409
    assert name in server.send("GET", "branches").document["branches"]
    assert server.insert(name.replace("/", "-"), branch=name).status == 200
    preview = server.send("POST", "branches/merge", {"source": name, "dry_run": True}).document
    assert preview["commit"] is None
    merged = server.send("POST", "branches/merge", {"source": name, "delete_branch": True}).document
    assert merged["outcome"] in {"merged", "fast_forward"}
    assert merged["branch_deleted"] is True
    assert merged["commit"]["parent_commit_id"]
    assert merged["commit"]["merged_parent_commit_id"]
    assert name.replace("/", "-") in server.slugs()
    for spelling in (name, name.replace("/", "%2F")):
        assert server.send("DELETE", f"branches/{spelling}").status == 404
        assert server.send("POST", "branches", {"name": name}).status == 200
        assert server.send("DELETE", f"branches/{spelling}").document["name"] == name
    assert name not in server.send("GET", "branches").document["branches"]


def test_merge_that_is_up_to_date_has_no_commit(server: ServerProcess) -> None:
    server.send("POST", "branches", {"name": "same"})
    document = server.send("POST", "branches/merge", {"source": "same"}).document
    assert document["outcome"] == "already_up_to_date"
    assert document["commit"] is None
    assert "branch_deleted" not in document
    assert server.send("DELETE", "branches/same").document["name"] == "same"


def test_merge_conflicts_and_their_resolution(server: ServerProcess) -> None:
    server.insert("torn")
    server.send("POST", "branches", {"name": "torn"})
    change = 'query u() { update Person set { name: "NAME" } where slug = "torn" }'
    server.mutate(change.replace("NAME", "ours"))
    server.mutate(change.replace("NAME", "theirs"), branch="torn")
    conflict = server.send("POST", "branches/merge", {"source": "torn"})
    assert conflict.status == 409
    (found_conflict,) = conflict.document["merge_conflicts"]
    decision = {name: found_conflict[name] for name in ("entity_kind", "type_name", "entity_id")}
    resolved = server.send("POST", "branches/merge", {"source": "torn", "resolve": [{**decision, "take": "theirs"}]})
    assert resolved.document["outcome"] == "merged"
    rows = server.query('query q() { match { $p: Person {slug: "torn"} } return { $p.name } }').document["rows"]
    assert rows == [{"p.name": "theirs"}]


def test_pages_of_a_difference_show_the_states_of_the_first_one(server: ServerProcess) -> None:
    server.send("POST", "branches", {"name": "paged"})
    for slug in ("page-1", "page-2", "page-3"):
        server.insert(slug, branch="paged")
    first = server.send("GET", "diff?from=main&to=paged&limit=1").document
    server.insert("page-4", branch="paged")
    second = server.send("GET", f"diff?from=main&to=paged&limit=2&page_token={first['next_page_token']}").document
    assert (second["from"], second["to"]) == (first["from"], first["to"])
    assert "next_page_token" not in second
    entities = [change["id"] for page in (first, second) for change in page["changes"]]
    assert (len(entities), len(set(entities))) == (3, 3)
    server.send("DELETE", "branches/paged")


def test_commits_log_and_diff(server: ServerProcess) -> None:
    commits = server.send("GET", "commits?limit=2").document["commits"]
    assert len(commits) == 2
    assert commits[0]["parent_commit_id"] == commits[1]["graph_commit_id"]
    log = server.send("GET", "log?limit=1").document
    assert log["heads"]["main"] == commits[0]["graph_commit_id"]
    following = server.send("GET", f"log?limit=1&page_token={log['next_page_token']}").document
    assert following["commits"][0]["graph_commit_id"] != log["commits"][0]["graph_commit_id"]
    left, right = commits[1]["graph_commit_id"], commits[0]["graph_commit_id"]
    diff = server.send("GET", f"diff?from={left}&to={right}").document
    assert (diff["from"], diff["to"]) == (left, right)
    changes = server.send("GET", f"commits/{right}/changes").document
    assert changes["changes"] == diff["changes"]
    assert changes["cause"]["graph_commit_id"] == right


@pytest.mark.parametrize("commit", ["zzz", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "%00"])
def test_unknown_commits(server: ServerProcess, commit: str) -> None:
    assert server.send("GET", f"commits/{commit}").status == 404


def test_schema_catalog_and_snapshot(server: ServerProcess) -> None:
    schema = server.send("GET", "schema").document
    assert "node Person" in schema["schema_source"]
    catalog = server.send("GET", "catalog").document
    assert catalog["entity_counts"]["edge:Knows"] == 1
    assert catalog["schema_hash"] == schema["schema_hash"]
    snapshot = server.send("GET", "snapshot").document
    assert {table["table_key"] for table in snapshot["datasets"]} == {"node:Person", "node:Team", "edge:Knows"}


def test_explain_and_lint(server: ServerProcess) -> None:
    explained = server.send("POST", "explain", {"query": ALL_PEOPLE, "analyze": True}).document
    assert explained["steps"]
    lint = server.send(
        "POST", "lint", {"files": [{"name": "a.gq", "text": "query q() { match { $p: Nope } return { $p.x } }"}]}
    )
    assert lint.status == 200
    assert lint.document["errors"][0]["source"] == "a.gq"


def test_text_errors_have_positions(server: ServerProcess) -> None:
    answer = server.query("query q() { match { $p: Persn } return { $p.slug } }")
    assert answer.status == 400
    assert answer.document["kind"] == "invalid_content"
    assert answer.document["problems"][0]["column"] == 25


BAD_REQUESTS: list[tuple[str, str, dict[str, Any], tuple[int, str]]] = [
    ("GET", "/nope", {}, (404, "address_unknown")),
    ("GET", "/graphs/none/snapshot", {}, (404, "graph_missing")),
    ("GET", "/graphs/a_b/snapshot", {}, (400, "graph_id_invalid")),
    ("PUT", "snapshot", {}, (405, "method_not_allowed")),
    ("POST", "/healthz", {}, (405, "method_not_allowed")),
    ("GET", "snapshot?nope=1", {}, (400, "parameter_unknown")),
    ("GET", "snapshot?branch=a&branch=b", {}, (400, "parameter_twice")),
    ("GET", "snapshot?branch=main&snapshot=x", {}, (400, "state_twice")),
    ("GET", "snapshot?branch=nope", {}, (404, "branch_missing")),
    ("GET", "commits?limit=0", {}, (400, "argument")),
    ("GET", "commits?limit=x", {}, (400, "parameter_invalid")),
    ("GET", "/healthz?nope=1", {}, (400, "parameter_unknown")),
    ("POST", "mcp?nope=1", {"document": {}}, (400, "parameter_unknown")),
    ("POST", "mcp", {"body": b"{}", "headers": {"Content-Type": "text/plain"}}, (415, "content_type")),
    ("POST", "mcp", {"document": {"x": "x" * 1_100_000}}, (413, "body_too_long")),
    ("GET", "changes?limit=0", {}, (400, "limit_invalid")),
    ("GET", "changes?limit=8193", {}, (400, "limit_invalid")),
    ("GET", "changes?start=later", {}, (400, "feed_start_invalid")),
    ("GET", "changes?start=now&cursor=x", {}, (400, "feed_start_twice")),
    ("GET", "changes?cursor=x", {}, (400, "change_cursor_rejected")),
    ("GET", "changes?page_token=%F0%9F%98%80", {}, (400, "change_cursor_rejected")),
    ("GET", "changes?kind=nodes", {}, (400, "parameter_invalid")),
    ("GET", "diff?from=main", {}, (400, "parameter_invalid")),
    ("GET", "diff?from=main&to=nope", {}, (404, "reference_missing")),
    ("POST", "query", {"body": b"{", "headers": {"Content-Type": "application/json"}}, (400, "body_invalid")),
    ("POST", "query", {"body": b"", "headers": {"Content-Type": "application/json"}}, (400, "body_invalid")),
    (
        "POST",
        "query",
        {"body": b'{"query": "\xff"}', "headers": {"Content-Type": "application/json"}},
        (400, "body_invalid"),
    ),
    ("POST", "query", {"body": b"[" * 5_000, "headers": {"Content-Type": "application/json"}}, (400, "body_invalid")),
    ("POST", "query", {"body": b"{}"}, (415, "content_type")),
    ("POST", "query", {"body": b"{}", "headers": {"Content-Type": "text/plain"}}, (415, "content_type")),
    ("POST", "query", {"document": {}}, (400, "body_invalid")),
    ("POST", "query", {"document": {"query": ALL_PEOPLE, "nope": 1}}, (400, "body_invalid")),
    ("POST", "query", {"document": {"query": 1}}, (400, "body_invalid")),
    ("POST", "query", {"document": {"query": ALL_PEOPLE, "branch": "nope"}}, (404, "branch_missing")),
    ("POST", "query", {"document": {"query": ALL_PEOPLE, "params": {"x": 1}}}, (400, "query_parameter")),
    ("POST", "load", {"document": {"data": "", "mode": "replace"}}, (400, "body_invalid")),
    ("POST", "branches", {"document": {"name": "UPPER"}}, (400, "branch_name")),
    ("POST", "branches", {"document": {"name": "main"}}, (409, "branch_exists")),
    ("POST", "branches", {"document": {"name": "x", "from": "nope"}}, (404, "reference_missing")),
    ("DELETE", "branches/main", {}, (409, "branch_is_main")),
    ("DELETE", "branches/nope", {}, (404, "branch_missing")),
    ("POST", "query", {"document": {"query": "x" * 1_100_000}}, (413, "body_too_long")),
    ("GET", "/healthz", {"headers": {"Omnigraph-Http-Api": "9.9"}}, (400, "api_contract_mismatch")),
]


@pytest.mark.parametrize(("method", "path", "arguments", "expected"), BAD_REQUESTS)
def test_bad_requests(
    server: ServerProcess, method: str, path: str, arguments: dict[str, Any], expected: tuple[int, str]
) -> None:
    answer = server.send(method, path, **arguments)
    document = answer.document
    assert (answer.status, document["error_code"]) == expected, document
    assert document["error"]
    assert document["kind"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["omnigraph-http-api"] == "0.13"


def test_the_unknown_member_is_named(server: ServerProcess) -> None:
    answer = server.send("POST", "query", {"query": ALL_PEOPLE, "parms": {}})
    assert "parms" in answer.document["error"]
    assert "brnch" in server.send("GET", "snapshot?brnch=main").document["error"]


def test_every_get_route_answers_head(server: ServerProcess) -> None:
    head = server.query().document["graph_commit_id"]
    paths = [path for path, methods in openapi_document()["paths"].items() if "get" in methods and "/blob" not in path]
    assert len(paths) > 15
    for path in paths:
        address = path.format(graph_id="default", commit=head) + (f"?from={head}&to=main" if "diff" in path else "")
        answer, whole = (server.send(method, address) for method in ("HEAD", "GET"))
        assert (answer.status, answer.body) == (whole.status, b"") == (200, b""), path
        assert int(answer.headers["content-length"]) > 0


def test_request_ids(server: ServerProcess) -> None:
    assert server.send("GET", "/healthz", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
    made = server.send("GET", "/healthz", headers={"X-Request-Id": "x" * 500}).headers["x-request-id"]
    assert len(made) == 32
    assert "mine-1" in server.log.read_text()


def test_long_documents_are_compressed_if_the_client_accepts_that(server: ServerProcess) -> None:
    answer = server.pool.request(
        "GET", f"http://{server.address}/openapi.json", headers={"Accept-Encoding": "gzip"}, decode_content=False
    )
    assert answer.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(answer.data))["openapi"] == "3.1.0"
    for encoding in ("identity", "gzip;q=0", "br, gzip; q=0.0"):
        plain = server.send("GET", "/openapi.json", headers={"Accept-Encoding": encoding})
        assert "content-encoding" not in plain.headers


def test_metrics(server: ServerProcess) -> None:
    server.query()
    text = server.send("GET", "/metrics").body.decode()
    assert 'omnigraph_requests_total{method="POST",route="/graphs/{graph_id}/query",status="200"}' in text
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(figures["omnigraph_cache_bytes"]) > 0
    assert float(figures["omnigraph_serving_revision"]) == 0
    assert float(figures['omnigraph_running{kind="wait"}']) == 0


def test_catalog_of_a_commit(server: ServerProcess) -> None:
    before = server.send("GET", "catalog").document
    server.insert("catalogued")
    after = server.send("GET", "catalog").document
    people = "node:Person"
    assert after["entity_counts"][people] == before["entity_counts"][people] + 1
    earlier = server.send("GET", f"catalog?snapshot={before['graph_commit_id']}").document
    assert earlier == before


def test_commits_are_counted(server: ServerProcess) -> None:
    def count() -> float:
        text = server.send("GET", "/metrics").body.decode()
        return float(next(line for line in text.splitlines() if line.startswith("omnigraph_commits_total")).split()[1])

    before = count()
    server.insert("counted")
    server.mutate('query d() { delete Person where slug = "absent" }')
    assert count() == before + 1
