"""Words: how text is split for full-text search. The only definition of a word.

In: an array of texts, or the text of a query. Out: words in order, and the text of each. A word is a longest sequence
of letters, numbers and other alphabetic characters (such as vowel signs), in lower case: what Lance's tokenizer
`simple` returns, so that an index of Lance and a scan find the same texts. Lance itself removes accents and endings, by
the options of a column, from each distinct word. Nothing here reads a dataset.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arrow.columns import Column as Texts
from omnigraph.schema.property_types import PLAIN_TEXT, TextOptions

Positions = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]

_OTHER_ALPHABETIC: Final = (
    r"\x{345}\x{363}-\x{36F}\x{5B0}-\x{5BD}\x{5BF}\x{5C1}-\x{5C2}\x{5C4}-\x{5C5}\x{5C7}\x{610}-\x{61A}"
    r"\x{64B}-\x{657}\x{659}-\x{65F}\x{670}\x{6D6}-\x{6DC}\x{6E1}-\x{6E4}\x{6E7}-\x{6E8}\x{6ED}\x{711}"
    r"\x{730}-\x{73F}\x{7A6}-\x{7B0}\x{816}-\x{817}\x{81B}-\x{823}\x{825}-\x{827}\x{829}-\x{82C}\x{88F}\x{897}"
    r"\x{8D4}-\x{8DF}\x{8E3}-\x{8E9}\x{8F0}-\x{903}\x{93A}-\x{93B}\x{93E}-\x{94C}\x{94E}-\x{94F}\x{955}-\x{957}"
    r"\x{962}-\x{963}\x{981}-\x{983}\x{9BE}-\x{9C4}\x{9C7}-\x{9C8}\x{9CB}-\x{9CC}\x{9D7}\x{9E2}-\x{9E3}"
    r"\x{A01}-\x{A03}\x{A3E}-\x{A42}\x{A47}-\x{A48}\x{A4B}-\x{A4C}\x{A51}\x{A70}-\x{A71}\x{A75}\x{A81}-\x{A83}"
    r"\x{ABE}-\x{AC5}\x{AC7}-\x{AC9}\x{ACB}-\x{ACC}\x{AE2}-\x{AE3}\x{AFA}-\x{AFC}\x{B01}-\x{B03}\x{B3E}-\x{B44}"
    r"\x{B47}-\x{B48}\x{B4B}-\x{B4C}\x{B56}-\x{B57}\x{B62}-\x{B63}\x{B82}\x{BBE}-\x{BC2}\x{BC6}-\x{BC8}"
    r"\x{BCA}-\x{BCC}\x{BD7}\x{C00}-\x{C04}\x{C3E}-\x{C44}\x{C46}-\x{C48}\x{C4A}-\x{C4C}\x{C55}-\x{C56}\x{C5C}"
    r"\x{C62}-\x{C63}\x{C81}-\x{C83}\x{CBE}-\x{CC4}\x{CC6}-\x{CC8}\x{CCA}-\x{CCC}\x{CD5}-\x{CD6}\x{CDC}"
    r"\x{CE2}-\x{CE3}\x{CF3}\x{D00}-\x{D03}\x{D3E}-\x{D44}\x{D46}-\x{D48}\x{D4A}-\x{D4C}\x{D57}\x{D62}-\x{D63}"
    r"\x{D81}-\x{D83}\x{DCF}-\x{DD4}\x{DD6}\x{DD8}-\x{DDF}\x{DF2}-\x{DF3}\x{E31}\x{E34}-\x{E3A}\x{E4D}\x{EB1}"
    r"\x{EB4}-\x{EB9}\x{EBB}-\x{EBC}\x{ECD}\x{F71}-\x{F83}\x{F8D}-\x{F97}\x{F99}-\x{FBC}\x{102B}-\x{1036}\x{1038}"
    r"\x{103B}-\x{103E}\x{1056}-\x{1059}\x{105E}-\x{1060}\x{1062}-\x{1064}\x{1067}-\x{106D}\x{1071}-\x{1074}"
    r"\x{1082}-\x{108D}\x{108F}\x{109A}-\x{109D}\x{1712}-\x{1713}\x{1732}-\x{1733}\x{1752}-\x{1753}\x{1772}-\x{1773}"
    r"\x{17B6}-\x{17C8}\x{1885}-\x{1886}\x{18A9}\x{1920}-\x{192B}\x{1930}-\x{1938}\x{1A17}-\x{1A1B}\x{1A55}-\x{1A5E}"
    r"\x{1A61}-\x{1A74}\x{1ABF}-\x{1AC0}\x{1ACC}-\x{1ACE}\x{1B00}-\x{1B04}\x{1B35}-\x{1B43}\x{1B80}-\x{1B82}"
    r"\x{1BA1}-\x{1BA9}\x{1BAC}-\x{1BAD}\x{1BE7}-\x{1BF1}\x{1C24}-\x{1C36}\x{1C89}-\x{1C8A}\x{1DD3}-\x{1DF4}"
    r"\x{24B6}-\x{24E9}\x{2DE0}-\x{2DFF}\x{A674}-\x{A67B}\x{A69E}-\x{A69F}\x{A7CB}-\x{A7CF}\x{A7D2}\x{A7D4}"
    r"\x{A7DA}-\x{A7DC}\x{A7F1}\x{A802}\x{A80B}\x{A823}-\x{A827}\x{A880}-\x{A881}\x{A8B4}-\x{A8C3}\x{A8C5}\x{A8FF}"
    r"\x{A926}-\x{A92A}\x{A947}-\x{A952}\x{A980}-\x{A983}\x{A9B4}-\x{A9BF}\x{A9E5}\x{AA29}-\x{AA36}\x{AA43}"
    r"\x{AA4C}-\x{AA4D}\x{AA7B}-\x{AA7D}\x{AAB0}\x{AAB2}-\x{AAB4}\x{AAB7}-\x{AAB8}\x{AABE}\x{AAEB}-\x{AAEF}\x{AAF5}"
    r"\x{ABE3}-\x{ABEA}\x{FB1E}\x{10376}-\x{1037A}\x{105C0}-\x{105F3}\x{10940}-\x{10959}\x{10A01}-\x{10A03}"
    r"\x{10A05}-\x{10A06}\x{10A0C}-\x{10A0F}\x{10D24}-\x{10D27}\x{10D40}-\x{10D65}\x{10D69}\x{10D6F}-\x{10D85}"
    r"\x{10EAB}-\x{10EAC}\x{10EC2}-\x{10EC7}\x{10EFA}-\x{10EFC}\x{11000}-\x{11002}\x{11038}-\x{11045}"
    r"\x{11073}-\x{11074}\x{11080}-\x{11082}\x{110B0}-\x{110B8}\x{110C2}\x{11100}-\x{11102}\x{11127}-\x{11132}"
    r"\x{11145}-\x{11146}\x{11180}-\x{11182}\x{111B3}-\x{111BF}\x{111CE}-\x{111CF}\x{1122C}-\x{11234}\x{11237}"
    r"\x{1123E}\x{11241}\x{112DF}-\x{112E8}\x{11300}-\x{11303}\x{1133E}-\x{11344}\x{11347}-\x{11348}"
    r"\x{1134B}-\x{1134C}\x{11357}\x{11362}-\x{11363}\x{11380}-\x{11389}\x{1138B}\x{1138E}\x{11390}-\x{113B5}"
    r"\x{113B7}-\x{113C0}\x{113C2}\x{113C5}\x{113C7}-\x{113CA}\x{113CC}-\x{113CD}\x{113D1}\x{113D3}"
    r"\x{11435}-\x{11441}\x{11443}-\x{11445}\x{114B0}-\x{114C1}\x{115AF}-\x{115B5}\x{115B8}-\x{115BE}"
    r"\x{115DC}-\x{115DD}\x{11630}-\x{1163E}\x{11640}\x{116AB}-\x{116B5}\x{116D0}-\x{116E3}\x{1171D}-\x{1172A}"
    r"\x{1182C}-\x{11838}\x{11930}-\x{11935}\x{11937}-\x{11938}\x{1193B}-\x{1193C}\x{11940}\x{11942}"
    r"\x{119D1}-\x{119D7}\x{119DA}-\x{119DF}\x{119E4}\x{11A01}-\x{11A0A}\x{11A35}-\x{11A39}\x{11A3B}-\x{11A3E}"
    r"\x{11A51}-\x{11A5B}\x{11A8A}-\x{11A97}\x{11B60}-\x{11B67}\x{11BC0}-\x{11BE0}\x{11BF0}-\x{11BF9}"
    r"\x{11C2F}-\x{11C36}\x{11C38}-\x{11C3E}\x{11C92}-\x{11CA7}\x{11CA9}-\x{11CB6}\x{11D31}-\x{11D36}\x{11D3A}"
    r"\x{11D3C}-\x{11D3D}\x{11D3F}-\x{11D41}\x{11D43}\x{11D47}\x{11D8A}-\x{11D8E}\x{11D90}-\x{11D91}"
    r"\x{11D93}-\x{11D96}\x{11DB0}-\x{11DDB}\x{11DE0}-\x{11DE9}\x{11EF3}-\x{11EF6}\x{11F00}-\x{11F01}\x{11F03}"
    r"\x{11F34}-\x{11F3A}\x{11F3E}-\x{11F40}\x{13460}-\x{143FA}\x{16100}-\x{1612E}\x{16130}-\x{16139}"
    r"\x{16D40}-\x{16D6C}\x{16D70}-\x{16D79}\x{16EA0}-\x{16EB8}\x{16EBB}-\x{16ED3}\x{16F4F}\x{16F51}-\x{16F87}"
    r"\x{16F8F}-\x{16F92}\x{16FF0}-\x{16FF6}\x{187F8}-\x{187FF}\x{18CFF}\x{18D09}-\x{18D1E}\x{18D80}-\x{18DF2}"
    r"\x{1BC9E}\x{1CCF0}-\x{1CCF9}\x{1E000}-\x{1E006}\x{1E008}-\x{1E018}\x{1E01B}-\x{1E021}\x{1E023}-\x{1E024}"
    r"\x{1E026}-\x{1E02A}\x{1E08F}\x{1E5D0}-\x{1E5ED}\x{1E5F0}-\x{1E5FA}\x{1E6C0}-\x{1E6DE}\x{1E6E0}-\x{1E6F5}"
    r"\x{1E6FE}-\x{1E6FF}\x{1E947}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}\x{2B73A}-\x{2B73F}"
    r"\x{2CEA2}-\x{2CEAD}\x{323B0}-\x{33479}"
)
"""Characters with the property Alphabetic that are neither letters nor numbers, as in Lance (a test compares all)."""

_BETWEEN_WORDS: Final = rf"[^\pL\pN{_OTHER_ALPHABETIC}]+"
_BETWEEN_ASCII_WORDS: Final = "[^A-Za-z0-9]+"
_ASCII_WORD: Final = re.compile("[a-z0-9]+")
_LENGTH_MAX: Final = 2**31 - 1
"""Longer than any text. Without a maximum, Lance would not use a BTREE of the same column that was built later."""
_WORDS_PER_CALL: Final = 50_000
_CAPITAL_DOTTED_I: Final = "\u0130"
_SMALL_DOTTED_I: Final = "i\u0307"  # the full mapping of Unicode; Arrow's mapping drops the dot


@dataclass(frozen=True, slots=True)
class WordRules:
    """The rules by which text becomes words. Texts that are split by equal rules can be compared."""

    options: TextOptions = PLAIN_TEXT

    @property
    def index_settings(self) -> dict[str, object]:
        """The settings of a text index of Lance with the same words."""
        language = {} if self.options.stem is None else {"language": self.options.stem.capitalize()}
        return language | {
            "base_tokenizer": "simple",
            "lower_case": True,
            "stem": self.options.stem is not None,
            "remove_stop_words": False,
            "ascii_folding": self.options.ascii_folding,
            "max_token_length": _LENGTH_MAX,
        }

    def split_texts(self, texts: Texts) -> tuple[Positions, Texts]:
        """Return the position of the text of each word, and the words in all texts in order; null has no words."""
        text_of_word, words, is_ascii = _split(texts)
        if is_ascii:
            words = pc.ascii_lower(words)
        if self.options == PLAIN_TEXT:
            return text_of_word, words if is_ascii else _lower(words)
        # A text repeats its words, and a word keeps its case until here: Lance would split some in lower case again.
        encoded: Any = words.dictionary_encode()
        return text_of_word, self._normalize(encoded.dictionary).take(encoded.indices)

    def split_query(self, text: str) -> Texts:
        """Return the words in a query, in order, with repetitions."""
        if text.isascii() and self.options == PLAIN_TEXT:
            return pa.array(_ASCII_WORD.findall(text.lower()), pa.utf8())
        return self.split_texts(pa.array([text], pa.utf8()))[1]

    def spellings(self, text: str) -> dict[str, str]:
        """Return the words in a query, each with a spelling in the text that an index of Lance makes the same word."""
        _, spelled, _ = _split(pa.array([text], pa.utf8()))
        words: list[Any] = self.split_query(text).to_pylist()
        return dict(zip(words, spelled.to_pylist(), strict=True))

    def _normalize(self, words: Texts) -> Texts:
        """Return each word in lower case, without the accents and the ending that the options remove."""
        # Imported late: most columns have no options, and the import takes time.
        import lance

        tokenize: Any = lance.tokenize
        normalized: list[str] = []
        for start in range(0, len(words), _WORDS_PER_CALL):
            part: list[Any] = words.slice(start, _WORDS_PER_CALL).to_pylist()
            tokens = [token.text for token in tokenize(" ".join(part), **self.index_settings)]
            assert len(tokens) == len(part), "Lance returns one token for each word"
            normalized += tokens
        return pa.array(normalized, pa.utf8())


def _split(texts: Texts) -> tuple[Positions, Any, bool]:
    """Return the position of the text of each word, the words in their own case, and whether all texts are ASCII."""
    texts = texts.fill_null("") if texts.null_count else texts
    is_ascii: Any = pc.all(pc.string_is_ascii(texts))
    # To compile the pattern for all alphabets takes longer than to split a few texts.
    lists: Any = pc.split_pattern_regex(texts, _BETWEEN_ASCII_WORDS if is_ascii.as_py() else _BETWEEN_WORDS)
    words: Any = pc.list_flatten(lists)
    parents: Any = pc.list_parent_indices(lists)
    is_word: Any = pc.not_equal(words, "")
    text_of_word = parents.filter(is_word).to_numpy(zero_copy_only=False).astype(np.int32)
    return text_of_word, words.filter(is_word), bool(is_ascii.as_py())


def _lower(words: Texts) -> Texts:
    lowered: Texts = pc.utf8_lower(pc.replace_substring(words, _CAPITAL_DOTTED_I, _SMALL_DOTTED_I))
    return lowered


def fuzzy_words(text: str, options: TextOptions) -> str | None:
    """Return the words in a fuzzy query for an index of Lance; None if the index would split them differently.

    Lance splits the text of such a query but neither lowers the case of its words nor removes accents and endings.
    """
    words: Any = WordRules(options).split_query(text)
    joined = " ".join(words.to_pylist())
    return joined if PLAIN_WORDS.split_query(joined).equals(words) else None


PLAIN_WORDS: Final = WordRules()
"""The rules of a property without options."""


@dataclass(frozen=True, slots=True)
class WordCounts:
    """How often some words occur in texts: the number of words of each text, and the occurrences of each word.

    `occurrences` has for each word the positions of the texts that contain it, ascending, and how often each does.
    """

    lengths: Counts
    occurrences: tuple[tuple[Positions, Counts], ...]


def count_words(texts: Texts, words: Texts, rules: WordRules = PLAIN_WORDS) -> WordCounts:
    """Count some distinct words in texts."""
    parents, text_words = rules.split_texts(texts)
    codes: Any = pc.index_in(text_words, value_set=words).fill_null(-1)
    numbers = codes.to_numpy(zero_copy_only=False)
    occurrences = tuple(group_texts(parents[numbers == word]) for word in range(len(words)))
    return WordCounts(np.bincount(parents, minlength=len(texts)), occurrences)


def group_texts(texts: Positions) -> tuple[Positions, Counts]:
    """Return the distinct numbers of a sorted array, and how often each occurs."""
    first = np.flatnonzero(np.append(True, texts[1:] != texts[:-1]))[: len(texts)]
    return texts[first], np.diff(first, append=len(texts))
