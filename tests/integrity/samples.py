"""Schemas and small functions that the tests of this package share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from omnigraph.integrity.rules import RuleViolations
from omnigraph.schema.catalog import EdgeType, NodeType
from tests.schema.incarnations import catalog_of

CATALOG = catalog_of("""
node Person {
  slug: String @key
  age: I32?
  status: enum(active, paused, left)
  email: String? @unique
  born: Date?
  seen: DateTime?
  score: F32?
  level: I32 @default(7)
  @unique(status, born)
  @range(age, 0..200)
  @range(born, "1900-01-01"..)
  @range(seen, .."2024-01-01T00:00:00Z")
  @range(score, -1.5..1.5)
  @check(slug, "[a-z0-9-]+")
  @check(email, ".+@.+")
}
node Note { text: String? }
node Reading { at: DateTime  sensor: String  value: F32  ok: Bool  n: U64  @key(at, sensor, value, ok, n) }
edge Knows: Person -> Person @card(1..2) { weight: F64? }
edge Likes: Person -> Note { since: Date  @key(src, dst, since) }
edge Follows: Person -> Person { @key(src, dst) }
""")


def node(name: str) -> NodeType:
    entity = CATALOG.node_named(name)
    assert entity is not None
    return entity


def edge(name: str) -> EdgeType:
    entity = CATALOG.edge_named(name)
    assert entity is not None
    return entity


def texts(values: Sequence[str | None]) -> pa.Array[Any]:
    return pa.array(values, pa.utf8())


def summarize(violations: Sequence[RuleViolations]) -> list[tuple[str, str | None, list[int], list[str]]]:
    """Return violations as a test compares them: the rule's name, the property, the rows, the values."""
    return [(group.rule.word, group.property, group.rows.tolist(), list(group.shown_values())) for group in violations]
