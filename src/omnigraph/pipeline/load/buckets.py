"""The driver's part of a check in hash buckets: plans the tasks, runs them and combines their results.

In: the input that workers read, with its keys in key files, and a snapshot. Out: the result for the whole input,
identical to that of `check_loaded`, and for a merge the fragments and deletions that replace rows. The driver holds
descriptions only, never keys. Workers write files that nothing references before the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from omnigraph.base import limits
from omnigraph.graph.manifest.snapshot import Snapshot, pinned_version
from omnigraph.graph.scratch import Scratch
from omnigraph.integrity.report import ViolationReport, merge_reports
from omnigraph.pipeline.load import bucket_tasks
from omnigraph.pipeline.load.change import LoadedInput, LoadMode, StrandedEndpoint, stranded_endpoints
from omnigraph.pipeline.load.keys import Buckets, KeyFile, graph_section, has_edge_limit, slices_of
from omnigraph.pipeline.load.rejects import ErrorStream
from omnigraph.pipeline.load.upsert import DeletionTask, UpsertPart, mark_replaced
from omnigraph.pipeline.runner import RunTasks
from omnigraph.schema.catalog import EdgeType
from omnigraph.storage.lance.dataset import DatasetVersion
from omnigraph.storage.lance.fragments import group_fragments
from omnigraph.storage.lance.stage import Deletions

_UNSIZED_BUCKETS: Final = 16
"""For an input of unknown size: a DataFrame of Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCheck:
    """What to check. `upserts`: the datasets for which a merge writes rows, by alias; with `dry_run` it counts them."""

    snapshot: Snapshot
    loaded: LoadedInput
    mode: LoadMode
    buckets: Buckets
    upserts: Mapping[str, DatasetVersion] = field(default_factory=dict)
    dry_run: bool = False
    errors: Scratch | None = None


@dataclass(frozen=True, slots=True)
class BucketResult:
    """The result of all buckets. `upserts`: what a merge wrote; `keys` include the addresses of replaced rows."""

    report: ViolationReport
    errors: tuple[ErrorStream, ...]
    upserts: Mapping[str, UpsertPart]
    keys: tuple[KeyFile, ...]


def bucket_count(size_bytes: int | None) -> int:
    """Return the number of buckets for the keys of an input of about this size."""
    count = _UNSIZED_BUCKETS if size_bytes is None else -(-size_bytes // limits.LOAD_BUCKET_BYTES)
    return min(max(count, 1), limits.LOAD_BUCKETS_MAX)


def check_in_buckets(check: BucketCheck, run_tasks: RunTasks) -> BucketResult:
    """Run the tasks and combine their results."""
    loaded = check.loaded
    graph_files = chain.from_iterable(run_tasks(bucket_tasks.read_graph_keys, list(_plan_graph_keys(check))))
    facts = _facts(check)
    by_id = [*_select_sections(loaded.keys, ("id", "src", "dst")), *graph_files]
    parts = list(run_tasks(bucket_tasks.check_ids, _bucket_tasks(facts, by_id)))
    keys = tuple(chain.from_iterable(part.keys for part in parts))
    entities = [loaded_type.entity for loaded_type in loaded.types]
    if any(entity.rules.uniques or has_edge_limit(entity) for entity in entities):
        by_value = [*_select_sections(loaded.keys, ("unique", "src")), *keys]
        parts += run_tasks(bucket_tasks.check_values, _bucket_tasks(facts, by_value))
    upserts: dict[str, UpsertPart] = {}
    for part in parts:
        for alias, written in part.upserts.items():
            upserts[alias] = upserts.get(alias, UpsertPart()) + written
    report = merge_reports([loaded.report, *(part.report for part in parts)])
    errors = (ErrorStream(part.errors) for part in parts if part.errors)
    return BucketResult(report, (*loaded.errors, *errors), upserts, keys)


def delete_replaced_rows(
    target: DatasetVersion, alias: str, keys: Sequence[KeyFile], buckets: Buckets, run_tasks: RunTasks
) -> Deletions:
    """Mark the rows of the graph that a merge replaces as deleted, one group of fragments per task."""
    section = graph_section(alias, "moved")
    slices_by_bucket = (slices_of(keys, section, bucket) for bucket in range(buckets.count))
    tasks = [DeletionTask(target, buckets.scratch, slices) for slices in slices_by_bucket if slices]
    parts = run_tasks(mark_replaced, tasks)
    updated = tuple(fragment for part in parts for fragment in part.updated)
    return Deletions(updated, tuple(sorted(number for part in parts for number in part.removed)))


def _plan_graph_keys(check: BucketCheck) -> Iterator[bucket_tasks.GraphKeysTask]:
    """Plan the reads of the loaded types, and of the nodes that loaded edges refer to."""
    catalog = check.snapshot.schema.catalog
    loaded = {loaded_type.entity.alias: loaded_type.entity for loaded_type in check.loaded.types}
    overwrites = check.mode is LoadMode.OVERWRITE
    edges = [entity for entity in loaded.values() if isinstance(entity, EdgeType)]
    nodes = {node.alias for edge in edges for node in (catalog.source_of(edge), catalog.target_of(edge))}
    for alias in sorted(nodes - loaded.keys() if overwrites else nodes | loaded.keys()):
        for task in _table_tasks(check, alias):
            yield replace(task, compared=alias in loaded, identified=alias in check.upserts)
    ends_by_edge: dict[str, list[str]] = {}
    for stranded in _stranded(check):
        ends_by_edge.setdefault(stranded.edge, []).append(stranded.column)
    for alias, ends in ends_by_edge.items():
        for task in _table_tasks(check, alias):
            yield replace(task, ends=tuple(ends))


def _table_tasks(check: BucketCheck, alias: str) -> Iterator[bucket_tasks.GraphKeysTask]:
    table = check.snapshot.tables.get(alias)
    if table is None or not table.row_count:
        return
    target = pinned_version(check.snapshot.root, table)
    for fragments in group_fragments(target.open().fragment_rows(), limits.LOAD_GRAPH_ROWS_PER_TASK):
        yield bucket_tasks.GraphKeysTask(
            catalog_json=check.snapshot.schema.catalog_json,
            alias=alias,
            table=target,
            fragments=fragments,
            buckets=check.buckets,
        )


def _stranded(check: BucketCheck) -> list[StrandedEndpoint]:
    overwrites = check.mode is LoadMode.OVERWRITE
    return stranded_endpoints(check.snapshot.schema.catalog, check.loaded) if overwrites else []


def _facts(check: BucketCheck) -> bucket_tasks.BucketFacts:
    return bucket_tasks.BucketFacts(
        catalog_json=check.snapshot.schema.catalog_json,
        mode=check.mode.change,
        before=check.loaded.before,
        first_files={loaded_type.entity.alias: loaded_type.first_file for loaded_type in check.loaded.types},
        stranded=tuple(_stranded(check)),
        upserts=check.upserts if not check.loaded.report.total else {},
        dry_run=check.dry_run,
        buckets=check.buckets,
        errors=check.errors,
    )


def _bucket_tasks(facts: bucket_tasks.BucketFacts, files: Sequence[KeyFile]) -> list[bucket_tasks.BucketTask]:
    sections = sorted({section for file in files for section in file.offsets})
    tasks = []
    for bucket in range(facts.buckets.count):
        slices = {section: slices_of(files, section, bucket) for section in sections}
        tasks.append(
            bucket_tasks.BucketTask(
                facts, {section: bucket_slices for section, bucket_slices in slices.items() if bucket_slices}
            )
        )
    return [task for task in tasks if task.slices]


def _select_sections(files: Iterable[KeyFile], contents: tuple[str, ...]) -> list[KeyFile]:
    """Return the files in the order of the input, each with the sections whose content starts with one of these."""
    prefixes = tuple(f"input {content}" for content in contents)
    return [
        replace(file, offsets={name: offsets for name, offsets in file.offsets.items() if name.startswith(prefixes)})
        for file in sorted(files, key=lambda file: (file.origin.name, file.origin.part))
    ]
