"""Pairs of schemas of which the second can be reached from the first, and what a catalog says whatever its ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from hypothesis import strategies as st

from omnigraph.base.ids import PropertyId
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType

_TYPES: Final = ("I64", "String", "F64", "Date")
_DEFAULTS: Final = ("7", '"x"', "0.5", '"2024-05-31"')
_ENDS: Final = ((0, 0), (0, 1))
_flag: Final = st.booleans()


@dataclass(frozen=True, slots=True)
class SchemaPair:
    """Two texts; the second says what it renames."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class _PropertySlot:
    """A property on both sides, the first and the second."""

    there: tuple[bool, bool]
    variant: tuple[bool, bool]
    nullable: tuple[bool, bool]
    indexed: tuple[bool, bool]
    unique: tuple[bool, bool]
    default: tuple[bool, bool]
    described: tuple[bool, bool]
    high: tuple[int, int]

    def name(self, slot: int, side: int) -> str:
        return f"p{slot}{'ab'[self.variant[side]]}"

    def lines(self, slot: int, side: int, *, renamed: bool, ranged: bool) -> list[str]:
        name = self.name(slot, side)
        words = [f"{name}: {_TYPES[slot]}{'?' if self.nullable[side] else ''}"]
        words += ["@index"] if self.indexed[side] else []
        words += ["@unique"] if self.unique[side] else []
        words += [f"@default({_DEFAULTS[slot]})"] if self.default[side] else []
        words += ['@description("d")'] if self.described[side] else []
        if renamed and self.name(slot, 0) != name:
            words.append(f"@rename_from({self.name(slot, 0)})")
        with_range = ranged and slot == 0 and self.high[side]
        return [" ".join(words), *([f"@range({name}, 0..{10 * self.high[side]})"] if with_range else [])]


@dataclass(frozen=True, slots=True)
class _TypeSlot:
    """A type on both sides, the first and the second."""

    there: tuple[bool, bool]
    variant: tuple[bool, bool]
    described: tuple[bool, bool]
    card: tuple[int, int]
    properties: tuple[_PropertySlot, ...]

    def name(self, prefix: str, slot: int, side: int) -> str:
        return f"{prefix}{slot}{'AB'[self.variant[side]]}"

    def header(self, prefix: str, slot: int, side: int, *, was_there: bool) -> str:
        words = ['@description("d")'] if self.described[side] else []
        if was_there and side == 1 and self.name(prefix, slot, 0) != self.name(prefix, slot, 1):
            words.append(f"@rename_from({self.name(prefix, slot, 0)})")
        return " ".join(words)

    def body(self, side: int, *, was_there: bool, ranged: bool) -> str:
        lines = [
            line
            for slot, own in enumerate(self.properties)
            if own.there[side]
            for line in own.lines(slot, side, renamed=was_there and side == 1 and own.there[0], ranged=ranged)
        ]
        return "{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def _both(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(values, values)


_properties: Final = st.builds(_PropertySlot, *[_both(_flag)] * 7, _both(st.integers(0, 3)))
_types: Final = st.builds(
    _TypeSlot,
    *[_both(_flag)] * 3,
    _both(st.integers(1, 3)),
    st.lists(_properties, min_size=4, max_size=4).map(tuple),
)
schema_pairs: Final = st.tuples(
    st.lists(_types, min_size=2, max_size=2), st.lists(_types, min_size=2, max_size=2)
).map(lambda drawn: SchemaPair(*(_text(*drawn, side) for side in (0, 1))))


def _text(nodes: list[_TypeSlot], edges: list[_TypeSlot], side: int) -> str:
    lines = []
    for slot, node in enumerate(nodes):
        if node.there[side]:
            header = node.header("N", slot, side, was_there=node.there[0])
            body = node.body(side, was_there=node.there[0], ranged=True)
            lines.append(f"node {node.name('N', slot, side)} {header} {body}")
    for slot, (edge, ends) in enumerate(zip(edges, _ENDS, strict=True)):
        source, target = (nodes[end] for end in ends)
        if not (edge.there[side] and source.there[side] and target.there[side]):
            continue
        was_there = edge.there[0] and source.there[0] and target.there[0]
        names = [node.name("N", end, side) for node, end in zip((source, target), ends, strict=True)]
        header = f"@card(0..{edge.card[side]}) {edge.header('E', slot, side, was_there=was_there)}"
        body = edge.body(side, was_there=was_there, ranged=False)
        lines.append(f"edge {edge.name('E', slot, side)}: {names[0]} -> {names[1]} {header} {body}")
    return "".join(lines)


def without_ids(catalog: Catalog) -> dict[str, Any]:
    """What a catalog says, whatever its ids, its order, its defaults of old, and what its text once renamed."""
    return {found.alias: _without_ids(catalog, found) for found in catalog.types}


def _without_ids(catalog: Catalog, found: NodeType | EdgeType) -> dict[str, Any]:
    ends: Any = set(found.implements) if isinstance(found, NodeType) else ()
    if isinstance(found, EdgeType):
        ends = (catalog.source_of(found).name, catalog.target_of(found).name, found.cardinality)
    return {
        "ends": ends,
        "properties": {
            own.name: replace(own, id=PropertyId(0), renamed_from=None, filled=None, null_fills=())
            for own in found.properties
        },
        "key": found.key,
        "uniques": {frozenset(columns) for columns in found.rules.uniques},
        "ranges": set(found.rules.ranges),
        "checks": set(found.rules.checks),
        "notes": (found.description, found.metadata),
    }
