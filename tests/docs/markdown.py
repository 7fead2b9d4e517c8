"""List the documents, and parse their links, code and fenced blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "docs/**/*.md", "src/**/*.md", "bench/**/*.md")
    for path in ROOT.glob(pattern)
)
_FENCE = re.compile(r"^```(\S*)[ \t]*(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FencedBlock:
    """A fenced block: its language, the rest of its first line, and its text."""

    language: str
    info: str
    text: str


def blocks(text: str) -> list[FencedBlock]:
    return [FencedBlock(*match.groups()) for match in _FENCE.finditer(text)]


def links(text: str) -> list[str]:
    """Return the targets of all links outside fenced blocks."""
    return _LINK.findall(_FENCE.sub("", text))


def inline_code(text: str) -> list[str]:
    """Return the text in backticks outside fenced blocks, with line breaks as spaces."""
    return [" ".join(code.split()) for code in _CODE.findall(_FENCE.sub("", text))]


def anchors(text: str) -> set[str]:
    """Return the link anchors of the headings."""
    titles = _HEADING.findall(_FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
