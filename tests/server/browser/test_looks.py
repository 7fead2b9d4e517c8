"""Every page in dark mode and at 400 pixels, and the screenshots of the documentation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.server.browser.browser import NARROW, WIDE, Browser
from tests.server.browser.conftest import KEPT

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


def show_query(browser: Browser) -> None:
    browser.type("#query-text", QUERY)
    browser.find("#query-parameters")
    browser.type("#query-parameters", '{ "city": "Rome", "min": 20 }')
    browser.click("#run")
    browser.find("#result tbody td")


def show_commit(browser: Browser) -> None:
    browser.click(".commit-main", "mutate")
    browser.wait_text("omnigraph commit revert")


PAGES: Final[dict[str, tuple[str, Callable[[Browser], None]]]] = {
    "graphs": ("#/graphs", lambda browser: browser.wait_text("nodes of 3 types")),
    "query": ("#/g/default@main/query", show_query),
    "schema": ("#/g/default@main/schema/node%3APaper", lambda browser: browser.wait_text("19 pending")),
    "history": ("#/g/default@main/history", show_commit),
}


@pytest.mark.parametrize("page", PAGES)
def test_page_in_both_modes_and_widths(browser: Browser, page: str, update_golden: bool) -> None:
    place, prepare = PAGES[page]
    KEPT.mkdir(parents=True, exist_ok=True)
    for width, is_dark in ((WIDE, False), (WIDE, True), (NARROW, False), (NARROW, True)):
        browser.resize(width)
        browser.set_dark(is_dark=is_dark)
        browser.open(place)
        prepare(browser)
        browser.wait_ready()
        browser.run("document.activeElement.blur(); scrollTo(0, 0)")
        assert not browser.scrolls_sideways(), f"{page} at {width} pixels"
        browser.save(KEPT / f"{page}-{width}-{'dark' if is_dark else 'light'}.png")
        if update_golden and (width, is_dark) == (WIDE, False):
            browser.save(IMAGES / f"ui-{page}.png")
