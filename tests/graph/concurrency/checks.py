"""Check a graph after all writers of a test have ended."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import pytest

from omnigraph.base.ids import CommitId, new_ulid
from omnigraph.graph.manifest.layout import RECOVERY
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.records import CommitRecord
from omnigraph.graph.manifest.snapshot import MAIN, Snapshot, read_snapshot
from omnigraph.graph.recovery.run import recover_on_open
from omnigraph.graph.write.check import DriftError
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from omnigraph.storage.objects import ObjectStore
from tests.graph.concurrency.actors import short_lease
from tests.graph.writers import TABLES, Change, Contents, apply, read_contents, run

EMPTY: Final[Contents] = {alias: {} for alias in TABLES}


@dataclass(frozen=True, slots=True)
class DurableState:
    """The state that a recovery could change."""

    manifest_version: int
    heads: dict[str, int]
    intents: tuple[str, ...]


def check_final_state(
    location: Location, model: Contents, *, drift: Collection[str] = (), branch: str = MAIN
) -> Contents:
    """Recover, and check contents, history, heads and pins; a second recovery does nothing, and a new write works.

    `drift` has the tables whose head an external tool moved: the change is kept and not published, and a write to the
    table fails with a hint that names repair. Return the contents after the last write.
    """
    recover_on_open(location, branch, short_lease())
    assert pending(location) == ()
    assert read_contents(location, branch) == model
    linear_history(location, branch)
    before = read_durable_state(location, branch)
    assert recover_on_open(location, branch, short_lease()) == ()
    assert read_durable_state(location, branch) == before
    model = _write_again(location, model, drift, branch)
    assert read_contents(location, branch) == model
    linear_history(location, branch)
    assert pending(location) == ()
    assert read_drifted_tables(location, branch) == set(drift)
    return model


def _write_again(location: Location, model: Contents, drift: Collection[str], branch: str) -> Contents:
    for alias in drift:
        with pytest.raises(DriftError, match="an external tool changed") as drifted:
            run(location, [Change(alias, insert=("refused",))], branch=branch, environment=short_lease())
        assert "repair" in drifted.value.hint
    name = f"after-{new_ulid()}"
    changes = [Change(alias, insert=(name,)) for alias in TABLES if alias not in drift]
    assert run(location, changes, branch=branch, environment=short_lease()) is not None
    return apply(model, changes)


def linear_history(location: Location, branch: str = MAIN) -> tuple[CommitRecord, ...]:
    """Return every commit of the manifest, newest first; require one chain with each commit exactly once."""
    snapshot = read_snapshot(location, branch)
    commits = snapshot.manifest.read_commits()
    chain = tuple(make_lineage(snapshot.head, commits).history())
    assert len({commit.id for commit in chain}) == len(chain) == len(commits)
    assert chain[-1].parent is None
    return chain


def is_in_history(location: Location, commit: str, branch: str = MAIN) -> bool:
    return CommitId(commit) in {record.id for record in linear_history(location, branch)}


def pending(location: Location) -> tuple[str, ...]:
    return tuple(entry.path for entry in ObjectStore(location).list(RECOVERY))


def read_durable_state(location: Location, branch: str = MAIN) -> DurableState:
    snapshot = read_snapshot(location, branch)
    return DurableState(snapshot.version, heads(snapshot), pending(location))


def read_drifted_tables(location: Location, branch: str = MAIN) -> set[str]:
    """Return the tables whose head is not their pin."""
    snapshot = read_snapshot(location, branch)
    return {alias for alias, head in heads(snapshot).items() if head != snapshot.tables[alias].pin.version}


def heads(snapshot: Snapshot) -> dict[str, int]:
    """Return the newest version of every table, on the Lance branch that is published."""
    return {
        alias: open_dataset(snapshot.root.child(table.path), branch=table.pin.branch).version
        for alias, table in snapshot.tables.items()
    }


def read_head_ids(location: Location, alias: str) -> set[str]:
    """Return the ids at the head of a table, published or not, as an external tool reads them."""
    table = read_snapshot(location).tables[alias]
    dataset = open_dataset(location.child(table.path), branch=table.pin.branch)
    return {str(name) for name in dataset.read(["id"]).column("id").to_pylist()}
