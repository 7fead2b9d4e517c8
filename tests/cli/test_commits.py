"""The document of a commit that was just created is printed, whatever happens to its branch afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import omnigraph
from omnigraph.api.history import read_new_names
from omnigraph.wire.commits import new_commit_output


def test_deleted_branch_removes_only_the_names(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "graph.omni", "node Person { slug: String @key }")
    commit = graph.get_commit("HEAD")
    for branch, names in (("main", {"node:Person"}), ("deleted", {None})):
        created = replace(commit, branch=branch)
        document = new_commit_output(created, read_new_names(graph.location, created))
        assert document is not None
        assert document.graph_commit_id == commit.id
        assert {table.table_key for table in document.tables} == names
