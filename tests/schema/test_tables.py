"""Lance accepts and stores the Arrow schemas of tables, also with Blob columns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.schema.tables import arrow_schema
from tests.schema.golden_files import GOOD, read_text
from tests.schema.incarnations import catalog_of

BLOB = """
import sys
{first}
import pyarrow as pa
from omnigraph.schema.build import build_catalog
from omnigraph.schema.parser import parse_schema
from omnigraph.schema.tables import arrow_schema
schema = arrow_schema(build_catalog(parse_schema("node A {{ photo: Blob? v: Vector(2) tags: [String] }}")).nodes[0])
import lance
rows = [
    {{"id": "a", "photo": {{"data": b"xyz"}}, "v": [1.0, 2.0], "tags": ["x"]}},
    {{"id": "b", "photo": None, "v": [1.0, 2.0], "tags": []}},
    {{"id": "c", "photo": {{"data": b""}}, "v": [1.0, 2.0], "tags": []}},
]
table = pa.Table.from_pylist(rows, schema=schema)
dataset = lance.write_dataset(table, sys.argv[1], data_storage_version="2.2", enable_stable_row_ids=True)
assert dataset.take_blobs("photo", indices=[0])[0].readall() == b"xyz"
assert "lance.blob.v2" in str(dataset.schema.field("photo").type), dataset.schema
assert dataset.schema.field("photo").metadata[b"omnigraph:property_id"] == b"1"
assert dataset.to_table(columns=["photo"])["photo"].is_null().to_pylist() == [False, True, False]
assert not dataset.schema.field("tags").type.value_field.nullable
"""


@pytest.mark.parametrize("first", ["", "import lance"], ids=["lance-later", "lance-first"])
def test_a_blob_column_does_not_depend_on_when_lance_is_imported(first: str, tmp_path: Path) -> None:
    """Runs in its own process, because the import of Lance registers its extension types."""
    script = BLOB.format(first=first)
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_lance_stores_every_column(tmp_path: Path) -> None:
    """Names, nullability, property ids and the primary key of a new table are stored."""
    catalog = catalog_of(read_text(GOOD / "every-type.pg") + "edge E: Everything -> Everything { since: Date }")
    for entity in catalog.types:
        schema = arrow_schema(entity)
        path = str(tmp_path / entity.id)
        stored = lance.write_dataset(
            schema.empty_table(), path, data_storage_version="2.2", enable_stable_row_ids=True
        ).schema
        assert stored.names == schema.names
        for column in schema:
            stored_column = stored.field(column.name)
            metadata = {key: value for key, value in (column.metadata or {}).items() if key != b"ARROW:extension:name"}
            assert stored_column.nullable == column.nullable
            assert (stored_column.metadata or {}) == metadata
            if not pa.types.is_struct(column.type):
                assert stored_column.type == column.type
