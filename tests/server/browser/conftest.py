"""One Chromium and one graph for all browser tests. A test fails if the console is not empty at its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.server.browser.browser import WIDE, Browser, start_browser
from tests.server.browser.graph import make_graph
from tests.server.process import ServerProcess, serve

KEPT: Final = Path(__file__).parents[3] / "build" / "browser-test"
"""Pictures and consoles of failed tests, and the screenshots of the pages."""
_FAILED: Final = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Remember that a test failed, for the fixture that keeps its picture."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture(scope="session")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_graph(tmp_path_factory.mktemp("graph"))


@pytest.fixture(scope="session")
def server(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that allows everything. It is shared: tests that write use branches of their own."""
    with serve(graph, tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with start_browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser, server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[Browser]:
    """A window of 1280 by 900 pixels in light mode, without a token and with an empty console."""
    chromium.base = f"http://{server.address}"
    chromium.expected = ()
    chromium.resize(WIDE)
    chromium.set_dark(is_dark=False)
    if chromium.run("return location.origin") != chromium.base:
        chromium.driver.get(f"{chromium.base}/ui/favicon.svg")
    chromium.run("sessionStorage.clear(); localStorage.clear()")
    chromium.console()
    yield chromium
    messages = chromium.console()
    KEPT.mkdir(parents=True, exist_ok=True)
    if request.node.stash.get(_FAILED, False):
        chromium.save(KEPT / f"{request.node.name}.png")
        (KEPT / f"{request.node.name}.txt").write_text("\n".join(messages))
    else:
        assert [message for message in messages if not any(map(message.__contains__, chromium.expected))] == []
