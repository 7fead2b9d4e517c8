"""Renders a syntax tree as text: one node per line, with its fields and its position."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from omnigraph.lang.syntax import Span, SyntaxNode
from omnigraph.query.syntax import QueryFile


def tree_text(file: QueryFile) -> str:
    return "".join(f"{line}\n" for query in file.queries for line in _lines(query, 0, ""))


def _lines(value: object, depth: int, label: str) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(value, tuple):
        if not value:
            yield f"{indent}{label}()"
        for item in value:
            yield from _lines(item, depth, label)
        return
    if not isinstance(value, SyntaxNode):
        yield f"{indent}{label}{_plain(value)}"
        return
    simple: list[tuple[str, object]] = []
    deep: list[tuple[str, object]] = []
    for name in value.__struct_fields__:
        member = getattr(value, name)
        if isinstance(member, Span):
            continue
        (deep if isinstance(member, tuple | SyntaxNode) else simple).append((name, member))
    span = getattr(value, "span", None)
    position = f" @{span.line}:{span.column}" if isinstance(span, Span) else ""
    shown = "".join(f" {name}={_plain(member)}" for name, member in simple)
    yield f"{indent}{label}{type(value).__name__}{shown}{position}"
    for name, member in deep:
        yield from _lines(member, depth + 1, f"{name}: ")


def _plain(value: object) -> str:
    return str(value.value) if isinstance(value, Enum) else repr(value)
