"""The writers that are killed, one per kind, each with the expected state of the graph.

`prepare` runs in the test process, `act` in the process that is killed. A write counts as done from the last hit of
`decided_at` on. Without `decided_at` the expected state is always `after`, because the process that is killed is a
recovery. `after` is the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import lance

from omnigraph.base import limits
from omnigraph.base.failpoints import Failpoint
from omnigraph.base.ids import new_ulid
from omnigraph.graph.branches import create_branch, delete_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.compaction import needs_compaction
from omnigraph.graph.manifest.layout import MANIFEST
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.manifest.stamp import STAMP_KEY
from omnigraph.graph.recovery.history import operation_properties
from omnigraph.storage.lance.commit import commit_restore, commit_schema_metadata
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.location import Location
from tests.graph.crash import acts
from tests.graph.crash.observe import BranchState, GraphState
from tests.graph.writers import COMPANY, KNOWS, PERSON, TABLES, Change, apply, create, plant_auto_cleanup, run, triple
from tests.maintenance.external_tool import compaction, delete, update_config

Kill = Callable[[str, Location, Failpoint, int], None]
"""Runs the `act` of a scenario in another process and kills it at a hit of a failpoint."""


@dataclass(frozen=True, slots=True)
class Redo:
    """The call that is repeated after the crash, and the state that it creates from the initial state."""

    act: Callable[[Location], object]
    after: Callable[[GraphState], GraphState]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A writer kind: how to prepare the graph, the call that is killed, and the state after the call."""

    prepare: Callable[[Location, Kill], None]
    act: Callable[[Location], object]
    after: Callable[[GraphState], GraphState]
    decided_at: Failpoint | None
    in_place: bool = False  # Lance branches have absolute paths, so the graph cannot be copied
    is_multi_commit: bool = False  # done after its first commit: the moved tables are published, without the others
    heads_ahead: bool = False  # a head is newer than its pin until the next write repairs it
    redo: Redo | None = None  # what must be repeated before a write is possible
    concurrent_write: Callable[[GraphState], GraphState] | None = (
        None  # the write of another writer before the first cell
    )
    environment: WriteEnvironment = field(default_factory=WriteEnvironment)


def seed(location: Location) -> None:
    """Create a graph with two commits, so that every table has two fragments and rows to change."""
    create(location)
    run(location, triple(["a", "b"]))
    run(location, triple(["c"]))


def _seed(location: Location, _: Kill) -> None:
    seed(location)


def _seed_with_branch(location: Location, _: Kill) -> None:
    seed(location)
    create_branch(location, acts.DEV, "tester", read_snapshot(location))


ON_DEV: Final = (Change(PERSON, upsert=(("a", 7), ("x", 8))), Change(COMPANY, insert=("x",)))
IN_CITY: Final = Change("node:City", insert=("x",))
ON_MAIN: Final = (Change(PERSON, upsert=(("b", 9),)), Change(KNOWS, upsert=(("b", 9),)))


def _write_both_branches(location: Location, kill: Kill) -> None:
    _seed_with_branch(location, kill)
    run(location, ON_DEV, branch=acts.DEV)
    run(location, ON_MAIN)


def _change_both_schemas(location: Location, kill: Kill) -> None:
    """Give the source branch other columns, a new type, and rows in a table whose columns changed.

    The new type has a row, and a column that its empty table did not have.
    """
    _seed_with_branch(location, kill)
    acts.schema_apply_on_branch(location)
    acts.schema_apply_to_new_type(location)
    run(location, (*ON_DEV, IN_CITY), branch=acts.DEV)
    run(location, ON_MAIN)


def _seed_with_new_schema(location: Location, kill: Kill) -> None:
    seed(location)
    acts.schema_apply(location)


def _kill_first(scenario: str, point: Failpoint, hit: int = 1) -> Callable[[Location, Kill], None]:
    def prepare(location: Location, kill: Kill) -> None:
        SCENARIOS[scenario].prepare(location, kill)
        kill(scenario, location, point, hit)

    return prepare


def _kill_on_deleted_branch(location: Location, kill: Kill) -> None:
    _seed_with_branch(location, kill)
    kill("fork", location, Failpoint.COMMIT_BEFORE, 2)
    delete_branch(location, acts.DEV)


def _seed_with_late_fence(location: Location, _: Kill) -> None:
    """Add a fence that was committed after its recovery had ended."""
    seed(location)
    table = read_snapshot(location).tables[PERSON]
    dataset = open_dataset(location.child(table.path))
    commit_restore(dataset, dataset.version, operation_properties(new_ulid(), new_ulid(), "load"))


def _seed_with_many_commits(location: Location, _: Kill) -> None:
    """Add commits until the next writer compacts the manifest."""
    seed(location)
    for number in range(limits.MANIFEST_FRAGMENTS_MAX + 1):
        if needs_compaction(read_snapshot(location).manifest.dataset.fragment_rows().values()):
            return
        run(location, [Change(COMPANY, insert=(f"m{number}",))])


def _seed_with_old_stamp(location: Location, _: Kill) -> None:
    seed(location)
    commit_schema_metadata(open_dataset(location.child(MANIFEST)), {STAMP_KEY: "0"})


def _seed_with_drift(act: Callable[[Any], None]) -> Callable[[Location, Kill], None]:
    """Return a function that creates a graph with a table that an external tool changed."""

    def prepare(location: Location, _: Kill) -> None:
        seed(location)
        table_location = location.child(read_snapshot(location).tables[PERSON].path)
        act(lance.dataset(table_location.lance_uri, storage_options=table_location.storage_options))

    return prepare


def _seed_for_optimize(location: Location, _: Kill) -> None:
    """Create a table with two indexed fragments, one without index, and settings that must be removed first."""
    seed(location)
    acts.build_indices(location)
    run(location, triple(["d"]))
    plant_auto_cleanup(location, PERSON, interval=1_000_000)


def _expect_schema(branch: str) -> Callable[[GraphState], GraphState]:
    def after(before: GraphState) -> GraphState:
        was = before[branch]
        now = BranchState({**was.contents, "node:City": {}}, (*was.operations, "schema_apply by tester"))
        return {**before, branch: now}

    return after


def _seed_for_cleanup(location: Location, _: Kill) -> None:
    """Create a graph with old versions and a deleted branch with forks."""
    seed(location)
    create_branch(location, acts.DEV, "tester", read_snapshot(location))
    run(location, acts.LOADED, branch=acts.DEV)
    delete_branch(location, acts.DEV)


def _expect_write(
    changes: tuple[Change, ...], operation: str, branch: str = MAIN
) -> Callable[[GraphState], GraphState]:
    def after(before: GraphState) -> GraphState:
        was = before[branch]
        now = BranchState(apply(was.contents, changes), (*was.operations, operation))
        return {**before, branch: now}

    return after


def _expect_merged_schema(before: GraphState) -> GraphState:
    now = _expect_write(ON_DEV, "merge by tester")(before)
    contents = apply({**now[MAIN].contents, "node:City": {}}, (IN_CITY,))
    return {**now, MAIN: BranchState(contents, now[MAIN].operations)}


def _expect_revert(before: GraphState) -> GraphState:
    undone = (Change(PERSON, delete=("c",)), Change(COMPANY, delete=("c",)), Change(KNOWS, delete=("c",)))
    return _expect_write(undone, "revert by tester")(before)


def _expect_no_change(before: GraphState) -> GraphState:
    return before


def _expect_new_graph(_: GraphState) -> GraphState:
    return {MAIN: BranchState({alias: {} for alias in TABLES}, ("init by tester",))}


def _expect_new_branch(before: GraphState) -> GraphState:
    return {**before, acts.DEV: before[MAIN]}


def _expect_deleted_branch(before: GraphState) -> GraphState:
    return {MAIN: before[MAIN]}


_COMMITTED: Final = Failpoint.COMMIT_AFTER
_expect_load: Final = _expect_write(acts.LOADED, "load by tester")
_expect_indexes: Final = _expect_write((), "ensure_indices by omnigraph:ensure_indices")

_PUBLISHED: Final = Failpoint.PUBLISH_AFTER
_repair: Final = acts.make_repair()
_repair_with_force: Final = acts.make_repair(force=True)
_repair_with_discard: Final = acts.make_repair(discard=True)
_expect_repair: Final = _expect_write((), "repair by omnigraph:repair")
_expect_forced_repair: Final = _expect_write((), "repair by omnigraph:repair:force")
_expect_forced_delete: Final = _expect_write((Change(PERSON, delete=("a",)),), "repair by omnigraph:repair:force")

SCENARIOS: Final[dict[str, Scenario]] = {
    "init": Scenario(lambda *_: None, create, _expect_new_graph, Failpoint.INIT_UNMARK_BEFORE, in_place=True),
    "init_again": Scenario(
        _kill_first("init", Failpoint.INIT_MANIFEST_BEFORE),
        create,
        _expect_new_graph,
        Failpoint.INIT_UNMARK_BEFORE,
        in_place=True,
    ),
    "load": Scenario(_seed, acts.write_rows, _expect_load, _COMMITTED),
    "mutate": Scenario(_seed, acts.mutate, _expect_write(acts.MUTATED, "mutate by tester"), _COMMITTED),
    "delete": Scenario(_seed, acts.delete_rows, _expect_write(acts.DELETED, "mutate by tester"), _COMMITTED),
    "optimize": Scenario(
        _seed_for_optimize,
        acts.optimize,
        _expect_write((), "optimize by omnigraph:optimize"),
        Failpoint.REWRITE_BEFORE,
        is_multi_commit=True,
    ),
    "optimize_beside": Scenario(
        _seed_for_optimize,
        acts.optimize_with_concurrent_write,
        _expect_write((), "optimize by omnigraph:optimize"),
        Failpoint.REWRITE_BEFORE,
        is_multi_commit=True,
        concurrent_write=_expect_write(acts.CONCURRENT, "load by tester"),
    ),
    "ensure_indices": Scenario(_seed, acts.build_indices, _expect_indexes, Failpoint.INDEX_AFTER, is_multi_commit=True),
    "schema_apply": Scenario(_seed, acts.schema_apply, _expect_schema(MAIN), _COMMITTED),
    "schema_apply_on_branch": Scenario(
        _seed_with_branch, acts.schema_apply_on_branch, _expect_schema(acts.DEV), _COMMITTED, in_place=True
    ),
    "recover_schema_apply": Scenario(
        _kill_first("schema_apply", Failpoint.PUBLISH_BEFORE), acts.recover, _expect_schema(MAIN), None
    ),
    "fork": Scenario(
        _seed_with_branch, acts.fork, _expect_write(acts.LOADED, "load by tester", acts.DEV), _COMMITTED, in_place=True
    ),
    "load_files": Scenario(
        _seed_with_branch,
        acts.load_files,
        _expect_write(acts.FROM_FILES, "load by tester", acts.DEV),
        _COMMITTED,
        in_place=True,
    ),
    "load_new_branch": Scenario(
        _seed,
        acts.load_to_new_branch,
        lambda before: _expect_write(acts.FROM_FILES, "load by tester", acts.DEV)(_expect_new_branch(before)),
        Failpoint.PUBLISH_AFTER,
        in_place=True,
    ),
    "branch_create": Scenario(_seed, acts.create_dev, _expect_new_branch, Failpoint.PUBLISH_AFTER, in_place=True),
    "branch_delete": Scenario(
        _seed_with_branch, acts.delete_dev, _expect_deleted_branch, Failpoint.PUBLISH_AFTER, in_place=True
    ),
    "repair": Scenario(
        _seed_with_drift(compaction),
        _repair,
        _expect_repair,
        _PUBLISHED,
        heads_ahead=True,
        redo=Redo(_repair, _expect_repair),
    ),
    "repair_force": Scenario(
        _seed_with_drift(delete),
        _repair_with_force,
        _expect_forced_delete,
        _PUBLISHED,
        heads_ahead=True,
        redo=Redo(_repair_with_force, _expect_forced_delete),
    ),
    "repair_force_settings": Scenario(
        _seed_with_drift(update_config),
        _repair_with_force,
        _expect_forced_repair,
        _COMMITTED,
        heads_ahead=True,
        redo=Redo(_repair_with_force, _expect_forced_repair),
    ),
    "repair_discard": Scenario(
        _seed_with_drift(delete),
        _repair_with_discard,
        _expect_repair,
        _COMMITTED,
        heads_ahead=True,
        redo=Redo(_repair_with_discard, _expect_repair),
    ),
    "recover_discard": Scenario(
        _kill_first("repair_discard", Failpoint.ARM_AFTER),
        acts.recover,
        _expect_no_change,
        None,
        heads_ahead=True,
        redo=Redo(_repair_with_discard, _expect_repair),
    ),
    "merge": Scenario(
        _write_both_branches, acts.merge_dev, _expect_write(ON_DEV, "merge by tester"), _COMMITTED, in_place=True
    ),
    "merge_into_branch": Scenario(
        _write_both_branches,
        acts.merge_into_branch,
        _expect_write(ON_MAIN, "merge by tester", acts.DEV),
        _COMMITTED,
        in_place=True,
    ),
    "merge_schema": Scenario(_change_both_schemas, acts.merge_dev, _expect_merged_schema, _COMMITTED, in_place=True),
    "recover_merge_schema": Scenario(
        _kill_first("merge_schema", Failpoint.COMMIT_BETWEEN, 2), acts.recover, _expect_no_change, None, in_place=True
    ),
    "schema_apply_hard": Scenario(
        _seed_with_new_schema, acts.drop_with_values, _expect_write((), "schema_apply by tester"), _COMMITTED
    ),
    "revert": Scenario(_seed, acts.revert_head, _expect_revert, _COMMITTED),
    "recover_merge": Scenario(
        _kill_first("merge_into_branch", Failpoint.PUBLISH_BEFORE),
        acts.recover_dev,
        _expect_write(ON_MAIN, "merge by tester", acts.DEV),
        None,
        in_place=True,
    ),
    "heal": Scenario(_seed_with_late_fence, acts.write_rows, _expect_load, _COMMITTED, heads_ahead=True),
    "compact": Scenario(_seed_with_many_commits, acts.write_rows, _expect_load, _COMMITTED),
    "migrate": Scenario(_seed_with_old_stamp, acts.migrate, _expect_load, _COMMITTED, environment=acts.OLD_FORMAT),
    "renew": Scenario(_seed, acts.renew, _expect_load, _COMMITTED),
    "cleanup": Scenario(_seed_for_cleanup, acts.cleanup, _expect_no_change, None),
    "recover_forward": Scenario(_kill_first("load", Failpoint.PUBLISH_BEFORE), acts.recover, _expect_load, None),
    "recover_back": Scenario(_kill_first("load", Failpoint.COMMIT_BEFORE, 3), acts.recover, _expect_no_change, None),
    "recover_nothing": Scenario(_kill_first("load", Failpoint.ARM_AFTER), acts.recover, _expect_no_change, None),
    "recover_finished": Scenario(_kill_first("load", Failpoint.DISARM_BEFORE), acts.recover, _expect_no_change, None),
    "recover_half_back": Scenario(
        _kill_first("recover_back", Failpoint.ROLLBACK_AFTER), acts.recover, _expect_no_change, None
    ),
    "recover_mutate": Scenario(
        _kill_first("mutate", Failpoint.COMMIT_BEFORE, 2), acts.recover, _expect_no_change, None
    ),
    "recover_optimize": Scenario(
        _kill_first("optimize", Failpoint.INDEX_BEFORE, 2),
        acts.recover,
        _expect_write((), "optimize by omnigraph:optimize"),
        None,
    ),
    "recover_optimize_beside": Scenario(
        _kill_first("optimize_beside", Failpoint.REWRITE_AFTER),
        acts.recover,
        _expect_write((), "optimize by omnigraph:optimize"),
        None,
    ),
    "recover_ensure_indices": Scenario(
        _kill_first("ensure_indices", Failpoint.INDEX_BEFORE, 2), acts.recover, _expect_indexes, None
    ),
    "recover_gone": Scenario(_kill_on_deleted_branch, acts.recover, _expect_no_change, None, in_place=True),
    "recover_in_check": Scenario(
        _kill_first("load", Failpoint.COMMIT_BEFORE, 2),
        acts.mutate,
        _expect_write(acts.MUTATED, "mutate by tester"),
        _COMMITTED,
    ),
}


def is_done_at(scenario: Scenario, trace: tuple[str, ...], cell: str) -> bool:
    """Return whether the write counts as done if its process is killed at `cell`, a hit of its trace."""
    if scenario.decided_at is None:
        return True
    deciding = [position for position, hit in enumerate(trace) if hit.startswith(f"{scenario.decided_at}@")]
    decided = deciding[0] if scenario.is_multi_commit else deciding[-1]
    return trace.index(cell) >= decided
