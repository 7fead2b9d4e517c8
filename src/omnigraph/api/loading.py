"""`Graph.load`: names of files and a mode come in, one commit goes out. It runs on Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from omnigraph.base.errors import RefusedError, UsageError
from omnigraph.base.progress import Report, report_nothing
from omnigraph.graph.branches import create_branch, source_snapshot
from omnigraph.graph.snapshot import read_snapshot
from omnigraph.pipeline.inputs import InputFile, InputFormat, find_inputs
from omnigraph.pipeline.load import Loaded, LoadRequest, load
from omnigraph.pipeline.load_change import LoadMode
from omnigraph.pipeline.load_source import PieceSource, Result, RunTasks, Task
from omnigraph.pipeline.load_task import LoadPart
from omnigraph.pipeline.ndjson import plan_json_pieces
from omnigraph.pipeline.session import SparkSettings, spark_session
from omnigraph.pipeline.tasks import RunOptions, run_tasks
from omnigraph.pipeline.watch import TaskSize
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load. `base` is the branch to fork from when the branch is not there yet; `dry_run` only checks."""

    mode: str = "append"
    actor: str = ""
    base: str | None = None
    dry_run: bool = False
    spark: SparkSettings = field(default_factory=SparkSettings)
    report: Report = report_nothing


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """What a load did, and whether it made its branch first."""

    loaded: Loaded
    branch_created: bool


def check_words(root: Location, names: Sequence[str], mode: str) -> tuple[InputFile, ...]:
    """The files that the names stand for; raise `UsageError` for a mode or a name that load cannot use."""
    _check_mode(mode)
    files = find_inputs(names, dict(root.options) or None)
    _refuse_other_formats(files)
    return files


def load_files(root: Location, branch: str, names: Sequence[str], options: LoadOptions) -> LoadOutcome:
    """Load files, directories and globs of NDJSON as one commit."""
    files = check_words(root, names, options.mode)
    created = _fork_if_missing(root, branch, options)
    source = PieceSource(plan_json_pieces(files))
    request = LoadRequest(source, LoadMode(options.mode), options.actor, branch, options.dry_run)
    return LoadOutcome(load(root, request, _on_spark(source.size_bytes, options)), created)


def _refuse_other_formats(files: Sequence[InputFile]) -> None:
    other = next((file for file in files if file.format is not InputFormat.NDJSON), None)
    if other is not None:
        raise UsageError(
            f"'{other.name}' is {other.format.value}, and this release loads NDJSON only",
            code="input_format",
            hint="write it as lines of JSON, in files called .jsonl",
            facts={"data": other.name},
        )


def _check_mode(name: str) -> None:
    try:
        LoadMode(name)
    except ValueError as unknown:
        names = ", ".join(mode.value for mode in LoadMode)
        raise UsageError(
            f"'{name}' is no load mode", code="load_mode", hint=f"pass one of {names}"
        ) from unknown


def _fork_if_missing(root: Location, branch: str, options: LoadOptions) -> bool:
    if options.base is None or branch in read_snapshot(root).manifest.read_state().branches:
        return False
    if options.dry_run:
        raise RefusedError(
            f"branch '{branch}' is not there, and a dry run makes none",
            code="dry_run_branch",
            hint=f"check against {options.base} instead, or create the branch first",
        )
    create_branch(root, branch, options.actor, source_snapshot(root, options.base))
    return True


def _on_spark(size_bytes: int | None, options: LoadOptions) -> RunTasks:
    def run(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Sequence[Result]:
        how = RunOptions("load", options.report, part_size, size_bytes)
        return run_tasks(spark_session(options.spark), function, tasks, how)

    return run


def part_size(part: LoadPart) -> TaskSize:
    """What a finished part adds to the progress."""
    return TaskSize(sum(rows.count for rows in part.rows.values()), part.bytes_read)
