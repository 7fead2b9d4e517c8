"""Plan and run a load: files or frames and a mode are the input, one commit is the output.

Everything that can be rejected without reading rows is rejected before Spark starts and before a branch is created:
arguments, names, types, headers and footers. A frame is first written to the scratch directory, which is deleted when
the load ends. Indexes are not built here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from omnigraph.base.authorization import AccessAction, AllowAll, Authority, GraphGate
from omnigraph.base.errors import RefusedError, UsageError
from omnigraph.base.hints import Argument, Placeholder, hint
from omnigraph.base.progress import Report, ignore_progress
from omnigraph.graph.manifest.snapshot import read_snapshot
from omnigraph.graph.scratch import open_scratch
from omnigraph.integrity.report import Violation
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.inputs.blocks import Piece
from omnigraph.pipeline.load.rejects import locate_rejects
from omnigraph.pipeline.load.run import ErrorSink, Loaded, LoadRequest, load, nothing_written_if_interrupted
from omnigraph.pipeline.load.source import LoadInputs, LoadSource, classify_inputs, plan_files, plan_source
from omnigraph.pipeline.spark.auto import AutoRunner
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.files import write_file
from omnigraph.storage.location import Location, require_shared


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How to load."""

    mode: str
    actor: str
    gate: GraphGate
    """Decides whether the actor may load. It has no default, so that no caller forgets it."""
    type: str | None = None
    """The type of rows that do not name it themselves."""
    base: str | None = None
    """The branch from which the load creates its branch if that does not exist."""
    dry_run: bool = False
    """Check the input and write nothing."""
    rejects: str | None = None
    """A file for every violation."""
    runner: AutoRunner = field(default_factory=AutoRunner)
    """Where the tasks run."""
    progress: Report = ignore_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """A load with valid arguments: what it reads, the branch, and the file for violations.

    The catalog is read if a type is named.
    """

    root: Location
    branch: str
    options: LoadOptions
    inputs: LoadInputs
    pieces: tuple[Piece, ...]
    catalog: Catalog | None
    rejects: Location | None


@nothing_written_if_interrupted()
def plan_load(root: Location, branch: str, data: object, options: LoadOptions) -> LoadPlan:
    """Return the plan of a load; raise for a mode, a name, a type or a file that load cannot use.

    The gate is asked before anything is read or started.
    """
    require_mode(options.mode)
    _authorize(root, branch, options)
    inputs = classify_inputs(data, options.type, dict(root.options))
    if inputs.session is not None:
        require_shared(root)
        options.runner.use_session(inputs.session)
    rejects = None if options.rejects is None else _locate_rejects(options.rejects, inputs, root)
    catalog = _read_catalog(root, branch, options) if inputs.type_names else None
    return LoadPlan(
        root=root,
        branch=branch,
        options=options,
        inputs=inputs,
        pieces=plan_files(inputs, catalog),
        catalog=catalog,
        rejects=rejects,
    )


def _authorize(root: Location, branch: str, options: LoadOptions) -> None:
    """Raise unless the actor may change the branch, and create it if it does not exist."""
    if options.base is not None and not isinstance(options.gate, AllowAll) and not _has_branch(root, branch):
        created = Authority(action=AccessAction.BRANCH_CREATE, branch=options.base, target=branch)
        options.gate.check(created, options.actor)
    options.gate.check(Authority(action=AccessAction.CHANGE, branch=branch), options.actor)


def run_load(plan: LoadPlan) -> Loaded:
    """Run a planned load as one commit."""
    options = plan.options
    with open_source(plan) as source:
        base = _missing_base(plan)
        rejects = None if plan.rejects is None else _write_rejects_to(plan.rejects)
        mode = LoadMode(options.mode)
        request = LoadRequest(
            source=source,
            mode=mode,
            actor=options.actor,
            branch=plan.branch,
            dry_run=options.dry_run,
            errors=rejects,
            base=base,
            named_types=plan.inputs.type_names,
        )
        loaded = load(plan.root, request, options.runner)
    return replace(loaded, branch_created=base is not None)


@contextmanager
def open_source(plan: LoadPlan) -> Iterator[LoadSource]:
    """Yield the source of a plan. Its files in the scratch directory are deleted afterwards."""
    scratch = open_scratch(plan.root) if plan.inputs.needs_scratch else nullcontext()
    with scratch as area:
        with nothing_written_if_interrupted():
            source = plan_source(plan.inputs, plan.pieces, plan.catalog, area, plan.options.progress)
        yield source


def _write_rejects_to(location: Location) -> ErrorSink:
    """Return a sink that writes every violation as a line of JSON. The file is empty if there is none."""

    def write(violations: Iterable[Violation]) -> None:
        with write_file(location) as file:
            file.writelines(violation.to_ndjson() for violation in violations)

    return write


def _locate_rejects(text: str, inputs: LoadInputs, root: Location) -> Location:
    """Return the file for violations. It must be writable and not an input."""
    location = locate_rejects(text, root)
    if any(file.location.uri == location.uri for group in inputs.files for file in group.files):
        raise UsageError(
            f"the file for rejected rows is also an input: '{text}'",
            code="errors_file",
            hint=hint("Pass another file as {}.", Argument("rejects", Placeholder("FILE"))),
        )
    return location


def _read_catalog(root: Location, branch: str, options: LoadOptions) -> Catalog:
    """Return the schema of the branch, or of the branch that it will be created from."""
    readable_branch = branch if options.base is None or _has_branch(root, branch) else options.base
    return read_snapshot(root, readable_branch).schema.catalog


def _has_branch(root: Location, branch: str) -> bool:
    return branch in read_snapshot(root).manifest.read_state().branches


def require_mode(mode: str) -> None:
    """Raise if a load has no mode of this name."""
    modes = [member.value for member in LoadMode]
    if mode not in modes:
        raise UsageError(f"unknown load mode: '{mode}'", code="load_mode", hint=f"Use one of {', '.join(modes)}.")


def _missing_base(plan: LoadPlan) -> str | None:
    """Return the branch from which the load creates its branch; None if that exists."""
    options = plan.options
    if options.base is None or _has_branch(plan.root, plan.branch):
        return None
    if options.dry_run:
        raise RefusedError(
            f"branch '{plan.branch}' does not exist, and a dry run does not create it",
            code="dry_run_branch",
            hint=f"Check the input on branch '{options.base}', or create the branch first.",
        )
    return options.base
