"""Catalogs with incarnations from a counter, so that two catalogs can be compared."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from omnigraph.base.ids import Incarnation
from omnigraph.schema.build import build_catalog
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.parser import parse_schema
from omnigraph.schema.syntax import Schema


def counted_incarnations() -> Callable[[], Incarnation]:
    numbers = count(0xA0)
    return lambda: Incarnation(f"{next(numbers):016x}")


def catalog_of(schema: Schema | str) -> Catalog:
    """Return the catalog of a tree or a text, the same at every call."""
    tree = parse_schema(schema) if isinstance(schema, str) else schema
    return build_catalog(tree, new_incarnation=counted_incarnations())
