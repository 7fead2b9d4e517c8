"""The JSON of a commit that was just made is printed, whatever happens to its branch meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import omnigraph
from omnigraph.wire.history import new_commit_to_json


def test_a_branch_that_is_gone_costs_only_the_names(graph: Path) -> None:
    opened = omnigraph.open(graph, read_only=True)
    commit = next(opened.commits())
    for branch, names in (("main", {"node:Company", "node:Person", "edge:Knows"}), ("gone", {None})):
        told = new_commit_to_json(opened.location, replace(commit, branch=branch))
        assert told is not None
        assert told["graph_commit_id"] == commit.id
        assert {table["table_key"] for table in told["tables"]} == names
