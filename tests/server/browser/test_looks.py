"""Every page in dark mode and at 400 pixels, and the screenshots of the documentation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Final

import pytest
from selenium.webdriver.common.keys import Keys

import omnigraph as og
from tests.server.browser.browser import NARROW, WIDE, Browser
from tests.server.browser.conftest import KEPT
from tests.server.browser.graph import make_graph
from tests.server.process import ServerProcess, serve

pytestmark = pytest.mark.browser
IMAGES: Final = Path(__file__).parents[3] / "docs" / "images"
QUERY: Final = """query colleagues($city: String, $min: I64) {
  match {
    $p: Person
    $p worksAt $c
    $c.city = $city
    $p.score >= $min
  }
  return { $p.name, $p.score, $c.slug as company }
  order { $p.score desc }
  limit 50
}
"""
LONG_TYPE: Final = "AnExtremelyLongTypeNameForAnEntityThatFewPeopleWouldUse"
LONG_PROPERTY: Final = "a_rather_long_property_name_that_is_the_key"
LONG_SCHEMA: Final = f"""
node {LONG_TYPE} {{ {LONG_PROPERTY}: String @key }}
node Company {{ name: String @key }}
edge RelatedTo: {LONG_TYPE} -> Company
edge {LONG_TYPE}Of: {LONG_TYPE} -> Company
"""
OUTSIDE: Final = """const [box, parts] = arguments;
return [...document.querySelectorAll(box)].flatMap(outer => [...outer.querySelectorAll(parts)].filter(part => {
  const [inside, around] = [part.getBoundingClientRect(), outer.getBoundingClientRect()];
  return inside.width < 4 || inside.left < around.left || inside.right > around.right + 0.5;
}).map(part => part.outerHTML))"""
"""Return the parts of a box that are not visible, or only partially."""


def show_query(browser: Browser) -> None:
    browser.type("#query-text", QUERY)
    browser.find("#query-parameters")
    browser.type("#query-parameters", '{ "city": "Rome", "min": 20 }')
    browser.click("#run")
    browser.find("#result tbody td")


def show_commit(browser: Browser) -> None:
    browser.click(".commit-main", "1 node, 0 edges")
    browser.wait_text("omnigraph commit revert")


def show_merge(browser: Browser) -> None:
    browser.click(".conflict input[value=theirs]")
    browser.wait_text("draft can be merged into main.")


def show_graph(browser: Browser) -> None:
    browser.type("#query-text", "query q() { match { $p: Person $p wrote $d } return { $p, $d } }")
    browser.click("#run")
    browser.click("[role=tab]", "Graph")
    browser.click("[data-node]")
    browser.find(".node-details")


PAGES: Final[dict[str, tuple[str, Callable[[Browser], None]]]] = {
    "graphs": ("#/graphs", lambda browser: browser.wait_text("nodes of 3 types")),
    "query": ("#/g/default@main/query", show_query),
    "schema": ("#/g/default@main/schema/node%3APaper", lambda browser: browser.wait_text("19 pending")),
    "history": ("#/g/default@main/history", show_commit),
    "branches": ("#/g/default@main/branches/merge?source=draft&target=main", show_merge),
    "health": ("#/g/default@main/health", lambda browser: browser.wait_text("omnigraph optimize GRAPH")),
    "graph": ("#/g/default@main/query", show_graph),
    "list": ("#/g/default@main/branches", lambda browser: browser.wait_text("review/q3")),
    "compare": ("#/g/default@main/branches/compare?from=main&to=draft", lambda browser: browser.wait_text("margaret")),
}

DOCUMENTED: Final = ("graphs", "query", "schema", "history", "branches", "health")
"""The pages with a screenshot in the documentation, which `--update-golden` writes."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of a graph that no other test changes, so that the pictures do not depend on them."""
    directory = tmp_path_factory.mktemp("pictures")
    with serve(make_graph(directory), directory) as running:
        yield running


@pytest.mark.parametrize("page", PAGES)
def test_page_in_both_modes_and_widths(browser: Browser, page: str, update_golden: bool) -> None:
    place, prepare = PAGES[page]
    KEPT.mkdir(parents=True, exist_ok=True)
    browser.open(place)
    prepare(browser)
    browser.wait_ready()
    for width, is_dark in ((WIDE, False), (WIDE, True), (NARROW, True), (NARROW, False)):
        browser.resize(width)
        browser.set_dark(is_dark=is_dark)
        browser.wait_frame()
        browser.run("document.activeElement.blur(); scrollTo(0, 0)")
        assert not browser.scrolls_sideways(), f"{page} at {width} pixels"
        browser.save(KEPT / f"{page}-{width}-{'dark' if is_dark else 'light'}.png")
        if update_golden and page in DOCUMENTED and (width, is_dark) == (WIDE, False):
            browser.save(IMAGES / f"ui-{page}.png")


def test_long_names_do_not_widen_the_page(browser: Browser) -> None:
    name = "feature/a-very-long-branch-name-that-does-not-fit-into-a-narrow-window"
    browser.open("#/graphs")
    query = f'query rate() {{ update Person set {{ note: "{"W" * 400}" }} where slug = "p7" }}'
    browser.call("createBranch", {"name": name, "from": "draft"})
    browser.call("mutate", {"branch": name, "query": query})
    for page, box in (("branches", ".table-box"), ("health", ".table-box:has(.health-tables)")):
        browser.go(f"#/g/default@main/{page}")
        browser.find(box)
        assert browser.run("const e = document.querySelector(arguments[0]); return e.scrollWidth <= e.clientWidth", box)
    browser.resize(NARROW)
    for page in ("query", "schema", "history", "branches", "branches/compare", "branches/merge", "health"):
        browser.go(f"#/g/default@{name.replace('/', '%2F')}/{page}")
        assert not browser.scrolls_sideways(), page
    browser.go("#/g/default@main/history")
    browser.click(".commit-main", name)
    browser.wait_text("omnigraph commit revert")
    assert not browser.scrolls_sideways()


def test_long_names_of_types_are_cut_with_an_ellipsis(browser: Browser, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"type": LONG_TYPE, "data": {LONG_PROPERTY: "x"}}) + "\n")
    og.init(tmp_path / "long.omni", LONG_SCHEMA).load(data)
    boxes = {
        "graphs": ((".type-counts", "span"),),
        "schema": ((".schema-node", ".mark, .mono, .type-name"), (".schema-edge", "strong, .mono")),
        "health": ((".findings", "span, code"),),
    }
    with serve(tmp_path / "long.omni", tmp_path) as running:
        browser.base = f"http://{running.address}"
        browser.load("#/graphs")
        for page, width in product(boxes, (WIDE, NARROW)):
            browser.resize(width)
            browser.go("#/graphs" if page == "graphs" else f"#/g/default@main/{page}")
            browser.wait_frame()
            browser.save(KEPT / f"long-{page}-{width}.png")
            assert not browser.scrolls_sideways(), f"{page} at {width} pixels"
            for box, parts in boxes[page]:
                assert browser.all(box)
                assert browser.run(OUTSIDE, box, parts) == [], f"{page} at {width} pixels"
            if page == "schema":
                name = browser.find("[data-type='edge:RelatedTo'] strong")
                assert browser.run("return arguments[0].scrollWidth <= arguments[0].clientWidth", name)
        heights = "return [...document.querySelectorAll('.findings .muted')].map(e => e.offsetHeight)"
        assert set(browser.run(heights)) == {16}  # one line
        browser.load("#/graphs")


def test_arrow_keys_select_tabs(browser: Browser) -> None:
    browser.open("#/g/default@main/branches")
    browser.find("[role=tab][aria-selected=true]").send_keys(Keys.ARROW_RIGHT)
    browser.wait_text("Compare", "[role=tab][aria-selected=true]")
    assert browser.run("return document.activeElement.textContent") == "Compare"
