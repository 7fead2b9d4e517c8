"""Pages are plain English, and so are strings, which tests/style/test_rules.py checks."""

from __future__ import annotations

from pathlib import Path

from tests.docs.markdown import DOCUMENTS
from tests.style.source import ROOT, SourceFile
from tests.style.words import avoided_in, strings_are_plain_english


def test_pages_avoid_these_phrases() -> None:
    assert [f"{path}: {text}" for path in DOCUMENTS for text in avoided_in((ROOT / path).read_text())] == []


def test_an_avoided_phrase_is_reported() -> None:
    code = 'def f(x):\n    """Try anew."""\n    raise ValueError(f"{x} is no type here")\n'
    source = SourceFile(Path("src/omnigraph/a.py"), code)
    assert len(list(strings_are_plain_english(source))) == 2
    assert list(avoided_in("`anew` is code\nbut anew is not")) == ["line 2: 'anew', write: again"]
    assert list(avoided_in("there is no key, and it is no longer read")) == []
