"""A Lark parser as a table of numbers and strings, and back.

In and out: a Lark parser, and values for JSON. Lark's own format repeats every symbol at each use, and creating all of
them again takes longer than parsing a text. Here symbols, rules and actions are created once and shared, and the lexers
of states when the parser reaches them. Reads and writes no files.
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
"""From a text, a start and an end: the part that a terminal matches at the start, or None."""

_KEYWORD: Final = re.compile(r"([A-Za-z_]+)\\b")


class LazyLexer(ContextualLexer):
    """A lexer that creates the lexer of a state when the parser reaches it."""

    def __init__(self, conf: Any, states: Mapping[int, Collection[str]], always_accept: Collection[str] = ()) -> None:
        plain = copy(conf)
        # The grammar was validated when its table was made.
        plain.skip_validation = True
        self.lexers = _Lexers(plain, states, always_accept)
        self.root_lexer = _SharingLexer(plain)


class _Lexers(dict[int, AbstractBasicLexer]):
    """The lexers by state; states that accept the same terminals share one."""

    def __init__(self, conf: Any, states: Mapping[int, Collection[str]], always_accept: Collection[str]) -> None:
        super().__init__()
        self._conf = conf
        self._states = states
        self._always = {*conf.ignore, *always_accept}
        self._by_accepted: dict[frozenset[str], AbstractBasicLexer] = {}

    def __missing__(self, state: int) -> AbstractBasicLexer:
        accepted = frozenset(self._states[state])
        lexer = self._by_accepted.get(accepted)
        if lexer is None:
            conf, terminals = copy(self._conf), self._conf.terminals_by_name
            conf.terminals = [terminals[name] for name in accepted | self._always if name in terminals]
            lexer = self._by_accepted[accepted] = _SharingLexer(conf)
        self[state] = lexer
        return lexer


class _SharingLexer(BasicLexer):
    """The lexer of some states; its scanner shares compiled patterns with the other lexers."""

    def _build_scanner(self) -> Scanner:
        strings = [terminal for terminal in self.terminals if isinstance(terminal.pattern, PatternStr)]
        covered: set[str] = set()
        self.callback = dict(self.user_callbacks)
        for terminal in self.terminals:
            if isinstance(terminal.pattern, PatternStr):
                continue
            match = _matcher(terminal)
            covered_names = {
                string.pattern.value: string.name
                for string in strings
                if string.priority == terminal.priority
                and match(string.pattern.value, 0, len(string.pattern.value)) == string.pattern.value
            }
            if covered_names:
                # The pattern also matches a fixed string, so a token of the pattern may get the string's name.
                covered.update(covered_names.values())
                self.callback[terminal.name] = _RenameToken(covered_names)
        return _SequentialScanner([terminal for terminal in self.terminals if terminal.name not in covered])


class _SequentialScanner(Scanner):
    """A scanner that tries terminals one after another."""

    def __init__(self, terminals: Collection[TerminalDef]) -> None:
        self.allowed_types = {terminal.name for terminal in terminals}
        self._matchers = tuple((terminal.name, _matcher(terminal)) for terminal in terminals)

    def match(self, text: TextSlice[str], pos: int) -> tuple[str, str] | None:
        whole, end = text.text, text.end
        for name, match in self._matchers:
            matched = match(whole, pos, end)
            if matched is not None:
                return matched, name
        return None


class _RenameToken:
    """A callback that gives a token the name of the fixed string that it equals."""

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
def _text(text: str) -> Match:
    return lambda whole, pos, end: text if whole.startswith(text, pos, end) else None


@cache
def _pattern(regexp: str) -> Match:
    word = _KEYWORD.fullmatch(regexp)
    if word is not None:
        return _keyword(word[1])
    compiled = re.compile(regexp)

    def match(whole: str, pos: int, end: int) -> str | None:
        matched = compiled.match(whole, pos, end)
        return None if matched is None else matched.group()

    return match


def _keyword(word: str) -> Match:
    """Return a function that matches the word if no letter, digit or `_` follows."""

    def match(whole: str, pos: int, end: int) -> str | None:
        if not whole.startswith(word, pos, end):
            return None
        after = pos + len(word)
        return word if after >= end or not (whole[after].isalnum() or whole[after] == "_") else None

    return match


Json = Any
SymbolRow = tuple[str, bool | None]
"""The name of a symbol, and whether trees omit the terminal; None is a nonterminal."""


def make_table(parser: Lark) -> Json:
    """Return the table of a parser that was built from its grammar."""
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
        "terminals": [_terminal_row(terminal) for terminal in parser.terminals],
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


def load_table(table: Json) -> Lark:
    """Return the parser of a table."""
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
    table_class: Any = IntParseTable
    return _make_parser(table, rules, table_class(states, first, last))


def _make_parser(table: Json, rules: list[Rule], states: Any) -> Lark:
    """Do what `Lark.load` does, with parts that already exist."""
    lark: Any = Lark.__new__(Lark)
    lark.options = LarkOptions(
        {
            "parser": "lalr",
            "lexer": "contextual",
            "maybe_placeholders": False,
            "_plugins": {"ContextualLexer": LazyLexer},
            **table["options"],
        }
    )
    lark.rules = rules
    lark.source_path = "<table>"
    lark.terminals = [_terminal(*row) for row in table["terminals"]]
    lark.ignore_tokens = table["ignore"]
    lark.lexer_conf = LexerConf(lark.terminals, re, table["ignore"], skip_validation=True)
    lark.lexer_conf.lexer_type = "contextual"
    lark._prepare_callbacks()
    lark._terminals_dict = lark.lexer_conf.terminals_by_name
    parser: Any = LALR_Parser.__new__(LALR_Parser)
    parser._parse_table = states
    parser.parser = _Parser(states, lark._callbacks)
    parser.parser_conf = ParserConf(rules, lark._callbacks, ["start"])
    parser.parser_conf.parser_type = "lalr"
    lark.parser = ParsingFrontend(lark.lexer_conf, parser.parser_conf, lark.options, parser=parser)
    return lark  # type: ignore[no-any-return]


def _terminal_row(terminal: TerminalDef) -> Json:
    pattern: Any = terminal.pattern
    width = list(pattern._get_width()) if pattern.type == PatternRE.type else None
    return [terminal.name, pattern.value, sorted(pattern.flags), pattern.raw, terminal.priority, width]


def _terminal(  # noqa: PLR0913, PLR0917  # the columns of a row of the table
    name: str, value: str, flags: list[str], raw: str | None, priority: int, width: list[int] | None
) -> TerminalDef:
    if width is None:
        return TerminalDef(name, PatternStr(value, flags, raw), priority)
    pattern: Any = PatternRE(value, flags, raw)
    pattern._width = width
    return TerminalDef(name, pattern, priority)


def _symbol_row(symbol: Symbol) -> SymbolRow:
    """Return name and filter flag: Lark's own equality ignores the flag."""
    return str(symbol.name), symbol.filter_out if isinstance(symbol, Terminal) else None


def _symbol(name: str, is_omitted: bool | None) -> Symbol:
    return NonTerminal(name) if is_omitted is None else Terminal(name, is_omitted)


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
