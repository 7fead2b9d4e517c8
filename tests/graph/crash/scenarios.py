"""The writers that are killed, one per kind, each with what the graph must look like afterwards.

`prepare` runs in the test process, `act` in the process that dies. A write *happened* from the last hit of `decided_at`
on; without one the outcome is always `after`, because recovery is what is being killed. `after` is the model.
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
from tests.graph.writers import (
    COMPANY,
    KNOWS,
    PERSON,
    TABLES,
    Change,
    apply,
    create,
    plant_auto_cleanup,
    run,
    triple,
)
from tests.maintenance.external_tool import compaction, delete, update_config

Kill = Callable[[str, Location, Failpoint, int], None]
"""Runs a scenario's `act` in another process and kills it at a hit of a failpoint."""


@dataclass(frozen=True, slots=True)
class Redo:
    """What is done again after the crash, and what it makes of the graph as it was at first."""

    act: Callable[[Location], object]
    after: Callable[[GraphState], GraphState]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One writer kind: how the graph is made, what the victim does, and what it makes of the graph."""

    prepare: Callable[[Location, Kill], None]
    act: Callable[[Location], object]
    after: Callable[[GraphState], GraphState]
    decided_at: Failpoint | None
    in_place: bool = False  # it has Lance branches, which hold absolute paths, so the graph cannot be copied
    loose: bool = False  # done with its first commit: what it moved is published, whatever else it planned
    heads_ahead: bool = False  # it starts with a head above its pin, which only a write puts right
    redo: Redo | None = None  # what must be done again before anybody can write
    beside: Callable[[GraphState], GraphState] | None = None  # what another writer does before the first cell
    world: WriteEnvironment = field(default_factory=WriteEnvironment)


def seed(location: Location) -> None:
    """Two commits, so that every table has two fragments and rows to change."""
    create(location)
    run(location, triple(["a", "b"]))
    run(location, triple(["c"]))


def _seeded(location: Location, _: Kill) -> None:
    seed(location)


def _with_branch(location: Location, _: Kill) -> None:
    seed(location)
    create_branch(location, acts.DEV, "tester", read_snapshot(location))


ON_DEV: Final = (Change(PERSON, upsert=(("a", 7), ("x", 8))), Change(COMPANY, insert=("x",)))
IN_CITY: Final = Change("node:City", insert=("x",))
ON_MAIN: Final = (Change(PERSON, upsert=(("b", 9),)), Change(KNOWS, upsert=(("b", 9),)))


def _two_sides(location: Location, kill: Kill) -> None:
    _with_branch(location, kill)
    run(location, ON_DEV, branch=acts.DEV)
    run(location, ON_MAIN)


def _two_schemas(location: Location, kill: Kill) -> None:
    """The source has other columns, one type more, and rows in a table whose columns changed.

    The new type has a column more than its empty table, and a row.
    """
    _with_branch(location, kill)
    acts.schema_apply_on_branch(location)
    acts.schema_apply_to_new_type(location)
    run(location, (*ON_DEV, IN_CITY), branch=acts.DEV)
    run(location, ON_MAIN)


def _evolved_already(location: Location, kill: Kill) -> None:
    seed(location)
    acts.schema_apply(location)


def _killed(scenario: str, point: Failpoint, hit: int = 1) -> Callable[[Location, Kill], None]:
    def prepare(location: Location, kill: Kill) -> None:
        SCENARIOS[scenario].prepare(location, kill)
        kill(scenario, location, point, hit)

    return prepare


def _killed_on_gone_branch(location: Location, kill: Kill) -> None:
    _with_branch(location, kill)
    kill("fork", location, Failpoint.COMMIT_BEFORE, 2)
    delete_branch(location, acts.DEV)


def _late_fence(location: Location, _: Kill) -> None:
    """A fence of ours that landed after its recovery was over."""
    seed(location)
    table = read_snapshot(location).tables[PERSON]
    dataset = open_dataset(location.child(table.path))
    commit_restore(dataset, dataset.version, operation_properties(new_ulid(), new_ulid(), "load"))


def _many_commits(location: Location, _: Kill) -> None:
    """Just as many as make the next writer compact the manifest."""
    seed(location)
    for number in range(limits.MANIFEST_FRAGMENTS_MAX + 1):
        if needs_compaction(read_snapshot(location).manifest.dataset.fragment_rows().values()):
            return
        run(location, [Change(COMPANY, insert=(f"m{number}",))])


def _old_stamp(location: Location, _: Kill) -> None:
    seed(location)
    commit_schema_metadata(open_dataset(location.child(MANIFEST)), {STAMP_KEY: "0"})


def _drifted(act: Callable[[Any], None]) -> Callable[[Location, Kill], None]:
    """A foreign tool has changed a table."""

    def prepare(location: Location, _: Kill) -> None:
        seed(location)
        place = location.child(read_snapshot(location).tables[PERSON].path)
        act(lance.dataset(place.lance_uri, storage_options=place.storage_options))

    return prepare


def _worn(location: Location, _: Kill) -> None:
    """Two fragments that are indexed, one that is not, and settings that must go before anything is committed."""
    seed(location)
    acts.build_indices(location)
    run(location, triple(["d"]))
    plant_auto_cleanup(location, PERSON, interval=1_000_000)


def _evolved(branch: str) -> Callable[[GraphState], GraphState]:
    def after(before: GraphState) -> GraphState:
        was = before[branch]
        now = BranchState({**was.contents, "node:City": {}}, (*was.operations, "schema_apply by tester"))
        return {**before, branch: now}

    return after


def _after_cleanups_need(location: Location, _: Kill) -> None:
    """Old versions, and a branch that is gone and has forks."""
    seed(location)
    create_branch(location, acts.DEV, "tester", read_snapshot(location))
    run(location, acts.LOADED, branch=acts.DEV)
    delete_branch(location, acts.DEV)


def _wrote(
    changes: tuple[Change, ...], operation: str, branch: str = MAIN
) -> Callable[[GraphState], GraphState]:
    def after(before: GraphState) -> GraphState:
        was = before[branch]
        now = BranchState(apply(was.contents, changes), (*was.operations, operation))
        return {**before, branch: now}

    return after


def _merged_schema(before: GraphState) -> GraphState:
    now = _wrote(ON_DEV, "merge by tester")(before)
    contents = apply({**now[MAIN].contents, "node:City": {}}, (IN_CITY,))
    return {**now, MAIN: BranchState(contents, now[MAIN].operations)}


def _reverted(before: GraphState) -> GraphState:
    undone = (Change(PERSON, delete=("c",)), Change(COMPANY, delete=("c",)), Change(KNOWS, delete=("c",)))
    return _wrote(undone, "revert by tester")(before)


def _unchanged(before: GraphState) -> GraphState:
    return before


def _created(_: GraphState) -> GraphState:
    return {MAIN: BranchState({alias: {} for alias in TABLES}, ("init by tester",))}


def _branched(before: GraphState) -> GraphState:
    return {**before, acts.DEV: before[MAIN]}


def _unbranched(before: GraphState) -> GraphState:
    return {MAIN: before[MAIN]}


_WRITTEN: Final = Failpoint.COMMIT_AFTER
_loaded: Final = _wrote(acts.LOADED, "load by tester")
_indexed: Final = _wrote((), "ensure_indices by omnigraph:ensure_indices")

_published: Final = Failpoint.PUBLISH_AFTER
_healing: Final = acts.repairing()
_forcing: Final = acts.repairing(force=True)
_discarding: Final = acts.repairing(discard=True)
_undone: Final = _wrote((), "repair by omnigraph:repair")
_accepted: Final = _wrote((), "repair by omnigraph:repair:force")
_forced: Final = _wrote((Change(PERSON, delete=("a",)),), "repair by omnigraph:repair:force")

SCENARIOS: Final[dict[str, Scenario]] = {
    "init": Scenario(lambda *_: None, create, _created, Failpoint.INIT_UNMARK_BEFORE, in_place=True),
    "init_again": Scenario(
        _killed("init", Failpoint.INIT_MANIFEST_BEFORE),
        create,
        _created,
        Failpoint.INIT_UNMARK_BEFORE,
        in_place=True,
    ),
    "load": Scenario(_seeded, acts.write_rows, _loaded, _WRITTEN),
    "mutate": Scenario(_seeded, acts.mutate, _wrote(acts.MUTATED, "mutate by tester"), _WRITTEN),
    "delete": Scenario(_seeded, acts.delete_rows, _wrote(acts.DELETED, "mutate by tester"), _WRITTEN),
    "optimize": Scenario(
        _worn,
        acts.optimize,
        _wrote((), "optimize by omnigraph:optimize"),
        Failpoint.REWRITE_BEFORE,
        loose=True,
    ),
    "optimize_beside": Scenario(
        _worn,
        acts.optimize_beside,
        _wrote((), "optimize by omnigraph:optimize"),
        Failpoint.REWRITE_BEFORE,
        loose=True,
        beside=_wrote(acts.BESIDE, "load by tester"),
    ),
    "ensure_indices": Scenario(_seeded, acts.build_indices, _indexed, Failpoint.INDEX_AFTER, loose=True),
    "schema_apply": Scenario(_seeded, acts.schema_apply, _evolved(MAIN), _WRITTEN),
    "schema_apply_on_branch": Scenario(
        _with_branch, acts.schema_apply_on_branch, _evolved(acts.DEV), _WRITTEN, in_place=True
    ),
    "recover_schema_apply": Scenario(
        _killed("schema_apply", Failpoint.PUBLISH_BEFORE), acts.recover, _evolved(MAIN), None
    ),
    "fork": Scenario(
        _with_branch, acts.fork, _wrote(acts.LOADED, "load by tester", acts.DEV), _WRITTEN, in_place=True
    ),
    "load_files": Scenario(
        _with_branch,
        acts.load_files,
        _wrote(acts.FROM_FILES, "load by tester", acts.DEV),
        _WRITTEN,
        in_place=True,
    ),
    "load_new_branch": Scenario(
        _seeded,
        acts.load_to_new_branch,
        lambda before: _wrote(acts.FROM_FILES, "load by tester", acts.DEV)(_branched(before)),
        Failpoint.PUBLISH_AFTER,
        in_place=True,
    ),
    "branch_create": Scenario(_seeded, acts.make_branch, _branched, Failpoint.PUBLISH_AFTER, in_place=True),
    "branch_delete": Scenario(
        _with_branch, acts.remove_branch, _unbranched, Failpoint.PUBLISH_AFTER, in_place=True
    ),
    "repair": Scenario(
        _drifted(compaction), _healing, _undone, _published, heads_ahead=True, redo=Redo(_healing, _undone)
    ),
    "repair_force": Scenario(
        _drifted(delete), _forcing, _forced, _published, heads_ahead=True, redo=Redo(_forcing, _forced)
    ),
    "repair_force_settings": Scenario(
        _drifted(update_config),
        _forcing,
        _accepted,
        _WRITTEN,
        heads_ahead=True,
        redo=Redo(_forcing, _accepted),
    ),
    "repair_discard": Scenario(
        _drifted(delete), _discarding, _undone, _WRITTEN, heads_ahead=True, redo=Redo(_discarding, _undone)
    ),
    "recover_discard": Scenario(
        _killed("repair_discard", Failpoint.ARM_AFTER),
        acts.recover,
        _unchanged,
        None,
        heads_ahead=True,
        redo=Redo(_discarding, _undone),
    ),
    "merge": Scenario(_two_sides, acts.merge_dev, _wrote(ON_DEV, "merge by tester"), _WRITTEN, in_place=True),
    "merge_into_branch": Scenario(
        _two_sides,
        acts.merge_into_branch,
        _wrote(ON_MAIN, "merge by tester", acts.DEV),
        _WRITTEN,
        in_place=True,
    ),
    "merge_schema": Scenario(_two_schemas, acts.merge_dev, _merged_schema, _WRITTEN, in_place=True),
    "recover_merge_schema": Scenario(
        _killed("merge_schema", Failpoint.COMMIT_BETWEEN, 2), acts.recover, _unchanged, None, in_place=True
    ),
    "schema_apply_hard": Scenario(
        _evolved_already, acts.drop_for_good, _wrote((), "schema_apply by tester"), _WRITTEN
    ),
    "revert": Scenario(_seeded, acts.revert_head, _reverted, _WRITTEN),
    "recover_merge": Scenario(
        _killed("merge_into_branch", Failpoint.PUBLISH_BEFORE),
        acts.recover_dev,
        _wrote(ON_MAIN, "merge by tester", acts.DEV),
        None,
        in_place=True,
    ),
    "heal": Scenario(_late_fence, acts.write_rows, _loaded, _WRITTEN, heads_ahead=True),
    "compact": Scenario(_many_commits, acts.write_rows, _loaded, _WRITTEN),
    "migrate": Scenario(_old_stamp, acts.migrate, _loaded, _WRITTEN, world=acts.OLD_FORMAT),
    "renew": Scenario(_seeded, acts.renew, _loaded, _WRITTEN),
    "cleanup": Scenario(_after_cleanups_need, acts.cleanup, _unchanged, None),
    "recover_forward": Scenario(_killed("load", Failpoint.PUBLISH_BEFORE), acts.recover, _loaded, None),
    "recover_back": Scenario(_killed("load", Failpoint.COMMIT_BEFORE, 3), acts.recover, _unchanged, None),
    "recover_nothing": Scenario(_killed("load", Failpoint.ARM_AFTER), acts.recover, _unchanged, None),
    "recover_finished": Scenario(_killed("load", Failpoint.DISARM_BEFORE), acts.recover, _unchanged, None),
    "recover_half_back": Scenario(
        _killed("recover_back", Failpoint.ROLLBACK_AFTER), acts.recover, _unchanged, None
    ),
    "recover_mutate": Scenario(_killed("mutate", Failpoint.COMMIT_BEFORE, 2), acts.recover, _unchanged, None),
    "recover_optimize": Scenario(
        _killed("optimize", Failpoint.INDEX_BEFORE, 2),
        acts.recover,
        _wrote((), "optimize by omnigraph:optimize"),
        None,
    ),
    "recover_optimize_beside": Scenario(
        _killed("optimize_beside", Failpoint.REWRITE_AFTER),
        acts.recover,
        _wrote((), "optimize by omnigraph:optimize"),
        None,
    ),
    "recover_ensure_indices": Scenario(
        _killed("ensure_indices", Failpoint.INDEX_BEFORE, 2), acts.recover, _indexed, None
    ),
    "recover_gone": Scenario(_killed_on_gone_branch, acts.recover, _unchanged, None, in_place=True),
    "recover_in_check": Scenario(
        _killed("load", Failpoint.COMMIT_BEFORE, 2),
        acts.mutate,
        _wrote(acts.MUTATED, "mutate by tester"),
        _WRITTEN,
    ),
}


def happens_at(scenario: Scenario, trace: tuple[str, ...], cell: str) -> bool:
    """Whether the write counts as done when its process dies at `cell`, a hit of its trace."""
    if scenario.decided_at is None:
        return True
    deciding = [at for at, hit in enumerate(trace) if hit.startswith(f"{scenario.decided_at}@")]
    decided = deciding[0] if scenario.loose else deciding[-1]
    return trace.index(cell) >= decided
