"""The page History in a real browser."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.cli.process import run_in_process
from tests.server.browser.browser import Browser
from tests.server.browser.graph import make_records

pytestmark = pytest.mark.browser
COLUMNS = """return [...document.querySelectorAll('.commit')].map(e =>
    Number(e.querySelector('circle').dataset.column))"""


def read(browser: Browser, path: str) -> Any:
    return browser.run("return fetch(arguments[0]).then(answer => answer.json())", f"graphs/default/{path}")


def test_commits_of_all_branches_have_the_lanes_of_the_log(browser: Browser, graph: Path) -> None:
    browser.open("#/g/default@main/history")
    drawn = run_in_process("log", "--draw", str(graph), cwd=graph.parent).stdout
    lanes = [line.index("*") // 2 for line in drawn.splitlines() if "*" in line.split("01")[0]]
    assert browser.run(COLUMNS) == lanes
    assert max(lanes) > 0
    tags = browser.run("return [...document.querySelectorAll('.commit .tag')].map(e => e.textContent)")
    assert {"main", "draft", "review/q3"} <= set(tags)
    assert browser.all(".commit-dot.merge") != []
    assert "ada" in browser.text(".commits")
    assert f"load\n{len(make_records())} inserted" in browser.text(".commits")
    assert "merge\n1 inserted, 1 updated" in browser.text(".commits")


def test_a_commit_shows_before_and_after_and_how_to_undo_it(browser: Browser) -> None:
    commits = read_commits(browser)
    commit = next(commit for commit in commits if commit["operation"] == "mutate" and commit["graph_branch"] == "draft")
    change = read(browser, f"commits/{commit['graph_commit_id']}/changes")["changes"][0]
    browser.open(f"#/g/default@main/history/{commit['graph_commit_id']}")
    browser.wait_text(f"omnigraph commit revert {commit['graph_commit_id']} GRAPH --branch draft", ".details")
    browser.wait_text(change["id"], ".change")
    updates = [
        c for c in commits if c["operation"] == "mutate" and c["graph_branch"] == "main" and c["counts"]["edges"] == 0
    ]
    browser.go(f"#/g/default@main/history/{updates[0]['graph_commit_id']}")
    browser.wait_text("before", ".change")
    assert browser.text(".change .new") == "8"
    assert browser.text(".change .old") != "8"
    browser.click(".details a", "Query this state")
    browser.wait_text(f"commit …{updates[0]['graph_commit_id'][-8:]}", "#ref")


def test_a_merge_has_two_parents_and_an_unknown_commit_is_an_error(browser: Browser) -> None:
    browser.expected = ("404 (Not Found)",)
    merge = next(
        commit for commit in read_commits(browser) if (commit["operation"], commit["graph_branch"]) == ("merge", "main")
    )
    browser.open(f"#/g/default@main/history/{merge['graph_commit_id']}")
    browser.wait_text("northwind", ".details")
    parents = "return [...document.querySelectorAll('.facts a')].map(e => e.hash.split('/').at(-1))"
    assert browser.run(parents) == [merge["parent_commit_id"], merge["merged_parent_commit_id"]]
    browser.go("#/g/default@main/history/01M7Q000000000000000000000")
    browser.wait_text("01M7Q000000000000000000000", ".details .notice.error")


def test_a_blob_is_its_size_and_a_download(browser: Browser, tmp_path: Path) -> None:
    browser.allow_downloads(tmp_path)
    browser.open("#/graphs")
    browser.call("createBranch", {"name": "logos", "from": "review/q3"})
    content = bytes(range(256)) * 8
    for logo in (b"old", content):
        text = f"base64:{b64encode(logo).decode()}"
        query = f'query a() {{ update Company set {{ logo: "{text}", tags: ["base64:AAAA"] }} where slug = "acme" }}'
        answer = browser.call("mutate", {"branch": "logos", "query": query})
    browser.go(f"#/g/default@logos/history/{answer['commit']['graph_commit_id']}")
    browser.wait_text("2.0 kB", ".change .new")
    assert browser.text(".change .old").startswith("3 bytes")
    assert "base64" not in browser.text(".details")
    browser.click(".change .old button", "Download")
    assert browser.wait_download(tmp_path, "acme-logo") == b"old"
    (tmp_path / "acme-logo").unlink()
    browser.go("#/g/default@main/branches/compare?from=review%2Fq3&to=logos")
    browser.wait_text("2.0 kB", ".change")
    assert "base64:AAAA" in browser.text(".change")  # an item of a list is text
    browser.click(".change .new button", "Download")
    assert browser.wait_download(tmp_path, "acme-logo") == content


def read_commits(browser: Browser) -> list[dict[str, Any]]:
    browser.open("#/graphs")
    commits: list[dict[str, Any]] = read(browser, "log?limit=100")["commits"]
    return commits
