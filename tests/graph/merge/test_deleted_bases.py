"""The base of a merge whose manifest branch was deleted: its pins come from the merge commit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph
from omnigraph.base.ids import CommitId
from omnigraph.graph.branches import create_branch
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.merge.bases import Base, CommitBase, find_base
from omnigraph.graph.merge.conflicts import ConflictKind, MergeConflictError
from omnigraph.graph.merge.run import MergeRequest, merge_branch
from omnigraph.storage.location import Location
from tests.graph.writers import PERSON, Change, create, read_contents, run, triple
from tests.maintenance import evolving


def test_base_with_only_its_pins(local_location: Location) -> None:
    create(local_location)
    run(local_location, triple(["a"]))
    create_branch(local_location, "dev", "tester", read_snapshot(local_location))
    run(local_location, [Change(PERSON, upsert=(("dev", 1),))], branch="dev")
    create_branch(local_location, "other", "tester", read_snapshot(local_location, "dev"))
    run(local_location, [Change(PERSON, upsert=(("other", 2),))], branch="other")
    assert merge_branch(local_location, MergeRequest(source="dev", actor="tester")).commit is not None
    run(local_location, [Change(PERSON, upsert=(("main", 3),))])
    dev = read_snapshot(local_location, "dev")
    before = _base(local_location, dev.head)
    assert isinstance(before, CommitBase)
    assert before.commit == dev.head
    assert dev.branch.lance_branch is not None
    shutil.rmtree(Path(local_location.uri, MANIFEST, "tree", dev.branch.lance_branch, "_versions"))
    assert _base(local_location, dev.head) == before
    assert merge_branch(local_location, MergeRequest(source="other", actor="tester")).commit is not None
    assert read_contents(local_location, MAIN)[PERSON] == {"a": None, "dev": 1, "other": 2, "main": 3}


def test_base_without_its_schema_is_a_conflict(local_location: Location) -> None:
    """Both sides changed the schema and the common schema is not known, so it is a conflict."""
    person = "node Person { slug: String @key }\n"
    evolving.create(local_location, person)
    for branch, source in (("dev", MAIN), ("other", "dev")):
        create_branch(local_location, branch, "tester", read_snapshot(local_location, source))
        omnigraph.open(local_location.uri, branch).mutate(f'query m() {{ insert Person {{ slug: "{branch}" }} }}')
    merge_branch(local_location, MergeRequest(source="dev", actor="tester"))
    dev = read_snapshot(local_location, "dev")
    evolving.evolve(local_location, person + "node City { name: String @key }\n")
    evolving.evolve(local_location, person + "node Town { name: String @key }\n", "other")
    assert dev.branch.lance_branch is not None
    shutil.rmtree(Path(local_location.uri, MANIFEST, "tree", dev.branch.lance_branch, "_versions"))
    before = evolving.contents(local_location)
    with pytest.raises(MergeConflictError) as caught:
        merge_branch(local_location, MergeRequest(source="other", actor="tester"))
    (conflict,) = caught.value.conflicts
    assert conflict.kind is ConflictKind.SCHEMA_DIVERGED
    assert "not known" in conflict.message
    assert evolving.contents(local_location) == before


def _base(location: Location, theirs: CommitId) -> Base:
    main = read_snapshot(location)
    return find_base(main, make_lineage(main.head, main.manifest.read_commits()), main.head, theirs)
