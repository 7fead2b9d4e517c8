"""Turns the parser's complaint into a problem a person can act on.

Comes in: an error of the parser and the text. Goes out: one Q000 that names the query it is in, what was found, what
would have been possible, and, where the mistake is a usual one, what to do. Never raises.
"""

from __future__ import annotations

import re
from typing import Final

from lark import UnexpectedInput

from omnigraph.query.codes import QueryCode
from omnigraph.query.problems import QueryProblems
from omnigraph.schema.unexpected import either, expected_terminals, found_text, position_of, span_of

_WORDS: Final = {
    "$END": "the end of the text",
    "ANNOTATION": "an annotation",
    "COLON": "`:`",
    "COMMA": "`,`",
    "COMPARISON": "a comparison",
    "CONTAINS": "`contains`",
    "DIRECTION": "`asc` or `desc`",
    "DISTINCT": "`distinct`",
    "DOT": "`.`",
    "EQUAL": "`=`",
    "IN": "`in`",
    "LBRACE": "`{`",
    "LPAR": "`(`",
    "LSQB": "`[`",
    "MINUS": "`-`",
    "NAME": "a name",
    "NOT": "`not`",
    "NUMBER": "a number",
    "OPTIONAL": "`optional`",
    "PLUS": "`+`",
    "QMARK": "`?`",
    "RBRACE": "`}`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "SLASH": "`/`",
    "STAR": "`*`",
    "STARTS_WITH": "`starts_with`",
    "STRING": "a string",
    "UNDIRECTED": "`<edge>`",
    "VARIABLE": "a variable",
    "WORD": "a word",
}
_EXPECTED_MAX: Final = 8
_HEADER: Final = re.compile(r"^[ \t]*query[ \t]+([A-Za-z_][A-Za-z0-9_]{0,127})", re.MULTILINE)
_TOKEN: Final = re.compile(r"\$?[A-Za-z0-9_]+|\S")
_HINTS: Final = {
    "==": "equality is written `=`",
    "<>": "inequality is written `!=`",
    "&&": "write `and`",
    "||": "write `or`",
    "->": "write `$a edge $b`; the order of the variables is the direction",
    "/*": "this comment has no `*/`",
}
_WORD_HINTS: Final = {
    "where": "conditions of a `match` stand beside the other clauses, without `where`",
    "like": "write `contains` or `starts_with`",
    "select": "write `return { … }`",
    "not": "write `not ($x.p in [ … ])`",
}
_BODY_WORDS: Final = frozenset({"match", "return", "insert", "update", "delete"})


def report_syntax_error(error: UnexpectedInput, text: str, problems: QueryProblems) -> int:
    """Add the problem and return the offset in the text where it is."""
    position = position_of(error, text)
    token = _TOKEN.match(text, position)
    message = f"{query_at(position, text)}unexpected {found_text(token)}"
    problems.report(QueryCode.SYNTAX, span_of(token, position, text), message, _hint(error, position, text))
    return position


def query_at(position: int, text: str) -> str:
    """The query that the place belongs to, as a prefix of the sentence."""
    last: re.Match[str] | None = None
    for header in _HEADER.finditer(text, 0, position):
        last = header
    return f"query {last.group(1)}: " if last else ""


def _hint(error: UnexpectedInput, position: int, text: str) -> str:
    rest = text[position : position + 2]
    before = text[max(0, position - 1) : position + 1]
    expected = sorted({_word(name) for name in expected_terminals(error)})
    if rest.startswith('"') and _string_has_no_end(position, text):
        return 'a string ends with `"` on the line where it starts'
    if rest[:1] in {"'", "‘", "“"}:
        return 'strings stand in double quotes: "…"'
    for pair in (rest, before):
        if pair in _HINTS:
            return _HINTS[pair]
    if rest[:1] == ";":
        return "clauses are separated by space only"
    if rest[:1].isalpha() and not rest[:1].isascii():
        return "names have the letters A to Z and a to z, digits and `_`"
    word = _TOKEN.match(text, position)
    if word and word.group().lower() in _BODY_WORDS and "`query`" in expected:
        return "a query has a name: write `query name() { … }` around it"
    if word and word.group().lower() in _WORD_HINTS:
        return _WORD_HINTS[word.group().lower()]
    if "a variable" in expected and _follows_bare_variable(position, text):
        return "this reads as a traversal; a filter that begins with a parameter stands in parentheses"
    return f"expected {_either(expected)}" if expected else ""


def _string_has_no_end(position: int, text: str) -> bool:
    line_end = text.find("\n", position)
    line = text[position + 1 : line_end if line_end >= 0 else len(text)]
    return '"' not in line.replace('\\"', "")


def _follows_bare_variable(position: int, text: str) -> bool:
    line_start = text.rfind("\n", 0, position) + 1
    return re.search(r"\$\w+\s+(?:contains|starts_with|in)\s*$", text[line_start:position]) is not None


def _word(name: str) -> str:
    """Keywords are terminals that begin with `_` and are named like the word."""
    return f"`{name[1:].lower()}`" if name.startswith("_") else _WORDS.get(name, name)


def _either(words: list[str]) -> str:
    if len(words) > _EXPECTED_MAX:
        return "another expression, an operator or the end of this one"
    return either(words)
