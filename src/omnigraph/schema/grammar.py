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
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lark import Lark

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Grammar:
    """Where a grammar is: `name.lark` in a package, and its table `name.table.json` beside it."""

    package: str
    name: str
    has_positions: bool

    @property
    def text(self) -> str:
        return files(self.package).joinpath(f"{self.name}.lark").read_text("utf-8")

    @property
    def table(self) -> str:
        return files(self.package).joinpath(f"{self.name}.table.json").read_text("utf-8")


def load_parser(grammar: Grammar) -> Lark:
    """The parser, from its table where that fits."""
    from lark import Lark

    text = grammar.text
    table = json.loads(grammar.table)
    if table["made_from"] != _made_from(text):
        return build_parser(grammar)
    data = table["data"]
    data["parser"]["parser"] = _with_numbers(data["parser"]["parser"])
    parser: Lark = Lark.load({"data": data, "memo": _numbered(table["memo"])})
    return parser


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
    """What the table of a grammar should say: one line for each state and each member of the memo."""
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    data, memo = build_parser(grammar).memo_serialize([TerminalDef, Rule])
    table = {"made_from": _made_from(grammar.text), "data": data, "memo": memo}
    text = json.dumps(table, separators=(",", ":"), sort_keys=True)
    return text.replace("},", "},\n") + "\n"


def _made_from(text: str) -> dict[str, str | int]:
    import lark

    return {
        "format": _FORMAT,
        "lark": lark.__version__,
        "grammar": hashlib.sha256(text.encode()).hexdigest(),
    }


def _with_numbers(table: dict[str, Any]) -> dict[str, Any]:
    """JSON has no keys but texts; states and tokens are numbers."""
    states = {int(state): _numbered(actions) for state, actions in table["states"].items()}
    return table | {"states": states, "tokens": _numbered(table["tokens"])}


def _numbered(members: dict[str, Any]) -> dict[int, Any]:
    return {int(number): member for number, member in members.items()}
