"""The golden files of queries: their directories, their schema, and how to check a text against it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from omnigraph.query.checks.run import CheckedQuery, check_queries
from omnigraph.query.parser import parse_queries
from omnigraph.schema.catalog import Catalog
from tests.schema.golden_files import compare, read_text
from tests.schema.incarnations import catalog_of

GOLDEN: Final = Path(__file__).parent / "golden"
GOOD: Final = GOLDEN / "good"
BAD: Final = GOLDEN / "bad"
RULES: Final = GOLDEN / "rules"
LINT: Final = GOLDEN / "lint"

__all__ = ["BAD", "GOOD", "LINT", "RULES", "catalog", "checked", "compare", "query_files", "read_text"]


@cache
def catalog() -> Catalog:
    return catalog_of(read_text(GOLDEN / "schema.pg"))


def query_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.gq") if not path.name.endswith(".canonical.gq"))


def checked(text: str, source: str = "<query>") -> tuple[CheckedQuery, ...]:
    return check_queries(parse_queries(text, source), catalog())
