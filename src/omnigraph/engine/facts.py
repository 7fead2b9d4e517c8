"""What a plan should know about the tables of a snapshot: how many rows they have and what their indexes cover.

In: a snapshot and aliases. Out: `PlanFacts`. Reads the metadata of the pinned versions, never rows or an index itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from omnigraph.graph.snapshot import Snapshot
from omnigraph.query.facts import IndexFact, PlanFacts, TableFacts
from omnigraph.storage.coverage import Coverage, Degraded, Indexed, read_coverage, read_indexes
from omnigraph.storage.dataset import Dataset, open_dataset
from omnigraph.storage.indexes import IndexSpec


def read_facts(snapshot: Snapshot, aliases: Iterable[str]) -> PlanFacts:
    """The facts of some tables; an alias that the snapshot does not have is left out."""
    found = {}
    for alias in aliases:
        table = snapshot.tables.get(alias)
        if table is not None:
            location = snapshot.root.child(table.path)
            dataset = open_dataset(location, branch=table.pin.branch, version=table.pin.version)
            found[alias] = read_table_facts(dataset, table.row_count)
    return PlanFacts(found)


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
