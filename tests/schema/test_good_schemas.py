"""Good schemas: their canonical text, catalog and Arrow schemas, and that each parses to the same tree again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_json import catalog_from_json, catalog_to_json
from omnigraph.schema.parser import parse_schema
from omnigraph.schema.printer import print_schema, schema_from_catalog
from omnigraph.schema.tables import arrow_schema, declared_indexes
from tests.schema.golden_files import GOOD, compare, read_text, schema_files
from tests.schema.incarnations import catalog_of

FILES = schema_files(GOOD)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path, update_golden: bool) -> None:
    tree = parse_schema(read_text(path), path.name)
    catalog = catalog_of(tree)
    indented = json.dumps(json.loads(catalog_to_json(catalog)), indent=2, ensure_ascii=False, sort_keys=True)
    compare(path.with_suffix(".canonical.pg"), print_schema(tree), update=update_golden)
    compare(path.with_suffix(".catalog.json"), indented + "\n", update=update_golden)
    compare(path.with_suffix(".tables.txt"), tables_text(catalog), update=update_golden)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_round_trips(path: Path) -> None:
    tree = parse_schema(read_text(path), path.name)
    canonical = print_schema(tree)
    assert parse_schema(canonical) == tree
    assert print_schema(parse_schema(canonical)) == canonical
    catalog = catalog_of(tree)
    assert catalog_from_json(catalog_to_json(catalog)) == catalog
    printed = print_schema(schema_from_catalog(catalog))
    if [entity.name for entity in catalog.types] == [entity.name for entity in catalog_of(printed).types]:
        assert catalog_of(printed) == catalog


def tables_text(catalog: Catalog) -> str:
    """Return columns, nullability and field metadata of each table, and its declared indexes."""
    lines = []
    for entity in catalog.types:
        lines.append(f"{entity.alias} {entity.id}-{entity.incarnation}")
        for column in arrow_schema(entity):
            metadata = {key.decode(): value.decode() for key, value in (column.metadata or {}).items()}
            null = "" if column.nullable else " not null"
            lines.append(f"  {column.name}: {column.type}{null} {json.dumps(metadata, sort_keys=True)}")
        lines.extend(
            f"  index {index.column} {index.kind.value} {index.text.text}".rstrip()
            for index in declared_indexes(entity)
        )
    return "".join(f"{line}\n" for line in lines)
