"""The driver's part of a check in hash buckets: plans the tasks, runs them and combines their results.

In: the input that workers read, with its keys in key files, and a snapshot. Out: the result for the whole input,
identical to that of `check_loaded`, and for a merge the fragments and deletions that replace rows. The driver holds
descriptions only, never keys. Workers write files that nothing references before the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraph.base import limits
from omnigraph.graph.manifest.snapshot import Snapshot, pinned_version
from omnigraph.graph.scratch import Scratch
from omnigraph.integrity.report import ViolationReport, merge_reports
from omnigraph.pipeline.load.bucket_tasks import (
    BucketFacts,
    BucketPart,
    BucketTask,
    GraphKeysTask,
    StrandedEndpoint,
    check_ids,
    check_values,
    read_graph_keys,
)
from omnigraph.pipeline.load.change import LoadedInput, LoadMode, stranded_ends
from omnigraph.pipeline.load.keys import Buckets, KeyFile, Section, has_edge_limit, slices_of
from omnigraph.pipeline.load.rejects import ErrorStream
from omnigraph.pipeline.load.upsert import DeletionTask, UpsertPart, mark_replaced
from omnigraph.pipeline.runner import RunTasks
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.lance.dataset import DatasetVersion
from omnigraph.storage.lance.fragments import group_fragments
from omnigraph.storage.lance.stage import Deletions

_UNSIZED_BUCKETS: Final = 16
"""For an input of unknown size: a DataFrame of Spark."""


@dataclass(frozen=True, slots=True)
class BucketCheck:
    """What to check. `upserts`: the datasets for which a merge writes rows, by alias."""

    snapshot: Snapshot
    loaded: LoadedInput
    mode: LoadMode
    buckets: Buckets
    upserts: Mapping[str, DatasetVersion] = field(default_factory=dict)
    errors: Scratch | None = None


@dataclass(frozen=True, slots=True)
class BucketResult:
    """The result of all buckets. `upserts`: what each wrote; `keys` include the addresses of replaced rows."""

    report: ViolationReport
    errors: tuple[ErrorStream, ...]
    upserts: Mapping[str, tuple[UpsertPart, ...]]
    keys: tuple[KeyFile, ...]

    def fragments_of(self, alias: str) -> list[Any]:
        """Return the fragments that were written for a type."""
        return [fragment for part in self.upserts.get(alias, ()) for fragment in part.fragments]

    def replaced_of(self, alias: str) -> int:
        """Return how many rows of a type replace others."""
        return sum(part.replaced for part in self.upserts.get(alias, ()))


def bucket_count(size_bytes: int | None) -> int:
    """Return the number of buckets for the keys of an input of about this size."""
    count = _UNSIZED_BUCKETS if size_bytes is None else -(-size_bytes // limits.LOAD_BUCKET_BYTES)
    return min(max(count, 1), limits.LOAD_BUCKETS_MAX)


def check_in_buckets(check: BucketCheck, run_tasks: RunTasks) -> BucketResult:
    """Run the tasks and combine their results."""
    graph_files = _flatten(run_tasks(read_graph_keys, list(_plan_graph_keys(check))))
    facts = _facts(check)
    by_id = [*_select_sections(check.loaded.keys, _is_by_id), *graph_files]
    parts = list(run_tasks(check_ids, _bucket_tasks(facts, by_id)))
    keys = tuple(_flatten(part.keys for part in parts))
    if any(
        loaded_type.entity.rules.uniques or has_edge_limit(loaded_type.entity) for loaded_type in check.loaded.types
    ):
        by_value = [*_select_sections(check.loaded.keys, _is_by_value), *keys]
        parts += run_tasks(check_values, _bucket_tasks(facts, by_value))
    return _combine(check, parts, keys)


def delete_replaced_rows(check: BucketCheck, alias: str, result: BucketResult, run_tasks: RunTasks) -> Deletions:
    """Mark the rows of the graph that a merge replaces as deleted, one group of fragments per task."""
    section = Section(alias, of_graph=True).moved
    scratch = check.buckets.scratch
    tasks = [
        DeletionTask(check.upserts[alias], alias, scratch, slices)
        for bucket in range(check.buckets.count)
        if (slices := slices_of(result.keys, section, bucket))
    ]
    parts = run_tasks(mark_replaced, tasks)
    updated = tuple(fragment for part in parts for fragment in part.updated)
    return Deletions(updated, tuple(sorted(number for part in parts for number in part.removed)))


def _plan_graph_keys(check: BucketCheck) -> Iterator[GraphKeysTask]:
    """Plan the reads of the loaded types, and of the nodes that loaded edges refer to."""
    catalog = check.snapshot.schema.catalog
    loaded = {loaded_type.entity.alias: loaded_type.entity for loaded_type in check.loaded.types}
    overwrites = check.mode is LoadMode.OVERWRITE
    edges = [entity for entity in loaded.values() if isinstance(entity, EdgeType)]
    nodes = {node.alias for edge in edges for node in (catalog.source_of(edge), catalog.target_of(edge))}
    for alias in sorted(nodes | loaded.keys()):
        if overwrites and alias in loaded:
            continue
        identified = alias in check.upserts
        yield from _table_tasks(check, alias, {"compared": alias in loaded, "identified": identified})
    if overwrites:
        for edge in catalog.edges:
            ends = tuple(
                end for stranded_edge, end, _ in stranded_ends(catalog, check.loaded) if stranded_edge.id == edge.id
            )
            if ends:
                yield from _table_tasks(check, edge.alias, {"ends": ends})


def _table_tasks(check: BucketCheck, alias: str, options: Mapping[str, Any]) -> Iterator[GraphKeysTask]:
    table = check.snapshot.tables.get(alias)
    if table is None or not table.row_count:
        return
    target = pinned_version(check.snapshot.root, table)
    dataset = target.open()
    for fragments in group_fragments(dataset.fragment_rows(), limits.LOAD_GRAPH_ROWS_PER_TASK):
        json = check.snapshot.schema.catalog_json
        yield GraphKeysTask(json, alias, target, fragments, check.buckets, **options)


def _facts(check: BucketCheck) -> BucketFacts:
    catalog = check.snapshot.schema.catalog
    stranded = stranded_ends(catalog, check.loaded) if check.mode is LoadMode.OVERWRITE else []
    return BucketFacts(
        check.snapshot.schema.catalog_json,
        check.mode.change,
        check.loaded.before,
        {loaded_type.entity.alias: loaded_type.first_file for loaded_type in check.loaded.types},
        tuple(StrandedEndpoint(edge.alias, column, node.entity.alias) for edge, column, node in stranded),
        check.upserts if not check.loaded.report.total else {},
        check.buckets,
        check.errors,
    )


def _bucket_tasks(facts: BucketFacts, files: Sequence[KeyFile]) -> list[BucketTask]:
    sections = sorted({section for file in files for section in file.offsets})
    tasks = []
    for bucket in range(facts.buckets.count):
        slices = {section: slices_of(files, section, bucket) for section in sections}
        tasks.append(
            BucketTask(facts, {section: bucket_slices for section, bucket_slices in slices.items() if bucket_slices})
        )
    return [task for task in tasks if task.slices]


def _select_sections(files: Iterable[KeyFile], is_included: Callable[[str], bool]) -> list[KeyFile]:
    """Return the files in the order of the input, each with the included sections only."""
    ordered = sorted(files, key=lambda file: (file.origin.name, file.origin.part))
    return [
        KeyFile(file.origin, file.path, {name: offsets for name, offsets in file.offsets.items() if is_included(name)})
        for file in ordered
    ]


def _is_by_id(section: str) -> bool:
    return not _is_unique(section)


def _is_by_value(section: str) -> bool:
    return _is_unique(section) or section.split(" ")[1] == "src"


def _is_unique(section: str) -> bool:
    return section.split(" ")[1].startswith("unique")


def _combine(check: BucketCheck, parts: Sequence[BucketPart], keys: tuple[KeyFile, ...]) -> BucketResult:
    upserts: dict[str, tuple[UpsertPart, ...]] = {}
    for part in parts:
        for alias, written in part.upserts.items():
            upserts[alias] = (*upserts.get(alias, ()), written)
    report = merge_reports([check.loaded.report, *(part.report for part in parts)])
    errors = tuple(ErrorStream(part.errors) for part in parts if part.errors)
    return BucketResult(report, (*check.loaded.errors, *errors), upserts, keys)


def _flatten(parts: Iterable[Iterable[KeyFile]]) -> list[KeyFile]:
    return [file for part in parts for file in part]
