"""How parsers find the next token, without making ready what a text never needs.

Lark joins the patterns that a state of the parser accepts into one, for every state that it comes to, and a short text
comes to many: making these patterns ready takes most of the time in which the first text of a process is read. Here
every terminal has a pattern of its own, which all states share, and they are tried in Lark's order, so that the tokens
are the same. Everything else is Lark's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from copy import copy
from functools import cache
from typing import Any, Final

from lark.lexer import (
    AbstractBasicLexer,
    BasicLexer,
    ContextualLexer,
    PatternStr,
    Scanner,
    TerminalDef,
    Token,
)
from lark.utils import TextSlice

Match = Callable[[str, int, int], str | None]
"""What of a text between two places a terminal matches at the first of them."""

_KEYWORD: Final = re.compile(r"([A-Za-z_]+)\\b")


class LazyLexer(ContextualLexer):
    """A lexer that makes the lexer of a state when the parser comes to it."""

    def __init__(
        self, conf: Any, states: Mapping[int, Collection[str]], always_accept: Collection[str] = ()
    ) -> None:
        plain = copy(conf)
        # The grammar was checked when its table was made.
        plain.skip_validation = True
        self.lexers = _Lexers(plain, states, always_accept)
        self.root_lexer = _SharingLexer(plain)


class _Lexers(dict[int, AbstractBasicLexer]):
    """The lexers by state; states that accept the same share one."""

    def __init__(
        self, conf: Any, states: Mapping[int, Collection[str]], always_accept: Collection[str]
    ) -> None:
        super().__init__()
        self._conf = conf
        self._states = states
        self._always = {*conf.ignore, *always_accept}
        self._by_accepted: dict[frozenset[str], AbstractBasicLexer] = {}

    def __missing__(self, state: int) -> AbstractBasicLexer:
        accepted = frozenset(self._states[state])
        found = self._by_accepted.get(accepted)
        if found is None:
            conf, named = copy(self._conf), self._conf.terminals_by_name
            conf.terminals = [named[name] for name in accepted | self._always if name in named]
            found = self._by_accepted[accepted] = _SharingLexer(conf)
        self[state] = found
        return found


class _SharingLexer(BasicLexer):
    """The lexer of some states, whose scanner shares the patterns of its terminals with the others."""

    def _build_scanner(self) -> Scanner:
        texts = [found for found in self.terminals if isinstance(found.pattern, PatternStr)]
        inside: set[str] = set()
        self.callback = dict(self.user_callbacks)
        for found in self.terminals:
            if isinstance(found.pattern, PatternStr):
                continue
            match = _matcher(found)
            same = {
                text.pattern.value: text.name
                for text in texts
                if text.priority == found.priority
                and match(text.pattern.value, 0, len(text.pattern.value)) == text.pattern.value
            }
            if same:
                # A fixed text within a pattern: the pattern finds it, and it is named as the text.
                inside.update(same.values())
                self.callback[found.name] = _Renaming(same)
        return _OneByOne([found for found in self.terminals if found.name not in inside])


class _OneByOne(Scanner):
    """Terminals that are tried one after another."""

    def __init__(self, terminals: Collection[TerminalDef]) -> None:
        self.allowed_types = {found.name for found in terminals}
        self._tried = tuple((found.name, _matcher(found)) for found in terminals)

    def match(self, text: TextSlice[str], pos: int) -> tuple[str, str] | None:
        whole, end = text.text, text.end
        for name, match in self._tried:
            found = match(whole, pos, end)
            if found is not None:
                return found, name
        return None


class _Renaming:
    """Names a token after the fixed text that it is."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def __call__(self, token: Token) -> Token:
        token.type = self._names.get(token.value, token.type)
        return token


def _matcher(terminal: TerminalDef) -> Match:
    if isinstance(terminal.pattern, PatternStr) and not terminal.pattern.flags:
        return _text(terminal.pattern.value)
    return _pattern(terminal.pattern.to_regexp())


@cache
def _text(wanted: str) -> Match:
    return lambda whole, pos, end: wanted if whole.startswith(wanted, pos, end) else None


@cache
def _pattern(regexp: str) -> Match:
    word = _KEYWORD.fullmatch(regexp)
    if word is not None:
        return _keyword(word[1])
    match = re.compile(regexp).match

    def found(whole: str, pos: int, end: int) -> str | None:
        at = match(whole, pos, end)
        return None if at is None else at.group()

    return found


def _keyword(word: str) -> Match:
    """The word where no letter, digit or `_` follows."""

    def found(whole: str, pos: int, end: int) -> str | None:
        if not whole.startswith(word, pos, end):
            return None
        after = pos + len(word)
        return word if after >= end or not (whole[after].isalnum() or whole[after] == "_") else None

    return found
