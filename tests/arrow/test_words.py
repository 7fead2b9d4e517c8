"""Words: the definition equals the tokenizer of Lance for every character, and words are counted correctly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.arrow.words import PLAIN_WORDS, count_words

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def tokens_of_lance(text: str) -> list[str]:
    tokenize: Any = lance.tokenize
    return [token.text for token in tokenize(text, **PLAIN_WORDS.index_settings)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" -- ", []),
        ("Red, blue-green", ["red", "blue", "green"]),
        ("v2.0 x_y", ["v2", "0", "x", "y"]),
        ("CAFÉ cafe\u0301", ["café", "cafe"]),
        ("İstanbul", ["i\u0307stanbul"]),
        ("ΟΔΟΣ", ["οδοσ"]),
        ("हिन्दी में", ["हिन", "दी", "में"]),
        ("日本語 テスト", ["日本語", "テスト"]),
    ],
)
def test_query_is_split_into_words(text: str, words: list[str]) -> None:
    assert PLAIN_WORDS.split_query(text).to_pylist() == words
    assert PLAIN_WORDS.split_texts(pa.array([None, text]))[1].to_pylist() == words
    assert tokens_of_lance(text) == words


def test_every_character_is_split_as_in_lance() -> None:
    """If a new release of Lance or Arrow knows more characters, `_OTHER_ALPHABETIC` must be generated again."""
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    for start in range(0, len(characters), 100_000):
        text = " ".join(f"a{character}b" for character in characters[start : start + 100_000])
        assert PLAIN_WORDS.split_query(text).to_pylist() == tokens_of_lance(text)


@given(st.lists(TEXTS, max_size=5), TEXTS)
def test_words_are_counted(texts: list[str], query: str) -> None:
    words = list(dict.fromkeys(tokens_of_lance(query)))
    counts = count_words(pa.array(texts, pa.utf8()), pa.array(words, pa.utf8()))
    split = [tokens_of_lance(text) for text in texts]
    assert counts.lengths.tolist() == [len(text) for text in split]
    for word, (positions, frequencies) in zip(words, counts.occurrences, strict=True):
        expected = {row: count for row, text in enumerate(split) if (count := Counter(text)[word])}
        assert dict(zip(positions.tolist(), frequencies.tolist(), strict=True)) == expected
