"""Every schema in the documentation is valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.schema.build import build_catalog
from omnigraph.schema.parser import parse_schema
from tests.docs.markdown import DOCUMENTS, ROOT, blocks

SCHEMAS = [
    (path, number, block.text)
    for path in DOCUMENTS
    for number, block in enumerate(blocks((ROOT / path).read_text(encoding="utf-8")))
    if block.language == "pg"
]


@pytest.mark.parametrize(("path", "number", "text"), SCHEMAS, ids=[f"{path}-{n}" for path, n, _ in SCHEMAS])
def test_documented_schema_is_valid(path: Path, number: int, text: str) -> None:
    catalog = build_catalog(parse_schema(text, f"{path}, block {number}"))
    assert catalog.nodes
