"""Plain English: phrases that no message, help text, docstring or page contains, each with what to write instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.style.source import ROOT, SourceFile

REPLACEMENTS: Final[Mapping[str, str]] = {
    r"told": "reported",
    r"mend(?:s|ed|ing)?": "fix",
    r"mistakes?(?: of grammar)?": "error; syntax error",
    r"anew": "again",
    r"beside": "next to; alongside",
    r"(?<!there )(?:is|are) no(?! longer| more)": "is not a valid …",
    r"the words of": "the arguments of",
    r"unless given": "default: …",
    r"foreign": "external",
    r"whoever": "the caller; the process that",
    r"nobody|somebody": "no process; another writer",
    r"meanwhile": "while … runs",
    r"so many": "at most N",
    r"under way": "in progress",
    r"half-way": "partially",
    r"in one go": "in one pass",
    r"for good": "permanently",
    r"put right": "restore; repair",
    r"rooms?": "package",
    r"edge of the process": "entry point",
    r"be had": "be available",
    r"settle[sd]?": "recover; resolve",
    r"packed": "compressed",
    r"as it stands": "unchanged",
    r"bent to fit": "coerced",
    r"without a word": "silently",
    r"insist(?:s|ed)? on": "require",
    r"upkeep": "maintenance",
    r"strays?|twins?": "unexpected; duplicate",
    r"doomed": "deletable",
    r"loose": "multi-commit",
}
_AVOIDED: Final = re.compile(rf"\b(?:{'|'.join(REPLACEMENTS)})\b", re.IGNORECASE)
_CODE: Final = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
_WITH_EXAMPLES: Final = Path(__file__).parent.relative_to(ROOT)


def strings_are_plain_english(source: SourceFile) -> Iterator[str]:
    if source.path.parent == _WITH_EXAMPLES:
        return
    for node in source.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from avoided_in(node.value, node.lineno)


def avoided_in(text: str, first_line: int = 1) -> Iterator[str]:
    prose = _CODE.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in _AVOIDED.finditer(prose):
        line = first_line + prose.count("\n", 0, match.start())
        instead = next(new for old, new in REPLACEMENTS.items() if re.fullmatch(old, match[0], re.IGNORECASE))
        yield f"line {line}: '{match[0]}', write: {instead}"
