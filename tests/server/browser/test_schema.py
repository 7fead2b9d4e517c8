"""The page Schema in a real browser."""

from __future__ import annotations

import pytest

from tests.server.browser.browser import NARROW, Browser
from tests.server.browser.graph import PEOPLE

pytestmark = pytest.mark.browser


def test_the_diagram_shows_types_with_properties_keys_edges_and_counts(browser: Browser) -> None:
    browser.open("#/g/default@main/schema")
    person = browser.text('[data-type="node:Person"]')
    assert person.split("\n")[:2] == ["Person", str(PEOPLE + 2)]
    for part in ("slug", "String", "born", "Date?", "score", "idx", "I64?"):
        assert part in person
    keys = "return [...document.querySelectorAll('.schema-property')].filter(e => e.querySelector('.key')).length"
    assert browser.run(keys) == 3
    assert browser.text('[data-type="edge:WorksAt"]').split("\n") == ["WorksAt", "0..1 · 40"]
    assert browser.text('[data-type="edge:Knows"]').split("\n") == ["Knows", "0..* · 80"]
    assert len(browser.all(".diagram .line")) == 8
    assert len(browser.all(".diagram .line[marker-end]")) == 4
    browser.wait_text("People, what they write and where they work.", ".code")


def test_boxes_do_not_overlap(browser: Browser) -> None:
    browser.open("#/g/default@main/schema")
    overlaps = """const boxes = [...document.querySelectorAll('[data-type]')].map(e => e.getBoundingClientRect());
        return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(
          b => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length"""
    assert browser.run(overlaps) == 0
    browser.resize(NARROW)
    assert browser.run(overlaps) == 0
    browser.wait_text("Person → Company", '[data-type="edge:WorksAt"]')


def test_a_click_shows_the_text_the_rows_and_the_indexes_of_a_type(browser: Browser) -> None:
    browser.open("#/g/default@main/schema")
    browser.click('[data-type="node:Paper"]')
    browser.wait_text("node Paper {", ".type-details .code")
    browser.wait_text("19 pending", ".type-details")
    browser.wait_text("inverted", ".type-details")
    browser.wait_text("20 nodes", ".type-details")
    browser.wait_for(lambda: len(browser.all(".type-details .boxed tbody tr")) == 20, "20 rows")
    address = browser.run("return location.hash")
    browser.click('[data-type="edge:Knows"]')
    browser.wait_text("25 of 80 edges", ".type-details")
    browser.wait_for(lambda: len(browser.all(".type-details .boxed tbody tr")) == 25, "25 rows")
    browser.go(address)
    browser.wait_text("node Paper {", ".type-details .code")
    browser.click(".type-details .button", "Query")
    browser.wait_text("$x: Paper", ".editor pre")


def test_a_state_without_the_type_reports_it(browser: Browser) -> None:
    browser.open("#/g/default@draft/schema/node%3AGhost")
    browser.wait_text("This state has no type node:Ghost.")
