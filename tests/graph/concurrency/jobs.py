"""The functions of actors: writes through the write path, opens, branch changes, and changes by external tools."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import cycle
from pathlib import Path

import lance
import pyarrow as pa

from omnigraph.base.errors import ConflictError
from omnigraph.graph.branches import create_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import LeaseTerms
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.records import CommitRecord, WriteOperation
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.merge.run import MergeRequest, merge_branch
from omnigraph.graph.recovery.run import recover_on_open
from omnigraph.graph.write.commit import WriteRequest, write
from omnigraph.graph.write.stage import StagingArea
from omnigraph.graph.write.states import StagedWrite
from omnigraph.storage.location import Location
from tests.graph.concurrency.actors import short_lease
from tests.graph.writers import KNOWS, PERSON, Change, rows_table, run, run_compaction, stage_changes
from tests.storage.raw_writes import stage_append, stage_delete


class DanglingEdgeError(ConflictError):
    """The error of a validating writer if an edge would have no node."""


def write_changes(location: Location, changes: Sequence[Change], branch: str = MAIN) -> str | None:
    """Write `changes`, with restaging if necessary; return the commit id."""
    return _commit_id(run(location, changes, branch=branch))


def write_in_threads(location: Location, writers: int, writes: int, branch: str = MAIN) -> int:
    """Write one row per commit in several threads; return the number of commits. Row `2-0` is the first of thread 2."""

    def write_rows(writer: int) -> int:
        return sum(
            run(location, [Change(PERSON, insert=(f"{writer}-{number}",))], branch=branch) is not None
            for number in range(writes)
        )

    with ThreadPoolExecutor(writers) as threads:
        return sum(threads.map(write_rows, range(writers)))


def write_changes_once(location: Location, changes: Sequence[Change], branch: str = MAIN) -> str | None:
    """Write `changes` without a function that stages again."""
    stage = stage_changes(changes)
    return _commit_id(write(location, branch, WriteRequest(kind=WriteOperation.LOAD, actor="tester", stage=stage)))


def write_with_lease(location: Location, changes: Sequence[Change], lease_seconds: float) -> str | None:
    """Write `changes` with a short lease, so that the writer must renew it."""
    environment = WriteEnvironment(terms=LeaseTerms(lease_seconds=lease_seconds))
    return _commit_id(run(location, changes, environment=environment))


def merge(location: Location, source: str, target: str) -> str | None:
    commit = merge_branch(location, MergeRequest(source=source, actor="tester", target=target)).commit
    return None if commit is None else commit.id


def compact(location: Location, aliases: Sequence[str]) -> str | None:
    """Compact tables by a multi-commit write."""
    return _commit_id(run_compaction(location, aliases))


def recover(location: Location, branch: str = MAIN) -> list[str]:
    """Recover as a read-write open with a short lease does; return the actions."""
    return [done.action.value for done in recover_on_open(location, branch, short_lease())]


def create_from_main(location: Location, name: str) -> str:
    """Create a branch from the head of main; return its id."""
    return create_branch(location, name, "tester", read_snapshot(location)).id


def insert_edges(location: Location, names: Sequence[str]) -> str | None:
    """Insert an edge from each node to itself; fail if a node is missing, also when staging again."""

    def stage(area: StagingArea) -> StagedWrite:
        nodes = set(area.read(PERSON).read(["id"]).column("id").to_pylist())
        missing = [name for name in names if name not in nodes]
        if missing:
            raise DanglingEdgeError(f"no node {missing}", code="dangling_edge")
        target = area.open_for_write(KNOWS)
        staged = stage_append(target.dataset, rows_table(target, [(name, None) for name in names]))
        effect = area.transaction_effect(target, staged, target.table.row_count + len(names))
        return area.finish((effect,), frozenset({area.table(PERSON).id}), {"inserted": len(names)})

    request = WriteRequest(
        kind=WriteOperation.MUTATE, actor="tester", stage=stage, restage=lambda again, _: stage(again)
    )
    return _commit_id(write(location, MAIN, request))


def delete_lonely_nodes(location: Location, names: Sequence[str]) -> str | None:
    """Delete nodes; fail if an edge joins one of them, also when staging again."""
    where = "id IN (" + ", ".join(f"'{name}'" for name in names) + ")"

    def stage(area: StagingArea) -> StagedWrite:
        if area.read(KNOWS).count_rows(where.replace("id", "src", 1)):
            raise DanglingEdgeError("an edge would dangle", code="dangling_edge")
        target = area.open_for_write(PERSON)
        staged = stage_delete(target.dataset, where)
        assert staged is not None
        effect = area.transaction_effect(target, staged, target.table.row_count - len(names))
        return area.finish((effect,), frozenset({area.table(KNOWS).id}), {"deleted": len(names)})

    request = WriteRequest(
        kind=WriteOperation.MUTATE, actor="tester", stage=stage, restage=lambda again, _: stage(again)
    )
    return _commit_id(write(location, MAIN, request))


def append_externally(location: Location, alias: str, name: str) -> int:
    """Append a row to the newest version of a table with plain Lance, as an external tool does."""
    table = read_snapshot(location).tables[alias]
    uri = location.child(table.path).lance_uri
    schema = lance.dataset(uri, storage_options=location.storage_options).schema
    columns = [pa.array([name if f.type == pa.utf8() else None], f.type) for f in schema]
    rows = pa.Table.from_arrays(columns, schema=schema)
    return int(lance.write_dataset(rows, uri, mode="append", storage_options=location.storage_options).version)


def delete_old_manifests(location: Location) -> None:
    """Delete every manifest version but the newest, with its files, as the cleanup of an external tool does."""
    uri = location.child(MANIFEST).lance_uri
    dataset = lance.dataset(uri, storage_options=location.storage_options)
    dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)


def delete_old_table_versions(location: Location) -> None:
    """Delete every version but the newest of every table; the newest version is the one that is pinned."""
    for table in read_snapshot(location).tables.values():
        uri = location.child(table.path).lance_uri
        dataset = lance.dataset(uri, storage_options=location.storage_options)
        dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)


def _commit_id(commit: CommitRecord | None) -> str | None:
    return None if commit is None else commit.id


def update_until(location: Location, names: Sequence[str], stop: Path) -> dict[str, int]:
    """Update one row after the other until the file `stop` exists; return the last value of each row."""
    written: dict[str, int] = {}
    for number, name in enumerate(cycle(names)):
        run(location, [Change(PERSON, upsert=((name, number),))])
        written[name] = number
        if stop.exists():
            break
    return written
