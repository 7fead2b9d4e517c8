"""The page Health in a real browser: an external writer changes a table."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

import omnigraph as og
from tests.server.browser.browser import Browser
from tests.server.browser.graph import make_graph
from tests.server.process import serve

pytestmark = pytest.mark.browser


def test_drift_of_an_external_writer_and_the_command_that_fixes_it(browser: Browser, tmp_path: Path) -> None:
    path = make_graph(tmp_path)
    tables = og.open(path).snapshot().tables.values()
    company = next(table for table in tables if table.alias == "node:Company")
    lance.dataset(path / company.path).delete("slug = 'acme'")
    with serve(path, tmp_path) as running:
        browser.base = f"http://{running.address}"
        browser.open("#/g/default@main/health")
        browser.wait_text("omnigraph repair GRAPH", ".finding")
        assert "1 problem" in browser.text(".page-head")
        assert "drift" in browser.text('[data-table="node:Company main"]')
        assert "drift" not in browser.text('[data-table="node:Person main"]')
        first = browser.text(".finding")
        assert first.startswith("Drift")
        assert "node:Company" in first
        labels = "return [...document.querySelectorAll('main button')].map(e => e.getAttribute('aria-label'))"
        assert set(browser.run(labels)) == {"Copy command"}


def test_checks_tables_and_commands_of_a_healthy_graph(browser: Browser) -> None:
    browser.open("#/g/default@main/health")
    browser.wait_text("healthy", ".page-head")
    for name in ("format", "recovery", "locks", "drift", "indexes"):
        browser.find(f'[data-check="{name}"]')
    assert "omnigraph optimize GRAPH" in browser.text()
    cells = "return [...document.querySelector(arguments[0]).cells].map(cell => cell.innerText.trim())"
    person = browser.run(cells, '[data-table="node:Person main"]')
    assert person[:3] == ["node:Person", "main", "42"]
    assert person[6] == "0 %"
