"""Words: the definition equals the tokenizer of Lance for every character, and words are counted correctly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.schema.property_types import STEM_LANGUAGES, TextOptions
from omnigraph.storage.lance.words import PLAIN_WORDS, WordRules, count_words, fuzzy_words

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


FOLDED = TextOptions(ascii_folding=True)
ENGLISH = TextOptions(stem="english")
GERMAN = TextOptions(stem="german")


def tokens_of_lance(text: str, rules: WordRules = PLAIN_WORDS) -> list[str]:
    tokenize: Any = lance.tokenize
    return [token.text for token in tokenize(text, **rules.index_settings)]


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


@pytest.mark.parametrize(
    ("options", "text", "words"),
    [
        (FOLDED, "Cafés CAFÉ Œuvre Straße ﬁne ①", ["cafes", "cafe", "oeuvre", "strasse", "fine", "1"]),
        (FOLDED, "İstanbul हिन्दी", ["i\u0307stanbul", "हिन", "दी"]),
        (ENGLISH, "Running, RUNS; the cafés", ["run", "run", "the", "café"]),
        (GERMAN, "Die Häuser am Häuschen", ["die", "haus", "am", "hausch"]),
        (GERMAN, " -- ", []),
    ],
)
def test_options_change_words_as_in_lance(options: TextOptions, text: str, words: list[str]) -> None:
    rules = WordRules(options)
    assert rules.split_query(text).to_pylist() == words
    parents, split = rules.split_texts(pa.array([text, None, text]))
    assert (split.to_pylist(), parents.tolist()) == (words * 2, [0] * len(words) + [2] * len(words))
    assert tokens_of_lance(text, rules) == words


@given(TEXTS, st.sampled_from([TextOptions(), FOLDED, GERMAN, ENGLISH]))
def test_a_spelling_is_the_word_in_lance(text: str, options: TextOptions) -> None:
    """A word itself may not be: `i\u0307stanbul` is two words, and the ending of a word without ending is removed."""
    rules = WordRules(options)
    for word, spelling in rules.spellings(text).items():
        assert tokens_of_lance(spelling, rules) == [word]


def test_lance_removes_endings_before_accents() -> None:
    """If this fails: Lance folds before it stems, and the schema can allow `ascii_folding` and `stem` together."""
    both = WordRules(TextOptions(ascii_folding=True, stem="english"))
    assert tokens_of_lance("Résumé resume Straße strasse", both) == ["resume", "resum", "strasse", "strass"]


def test_languages_are_those_of_lance() -> None:
    with pytest.raises(ValueError, match="expected one of") as unknown:
        tokens_of_lance("a", WordRules(TextOptions(stem="klingon")))
    listed = unknown.value.args[0].split("expected one of")[1]
    assert tuple(name.lower() for name in listed.split("`")[1::2]) == STEM_LANGUAGES
    assert all(tokens_of_lance("a b", WordRules(TextOptions(stem=language))) for language in STEM_LANGUAGES)


@given(TEXTS, st.sampled_from([FOLDED, GERMAN, *(TextOptions(stem=language) for language in STEM_LANGUAGES)]))
def test_any_text_is_split_as_in_lance(text: str, options: TextOptions) -> None:
    rules = WordRules(options)
    assert rules.split_query(text).to_pylist() == tokens_of_lance(text, rules)


@pytest.mark.parametrize(
    ("options", "text", "words"),
    [
        (TextOptions(), "RED fox", "red fox"),
        (FOLDED, "CAFÉ", "cafe"),
        (ENGLISH, "Running cafés", "run café"),
        (TextOptions(), "İstanbul", None),
    ],
)
def test_words_of_a_fuzzy_query(options: TextOptions, text: str, words: str | None) -> None:
    assert fuzzy_words(text, options) == words


@given(st.lists(TEXTS, max_size=5), TEXTS)
def test_words_are_counted(texts: list[str], query: str) -> None:
    words = list(dict.fromkeys(tokens_of_lance(query)))
    counts = count_words(pa.array(texts, pa.utf8()), pa.array(words, pa.utf8()))
    split = [tokens_of_lance(text) for text in texts]
    assert counts.lengths.tolist() == [len(text) for text in split]
    for word, (positions, frequencies) in zip(words, counts.occurrences, strict=True):
        expected = {row: count for row, text in enumerate(split) if (count := Counter(text)[word])}
        assert dict(zip(positions.tolist(), frequencies.tolist(), strict=True)) == expected
