"""The catalog as canonical JSON and back, and the hash that names a schema.

Canonical: sorted keys, no spaces, characters unescaped, integers that may exceed 2^53 and values of properties as text,
members that have their default left out. So equal catalogs have equal bytes, an older release reads a newer catalog as
far as it knows it, and a new optional member does not change the hash of the catalogs without it. Reading raises
`FormatError` and nothing else.
"""

from __future__ import annotations

import hashlib

from omnigraph.base.ids import SchemaHash
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_encode import catalog_text


def catalog_to_json(catalog: Catalog) -> str:
    """The canonical JSON of a catalog."""
    return catalog_text(catalog)


def catalog_from_json(text: str | bytes) -> Catalog:
    """The catalog that a JSON text describes; `FormatError` when it describes none."""
    from omnigraph.schema.catalog_decode import decode_catalog

    return decode_catalog(text)


def schema_hash(catalog: Catalog) -> SchemaHash:
    """SHA-256 of the canonical JSON, in hex."""
    return SchemaHash(hashlib.sha256(catalog_text(catalog).encode()).hexdigest())
