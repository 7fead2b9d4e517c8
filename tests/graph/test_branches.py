"""Names of branches."""

from __future__ import annotations

import pytest

from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.branches import require_valid_branch_name


@pytest.mark.parametrize(
    "name", ["dev", "review/42", "a.b-c_d", "_x", "9", "main2", "feature/main", "a/b/c", "x" * 128, "lock", "a.locks"]
)
def test_good_names(name: str) -> None:
    require_valid_branch_name(name, ["main", "other"])


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Main",
        "__x",
        "a/__b",
        ".x",
        "-x",
        "a/.b",
        "a/-b",
        "a..b",
        "..",
        "a.lock",
        "a.lock/b",
        "/a",
        "a/",
        "a//b",
        "A",
        "ä",
        "a b",
        "a\n",
        "a\\b",
        "a'b",
        "x" * 129,
        "a:b",
    ],
)
def test_bad_names(name: str) -> None:
    with pytest.raises(OmnigraphError) as caught:
        require_valid_branch_name(name, [])
    assert caught.value.code == "branch_name"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("main", "branch_exists"),
        ("dev", "branch_exists"),
        ("dev/x", "branch_nested"),
        ("a", "branch_nested"),
        ("main/x", "branch_nested"),
    ],
)
def test_names_that_conflict_with_live_branches(name: str, code: str) -> None:
    with pytest.raises(OmnigraphError) as caught:
        require_valid_branch_name(name, ["main", "dev", "a/b"])
    assert caught.value.code == code


def test_shared_prefix_is_not_a_conflict() -> None:
    require_valid_branch_name("dev2", ["main", "dev"])
    require_valid_branch_name("de", ["main", "dev"])
