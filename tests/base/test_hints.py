"""A hint has calls and arguments as values: Python renders keywords, the command line renders flags."""

from __future__ import annotations

import json

import pytest

from omnigraph.base.errors import UsageError, list_all
from omnigraph.base.hints import Argument, Hint, OneOf, Placeholder, action, hint, hint_from_json, hint_to_json
from omnigraph.cli.hints import render_command, render_hint
from omnigraph.wire.errors import error_document

CASES = [
    (Hint("Install Java 17 or newer: {17}."), "Install Java 17 or newer: {17}.", None),
    (
        hint("Pass {} to replace it.", Argument("force")),
        "Pass `force=True` to replace it.",
        "Pass `--force` to replace it.",
    ),
    (
        hint("Pass {} or {}.", Argument("keep", 10), Argument("older_than", "7d")),
        "Pass `keep=10` or `older_than='7d'`.",
        "Pass `--keep 10` or `--older-than 7d`.",
    ),
    (
        hint(
            "Pass {} or {}.", Argument("strategy", OneOf(("ours", "theirs"))), Argument("resolve", Placeholder("FILE"))
        ),
        "Pass `strategy='ours' or 'theirs'` or `resolve=…`.",
        "Pass `--strategy ours|theirs` or `--resolve FILE`.",
    ),
    (
        hint("Run {}.", action("cleanup", keep=10, dry_run=False)),
        "Run `graph.cleanup(keep=10, dry_run=False)`.",
        "Run `omnigraph cleanup --keep 10 --confirm`.",
    ),
    (hint("Run {}.", action("branch list")), "Run `graph.list_branches()`.", "Run `omnigraph branch list`."),
    (
        hint("Run {}.", action("branch delete", name="review/1")),
        "Run `graph.delete_branch(name='review/1')`.",
        "Run `omnigraph branch delete review/1`.",
    ),
    (
        hint("Run {}.", action("repair", unverified="discard", dry_run=False)),
        "Run `graph.repair(unverified='discard', dry_run=False)`.",
        "Run `omnigraph repair --confirm --discard`.",
    ),
    (hint("Run {}.", action("spark stop")), "Run `omnigraph spark stop`.", "Run `omnigraph spark stop`."),
    (hint("Pass {}.", Argument("from_", Placeholder("BASE"))), "Pass `from_=…`.", "Pass `--from BASE`."),
    (
        hint("Pass {} or {}.", Argument("unverified", "publish"), Argument("actor", Placeholder("NAME"))),
        "Pass `unverified='publish'` or `actor=…`.",
        "Pass `--confirm --force` or `--as NAME`.",
    ),
]


@pytest.mark.parametrize(("value", "python", "flags"), CASES, ids=lambda case: str(case)[:40])
def test_each_surface_renders_its_own_syntax(value: Hint, python: str, flags: str | None) -> None:
    assert str(value) == python
    assert render_hint(value) == (flags or python)
    error = UsageError("no", code="usage", hint=value)
    assert (error.hint, error_document(error, render_hint(error.advice))["hint"]) == (python, flags or python)


def test_text_with_braces_is_a_part() -> None:
    value = hint("Delete {} or pass {}.", "a{}b", Argument("force"))
    assert render_hint(value) == "Delete a{}b or pass `--force`."
    assert hint_from_json(json.loads(json.dumps(hint_to_json(value)))) == value


def test_hints_can_be_joined() -> None:
    joined = Hint("Nothing was written.") + hint("Run {}.", action("repair"))
    assert render_hint(joined) == "Nothing was written. Run `omnigraph repair`."
    assert not Hint()


def test_what_is_listed_is_bounded() -> None:
    assert list_all("two", ["a", "b"]) == "two\n  a\n  b"
    lines = list_all("many", [str(number) for number in range(25)]).splitlines()
    assert (len(lines), lines[20]) == (22, "  19")
    assert lines[21].startswith("  and 5 more; ")


def test_commands_about_a_graph_name_its_address() -> None:
    value = hint("Run {} or {}.", action("optimize", branch="a b"), action("spark stop"))
    expected = "Run `omnigraph optimize 'my graph' --branch 'a b'` or `omnigraph spark stop`."
    assert render_hint(value, "my graph") == expected
    assert str(value) == "Run `graph.checkout('a b').optimize()` or `omnigraph spark stop`."
    assert render_command(hint("{}", action("repair")), "g.omni") == "omnigraph repair g.omni"
