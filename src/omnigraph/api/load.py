"""Loading: names of files or frames and a mode come in, one commit goes out. It runs on Spark.

Everything that can be refused without looking at rows is refused before Spark starts and before a branch is made:
words, names, types, headers and footers. A frame is written to the scratch folder first, which is gone when the load
has ended.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from omnigraph.base.errors import (
    Applied,
    NotFoundError,
    OmnigraphError,
    RefusedError,
    StorageError,
    UsageError,
)
from omnigraph.base.hints import Argument, Placeholder, hint
from omnigraph.base.progress import Report
from omnigraph.graph.manifest.records import CommitRecord
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.scratch import open_scratch
from omnigraph.integrity.report import Violation
from omnigraph.maintenance.optimize.options import IndexOutcome
from omnigraph.maintenance.optimize.run import IndexOptions, ensure_indices
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.inputs.blocks import Piece
from omnigraph.pipeline.load.run import ErrorSink, Loaded, LoadRequest, load
from omnigraph.pipeline.load.source import (
    LoadInputs,
    LoadSource,
    classify_inputs,
    plan_files,
    plan_source,
)
from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.pipeline.spark.session import SparkSettings
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.tables import declared_indexes
from omnigraph.storage.files import write_file
from omnigraph.storage.location import Location, parse_location


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load.

    `type` is that of rows which do not name it themselves; `base` is the branch to fork from when the branch is not
    there yet; `dry_run` only checks; `errors` is a file for every mistake; `with_indexes` builds the declared indexes
    of the loaded types right after the commit, as a commit of its own.
    """

    mode: str
    actor: str
    type: str | None
    base: str | None
    dry_run: bool
    errors: str | None
    with_indexes: bool
    spark: SparkSettings
    report: Report


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """What a load did."""

    loaded: Loaded
    branch_created: bool
    """Whether the load created its branch."""
    indexes: IndexOutcome | None = None
    """What was built after the load with `with_indexes`, else None."""
    unindexed: tuple[str, ...] = ()
    """The loaded types, by alias, with declared indexes that do not know the new rows yet."""

    @property
    def counts(self) -> Mapping[str, int]:
        """The rows of the input by the alias of their type, `node:Person` or `edge:Knows`."""
        return self.loaded.counts

    @property
    def total(self) -> int:
        """All rows of the input."""
        return self.loaded.total

    @property
    def commit(self) -> CommitRecord | None:
        """The one commit, or None for a dry run and for an input without rows."""
        return self.loaded.commit


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A load whose words are good: what it reads, where to, and the file for mistakes.

    The catalog is there when a type was named.
    """

    root: Location
    branch: str
    inputs: LoadInputs
    pieces: tuple[Piece, ...]
    catalog: Catalog | None
    errors: Location | None


def plan_load(root: Location, branch: str, data: object, options: LoadOptions) -> LoadPlan:
    """Judge what was asked for; raise for a mode, a name, a type or a file that load cannot use."""
    _check_mode(options.mode)
    _refuse_idle_base(branch, options)
    inputs = classify_inputs(data, options.type, dict(root.options))
    _check_spark(inputs, options)
    errors = None if options.errors is None else _place_of_errors(options.errors, inputs, root)
    with _branch_hint(branch):
        catalog = _read_catalog(root, branch, options) if inputs.names_types else None
    return LoadPlan(root, branch, inputs, plan_files(inputs, catalog), catalog, errors)


def run_load(plan: LoadPlan, options: LoadOptions) -> LoadOutcome:
    """Load what was planned, as one commit, on Spark."""
    with open_source(plan, options) as source:
        base = _missing_base(plan, options)
        errors = None if plan.errors is None else _errors_to(plan.errors)
        mode = LoadMode(options.mode)
        request = LoadRequest(source, mode, options.actor, plan.branch, options.dry_run, errors, base=base)
        with _branch_hint(plan.branch):
            loaded = load(plan.root, request, _runner(plan, options))
    created = base is not None
    indexed = _indexed_types(plan, loaded)
    if not options.with_indexes or not indexed:
        return LoadOutcome(loaded, created, None, indexed)
    try:
        return LoadOutcome(loaded, created, _build_indexes(plan, indexed, options))
    except OmnigraphError as error:
        raise _unindexed(error, loaded, plan.root) from error


@contextmanager
def _branch_hint(branch: str) -> Iterator[None]:
    """A branch that is not there could have been made by the load."""
    try:
        yield
    except NotFoundError as error:
        if error.code == "branch_missing" and error.facts.get("branch") == branch:
            error.advice += hint(
                "To create the branch first, pass {}.", Argument("from_", Placeholder("BASE"))
            )
        raise


@contextmanager
def open_source(plan: LoadPlan, options: LoadOptions) -> Iterator[LoadSource]:
    """The source of a plan. What it has in the scratch folder is gone afterwards."""
    scratch = open_scratch(plan.root) if plan.inputs.needs_scratch else nullcontext()
    with scratch as place:
        yield plan_source(plan.inputs, plan.pieces, plan.catalog, place, options.report)


def _runner(plan: LoadPlan, options: LoadOptions) -> SparkRunner:
    return SparkRunner(options.spark, options.report, plan.inputs.session)


def _errors_to(place: Location) -> ErrorSink:
    """Every mistake as a line of JSON in this file, which is empty when there is none."""

    def write(violations: Iterable[Violation]) -> None:
        with write_file(place) as file:
            file.writelines(violation.to_ndjson() for violation in violations)

    return write


def _indexed_types(plan: LoadPlan, loaded: Loaded) -> tuple[str, ...]:
    """The types of a commit for which the schema declares indexes."""
    if loaded.commit is None:
        return ()
    types = read_snapshot(plan.root, plan.branch).schema.catalog.types
    return tuple(one.alias for one in types if loaded.counts.get(one.alias) and declared_indexes(one))


def _build_indexes(plan: LoadPlan, types: Sequence[str], options: LoadOptions) -> IndexOutcome:
    how = IndexOptions(frozenset(types), options.actor)
    return ensure_indices(plan.root, plan.branch, _runner(plan, options), how)


def _unindexed(error: OmnigraphError, loaded: Loaded, root: Location) -> OmnigraphError:
    """The error of an index build, which must not be taken for one of the load before it."""
    commit = None if loaded.commit is None else loaded.commit.id
    there = shlex.quote(str(root))
    if loaded.commit is not None and loaded.commit.branch != MAIN:
        there += f" --branch {shlex.quote(loaded.commit.branch)}"
    told = StorageError(
        f"the rows are loaded as commit {commit}, but their indexes were not built: {error.message}",
        code="load_unindexed",
        hint=f"do not load again; `omnigraph optimize {there}` builds the indexes",
        facts={**error.facts, "graph_commit_id": commit, "index_error_code": error.code},
    )
    told.kind, told.applied = error.kind, Applied.YES
    return told


def _check_mode(name: str) -> None:
    try:
        LoadMode(name)
    except ValueError as unknown:
        names = ", ".join(mode.value for mode in LoadMode)
        raise UsageError(
            f"'{name}' is no load mode", code="load_mode", hint=f"pass one of {names}"
        ) from unknown


def _place_of_errors(text: str, inputs: LoadInputs, root: Location) -> Location:
    """The file for mistakes, which must be one that can be written and that nobody needs."""
    place = parse_location(text, dict(root.options))
    if any(file.location.uri == place.uri for given in inputs.files for file in given.files):
        raise UsageError(
            f"'{text}' is to be loaded, and mistakes would be written over it",
            code="errors_file",
            hint="name another file with --errors",
        )
    path = Path(place.uri)
    if place.is_local and (path.is_dir() or not os.access(path.parent, os.W_OK)):
        raise UsageError(
            f"no file can be written at '{text}'",
            code="errors_file",
            hint="name a file in a directory that is there and that you may write to",
        )
    return place


def _check_spark(inputs: LoadInputs, options: LoadOptions) -> None:
    if inputs.session is not None and options.spark.master is not None:
        raise UsageError(
            "a Spark DataFrame is loaded on its own session, and a master is given beside it",
            code="spark_session_exists",
            hint="leave the master out",
        )


def _read_catalog(root: Location, branch: str, options: LoadOptions) -> Catalog:
    """The schema of the branch, or of the one it will be made from."""
    here = branch if options.base is None or _has_branch(root, branch) else options.base
    return read_snapshot(root, here).schema.catalog


def _has_branch(root: Location, branch: str) -> bool:
    return branch in read_snapshot(root).manifest.read_state().branches


def _refuse_idle_base(branch: str, options: LoadOptions) -> None:
    """Main is always there, so that it is never made from another branch: the caller meant another one."""
    if options.base is not None and branch == MAIN:
        raise UsageError(
            f"there is no branch to make from '{options.base}': the load goes to {MAIN}",
            code="load_base",
            hint="name the branch to make, with --branch on the command line, or leave --from out",
        )


def _missing_base(plan: LoadPlan, options: LoadOptions) -> str | None:
    """The branch from which the load creates its own; None if that exists."""
    if options.base is None or _has_branch(plan.root, plan.branch):
        return None
    if options.dry_run:
        raise RefusedError(
            f"branch '{plan.branch}' is not there, and a dry run makes none",
            code="dry_run_branch",
            hint=f"check against {options.base} instead, or create the branch first",
        )
    return options.base
