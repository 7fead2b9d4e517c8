"""No file contains the host of a package registry, a path of one machine, or a note of unfinished work."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.style.source import text_files

# Written in parts, so that this file does not match.
UNWANTED: Final = {
    "a package registry's host": r"py" + r"pi\.org|python" + r"hosted\.org|--(extra-)?index-" + "url",
    "a path of one machine": r"(?<![\w.~}])/(ro" + r"ot|ho" + r"me|wo" + r"rk|Us" + r"ers)/\w",
    "unfinished business": r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b",
}


@pytest.mark.parametrize("what", UNWANTED)
def test_no_file_contains(what: str) -> None:
    pattern = re.compile(UNWANTED[what])
    lines = [
        f"{path}:{number}: {line.strip()[:100]}"
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert lines == []


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a package registry's host", "https://py" + "pi.org/simple"),
        ("a path of one machine", "see /ho" + "me/someone/graph"),
        ("unfinished business", "# TO" + "DO later"),
    ],
)
def test_unwanted_text_is_found(what: str, text: str) -> None:
    assert re.search(UNWANTED[what], text)
