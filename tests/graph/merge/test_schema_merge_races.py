"""A merge that changes the schema while others write: acknowledged rows are not lost."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.base.failpoints import observed
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.requirements import ReadSetConflictError
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.storage.location import parse_location
from tests.maintenance.evolving import contents, create, evolve

BASE = "node Person { slug: String @key }\nnode Old { name: String @key }\n"


@pytest.mark.parametrize("diverged", [False, True])
def test_dropped_type_was_written_during_the_merge(tmp_path: Path, diverged: bool) -> None:
    root = parse_location(str(tmp_path / "graph.omni"))
    create(root, BASE)
    graph = omnigraph.open(root.uri)
    graph.mutate('query m() { insert Old { name: "first" } }')
    create_branch(root, "dev", "tester", read_snapshot(root))
    evolve(root, "node Person { slug: String @key }\n", "dev")
    if diverged:
        graph.mutate('query m() { insert Person { slug: "ada" } }')
    seen: list[str] = []

    def write_first(effect: str, _: str) -> None:
        """Write before the first durable call of the merge, which is planned by then."""
        seen.append(effect)
        if len(seen) == 1:
            graph.mutate('query m() { insert Old { name: "acknowledged" } }')

    with observed(write_first), pytest.raises(ReadSetConflictError):
        graph.merge("dev")
    assert set(contents(root)["node:Old"]) == {"first", "acknowledged"}
