"""The pages Graphs and Query in a real browser."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.server.browser.browser import Browser
from tests.server.browser.graph import BIG, HTML, LONG, PEOPLE

pytestmark = pytest.mark.browser
MAIN = "#/g/default@main/query"
D3_TITLE = 'query q() { match { $d: Paper { slug: "d3" } } return { $d.title as t } }'
RATE = 'query rate() { update Person set { score: 5 } where slug = "p3" }'


def run(browser: Browser, text: str) -> None:
    browser.type("#query-text", text)
    browser.click("#run")


def test_the_address_of_a_server_opens_its_graph_with_types_and_counts(browser: Browser) -> None:
    browser.load()
    assert browser.run("return location.hash") == "#/g/default@main/query"
    types = browser.text(".query-side")
    for line in ("Nodes\n", "Edges\n", f"Person\n{PEOPLE + 2}", "Company\n4", "Knows\n80", "Cites\n"):
        assert line in types
    assert "stored queries" not in types.lower()
    requests = "return performance.getEntriesByType('resource').map(entry => new URL(entry.name).origin)"
    assert set(browser.run(requests)) == {browser.base}
    browser.click(".nav-link", "Graphs")
    browser.wait_text(f"{PEOPLE + 26} nodes of 3 types")
    assert "serving" in browser.text()


def test_rows_and_json_of_a_query(browser: Browser) -> None:
    browser.open(MAIN)
    run(browser, 'query q() { match { $p: Person { slug: "p1" } $p worksAt $c } return { $p.name, $p.score, $c } }')
    browser.wait_text("Alan", "#result")
    columns = [head.text.rstrip("↕") for head in browser.all("#result thead th")]
    assert columns == ["p.name", "p.score", "c.slug", "c.city", "c.tags"]
    browser.click("[role=tab]", "JSON")
    browser.wait_text('"p.name": "Alan', "#result")


def test_whole_nodes_and_edges_have_a_column_for_each_property(browser: Browser) -> None:
    browser.open(MAIN)
    run(
        browser,
        """query q() {
          match { $p: Person { slug: "hedy" } optional { $p worksAt $c } $d: Paper { slug: "d3" } $d $e: cites $f }
          return { $p, $c, $e, $d }
        }""",
    )
    browser.wait_text("Hedy Lamarr", "#result")
    rows = [[cell.text for cell in row.find_elements("css selector", "td")] for row in browser.all("#result tbody tr")]
    assert [row[:-5] for row in rows] == [["hedy", "Hedy Lamarr", "1914-11-09", "null", "null", "null", "null", "null"]]
    assert rows[0][-5] == "d3"
    assert rows[0][-3:] == ["d3", browser.call("runQuery", {"query": D3_TITLE})["rows"][0]["t"], "1953"]
    assert browser.all("#result thead th")[-1].get_attribute("class") == "numeric"
    browser.click(".sort", "p.born")
    browser.find("[aria-sort=ascending]")


def test_a_click_on_a_type_writes_a_query_that_can_be_drawn(browser: Browser) -> None:
    browser.open(MAIN)
    browser.click(".query-side .row-button", "WorksAt")
    browser.wait_text("$a $x:worksAt $b", ".editor pre")
    browser.click("#run")
    browser.find("#result tbody td")
    assert browser.all(".problems") == []
    columns = [head.text.rstrip("↕") for head in browser.all("#result thead th")]
    assert columns[5:9] == ["x.@from", "x.@to", "x.role", "b.slug"]
    browser.click("[role=tab]", "Graph")
    browser.wait_text("43 nodes, 120 edges", ".graph-side")


def test_a_query_that_runs_can_be_stopped(browser: Browser) -> None:
    browser.open(MAIN)
    browser.wait_text("No result yet", "#result")
    browser.type("#query-text", "query q() { match { $c: Company } return { $c.slug } }")
    browser.driver.execute_cdp_cmd("Fetch.enable", {"patterns": [{"urlPattern": "*/query"}]})  # no answer arrives
    try:
        browser.click("#run")
        browser.click("#stop")
        browser.wait_text("The query was stopped.", "#result")
    finally:
        browser.driver.execute_cdp_cmd("Fetch.disable", {})
    browser.click("#run")
    browser.wait_text("globex", "#result tbody")


def test_rows_are_sorted_by_a_click(browser: Browser) -> None:
    browser.open(MAIN)
    run(browser, "query q() { match { $p: Person } return { $p.slug, $p.score } }")
    browser.click(".sort", "p.score")
    browser.click(".sort", "p.score")
    browser.find("[aria-sort=descending]")
    first = browser.all("#result tbody tr")[0].text.split()
    assert first == ["html", str(BIG)]


def test_integers_above_2_to_the_53_are_exact(browser: Browser) -> None:
    browser.open(MAIN)
    text = "query q($score: I64) { match { $p: Person { score: $score } } return { $p.slug, $p.score } }"
    browser.type("#query-text", text)
    browser.find("#query-parameters")
    browser.type("#query-parameters", f'{{"score": {BIG}}}')
    browser.click("#run")
    browser.wait_text(str(BIG), "#result tbody")
    assert len(browser.all("#result tbody tr")) == 1


def test_values_with_markup_are_text_and_long_values_are_cut(browser: Browser) -> None:
    browser.open(MAIN)
    run(browser, 'query q() { match { $p: Person { slug: "html" } } return { $p.name, $p.note } }')
    browser.wait_text(HTML, "#result")
    assert browser.all("main img") == []
    assert browser.driver.title == "Omnigraph"
    browser.click(".unfold")
    browser.click("#result .link", f"show all {len(LONG):,} characters")
    browser.wait_for(lambda: len(browser.text(".unfold")) >= len(LONG.strip()), "the whole value")


def test_parameters_of_an_earlier_query_are_not_sent(browser: Browser) -> None:
    browser.open(MAIN)
    browser.type("#query-text", "query q($n: I64) { match { $p: Person $p.score > $n } return { $p.slug } }")
    browser.find("#query-parameters")
    browser.type("#query-text", "query q() { match { $p: Person } return { count($p) as people } }")
    browser.wait_for(lambda: not browser.all("#query-parameters"), "the query has no parameters")
    browser.click("#run")
    browser.wait_text("people", "#result thead")


def test_an_error_is_underlined_at_its_position_with_the_hint(browser: Browser) -> None:
    browser.open(MAIN)
    run(browser, "query q() {\n  match { $p: Persn }\n  return { $p.name }\n}")
    browser.wait_text("The query has 1 error. Nothing was run.")
    assert [element.text for element in browser.all(".editor .problem")] == ["Persn"]
    assert browser.text(".problems").split("\n")[:2] == ["2:15", "T101"]
    assert "did you mean 'Person'?" in browser.text(".problems")
    browser.click(".problems .link")
    assert browser.run("return document.activeElement.selectionStart") == len("query q() {\n  match { $p: ")


def test_ctrl_enter_runs_and_recent_queries_are_listed(browser: Browser) -> None:
    browser.open(MAIN)
    browser.type("#query-text", "query first() { match { $c: Company } return { count($c) as companies } }")
    browser.find("#query-text").send_keys(Keys.CONTROL, Keys.ENTER)
    browser.wait_text("companies", "#result thead")
    run(browser, "query second() { match { $p: Paper } return { count($p) as papers } }")
    browser.wait_text("papers", "#result thead")
    browser.load("#/g/default@draft/query")
    browser.click(".query-side .row-button", "query first()")
    browser.wait_text("query first()", ".editor pre")


def test_a_run_shows_its_rows_and_the_result_of_an_edited_text_is_marked(browser: Browser) -> None:
    browser.open(MAIN)
    run(browser, "query first() { match { $c: Company } return { count($c) as companies } }")
    browser.wait_text("companies", "#result thead")
    assert "earlier text" not in browser.text("#result")
    browser.click("[role=tab]", "Plan")
    browser.wait_text("expected rows", "#result thead")
    browser.type("#query-text", "query second() { match { $p: Papr } return { count($p) as papers } }")
    browser.wait_text("This is the result of the earlier text.", "#result")
    run(browser, "query second() { match { $p: Paper } return { count($p) as papers } }")
    browser.wait_text("papers", "#result thead")
    assert "earlier text" not in browser.text("#result")


def test_all_rows_are_downloaded(browser: Browser, tmp_path: Path) -> None:
    browser.allow_downloads(tmp_path)
    browser.open(MAIN)
    run(browser, "query q() { match { $p: Person  $q: Person } return { $p.slug, $p.score, $q.name } }")
    browser.click("#result button", "CSV")
    browser.click("#result button:last-of-type", "JSON")
    rows = list(csv.reader(browser.wait_download(tmp_path, "q-*.csv").decode().splitlines()))
    assert rows[0] == ["p.slug", "p.score", "q.name"]
    assert len(rows) == (PEOPLE + 2) ** 2 + 1
    assert ["html", str(BIG), HTML] in rows
    assert len(json.loads(browser.wait_download(tmp_path, "q-*.json"))) == (PEOPLE + 2) ** 2


def test_a_change_runs_only_after_the_branch_is_confirmed(browser: Browser) -> None:
    browser.open("#/g/default@draft/query")
    browser.type("#query-text", RATE)
    browser.click("#run", "Run change")
    assert browser.all(".problems") == []  # no warnings that are about stored queries
    assert "draft" in browser.find("dialog #confirm").text
    browser.click("dialog button", "Cancel")
    browser.wait_for(lambda: not browser.all("dialog"), "the dialog is closed")
    assert "query rate()" not in browser.text(".query-side")
    browser.click("#run", "Run change")
    browser.click("#confirm", "Run on branch draft")
    browser.wait_text("Changed 1 node and 0 edges")
    browser.wait_text("score", ".change")
    assert browser.text(".change .new") == "5"
    assert "draft" in browser.text("#result .notice")
    assert "query rate()" in browser.text(".query-side")


def test_a_commit_cannot_be_changed(browser: Browser) -> None:
    browser.open(MAIN)
    commit = browser.call("getSnapshot", {})["graph_commit_id"]
    browser.go(f"#/g/default@{commit}/query")
    browser.type("#query-text", RATE)
    browser.wait_text("A commit cannot be changed.")
    assert not browser.find("#run").is_enabled()


def test_an_address_shows_its_ref_to_everyone(browser: Browser) -> None:
    browser.load("#/g/default@review%2Fq3/query")
    assert browser.run("return document.querySelector('#ref').value") == "review/q3"
    run(browser, "query q() { match { $c: Company } return { count($c) as companies } }")
    browser.wait_text("companies", "#result")
    assert browser.all("#result tbody td")[0].text == "4"
    assert f"Person\n{PEOPLE + 1}" in browser.text(".query-side")


def test_a_branch_with_a_slash_can_be_typed(browser: Browser) -> None:
    browser.open("#/g/default@review/q3/branches/compare")
    browser.wait_for(lambda: "@review%2Fq3/branches/compare" in browser.run("return location.hash"), "the address")
    browser.wait_ready()
    assert browser.find("#ref").get_property("value") == "review/q3"
    assert browser.find("#compare-to").get_property("value") == "review/q3"


def test_an_unknown_page_or_branch_is_an_error(browser: Browser) -> None:
    browser.expected = ("404 (Not Found)",)
    browser.open("#/g/default@main/nosuchpage")
    browser.wait_text("Page 'nosuchpage' does not exist", ".notice.error")
    assert browser.all("#query-text") == []
    browser.go("#/g/default@nosuch/query")
    browser.wait_text("No branch 'nosuch'", ".query-main .notice.error")
    assert len(browser.all(".notice.error")) == 1
    assert not browser.find("#run").is_enabled()
    browser.go("#/g/default@nosuch/history")
    browser.wait_text("No branch 'nosuch'", ".notice.error")
    browser.go("#/nosuch")
    browser.wait_text("Page 'nosuch' does not exist", ".notice.error")
    assert browser.all(".nav-link.current") == []


def test_a_thousand_rows_are_drawn_and_the_rest_is_counted(browser: Browser) -> None:
    browser.open(MAIN)
    run(browser, "query q() { match { $p: Person  $q: Person } return { $p.slug, $q.name } }")
    total = (PEOPLE + 2) ** 2
    browser.wait_text(f"The first 1,000 of {total:,} rows are drawn", "#result")
    assert len(browser.all("#result tbody tr")) == 1_000
    assert browser.run("return document.querySelector('[role=tab] .amount').textContent") == f"{total:,}"


def test_errors_of_the_server_and_of_parameters_are_shown(browser: Browser) -> None:
    browser.expected = ("400 (Bad Request)", "404 (Not Found)")
    browser.open(MAIN)
    browser.type("#query-text", "query q($n: I32) { match { $p: Person $p.score > $n } return { $p.slug } }")
    browser.find("#query-parameters")
    browser.type("#query-parameters", '{"n": "many"}')
    browser.click("#run")
    browser.wait_text("many", "#result .notice.error")
    browser.type("#query-parameters", "[1]")
    browser.click("#run")
    browser.wait_text("Invalid parameters: expected a JSON object", "#result .notice.error")
    browser.type("#query-parameters", "{n: 1}")
    browser.click("#run")
    browser.wait_text("Invalid parameters: Expected property name", "#result .notice.error")
    browser.wait_text('Write them as {"name": value}.', "#result .notice.error")
    browser.go("#/g/default@no-such-branch/query")
    browser.wait_text("no-such-branch", ".notice.error")
    browser.go("#/g/ghost@main/query")
    browser.wait_text("The page Graphs lists the graphs of the server.", ".notice.error")
    assert "GET /" not in browser.text("body")
