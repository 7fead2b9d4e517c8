"""Pairs of schemas where the first can be changed into the second, and the meaning of a catalog without its ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st
from msgspec.structs import replace

from omnigraph.base.ids import PropertyId
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType

_TYPES: Final = ("I64", "String", "F64", "Date")
_DEFAULTS: Final = ("7", '"x"', "0.5", '"2024-05-31"')
_ENDS: Final = ((0, 0), (0, 1))
_flag: Final = st.booleans()


@dataclass(frozen=True, slots=True)
class SchemaPair:
    """Two texts; the second has `@rename_from` for what it renames."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class _PropertySlot:
    """A property in the first and the second schema."""

    exists: tuple[bool, bool]
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
    """A type in the first and the second schema."""

    exists: tuple[bool, bool]
    variant: tuple[bool, bool]
    described: tuple[bool, bool]
    card: tuple[int, int]
    properties: tuple[_PropertySlot, ...]

    def name(self, prefix: str, slot: int, side: int) -> str:
        return f"{prefix}{slot}{'AB'[self.variant[side]]}"

    def header(self, prefix: str, slot: int, side: int, *, existed: bool) -> str:
        words = ['@description("d")'] if self.described[side] else []
        if existed and side == 1 and self.name(prefix, slot, 0) != self.name(prefix, slot, 1):
            words.append(f"@rename_from({self.name(prefix, slot, 0)})")
        return " ".join(words)

    def body(self, side: int, *, existed: bool, ranged: bool) -> str:
        lines = [
            line
            for slot, own in enumerate(self.properties)
            if own.exists[side]
            for line in own.lines(slot, side, renamed=existed and side == 1 and own.exists[0], ranged=ranged)
        ]
        return "{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def _both(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(values, values)


_properties: Final = st.builds(_PropertySlot, *[_both(_flag)] * 7, _both(st.integers(0, 3)))
_types: Final = st.builds(
    _TypeSlot, *[_both(_flag)] * 3, _both(st.integers(1, 3)), st.lists(_properties, min_size=4, max_size=4).map(tuple)
)
schema_pairs: Final = st.tuples(st.lists(_types, min_size=2, max_size=2), st.lists(_types, min_size=2, max_size=2)).map(
    lambda drawn: SchemaPair(*(_text(*drawn, side) for side in (0, 1)))
)


def _text(nodes: list[_TypeSlot], edges: list[_TypeSlot], side: int) -> str:
    lines = []
    for slot, node in enumerate(nodes):
        if node.exists[side]:
            header = node.header("N", slot, side, existed=node.exists[0])
            body = node.body(side, existed=node.exists[0], ranged=True)
            lines.append(f"node {node.name('N', slot, side)} {header} {body}")
    for slot, (edge, ends) in enumerate(zip(edges, _ENDS, strict=True)):
        source, target = (nodes[end] for end in ends)
        if not (edge.exists[side] and source.exists[side] and target.exists[side]):
            continue
        existed = edge.exists[0] and source.exists[0] and target.exists[0]
        names = [node.name("N", end, side) for node, end in zip((source, target), ends, strict=True)]
        header = f"@card(0..{edge.card[side]}) {edge.header('E', slot, side, existed=existed)}"
        body = edge.body(side, existed=existed, ranged=False)
        lines.append(f"edge {edge.name('E', slot, side)}: {names[0]} -> {names[1]} {header} {body}")
    return "".join(lines)


def without_ids(catalog: Catalog) -> dict[str, Any]:
    """Return the meaning of a catalog without its ids, its order, its earlier defaults and its renames."""
    return {entity.alias: _without_ids(catalog, entity) for entity in catalog.types}


def _without_ids(catalog: Catalog, entity: NodeType | EdgeType) -> dict[str, Any]:
    links: Any = set(entity.implements) if isinstance(entity, NodeType) else ()
    if isinstance(entity, EdgeType):
        links = (catalog.source_of(entity).name, catalog.target_of(entity).name, entity.cardinality)
    return {
        "links": links,
        "properties": {
            own.name: replace(own, id=PropertyId(0), renamed_from=None, filled=None, null_fills=())
            for own in entity.properties
        },
        "key": entity.key,
        "uniques": {frozenset(columns) for columns in entity.rules.uniques},
        "ranges": set(entity.rules.ranges),
        "checks": set(entity.rules.checks),
        "notes": (entity.description, entity.metadata),
    }
