"""A small schema that the cases of steps and rejected changes start from, with rows in every type."""

from __future__ import annotations

from omnigraph.base.ids import TypeId
from omnigraph.schema.catalog import Catalog

PERSON = "node Person { slug: String @key  age: I32?  mood: enum(glad, sad)  name: String }\n"
COMPANY = "node Company { name: String @key }\n"
KNOWS = "edge Knows: Person -> Person @card(0..5) { since: Date? }\n"
BASE = PERSON + COMPANY + KNOWS


def populated(catalog: Catalog) -> dict[TypeId, int]:
    return {entity.id: 3 for entity in catalog.types}
