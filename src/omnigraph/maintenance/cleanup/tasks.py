"""The work of cleanup that runs on workers: which table versions snapshots pin, and which files of a dataset go.

In: small descriptions. Out: small answers; listings and reachability stay with the worker that read them. Both only
read, so Spark may run them twice. A dataset that cannot be read is an answer with an error, so that it costs no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from omnigraph.base.errors import FormatError, OmnigraphError
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.records import Pin
from omnigraph.graph.manifest.stamp import FORMAT, Format
from omnigraph.maintenance.cleanup.deletion_plan import (
    DeletableFile,
    Reach,
    find_all_doomed,
    find_doomed,
    read_lines,
    ref_times,
)
from omnigraph.maintenance.cleanup.retention import (
    DatasetFacts,
    Decision,
    Fork,
    KeepReason,
    Needs,
    Policy,
    decide,
)
from omnigraph.maintenance.optimize.report import row_error
from omnigraph.pipeline.runner import task
from omnigraph.storage.files import StoredFile, list_files
from omnigraph.storage.lance.dataset import open_dataset
from omnigraph.storage.lance.layout import read_referenced_files, read_refs
from omnigraph.storage.location import Location

_REFS = "_refs/"
_FACTS = ("_versions", "_refs", "tree")


@dataclass(frozen=True, slots=True)
class SnapshotsTask:
    """Manifest versions of one Lance branch."""

    root: Location
    lance_branch: str | None
    versions: tuple[int, ...]
    rules: Format = FORMAT


@dataclass(frozen=True, slots=True)
class TablePin:
    """A version of a table that a snapshot has."""

    path: str
    alias: str
    pin: Pin


@dataclass(frozen=True, slots=True)
class DatasetTask:
    """One dataset. Without `needs` no retained snapshot has it; `is_known`: whether any manifest ever had."""

    root: Location
    path: str
    table_key: str
    policy: Policy
    needs: Needs | None
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class DatasetPlan:
    """What goes of a dataset, in order; `retained` is what stays. `lost` are versions that a live branch or
    a tag reads and that are not there. `is_whole`: nothing of it stays. `kept` counts the versions that are retained
    although the policy names them.
    """

    table_key: str
    path: str
    doomed: tuple[DeletableFile, ...] = ()
    retained: Mapping[str | None, frozenset[int]] | None = None
    lost: frozenset[Pin] = frozenset()
    error: str | None = None
    is_whole: bool = False
    kept: Mapping[KeepReason, int] = field(default_factory=dict)


@task("read snapshots")
def read_pins(task: SnapshotsTask) -> frozenset[TablePin]:
    """Every table version that one of the snapshots has."""
    found: set[TablePin] = set()
    for version in task.versions:
        manifest = open_manifest(task.root, lance_branch=task.lance_branch, version=version, rules=task.rules)
        tables = manifest.read_state().live_tables().values()
        found.update(TablePin(table.path, table.alias, table.pin) for table in tables)
    return frozenset(found)


@task("find files", is_table=True)
def plan_dataset(task: DatasetTask) -> DatasetPlan:
    """List the dataset, read what its versions need, and join the two."""
    location = task.root.child(task.path)
    try:
        files = list_files(location)
        if task.needs is None:
            doomed = find_all_doomed(files, task.policy, is_known=task.is_known)
            return DatasetPlan(task.table_key, task.path, doomed, is_whole=bool(doomed))
        facts = read_facts(location, files)
        decision = decide(facts, task.needs, task.policy)
        lost = decision.missing & (task.needs.heads | facts.tags)
        if lost:
            return DatasetPlan(task.table_key, task.path, lost=lost)
        return DatasetPlan(
            task.table_key,
            task.path,
            doomed_of(location, files, decision, task.needs, task.policy),
            decision.retained,
            kept=Counter(decision.reasons.values()),
        )
    except OmnigraphError as error:
        return DatasetPlan(task.table_key, task.path, error=row_error(error))


def read_facts(location: Location, files: Sequence[StoredFile]) -> DatasetFacts:
    """What there is, from a listing; a dataset without refs is not even opened."""
    lines = read_lines(files)
    if not any(file.path.startswith(_REFS) for file in files):
        return DatasetFacts(lines, {}, frozenset())
    refs, made = read_refs(location), ref_times(files)
    forks = {
        branch.name: Fork(branch.name, Pin(branch.parent, branch.parent_version), made.get(branch.name, 0))
        for branch in refs.branches
    }
    return DatasetFacts(lines, forks, frozenset(Pin(*tag) for tag in refs.tags))


def list_versions(location: Location) -> tuple[StoredFile, ...]:
    """As much of a dataset's listing as `read_facts` needs."""
    return tuple(
        replace(file, path=f"{folder}/{file.path}")
        for folder in _FACTS
        for file in list_files(location.child(folder))
    )


def doomed_of(
    location: Location, files: Sequence[StoredFile], decision: Decision, needs: Needs, policy: Policy
) -> tuple[DeletableFile, ...]:
    """What goes of a dataset about whose versions is decided."""
    facts_missing = decision.missing - needs.pins - needs.heads
    if facts_missing:
        raise FormatError(
            f"{location.uri} lacks a version that a branch of it was made from",
            code="fork_base_missing",
            hint="another tool may have deleted it; nothing of this table was touched",
            facts={"uri": location.uri},
        )
    retained: set[str] = set()
    known: set[str] = set()
    lines = read_lines(files)
    for branch, versions in decision.retained.items():
        # Only what was listed can leave: a writer may have committed since, files that were in the listing.
        leaving = lines.get(branch, {}).keys() - versions
        reached = read_referenced_files(open_dataset(location, branch=branch), leaving)
        retained |= reached.by_retained
        known |= reached.by_any
    return find_doomed(files, decision, Reach(frozenset(retained), frozenset(known)), needs, policy)
