"""The page Health in a real browser, and the errors of a graph that was copied, damaged and changed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

import omnigraph as og
from tests.server.browser.browser import Browser
from tests.server.process import ServerProcess, serve

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def broken_server(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of a copy. An external writer deleted a row of Company, and the files of Cites are damaged."""
    directory = tmp_path_factory.mktemp("broken")
    path = directory / "copy.omni"
    shutil.copytree(graph, path)
    tables = {table.alias: path / table.path for table in og.open(path).snapshot().tables.values()}
    lance.dataset(tables["node:Company"]).delete("slug = 'acme'")
    for file in (tables["edge:Cites"] / "data").glob("*.lance"):
        file.write_bytes(b"damaged")
    with serve(path, directory) as running:
        yield running


def test_drift_of_an_external_writer_and_the_command_that_fixes_it(
    browser: Browser, broken_server: ServerProcess
) -> None:
    browser.base = f"http://{broken_server.address}"
    browser.open("#/g/default@main/health")
    browser.wait_text("omnigraph repair GRAPH")
    assert "problems" in browser.text(".page-head")
    assert "drift" in browser.text('[data-table="node:Company main"]')
    assert "drift" not in browser.text('[data-table="node:Person main"]')
    findings = {panel.text.split("\n")[0]: panel.text for panel in browser.all(".finding")}
    assert {"Drift", "Files", "Format"} <= set(findings)
    assert "node:Company" in findings["Drift"]
    assert "omnigraph doctor GRAPH --fix-location" in findings["Format"]
    labels = "return [...document.querySelectorAll('main button')].map(e => e.getAttribute('aria-label'))"
    assert set(browser.run(labels)) == {"Copy command"}


def test_an_error_of_the_server_has_the_id_of_its_request(browser: Browser, broken_server: ServerProcess) -> None:
    browser.base = f"http://{broken_server.address}"
    browser.expected = ("500 (Internal Server Error)",)
    browser.open("#/g/default@main/query")
    browser.type("#query-text", "query q() { match { $a cites $b } return { $a.slug, $b.slug } }")
    browser.click("#run")
    request_id = browser.find("#result .notice.error .request-id").text
    assert request_id
    browser.wait_for(lambda: f"id={request_id}" in broken_server.log.read_text(), "the request is in the log")


def test_a_branch_of_a_copied_graph_is_an_error_with_a_hint(browser: Browser, broken_server: ServerProcess) -> None:
    answer = broken_server.send("GET", "snapshot?branch=draft")
    assert (answer.status, answer.document["error_code"], answer.document["code"]) == (409, "graph_moved", "conflict")
    assert "omnigraph doctor" in answer.document["hint"]
    assert "/broken" not in str(answer.document)
    assert "recorded" not in answer.document
    browser.base = f"http://{broken_server.address}"
    browser.expected = ("409 (Conflict)",)
    browser.open("#/g/default@draft/query")
    browser.wait_text("graph_moved", ".notice.error")
    assert "Branch 'draft' cannot be used" in browser.text(".notice.error")
    assert "omnigraph doctor GRAPH --fix-location" in browser.text(".notice.error")
    browser.go("#/g/default@main/branches")
    browser.wait_text("not readable", '[data-branch="draft"]')


def test_an_index_that_is_not_needed_is_not_reported_as_missing(browser: Browser, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "docs.omni", "node Doc { k: String @key  v: Vector(8) @index }")
    graph.mutate('query add() { insert Doc { k: "a", v: [1, 2, 3, 4, 5, 6, 7, 8] } }')
    graph.optimize()
    with serve(tmp_path / "docs.omni", tmp_path) as running:
        browser.base = f"http://{running.address}"
        browser.load("#/g/default@main/health")
        browser.wait_text("Nothing to do")
        assert browser.run("return document.querySelector('[data-table] td:nth-child(7)').innerText") == "100 %"
        browser.go("#/g/default@main/schema/node%3ADoc")
        browser.wait_text("not needed: the vectors are below 64 MiB", ".type-details")
        assert browser.all(".tag.warning") == []
        assert "omnigraph optimize" not in browser.text(".type-details")
        browser.load("#/graphs")


def test_checks_tables_and_commands_of_a_healthy_graph(browser: Browser) -> None:
    browser.open("#/g/default@main/health")
    browser.wait_text("healthy", ".page-head")
    for name in ("format", "recovery", "locks", "drift", "indexes"):
        assert browser.text(f'[data-check="{name}"]').startswith(name.capitalize())
    assert "omnigraph optimize GRAPH" in browser.text()
    cells = "return [...document.querySelector(arguments[0]).cells].map(cell => cell.innerText.trim())"
    person = browser.run(cells, '[data-table="node:Person main"]')
    assert person[:3] == ["node:Person", "main", "42"]
    assert person[6] == "0 %"
