"""The graph and the plan of a result, in a real browser."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.browser.browser import Browser
from tests.server.browser.graph import PEOPLE
from tests.server.process import ServerProcess

pytestmark = pytest.mark.browser
DRAWING = "document.querySelector('.graph-drawing')._cyreg.cy"
OVERLAPS = """
const parts = {includeNodes: false, includeEdges: false, includeOverlays: false};
const boxes = drawing.elements('.labelled').map(element => [element.id(), element.renderedBoundingBox(parts)]);
const margins = 4 * drawing.zoom() + 1;
const shared = (a, b, axis) => Math.min(a[axis + 2], b[axis + 2]) - Math.max(a[axis + 1], b[axis + 1]);
const meet = (a, b) => ['x', 'y'].every(axis => shared(a, b, axis) > margins);
return boxes.flatMap((a, index) => boxes.slice(index + 1).filter(b => meet(a[1], b[1])).map(b => [a[0], b[0]]))"""
ADA = 'query q() { match { $p: Person { slug: "p0" } $p worksAt $c } return { $p, $c } }'


def show(browser: Browser, query: str, tab: str) -> None:
    browser.open("#/g/default@review%2Fq3/query")
    browser.type("#query-text", query)
    browser.click("#run")
    browser.click("[role=tab]", tab)
    browser.wait_ready()


def drawn(browser: Browser, script: str) -> Any:
    browser.wait_for(
        lambda: bool(browser.run("return Boolean(document.querySelector('.graph-drawing')?._cyreg)")), "drawing"
    )
    return browser.run(f"const drawing = {DRAWING}; {script}")


def find_overlaps(browser: Browser) -> Any:
    """Return the pairs of labels that cover each other, but for their margins."""
    browser.wait_frame()
    return drawn(browser, OVERLAPS)


def test_nodes_are_drawn_with_the_edges_between_them(browser: Browser) -> None:
    show(browser, ADA, "Graph")
    assert drawn(browser, "return drawing.nodes().map(n => [n.data('label'), n.classes()[0]]).sort()")[-1] == [
        "p0",
        "type-0",
    ]
    assert drawn(browser, "return drawing.edges().map(e => e.data('label'))") == ["WorksAt"]
    browser.wait_text("2 nodes, 1 edge", ".graph-side")


def test_a_click_shows_the_properties_and_expand_loads_neighbours(browser: Browser) -> None:
    show(browser, ADA, "Graph")
    place = drawn(
        browser,
        """const box = document.querySelector('.graph-drawing').getBoundingClientRect();
        const {x, y} = drawing.getElementById('node:Person p0').renderedPosition();
        return [box.left + x, box.top + y]""",
    )
    for kind in ("mousePressed", "mouseReleased"):
        event = {"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1}
        browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)
    browser.wait_text("Ada", ".node-details")
    browser.click(".expand", "Knows → Person")
    browser.wait_text("4 nodes", ".graph-side")
    assert drawn(browser, "return drawing.nodes().length") == 4
    browser.wait_for(lambda: not browser.find(".expand").is_enabled(), "all neighbours are drawn")


def test_parts_without_edges_between_them_are_placed_in_rows(browser: Browser) -> None:
    show(browser, "query q() { match { $c: Company } return { $c } }", "Graph")
    xs, ys = drawn(
        browser, "return ['x', 'y'].map(axis => drawing.nodes().map(node => Math.round(node.position(axis))))"
    )
    assert (len(set(xs)), len(set(ys)), len(set(zip(xs, ys, strict=True)))) == (2, 2, 4)


def test_neighbours_are_loaded_25_at_a_time(browser: Browser) -> None:
    show(browser, "query q() { match { $c: Company } return { $c } order { $c.slug } }", "Graph")
    query = "query q() { match { $p worksAt $c } return { $c.slug as slug, count($p) as n } order { n desc } limit 1 }"
    (company,) = browser.call("runQuery", {"query": query})["rows"]
    browser.click(f'[data-node="node:Company {company["slug"]}"]')
    browser.click(".expand", "WorksAt ← Person")
    total = min(int(company["n"]), 25) + 4
    browser.wait_text(f"{total} nodes", ".graph-side")


def test_at_most_500_nodes_are_drawn(browser: Browser) -> None:
    browser.open("#/g/default@main/branches")
    insert = " ".join(f'insert Company {{ slug: "c{number}", city: "Rome" }}' for number in range(510))
    browser.call("createBranch", {"name": "many", "from": "main"})
    browser.call("mutate", {"branch": "many", "query": f"query add() {{ {insert} }}"})
    browser.open("#/g/default@many/query")
    browser.type("#query-text", "query q() { match { $c: Company } return { $c } }")
    browser.click("#run")
    browser.click("[role=tab]", "Graph")
    browser.wait_text("500 nodes are drawn, and the others are left out.")
    assert drawn(browser, "return drawing.nodes().length") == 500
    assert len(browser.all(".graph-table tbody tr")) == 500
    drawn(browser, "drawing.nodes()[0].position({x: 0, y: 30_000})")
    browser.click(".graph-zoom button", "Fit")
    shown = drawn(browser, "return [drawing.extent(), drawing.elements().boundingBox()].map(box => [box.y1, box.y2])")
    assert shown[0][0] <= shown[1][0] < shown[1][1] <= shown[0][1]
    browser.go(f"#/g/default@many/history/{browser.call('listLog', {})['heads']['many']}")
    browser.wait_for(lambda: len(browser.all(".change")) == 50, "the first page of changes")
    browser.click("#more-changes")
    browser.wait_for(lambda: len(browser.all(".change")) == 100, "the second page of changes")


def test_labels_do_not_overlap(browser: Browser) -> None:
    """Those of a hub and of the selected node are shown, and others again after zooming in."""
    insert = " ".join(f'insert Person {{ slug: "employee-number-{number}", name: "x" }}' for number in range(60))
    edges = " ".join(f'insert WorksAt {{ from: "employee-number-{number}", to: "acme" }}' for number in range(60))
    browser.open("#/g/default@main/branches")
    browser.call("createBranch", {"name": "hub", "from": "main"})
    browser.call("mutate", {"branch": "hub", "query": f"query add() {{ {insert} {edges} }}"})
    browser.go("#/g/default@hub/query")
    query = 'query q() { match { $p: Person $p.name = "x" $p worksAt $c } return { $p, $c } }'
    browser.type("#query-text", query)
    browser.click("#run")
    browser.click("[role=tab]", "Graph")
    browser.wait_text("61 nodes, 60 edges", ".graph-side")
    assert find_overlaps(browser) == []
    labelled = drawn(browser, "return drawing.nodes('.labelled').map(node => node.id())")
    assert "node:Company acme" in labelled
    assert len(labelled) < 61
    for _ in range(6):
        browser.click(".graph-zoom button", "+")
    assert find_overlaps(browser) == []
    assert len(drawn(browser, "return drawing.nodes('.labelled').map(node => node.id())")) > len(labelled)
    browser.click(".graph-zoom button", "Fit")
    hidden = drawn(browser, "return drawing.nodes().not('.labelled')[0].id()")
    browser.click(f'[data-node="{hidden}"]')
    browser.wait_for(
        lambda: hidden in drawn(browser, "return drawing.nodes('.labelled').map(n => n.id())"), "its label"
    )
    assert find_overlaps(browser) == []


def test_edges_that_are_left_out_are_reported(browser: Browser, server: ServerProcess) -> None:
    edge = {"edge": "Knows", "from": "p0", "to": "p1", "data": {"since": 2000}}
    lines = (json.dumps(edge) + "\n") * 2_001
    assert server.send("POST", "load", {"branch": "dense", "from": "main", "data": lines}).status == 200
    browser.open("#/g/default@dense/query")
    browser.type("#query-text", 'query q() { match { $p: Person $p.slug in ["p0", "p1"] } return { $p } }')
    browser.click("#run")
    browser.click("[role=tab]", "Graph")
    browser.wait_text("2,000 edges of type Knows are drawn, and the others are left out.")
    browser.wait_text("2 nodes, 2,000 edges", ".graph-side")


def test_a_result_without_entities_has_no_graph(browser: Browser) -> None:
    show(browser, "query q() { match { $p: Person } return { $p.name } }", "Graph")
    browser.wait_text("return { $p }", "#result")


def test_the_plan_has_steps_and_measures_them(browser: Browser) -> None:
    show(browser, "query q() { match { $p: Person $p knows $q } return { $p.name, $q } limit 3 }", "Plan")
    browser.wait_text("expand p -[Knows]-> q", ".plan")
    assert f"scan node:Person as p [id, name]\t\t{PEOPLE + 1}" in browser.text(".plan")
    browser.click("#measure")
    browser.wait_text("ms", ".plan")
    assert browser.run("const e = document.querySelector('.plan').parentElement; return e.scrollWidth <= e.clientWidth")
