"""The page Branches in a real browser: create, compare, merge and delete."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from tests.server.browser.browser import NARROW, Browser
from tests.server.browser.conftest import KEPT
from tests.server.browser.graph import SCHEMA

pytestmark = pytest.mark.browser


def create(browser: Browser, name: str, source: str = "main") -> None:
    browser.open("#/g/default@main/branches")
    browser.type("#branch-from", source)
    browser.type("#branch-name", name)
    browser.click("#create-branch")
    browser.wait_text(f"Created branch {name}")
    browser.find(f'[data-branch="{name}"]')


def test_branches_have_their_distance_from_main(browser: Browser) -> None:
    browser.open("#/g/default@main/branches")
    cells = "return [...document.querySelector(arguments[0]).cells].map(cell => cell.innerText.trim())"
    draft = browser.run(cells, '[data-branch="draft"]')
    assert draft[0] == "draft"
    assert int(draft[1]) >= 2
    assert int(draft[2]) >= 2
    assert "by ada" in draft[5]
    assert browser.run(cells, '[data-branch="review/q3"]')[1] == "0"
    assert browser.all('[data-branch="main"] .delete') == []


def test_a_branch_is_created_and_deleted_after_a_question(browser: Browser) -> None:
    browser.expected = ("409 (Conflict)",)
    create(browser, "side/new")
    browser.type("#branch-name", "side/new")
    browser.click("#create-branch")
    browser.wait_text("side/new", ".notice.error")
    browser.click('[data-branch="side/new"] .delete')
    browser.click("#confirm", "Delete branch side/new")
    browser.wait_text("Deleted branch side/new")
    browser.wait_for(lambda: not browser.all('[data-branch="side/new"]'), "the branch is deleted")


def test_two_refs_are_compared_entity_by_entity(browser: Browser) -> None:
    browser.open("#/g/default@main/branches/compare?from=main&to=draft")
    browser.wait_text("margaret", ".changes")
    heads = "return [...document.querySelectorAll('.change')].map(e => e.className.split(' ')[1])"
    assert set(browser.run(heads)) == {"insert", "update"}
    browser.click("#swap")
    browser.wait_text("deleted", ".changes")
    assert set(browser.run(heads)) == {"delete", "update"}
    assert "from=draft&to=main" in browser.run("return location.hash")
    browser.type("#compare-from", "main")
    browser.wait_text("No entity differs")


def test_main_is_compared_with_another_branch(browser: Browser) -> None:
    browser.open("#/g/default@main/branches/compare")
    assert browser.find("#compare-from").get_property("value") == "main"
    assert browser.find("#compare-to").get_property("value") != "main"


def test_a_merge_shows_what_would_change_and_every_conflict_first(browser: Browser) -> None:
    create(browser, "release")
    create(browser, "fix", "release")
    changes = (
        ("fix", 'update Person set { score: 41 } where slug = "p20"'),
        ("fix", 'insert Person { slug: "anita", name: "Anita Borg" }'),
        ("release", 'update Person set { score: 42 } where slug = "p20"'),
    )
    for branch, statement in changes:
        browser.call("mutate", {"branch": branch, "query": f"query change() {{ {statement} }}"})
    browser.open("#/g/default@main/branches/merge?source=fix&target=release")
    browser.wait_text("Decide 1 conflict to merge fix into release.")
    browser.wait_text("changed on both branches", ".conflict .tag")
    cells = (
        "return [...document.querySelectorAll('.conflict tbody tr')].map(row => [...row.cells].map(c => c.innerText))"
    )
    ((name, _, ours, theirs),) = browser.run(cells)
    assert (name, ours, theirs) == ("score", "42", "41")
    assert not browser.find("#merge").is_enabled()
    browser.click(".conflict input[value=theirs]")
    browser.wait_text("fix can be merged into release.")
    browser.wait_for(lambda: browser.find("#merge").is_enabled(), "the merge is possible")
    browser.click("#merge")
    browser.click("#delete-source")
    browser.click("#confirm", "Merge into release")
    browser.wait_text("Merged fix into release")
    browser.wait_text("Deleted branch fix")
    browser.wait_ready()
    assert not browser.find("#merge").is_enabled()
    browser.click(".notice.success .id a")
    browser.wait_text("41", ".change.update .new")
    browser.wait_text("anita", ".details")


def test_branches_with_diverged_schemas_cannot_be_merged(browser: Browser, graph: Path) -> None:
    for branch, kind in (("texts", "String"), ("numbers", "I64")):
        changed = SCHEMA.replace("born: Date?", f"born: Date?  rank: {kind}?")
        og.open(graph).create_branch(branch).apply_schema(changed)
    browser.open("#/g/default@main/branches/merge?source=numbers&target=texts")
    browser.wait_text("numbers cannot be merged into texts, because their schemas diverged.")
    assert "schemas diverged" in browser.text(".conflict")
    assert [element.text for element in browser.all(".conflict h3")] == [
        "Schema changes of texts",
        "Schema changes of numbers",
    ]
    assert "rank: String?" in browser.all(".conflict .stack")[0].text
    assert browser.all("#take-ours, .conflict input") == []
    assert not browser.find("#merge").is_enabled()
    browser.save(KEPT / "diverged-1280-light.png")
    browser.resize(NARROW)
    assert not browser.scrolls_sideways()


def test_nothing_to_merge(browser: Browser) -> None:
    browser.open("#/g/default@main/branches/merge?source=review%2Fq3&target=main")
    browser.wait_text("main is already up to date with review/q3")
    assert not browser.find("#merge").is_enabled()
    browser.open("#/g/default@main/branches/merge?source=main&target=main")
    browser.wait_text("Choose two different branches.")
