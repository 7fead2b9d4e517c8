"""The work of cleanup that runs on workers: read which table versions snapshots pin, and find the files to delete.

In: small descriptions. Out: small results; listings and references stay with the worker that read them. Both tasks only
read, so Spark may run them more than once. A dataset that cannot be read is a result with an error and does not stop
the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from omnigraph.base.errors import FormatError, OmnigraphError
from omnigraph.base.hints import Hint
from omnigraph.graph.manifest.reader import open_manifest
from omnigraph.graph.manifest.records import Pin
from omnigraph.graph.manifest.stamp import FORMAT, StorageFormat
from omnigraph.maintenance.cleanup import deletion_plan
from omnigraph.maintenance.cleanup.retention import (
    DatasetFacts,
    Fork,
    KeepReason,
    Needs,
    RetentionDecision,
    RetentionPolicy,
    decide,
)
from omnigraph.maintenance.rows import row_error
from omnigraph.pipeline.runner import task
from omnigraph.storage.files import StoredFile, list_files
from omnigraph.storage.lance.dataset import branch_location, open_dataset
from omnigraph.storage.lance.layout import file_group, file_group_key, file_group_keys, is_unfinished, split_branch
from omnigraph.storage.lance.references import ReferencedFiles, find_committed_files, read_referenced_files
from omnigraph.storage.location import Location

_REFS = "_refs/"
_DIRECTORIES_OF_VERSIONS = ("_versions", "_refs", "tree")


@dataclass(frozen=True, slots=True)
class SnapshotsTask:
    """Manifest versions of one Lance branch."""

    root: Location
    lance_branch: str | None
    versions: tuple[int, ...]
    storage_format: StorageFormat = FORMAT


@dataclass(frozen=True, slots=True)
class TablePin:
    """A version of a table that a snapshot pins."""

    path: str
    alias: str
    pin: Pin


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetTask:
    """One dataset. `needs` None: no retained snapshot has it. `is_in_manifest`: a manifest names or named it."""

    root: Location
    path: str
    table_key: str
    policy: RetentionPolicy
    needs: Needs | None
    is_in_manifest: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetPlan:
    """The files to delete of a dataset, in order, and the retained versions.

    `lost_versions` are versions that a live branch or a tag reads and that do not exist. `is_whole`: the whole dataset
    is deleted. `keep_reasons` counts the versions that are retained although the policy would delete them.
    """

    table_key: str
    path: str
    deletable: tuple[deletion_plan.DeletableFile, ...] = ()
    retained: Mapping[str | None, frozenset[int]] | None = None
    lost_versions: frozenset[Pin] = frozenset()
    error: Hint | None = None
    is_whole: bool = False
    keep_reasons: Mapping[KeepReason, int] = field(default_factory=dict)


@task("read snapshots")
def read_pins(task: SnapshotsTask) -> frozenset[TablePin]:
    """Return every table version that one of the snapshots pins."""
    pins: set[TablePin] = set()
    for version in task.versions:
        manifest = open_manifest(
            task.root, lance_branch=task.lance_branch, version=version, storage_format=task.storage_format
        )
        tables = manifest.read_state().live_tables().values()
        pins.update(TablePin(table.path, table.alias, table.pin) for table in tables)
    return frozenset(pins)


@task("find files", is_table=True)
def plan_dataset(task: DatasetTask) -> DatasetPlan:
    """List the dataset, read what its versions need, and join the two."""
    location = task.root.child(task.path)
    try:
        files = list_files(location)
        if task.needs is None:
            deletable = deletion_plan.find_all_deletable(files, task.policy, is_in_manifest=task.is_in_manifest)
            return DatasetPlan(table_key=task.table_key, path=task.path, deletable=deletable, is_whole=bool(deletable))
        facts = read_facts(location, files)
        decision = decide(facts, task.needs, task.policy)
        lost_versions = decision.missing & (task.needs.heads | facts.tags)
        if lost_versions:
            return DatasetPlan(table_key=task.table_key, path=task.path, lost_versions=lost_versions)
        return DatasetPlan(
            table_key=task.table_key,
            path=task.path,
            deletable=plan_files(location, files, decision, task.needs, task.policy),
            retained=decision.retained,
            keep_reasons=Counter(decision.reasons.values()),
        )
    except OmnigraphError as error:
        return DatasetPlan(table_key=task.table_key, path=task.path, error=row_error(error))


def read_facts(location: Location, files: Sequence[StoredFile]) -> DatasetFacts:
    """Return the state of a dataset from its listing; it is opened only if it has refs."""
    times_by_branch = deletion_plan.version_times(files)
    if not any(file.path.startswith(_REFS) for file in files):
        return DatasetFacts(times_by_branch, {}, frozenset())
    dataset, created = open_dataset(location), deletion_plan.ref_times(files)
    forks = {
        name: Fork(name, Pin(origin.branch, origin.version), created.get(name, 0))
        for name, origin in sorted(dataset.lance_branches().items())
    }
    tags = frozenset(Pin(tag.branch, tag.version) for tag in dataset.lance_tags())
    return DatasetFacts(times_by_branch, forks, tags)


def list_versions(location: Location) -> tuple[StoredFile, ...]:
    """List the files of a dataset that `read_facts` needs."""
    return tuple(
        replace(file, path=f"{directory}/{file.path}")
        for directory in _DIRECTORIES_OF_VERSIONS
        for file in list_files(location.child(directory))
    )


def plan_files(
    location: Location, files: Sequence[StoredFile], decision: RetentionDecision, needs: Needs, policy: RetentionPolicy
) -> tuple[deletion_plan.DeletableFile, ...]:
    """Return the files to delete of a dataset, for a decision about its versions."""
    if decision.missing - needs.pins - needs.heads:
        raise FormatError(
            f"a version of {location.uri} is missing: one of its branches was created from it",
            code="fork_base_missing",
            hint="Nothing of this table was deleted. Restore the version from a copy.",
            facts={"uri": location.uri},
        )
    references = _read_references(location, files, decision)
    rules = deletion_plan.DeletionRules(
        decision=decision,
        retained=file_group_keys(references.by_retained),
        referenced=file_group_keys(references.by_any),
        needs=needs,
        policy=policy,
    )
    return rules.find_deletable(files)


def _read_references(location: Location, files: Sequence[StoredFile], decision: RetentionDecision) -> ReferencedFiles:
    """Read which files retained versions reference, and which of the listed files any version references.

    Deleted versions are read completely only if a listed file cannot be explained in a cheaper way: an unreferenced one
    is kept longer.
    """
    times_by_branch = deletion_plan.version_times(files)
    # Only listed versions are deleted: a later commit may reference files that are in the listing.
    deleted = {
        branch: {version: time for version, time in times_by_branch.get(branch, {}).items() if version not in versions}
        for branch, versions in decision.retained.items()
    }
    datasets = {branch: open_dataset(location, branch=branch) for branch in deleted}
    if not location.is_local:  # version files can be searched on a local disk only
        return ReferencedFiles.union(
            read_referenced_files(dataset, deleted[branch]) for branch, dataset in datasets.items()
        )
    references = ReferencedFiles.union(
        read_referenced_files(dataset, deleted[branch], min(decision.retained[branch], default=None))
        for branch, dataset in datasets.items()
    )
    is_explained = True
    for branch, unexplained in _unexplained_files(files, references, deleted.keys()).items():
        directory = branch_location(location, branch)
        mentioned = find_committed_files(directory, deleted[branch], unexplained)
        by_any = references.by_any.union(file_group_key(branch, path) for path in mentioned)
        references = replace(references, by_any=by_any)
        is_explained = is_explained and len(mentioned) == len(unexplained)
    if is_explained:
        return references
    complete = [read_referenced_files(dataset, deleted[branch]) for branch, dataset in datasets.items()]
    return ReferencedFiles.union([references, *complete])


def _unexplained_files(
    files: Sequence[StoredFile], references: ReferencedFiles, branches: AbstractSet[str | None]
) -> dict[str | None, list[StoredFile]]:
    """Return the files of Lance without a reference, by Lance branch, with their paths below it."""
    referenced_groups = file_group_keys(references.by_any)
    unexplained: dict[str | None, list[StoredFile]] = {}
    for file in files:
        branch, rest = split_branch(file.path)
        if file.path in references.by_any or branch not in branches or is_unfinished(rest):
            continue
        group = file_group(rest)
        if group is not None and file_group_key(branch, group) not in referenced_groups:
            file_below_branch = file if branch is None else replace(file, path=rest)
            unexplained.setdefault(branch, []).append(file_below_branch)
    return unexplained
