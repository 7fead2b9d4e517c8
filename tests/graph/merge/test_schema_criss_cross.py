from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph.branches import create_branch, source_snapshot
from omnigraph.graph.merge.conflicts import MergeConflictError
from omnigraph.graph.merge.run import MergeRequest, merge_branch
from omnigraph.graph.snapshot import read_snapshot
from omnigraph.storage.location import parse_location
from tests.maintenance.evolving import create, evolve

BASE = "node Person { slug: String @key }\n"
CITY, TOWN = (BASE + f"node {name} {{ name: String @key }}\n" for name in ("City", "Town"))
BOTH = TOWN + "node City { name: String @key }\n"


def test_two_bases_with_two_schemas_say_nothing_of_what_is_common(tmp_path: Path) -> None:
    root = parse_location(str(tmp_path / "graph.omni"))
    create(root, BASE)
    create_branch(root, "dev", "tester", source_snapshot(root))
    evolve(root, CITY)
    evolve(root, TOWN, "dev")
    main, dev = read_snapshot(root).head, read_snapshot(root, "dev").head
    merge_branch(root, MergeRequest(dev, "tester"))
    merge_branch(root, MergeRequest(main, "tester", "dev"))
    evolve(root, BOTH.replace("slug: String @key", "slug: String @key  age: I64?"), "dev")
    with pytest.raises(MergeConflictError) as refused:
        omnigraph.open(root.uri).merge("dev")
    (conflict,) = refused.value.conflicts
    assert conflict.to_json()["kind"] == "schema_diverged"
    assert "in common cannot be told" in refused.value.render()
