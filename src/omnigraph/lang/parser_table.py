"""A parser as a table of numbers and texts, and back.

Lark's own way to save a parser names every symbol wherever it stands, and making all that again takes longer than
reading a text. Here a symbol, a rule and an action are made once each and shared. Comes in and goes out: a Lark parser,
and what JSON can say. Nothing is read or written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from copy import copy
from functools import cache
from typing import Any, Final

from lark import Lark
from lark.common import LexerConf, ParserConf
from lark.grammar import NonTerminal, Rule, RuleOptions, Symbol, Terminal
from lark.lark import LarkOptions
from lark.lexer import (
    AbstractBasicLexer,
    BasicLexer,
    ContextualLexer,
    PatternRE,
    PatternStr,
    Scanner,
    TerminalDef,
    Token,
)
from lark.parser_frontends import ParsingFrontend
from lark.parsers.lalr_analysis import IntParseTable, Reduce, Shift
from lark.parsers.lalr_parser import LALR_Parser, _Parser
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


Json = Any
SymbolRow = tuple[str, bool | None]
"""The name of a symbol, and whether a terminal is left out of trees; None is a nonterminal."""


def table_of(parser: Lark) -> Json:
    """The table of a parser that was built from its grammar."""
    frontend: Any = parser.parser
    states: Any = frontend.parser._parse_table
    symbols: dict[SymbolRow, int] = {}
    rules: dict[Rule, int] = {}
    for rule in parser.rules:
        rules[rule] = len(rules)
        for symbol in (rule.origin, *rule.expansion):
            symbols.setdefault(_symbol_row(symbol), len(symbols))
    for actions in states.states.values():
        for name in actions:
            symbols.setdefault((name, None), len(symbols))
    by_name = {name: number for (name, _), number in symbols.items()}
    return {
        "options": {"propagate_positions": bool(parser.options.propagate_positions)},
        "start": [states.start_states["start"], states.end_states["start"]],
        "ignore": list(parser.ignore_tokens),
        "terminals": [_terminal_row(found) for found in parser.terminals],
        "symbols": list(symbols),
        "rules": [_rule_row(rule, symbols) for rule in rules],
        "states": [
            [
                number
                for name, (action, argument) in actions.items()
                for number in (by_name[name], -1 - rules[argument] if action is Reduce else argument)
            ]
            for _, actions in sorted(states.states.items())
        ],
    }


def parser_of(table: Json) -> Lark:
    """The parser of a table."""
    symbols = [_symbol(*row) for row in table["symbols"]]
    rules = [_rule(row, symbols) for row in table["rules"]]
    names = [symbol.name for symbol in symbols]
    shifts = [(Shift, state) for state in range(len(table["states"]))]
    reduces = [(Reduce, rule) for rule in rules]
    states = {
        state: {
            names[symbol]: shifts[action] if action >= 0 else reduces[-1 - action]
            for symbol, action in zip(row[::2], row[1::2], strict=True)
        }
        for state, row in enumerate(table["states"])
    }
    first, last = ({"start": state} for state in table["start"])
    made: Any = IntParseTable
    return _assembled(table, rules, made(states, first, last))


def _assembled(table: Json, rules: list[Rule], states: Any) -> Lark:
    """What `Lark.load` puts together, from parts that are made already."""
    found: Any = Lark.__new__(Lark)
    found.options = LarkOptions(
        {
            "parser": "lalr",
            "lexer": "contextual",
            "maybe_placeholders": False,
            "_plugins": {"ContextualLexer": LazyLexer},
            **table["options"],
        }
    )
    found.rules = rules
    found.source_path = "<table>"
    found.terminals = [_terminal(*row) for row in table["terminals"]]
    found.ignore_tokens = table["ignore"]
    found.lexer_conf = LexerConf(found.terminals, re, table["ignore"], skip_validation=True)
    found.lexer_conf.lexer_type = "contextual"
    found._prepare_callbacks()
    found._terminals_dict = found.lexer_conf.terminals_by_name
    parser: Any = LALR_Parser.__new__(LALR_Parser)
    parser._parse_table = states
    parser.parser = _Parser(states, found._callbacks)
    parser.parser_conf = ParserConf(rules, found._callbacks, ["start"])
    parser.parser_conf.parser_type = "lalr"
    found.parser = ParsingFrontend(found.lexer_conf, parser.parser_conf, found.options, parser=parser)
    return found  # type: ignore[no-any-return]


def _terminal_row(terminal: TerminalDef) -> Json:
    pattern: Any = terminal.pattern
    width = list(pattern._get_width()) if pattern.type == PatternRE.type else None
    return [terminal.name, pattern.value, sorted(pattern.flags), pattern.raw, terminal.priority, width]


def _terminal(  # noqa: PLR0913, PLR0917  # the members of its row
    name: str, value: str, flags: list[str], raw: str | None, priority: int, width: list[int] | None
) -> TerminalDef:
    if width is None:
        return TerminalDef(name, PatternStr(value, flags, raw), priority)
    pattern: Any = PatternRE(value, flags, raw)
    pattern._width = width
    return TerminalDef(name, pattern, priority)


def _symbol_row(symbol: Symbol) -> SymbolRow:
    """Lark takes two terminals for the same of which only one is left out of trees."""
    return str(symbol.name), symbol.filter_out if isinstance(symbol, Terminal) else None


def _symbol(name: str, is_left_out: bool | None) -> Symbol:
    return NonTerminal(name) if is_left_out is None else Terminal(name, is_left_out)


def _rule_row(rule: Rule, symbols: dict[SymbolRow, int]) -> Json:
    options = rule.options
    return [
        [symbols[_symbol_row(symbol)] for symbol in (rule.origin, *rule.expansion)],
        rule.order,
        rule.alias,
        [options.keep_all_tokens, options.expand1, options.priority, list(options.empty_indices)],
    ]


def _rule(row: Json, symbols: list[Symbol]) -> Rule:
    (origin, *expansion), order, alias, (keeps_all, expands, priority, empty) = row
    options = RuleOptions(keeps_all, expands, priority, None, tuple(empty))
    left: Any = symbols[origin]
    return Rule(left, [symbols[number] for number in expansion], order, alias, options)
