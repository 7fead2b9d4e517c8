"""Tokens, readers and the prefix of a proxy, in a real browser."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest
import urllib3
from selenium.webdriver.common.keys import Keys

from tests.policy.test_bundle import TEAM
from tests.server.browser.browser import NARROW, WIDE, Browser
from tests.server.process import READ, ServerProcess, serve
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.browser
PREFIX: Final = "/acme/graphs"


@pytest.fixture(scope="module")
def reading_server(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose token allows reading, behind a prefix."""
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKEN": READ}
    with serve(graph, tmp_path_factory.mktemp("reading"), "--root-path", PREFIX, environment=environment) as running:
        yield running


@contextmanager
def proxy(target: str) -> Iterator[str]:
    """Forward requests below the prefix to a server, without the prefix; yield the address of the pages."""
    pool = urllib3.PoolManager(timeout=SECONDS_MAX)

    class Forward(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            names = ("Accept", "Authorization", "Content-Type")
            headers = {name: self.headers[name] for name in names if name in self.headers}
            url = f"http://{target}{self.path.removeprefix(PREFIX)}"
            answer = pool.request(self.command, url, body=body or None, headers=headers, retries=False)
            self.send_response(answer.status)
            for name in ("Content-Type", "Content-Security-Policy"):
                self.send_header(name, answer.headers[name])
            self.send_header("Content-Length", str(len(answer.data)))
            self.end_headers()
            self.wfile.write(answer.data)

        do_POST = do_GET  # noqa: N815  # the name that the library calls

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{PREFIX}"
    finally:
        server.shutdown()
        server.server_close()


def test_log_in_and_out_behind_a_proxy(browser: Browser, reading_server: ServerProcess) -> None:
    browser.expected = ("401 (Unauthorized)",)
    with proxy(reading_server.address) as browser.base:
        browser.load()
        browser.log_in("wrong")
        browser.wait_text("The server does not accept this token")
        browser.log_in(READ)
        browser.wait_text("Person", ".query-side")
        assert browser.text(".actor") == "default"
        assert browser.driver.get_cookies() == []
        assert browser.run("return document.cookie") == ""
        browser.load("#/g/default@main/query")
        browser.wait_text("Person", ".query-side")
        browser.resize(NARROW)
        browser.wait_frame()
        parts = "return [...document.querySelectorAll('.top strong, #ref, .actor, #log-out')]"
        parts += ".map(e => e.offsetTop + e.offsetHeight / 2)"
        middles = browser.run(parts)
        assert len(middles) == 4
        assert max(middles) - min(middles) < 2, "the header has one line"
        browser.resize(WIDE)
        for page in ("schema", "history", "branches", "health"):
            browser.go(f"#/g/default@main/{page}")
            browser.wait_text(page.capitalize())
            assert browser.all(".notice.error") == []
        assert browser.run(
            "return performance.getEntriesByName(arguments[0]).length", f"{browser.base}/ui/vendor/cytoscape.js"
        )
        browser.click("#log-out")
        browser.find("#token")
        stored = "return JSON.stringify([Object.values(sessionStorage), Object.values(localStorage)])"
        assert READ not in browser.run(stored)
        browser.load("#/g/default@main/query")
        browser.find("#token")
        browser.driver.get("about:blank")  # no request runs when the proxy stops


def test_a_reader_sees_no_write_buttons_and_a_forged_request_is_denied(
    browser: Browser, reading_server: ServerProcess
) -> None:
    browser.base = f"http://{reading_server.address}"
    browser.expected = ("401 (Unauthorized)", "403 (Forbidden)")
    browser.load()
    browser.log_in(READ)
    browser.type("#query-text", 'query add() { insert Company { slug: "x", city: "Rome" } }')
    browser.wait_text("Your token does not allow changes.")
    assert not browser.find("#run").is_enabled()
    browser.find("#query-text").send_keys(Keys.CONTROL, Keys.ENTER)
    assert browser.all("dialog") == []
    browser.type("#query-text", "query read() { match { $c: Company } return { $c.slug } }")
    browser.wait_for(browser.find("#run").is_enabled, "the query is checked")
    browser.type("#query-text", 'query add() { insert Company { slug: "x", city: "Rome" } }')
    browser.find("#query-text").send_keys(Keys.CONTROL, Keys.ENTER)  # usually before the text is checked
    browser.wait_text("Your token does not allow changes.")
    browser.wait_ready()
    assert browser.all("dialog") == []
    forged = """return import('./ui/app/api.js').then(api => api.mutate('default', {query: arguments[0]}))
        .then(() => 'done', error => [error.status, error.code])"""
    assert browser.run(forged, 'query add() { insert Company { slug: "x", city: "Rome" } }') == [403, "access_denied"]


def test_a_reader_sees_branches_without_buttons_that_write(browser: Browser, reading_server: ServerProcess) -> None:
    browser.base = f"http://{reading_server.address}"
    browser.expected = ("401 (Unauthorized)",)
    browser.load("#/graphs")
    browser.run("sessionStorage.clear()")
    browser.load("#/g/default@main/branches")
    browser.log_in(READ)
    browser.find('[data-branch="draft"]')
    assert browser.all("#create-branch, .delete") == []
    browser.go("#/g/default@main/branches/merge?source=draft&target=main")
    browser.wait_text("Your token does not allow merges. This is a preview.")
    browser.wait_text("1 conflict")
    assert browser.all("#merge") == []


def test_a_policy_decides_about_each_branch(browser: Browser, graph: Path, tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(TEAM)
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"act-bo": "token-bo", "stranger": "token-x"})}
    with serve(graph, tmp_path, "--policy", str(tmp_path / "team.yaml"), environment=environment) as running:
        browser.base = f"http://{running.address}"
        browser.expected = ("401 (Unauthorized)", "403 (Forbidden)")
        browser.load("#/g/default@main/branches")
        browser.log_in("token-bo")
        browser.wait_text("protected", '[data-branch="main"]')
        assert "protected" not in browser.text('[data-branch="draft"]')
        assert browser.all("#create-branch, .delete") == []
        browser.go("#/g/default@main/query")
        browser.type("#query-text", 'query rate() { update Person set { score: 6 } where slug = "p5" }')
        browser.click("#run", "Run change")
        browser.click("#confirm")
        browser.wait_text("Policy denied action 'change' on branch 'main'", "#result .notice.error")
        browser.click("#log-out")
        browser.log_in("token-x")
        browser.wait_text("Policy denied", ".notice.error")
