"""What a plan should know about a table: how many rows it has and what its indexes cover.

In: an open dataset. Out: `TableFacts`. Reads the metadata of its version, never rows or an index itself.
"""

from __future__ import annotations

from typing import assert_never

from omnigraph.query.facts import IndexFact, TableFacts
from omnigraph.storage.coverage import Coverage, Degraded, Indexed, read_coverage, read_indexes
from omnigraph.storage.dataset import Dataset
from omnigraph.storage.indexes import IndexSpec


def read_table_facts(dataset: Dataset, rows: int) -> TableFacts:
    """The facts of one table that is open already."""
    kinds = {(index.column, index.kind) for index in read_indexes(dataset)}
    specs = [IndexSpec(column, kind) for column, kind in sorted(kinds, key=str) if kind is not None]
    if not specs:
        return TableFacts(rows)
    return TableFacts(rows, tuple(_fact(*entry) for entry in read_coverage(dataset, specs).items()))


def _fact(spec: IndexSpec, coverage: Coverage) -> IndexFact:
    match coverage:
        case Indexed():
            return IndexFact(spec.column, spec.kind)
        case Degraded(fragments, rows):
            return IndexFact(spec.column, spec.kind, len(fragments), rows)
        case _:
            assert_never(coverage)
