"""Parsers from grammars, without building them at every start.

Comes in: a grammar file of this package. Goes out: its parser. Beside each grammar stands its table, generated from it
and packaged with it, which loads in a tenth of the time that building takes. A table counts only for the very grammar
and the very version of lark that made it; otherwise the parser is built from the grammar, so that an old table
costs time and never changes what a text means. Writes nothing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lark import Lark

_FORMAT: Final = 2


@dataclass(frozen=True, slots=True)
class Grammar:
    """Where a grammar is: `name.lark` in a package, and its table `name.table.json` beside it."""

    package: str
    name: str
    has_positions: bool

    @property
    def text(self) -> str:
        return self._beside(f"{self.name}.lark").read_text("utf-8")

    @property
    def table(self) -> str:
        return self._beside(f"{self.name}.table.json").read_text("utf-8")

    def _beside(self, name: str) -> Path:
        # Not importlib.resources, whose import alone takes longer than reading the table.
        place = import_module(self.package).__file__
        assert place is not None, "a package is a directory"
        return Path(place).parent / name


def load_parser(grammar: Grammar) -> Lark:
    """The parser, from its table where that fits."""
    table = json.loads(grammar.table)
    if table.get("made_from") != _made_from(grammar.text):
        return build_parser(grammar)

    from omnigraph.schema.grammar_table import parser_of

    return parser_of(table)


def build_parser(grammar: Grammar) -> Lark:
    """The parser, from the grammar."""
    from lark import Lark

    return Lark(
        grammar.text,
        parser="lalr",
        lexer="contextual",
        maybe_placeholders=False,
        propagate_positions=grammar.has_positions,
    )


def table_text(grammar: Grammar) -> str:
    """What the table of a grammar should say: one line for each state, each rule and each terminal."""
    from omnigraph.schema.grammar_table import table_of

    table = {"made_from": _made_from(grammar.text), **table_of(build_parser(grammar))}
    text = json.dumps(table, separators=(",", ":"))
    return text.replace("],[", "],\n[") + "\n"


def _made_from(text: str) -> dict[str, str | int]:
    import lark

    return {
        "format": _FORMAT,
        "lark": lark.__version__,
        "grammar": hashlib.sha256(text.encode()).hexdigest(),
    }
