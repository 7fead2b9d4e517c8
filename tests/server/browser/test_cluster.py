"""The pages of a server of a cluster, in a real browser: stored queries, a quarantined graph, access to the list."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.conftest import EXAMPLE, ExampleCluster
from tests.server.browser.browser import NARROW, Browser
from tests.server.browser.conftest import KEPT
from tests.server.process import ServerProcess, serve

pytestmark = pytest.mark.browser
TOKENS: Final = {actor: f"token-{actor}" for actor in ("bo", "cy", "eve")}
BOOK: Final = """query add() {
  insert Book { title: "Lavinia", year: 2008 }
  insert Book { title: "Rocannon's World", year: 966 }
  insert Wrote { from: "le guin", to: "Lavinia" }
  insert Wrote { from: "le guin", to: "Rocannon's World" }
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of two graphs, one of them damaged. Actor cy may read but not list the graphs; eve may do nothing."""
    directory = tmp_path_factory.mktemp("cluster")
    cluster = ExampleCluster(directory / "example")
    shutil.copytree(EXAMPLE, cluster.path)
    (cluster.path / "other.pg").write_text("node Thing { name: String @key }")
    cluster.edit("cluster.yaml", lambda text: text.replace("graphs:\n", "graphs:\n  other: { schema: other.pg }\n"))
    cluster.edit("base.policy.yaml", lambda text: text.replace("team: [ada, bo]", "team: [ada, bo, cy]"))
    cluster.cluster.apply(actor="ada")
    for path in (cluster.path / "graphs" / "other.omni" / "__manifest" / "_versions").iterdir():
        path.write_bytes(b"damaged")
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    with serve(f"--cluster=file://{cluster.path}", directory, environment=environment) as running:
        yield running


@pytest.fixture(autouse=True)
def _expected_statuses(browser: Browser) -> None:
    browser.expected = ("401 (Unauthorized)", "403 (Forbidden)")


def log_in(browser: Browser, actor: str, place: str = "") -> None:
    browser.load(place)
    browser.log_in(TOKENS[actor])


def keep_pictures(browser: Browser, name: str) -> None:
    browser.save(KEPT / f"{name}-1280-light.png")
    browser.resize(NARROW)
    browser.set_dark(is_dark=True)
    assert not browser.scrolls_sideways()
    browser.save(KEPT / f"{name}-400-dark.png")


def test_a_quarantined_graph_has_its_card(browser: Browser) -> None:
    log_in(browser, "bo")
    browser.wait_text("0 nodes of 2 types", ".cards")
    cards = {card.text.split("\n")[0]: card.text for card in browser.all(".cards .panel")}
    assert set(cards) == {"books", "other"}
    assert "serving" in cards["books"]
    assert "quarantined" in cards["other"]
    assert "The manifest of the graph at graphs/other is damaged" in cards["other"]
    assert browser.text(".nav-link.current") == "Graphs"
    assert "1 graph, 1 quarantined" in browser.text()
    assert "degraded" in browser.text()
    keep_pictures(browser, "quarantined")


def test_stored_queries_are_listed_and_run(browser: Browser) -> None:
    log_in(browser, "bo", "#/g/books@main/query")
    browser.wait_text("books_of", ".query-side")
    browser.go("#/g/books@main/branches")
    browser.type("#branch-name", "review")
    browser.click("#create-branch")
    browser.wait_text("Created branch review")
    browser.go("#/g/books@review/query")
    browser.click("[data-stored]", "add_author")
    browser.wait_text("Add an author.", ".stored")
    browser.find("#query-parameters")
    browser.type("#query-parameters", '{"name": "le guin"}')
    browser.click("#run", "Run change")
    browser.click("#confirm", "Run on branch review")
    browser.wait_text("Changed 1 node and 0 edges")
    browser.wait_text("le guin", ".change")
    change = """return import('./ui/app/api.js').then(
        api => api.mutate('books', {query: arguments[0], branch: 'review'}))"""
    browser.run(change, BOOK)
    browser.click("[data-stored]", "books_of")
    browser.wait_text("The books of an author, oldest first.", ".stored")
    browser.wait_for(lambda: "Changed" not in browser.text("#result"), "the result of the other query is removed")
    browser.load(browser.run("return location.hash"))
    browser.find("#query-parameters")
    browser.type("#query-parameters", '{"author": "le guin"}')
    browser.click("#run")
    rows = "return [...document.querySelectorAll('#result tbody tr')].map(row => [...row.cells].map(c => c.innerText))"
    browser.wait_for(lambda: len(browser.run(rows)) == 2, "two books")
    assert browser.run(rows) == [["Rocannon's World", "966"], ["Lavinia", "2008"]]
    assert [tab.text.split("\n")[0] for tab in browser.all("[role=tab]")] == ["Rows", "JSON"]
    keep_pictures(browser, "stored")
    browser.click(".stored a", "Close")
    browser.find("#query-text")


def test_a_stored_query_that_is_denied_or_unknown(browser: Browser) -> None:
    log_in(browser, "bo", "#/g/books@main/query?stored=add_author")
    browser.find("#query-parameters")
    browser.type("#query-parameters", '{"name": "x"}')
    browser.click("#run", "Run change")
    browser.click("#confirm", "Run on branch main")
    browser.wait_text("Policy denied action 'change' on branch 'main'", "#result .notice.error")
    browser.go("#/g/books@main/query?stored=no_such")
    browser.wait_text("no_such", "#result .notice.warning")
    browser.find("#query-text")


def test_a_caller_who_may_not_list_the_graphs_sees_their_own(browser: Browser) -> None:
    log_in(browser, "cy")
    browser.wait_text("Author", ".query-side")
    assert browser.run("return location.hash") == "#/g/books@main/query"


def test_a_caller_without_any_graph_can_log_out(browser: Browser) -> None:
    log_in(browser, "eve")
    browser.wait_text("Policy denied", ".notice.error")
    browser.click("#log-out")
    browser.find("#token")
