"""A hint tells a program its arguments, and a command its flags."""

from __future__ import annotations

import pytest

from omnigraph.base.errors import UsageError, list_all
from omnigraph.base.hints import in_python


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        ("look first, then pass --force --confirm", "look first, then pass force=True, confirm=True"),
        ("pass --force to replace it, or another name", "pass force=True to replace it, or another name"),
        (
            "pass --keep 10, --older-than 7d, or both",
            "pass keep=10, older_than=timedelta(days=7), or both",
        ),
        ("pass --orphans-older-than 2d or more", "pass orphans_older_than=timedelta(days=2) or more"),
        (
            "choose with --strategy ours|theirs or --resolve FILE, or change one side",
            "choose with strategy='ours' or 'theirs' or resolve=…, or change one side",
        ),
        ("--mode merge replaces rows", "mode='merge' replaces rows"),
        ("pass --format parquet and a folder", "pass format='parquet' and a folder"),
        ("pass --out FOLDER/", "pass out=…"),
        ("or other types with --type", "or other types with types=…"),
        ("leave --as out for your login name", "leave actor=… out for your login name"),
        ("--from BASE makes it first", "from_=… makes it first"),
        ("`omnigraph export --force` does it", "`omnigraph export --force` does it"),
        ("`--debug` shows it", "`--debug` shows it"),
    ],
)
def test_arguments_instead_of_flags(flags: str, arguments: str) -> None:
    assert in_python(flags) == arguments
    error = UsageError("no", code="usage", hint=flags)
    assert (error.hint, error.to_json()["hint"]) == (arguments, flags)


def test_what_is_listed_is_bounded() -> None:
    assert list_all("two", ["a", "b"]) == "two\n  a\n  b"
    lines = list_all("many", [str(number) for number in range(25)]).splitlines()
    assert (len(lines), lines[20]) == (22, "  19")
    assert lines[21].startswith("  and 5 more; ")
