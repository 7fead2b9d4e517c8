"""Criss-cross histories: two bases, and neither alone is sufficient."""

from __future__ import annotations

from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.snapshot import read_commit_snapshot, read_snapshot
from omnigraph.graph.merge.run import MergeRequest, merge_branch
from omnigraph.storage.location import Location
from tests.graph.writers import PERSON, Change, create, read_contents, run, snapshot_contents


def test_criss_cross(durable_location: Location) -> None:
    """Each of the two bases has one of the newer values."""
    create(durable_location)
    run(durable_location, [Change(PERSON, upsert=(("a", 0), ("b", 0)))])
    create_branch(durable_location, "x", "tester", read_snapshot(durable_location))
    run(durable_location, [Change(PERSON, upsert=(("a", 1),))])
    run(durable_location, [Change(PERSON, upsert=(("b", 1),))], branch="x")
    main, x = read_snapshot(durable_location).head, read_snapshot(durable_location, "x").head
    merge_branch(durable_location, MergeRequest(source=x, actor="tester"))
    merge_branch(durable_location, MergeRequest(source=main, actor="tester", target="x"))
    run(durable_location, [Change(PERSON, upsert=(("b", 2),))])
    run(durable_location, [Change(PERSON, upsert=(("a", 2),))], branch="x")
    merge_branch(durable_location, MergeRequest(source="x", actor="tester"))
    assert read_contents(durable_location)[PERSON] == {"a": 2, "b": 2}
    old = read_commit_snapshot(durable_location, x)[0]
    assert snapshot_contents(old)[PERSON] == {"a": 0, "b": 1}
