"""The commit graph, built from commit rows."""

from __future__ import annotations

import pytest

from omnigraph.base.errors import FormatError
from omnigraph.base.ids import BranchId, CommitId, OperationId, SchemaHash
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.records import CommitRecord, Pin, WriteOperation
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.storage.location import Location
from tests.graph.publishing import make_graph, publish_next


def _commit(name: str, parent: str | None, merged: str | None = None) -> CommitRecord:
    return CommitRecord(
        id=CommitId(name),
        parent=None if parent is None else CommitId(parent),
        merged_parent=None if merged is None else CommitId(merged),
        branch="main",
        branch_id=BranchId("B"),
        actor="me",
        operation=WriteOperation.LOAD,
        operation_id=OperationId("O"),
        created_us=1,
        manifest_hint=Pin(None, 1),
        tables=(),
        counts={},
        schema_hash=SchemaHash("S"),
    )


def _walk(head: str, *commits: CommitRecord) -> list[str]:
    return [commit.id for commit in make_lineage(CommitId(head), commits).history()]


def test_history_follows_first_parents_newest_first() -> None:
    commits = (_commit("A", None), _commit("X", "A"), _commit("B", "A"), _commit("C", "B", merged="X"))
    assert _walk("C", *commits) == ["C", "B", "A"]
    assert _walk("X", *reversed(commits)) == ["X", "A"]


@pytest.mark.parametrize(
    "commits",
    [(_commit("B", "A"),), (_commit("A", None),), (_commit("A", "B"), _commit("B", "A")), (_commit("B", "B"),)],
    ids=["parent missing", "head missing", "cycle", "own parent"],
)
def test_damaged_history_is_a_format_error(commits: tuple[CommitRecord, ...]) -> None:
    with pytest.raises(FormatError) as caught:
        _walk("B", *commits)
    assert caught.value.code == "lineage_broken"


def test_history_of_published_commits(store_location: Location) -> None:
    first = make_graph(store_location)
    made = [publish_next(store_location) for _ in range(3)]
    snapshot = read_snapshot(store_location)
    history = list(make_lineage(snapshot.head, snapshot.manifest.read_commits()).history())
    assert history[:-1] == made[::-1]
    assert (history[-1].id, history[-1].parent, history[-1].operation) == (first.head, None, "init")
