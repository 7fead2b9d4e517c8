"""`.pg` text to syntax tree to `Catalog`, and what follows from a catalog: Arrow schemas and index kinds.

The way through this room: `parse_schema` reads a text, `check_schema` finds everything wrong with it, `build_catalog`
gives it ids; `catalog_to_json`, `catalog_from_json` and `schema_hash` store it; `arrow_schema` and `declared_indexes`
say what a type's table looks like; `print_schema` writes a tree back. No module does I/O, and lark, pyarrow and msgspec
are imported when first needed.
"""

from omnigraph.schema.arrow import arrow_field, arrow_schema, arrow_type
from omnigraph.schema.build import build_catalog
from omnigraph.schema.catalog import (
    Cardinality,
    Catalog,
    CheckRule,
    EdgeType,
    Embedding,
    Entity,
    Interface,
    NodeType,
    Property,
    PropertyShape,
    RangeRule,
    Rules,
    TypeKind,
)
from omnigraph.schema.catalog_source import schema_from_catalog
from omnigraph.schema.check import check_schema
from omnigraph.schema.codec import catalog_from_json, catalog_to_json, schema_hash
from omnigraph.schema.codes import SchemaCode
from omnigraph.schema.indexable import IndexKind
from omnigraph.schema.indexes import ColumnIndex, declared_indexes
from omnigraph.schema.parser import parse_schema
from omnigraph.schema.printer import print_schema
from omnigraph.schema.property_types import (
    EnumType,
    ListType,
    PropertyType,
    Scalar,
    ScalarType,
    VectorType,
)
from omnigraph.schema.syntax import Schema

__all__ = [
    "Cardinality",
    "Catalog",
    "CheckRule",
    "ColumnIndex",
    "EdgeType",
    "Embedding",
    "Entity",
    "EnumType",
    "IndexKind",
    "Interface",
    "ListType",
    "NodeType",
    "Property",
    "PropertyShape",
    "PropertyType",
    "RangeRule",
    "Rules",
    "Scalar",
    "ScalarType",
    "Schema",
    "SchemaCode",
    "TypeKind",
    "VectorType",
    "arrow_field",
    "arrow_schema",
    "arrow_type",
    "build_catalog",
    "catalog_from_json",
    "catalog_to_json",
    "check_schema",
    "declared_indexes",
    "parse_schema",
    "print_schema",
    "schema_from_catalog",
    "schema_hash",
]
