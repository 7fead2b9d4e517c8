"""Every kind of step on empty and populated types, on main and a branch, indexed and not, before and after optimize.

After each step the rows are the old ones with the change, each table matches its type, the previous commit still has
its contents, nothing else moved, and the next plan is empty.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.snapshot import MAIN, read_commit_snapshot, read_snapshot
from omnigraph.maintenance.optimize.options import OptimizeOptions
from omnigraph.maintenance.optimize.run import optimize_all_tables
from omnigraph.schema.tables import arrow_schema
from omnigraph.storage.location import Location
from tests.graph.crash.observe import find_leftovers
from tests.maintenance.evolving import contents, evolve, opened, snapshot_contents
from tests.maintenance.schema_cases import BASE, CASES, SchemaCase, graph_at, opened_at
from tests.pipeline.in_place import in_place

VARIANTS = list(
    product(["populated", "empty"], [MAIN, "dev"], ["plain", "indexed"], ["", "optimize first", "optimize then"])
)


@pytest.mark.parametrize("variant", VARIANTS, ids="-".join)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_step(case: SchemaCase, variant: tuple[str, str, str, str], tmp_path: Path) -> None:
    check(case, variant, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("branch", [MAIN, "dev"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_step_on_s3(case: SchemaCase, branch: str, s3_location: Location) -> None:
    check(case, ("populated", branch, "indexed", "optimize then"), s3_location)


def check(case: SchemaCase, variant: tuple[str, str, str, str], location: Path | Location) -> None:
    rows, branch, indexed, optimized = variant
    root = graph_at(location, populated=rows == "populated", indexed=indexed == "indexed", branch=branch)
    if optimized == "optimize first":
        optimize(root, branch)
    before, main_before = contents(root, branch), contents(root)
    head, main_head = read_snapshot(root, branch).head, read_snapshot(root).head
    assert BASE.count(case.old) == 1
    text = BASE.replace(case.old, case.new)
    done = evolve(root, text, branch, hard=case.hard)
    now = read_snapshot(root, branch)
    assert done.commit is not None
    assert (now.head, now.schema.source, now.schema.hash) == (done.commit.id, text, done.commit.schema_hash)
    if optimized == "optimize then":
        optimize(root, branch)
        now = read_snapshot(root, branch)
    assert contents(root, branch) == case.after(before)
    for entity in now.schema.catalog.types:
        assert columns_of(opened(now, entity.alias).schema) == columns_of(arrow_schema(entity))
        assert now.tables[entity.alias].row_count == len(case.after(before)[entity.alias])
    assert len(now.tables) == len(now.schema.catalog.types)
    assert snapshot_contents(read_commit_snapshot(root, head, branch)[0]) == before
    assert find_leftovers(root, WriteEnvironment()) == []
    if branch != MAIN:
        assert (contents(root), read_snapshot(root).head) == (main_before, main_head)
    again = evolve(root, text, branch)
    assert (again.plan.steps, again.commit) == ((), None)


def optimize(root: Location, branch: str) -> None:
    optimize_all_tables(opened_at(root, branch), OptimizeOptions(), in_place)


def columns_of(schema: pa.Schema) -> list[tuple[str, bool, bytes | None]]:
    """Return names, nullability and ids; Lance reports the type of a blob differently from its input."""
    return [(column.name, column.nullable, (column.metadata or {}).get(b"omnigraph:property_id")) for column in schema]
