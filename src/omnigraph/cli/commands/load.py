"""`omnigraph load`: load data files as one commit, or write nothing and report every error."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from omnigraph.base import limits
from omnigraph.base.actors import login_name
from omnigraph.base.display import LoadedCounts, describe_rows, format_count
from omnigraph.base.errors import Fact, NotFoundError, OmnigraphError, UsageError, fact_rows
from omnigraph.base.hints import Hint
from omnigraph.cli.command import Capability, command
from omnigraph.cli.options import Actor, LogFileOption, RunnerArguments, TargetBranch, Yes
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import GraphArguments, ServerScope, confirm_destruction, print_location

if TYPE_CHECKING:
    from omnigraph.pipeline.load.source import NamedData
    from omnigraph.types import LoadResult

_SUFFIXES_OF_STORAGE: Final = frozenset({".parquet", ".csv", ".gz", ".zst"})
_TYPE_NAME: Final = re.compile(r"(?:(?:node|edge):)?[A-Za-z_][A-Za-z0-9_]*")
_NO_COMMIT: Final = "; no commit was created"
Data = Annotated[
    list[str],
    typer.Option(
        "--data",
        metavar="[TYPE=]PATH",
        help="A file, directory or quoted glob of NDJSON, Parquet or CSV, or - for standard input. TYPE= names the "
        "type of the rows of Parquet and CSV. Repeatable: all data become one commit.",
    ),
]
Type = Annotated[
    list[str] | None,
    typer.Option(
        "--type", metavar="NAME", help="The node or edge type of Parquet and CSV files whose --data names no type."
    ),
]
Mode = Annotated[
    str,
    typer.Option(
        "--mode",
        metavar="append|merge|patch|overwrite",
        help="append only inserts; merge replaces rows by id and inserts rows without a key; patch is like merge, but "
        "properties that a row omits keep their value; overwrite replaces all rows of each type in the data, or that "
        "you name.",
    ),
]
Base = Annotated[
    str | None, typer.Option("--from", metavar="BASE", help="Create the branch from this one if it does not exist.")
]
Errors = Annotated[
    str | None, typer.Option("--errors", metavar="FILE", help="Write every error to this file, as NDJSON.")
]
WithIndexes = Annotated[
    bool, typer.Option("--with-indexes", help="Build the declared indexes of the loaded types after the load.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check the data and write nothing.")]


@command(
    "omnigraph load --data people.jsonl graph.omni",
    "omnigraph load --data 'parts/*.jsonl.gz' --mode merge --branch import/1 --from main graph.omni",
    "omnigraph load --data people.parquet --type Person --mode merge graph.omni",
    "omnigraph load --data ages.csv --type Person --mode patch graph.omni",
    "omnigraph load --data Person=people.parquet --data Knows=knows.csv graph.omni",
    "zcat people.jsonl.gz | omnigraph load --data - graph.omni",
    "omnigraph load --data people.jsonl --dry-run --errors errors.jsonl --json graph.omni",
    "omnigraph load --data people.jsonl --with-indexes graph.omni",
    capability=Capability.ANY,
)
def load(
    data: Data,
    target: GraphArguments,
    *,
    types: Type = None,
    mode: Mode = "append",
    branch: TargetBranch = "main",
    base: Base = None,
    actor: Actor = None,
    dry_run: DryRun = False,
    errors: Errors = None,
    with_indexes: WithIndexes = False,
    yes: Yes = False,
    execution: RunnerArguments,
    output: TextOutput,
    log_file: LogFileOption = None,
) -> None:
    """Load graph data as one commit.

    Small data is loaded in this process, large data on Spark. One load is one commit, whatever its size. If any line is
    invalid, nothing is written, and the errors are shown with file, line and property: many errors of one column as one
    line with examples. Ctrl-C while the data is read and checked prints "interrupted: nothing was written".

    Each line of NDJSON names its type. Parquet and CSV files contain rows of one type, which --type or TYPE= names;
    edges have the columns from and to. A directory that `export --format parquet` wrote needs no types.
    """
    scope = target.scope()
    type_name = _only_type(types or [])
    if base is not None and branch == "main":  # main always exists, so the caller means another branch
        raise UsageError(
            f"no branch to create from '{base}': the load writes to main",
            code="load_base",
            hint="Pass `--branch NAME` with the branch to create, or omit `--from BASE`.",
        )
    if isinstance(scope, ServerScope):
        parameters = {"branch": branch, "base": base, "mode": mode}
        _load_on_server(target, data, parameters, output, is_alone=type_name is None and not dry_run, yes=yes)
        return
    location = target.locate()
    if mode == "overwrite" and not dry_run:
        confirm_destruction(target.context, location, f"load --mode {mode}", yes=yes)

    from omnigraph.api.history import read_new_names
    from omnigraph.maintenance.indexed_load import load_with_indexes
    from omnigraph.pipeline.load.plan import LoadOptions, plan_load
    from omnigraph.pipeline.spark.auto import AutoRunner, parse_runner
    from omnigraph.pipeline.spark.session import SparkSettings
    from omnigraph.wire.results import ingest_output

    with output.progress() as report, _more_advice(branch, data):
        options = LoadOptions(
            mode=mode,
            actor=target.choose_actor(actor) or login_name(),
            base=base,
            dry_run=dry_run,
            rejects=errors,
            runner=AutoRunner(parse_runner(execution.runner), SparkSettings(master=execution.spark_master), report),
            progress=report,
            gate=target.gate,
        )
        plan = plan_load(location, branch, _named_inputs(data, type_name), options)
        print_location(target.context, location)
        result = load_with_indexes(plan, build_indexes=with_indexes)
    summary = f"{'checked' if dry_run else 'loaded'} {format_count(result.total, 'entity', 'entities')}"
    if result.commit is not None:
        summary += f" at commit {result.commit.id}"
    elif not dry_run:
        summary += _NO_COMMIT
    summary += f" (runner: {result.runner})"
    messages = [
        *change_messages(result.changes, dry_run=dry_run),
        *index_messages(target.arguments or (location.uri,), branch, result),
    ]
    output.show(
        lambda: ingest_output(location.uri, result, read_new_names(location, result.commit)),
        notices=[summary, *messages],
    )


def _load_on_server(
    target: GraphArguments,
    data: list[str],
    parameters: dict[str, Any],
    output: TextOutput,
    *,
    is_alone: bool,
    yes: bool,
) -> None:
    """Send the data to a server. `is_alone`: no flag asks for what a server cannot do."""
    connection = target.connect(read_only=False)
    path = data[0]
    if not is_alone or len(data) != 1 or Path(path).suffix in _SUFFIXES_OF_STORAGE or split_data(path)[0]:
        raise UsageError(
            "a server loads one NDJSON file: expected one `--data FILE` without a type, and no `--dry-run`",
            code="flag_over_server",
            hint="Pass one NDJSON file, or `--store URI` on a machine that reaches the storage of the graph.",
        )
    if parameters["mode"] == "overwrite":
        connection.confirm(f"load --mode {parameters['mode']}", yes=yes)

    from omnigraph.wire.requests import LoadParameters

    body = _read_body(path)
    connection.print_location()
    try:
        document = connection.client.load(LoadParameters(**parameters), body)
    except OmnigraphError as error:
        if error.code == "body_too_long":
            command = shlex.join(("omnigraph", "load", "--data", path, "--mode", parameters["mode"], "--store"))
            error.advice += Hint(f"Run `{command} URI` there.")
        raise _with_file(error, "<stdin>" if path == "-" else path) from error
    summary = f"loaded {format_count(document.total_entities, 'entity', 'entities')}"
    if document.commit is not None:
        summary += f" at commit {document.commit.graph_commit_id}"
    else:
        summary += _NO_COMMIT
    changes = {loaded.name: loaded for loaded in (*document.nodes, *document.edges)} if document.commit else {}
    output.show(lambda: document, notices=[f"{summary} (runner: {document.runner})", *change_messages(changes)])


def _read_body(path: str) -> bytes:
    """Return the data, up to one byte more than a server takes."""
    if path == "-":
        return sys.stdin.buffer.read(limits.SERVER_LOAD_BYTES_MAX + 1)
    try:
        with Path(path).open("rb") as file:
            return file.read(limits.SERVER_LOAD_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read '{path}': {(error.strerror or str(error)).lower()}",
            code="input_missing",
            hint="Nothing was written. Pass a file that exists.",
        ) from error


def _with_file(error: OmnigraphError, file: str) -> OmnigraphError:
    """Return an error about rows with the name of the file, which the server does not know."""
    rows = fact_rows(error.facts, "validation_errors")
    if not rows:
        return error

    from omnigraph.client.errors import RemoteError

    named: list[Fact] = [{"file": file, **row} for row in rows]
    named_error = RemoteError(
        re.sub(r"\bline (?=\d)", lambda _: f"{file}:", error.message),
        code=error.code,
        kind=error.kind,
        hint=error.advice,
        facts={**error.facts, "validation_errors": named},
    )
    named_error.applied = error.applied
    return named_error


def _only_type(types: list[str]) -> str | None:
    if len(types) > 1:
        raise UsageError(
            f"duplicate --type: expected one type, got {', '.join(types)}",
            code="load_type_twice",
            hint="Nothing was written. Name the type of each file: `--data Person=a.parquet --data Knows=b.csv`.",
        )
    return types[0] if types else None


def _named_inputs(data: list[str], type_name: str | None) -> list[NamedData]:
    """Return the inputs in their order, paths of one type together."""
    from omnigraph.pipeline.load.inputs.staged_text import StreamInput
    from omnigraph.pipeline.load.source import NamedData

    paths_by_type: dict[str | None, list[str]] = {}
    streams = []
    for text in data:
        own_type, path = split_data(text)
        if text.endswith("=") and _TYPE_NAME.fullmatch(text[:-1]) and not Path(text).exists():
            raise UsageError(
                f"missing path in `--data {text}`: expected TYPE=PATH",
                code="input_missing",
                hint=f"Nothing was written. Write `--data {text}PATH` with a file, directory or glob.",
            )
        if path == "-":
            streams.append(NamedData(StreamInput(sys.stdin.buffer, "<stdin>"), own_type or type_name))
        else:
            paths_by_type.setdefault(own_type, []).append(path)
    if len(streams) > 1:
        raise UsageError(
            "duplicate `--data -`: standard input can be read once",
            code="input_twice",
            hint="Nothing was written. Pass `--data -` once, and files for the other data.",
        )
    if type_name is not None and None not in paths_by_type and not any(text == "-" for text in data):
        raise UsageError(
            f"unexpected `--type {type_name}`: each --data names its own type",
            code="load_type_unused",
            hint=f"Omit `--type {type_name}`.",
        )
    files = [NamedData(paths, own_type or type_name) for own_type, paths in paths_by_type.items()]
    return [*files, *streams]


def split_data(text: str) -> tuple[str | None, str]:
    """Return the type, if any, and the path of `[TYPE=]PATH`. A path whose first directory exists is not divided."""
    name, equals, path = text.partition("=")
    first_entry = text.partition("/")[0]
    if not equals or not path or _TYPE_NAME.fullmatch(name) is None or Path(first_entry).exists():
        return None, text
    return name, path


@contextmanager
def _more_advice(branch: str, data: list[str]) -> Iterator[None]:
    """Add to an error the arguments of this command that solve it."""
    try:
        yield
    except NotFoundError as error:
        if error.code == "branch_missing" and error.facts.get("branch") == branch:
            error.advice += Hint("To create the branch first, pass `--from BASE`.")
        raise
    except UsageError as error:
        if error.code == "load_type_missing":
            error.advice += Hint("For several types, name the type of each file: `--data TYPE=PATH`.")
        paths = [path for own_type, path in map(split_data, data) if own_type and own_type == error.facts.get("type")]
        if error.code != "load_type_unused" or not paths:
            raise
        path = next((path for path in paths if path == error.facts["data"]), paths[0])
        advice = f"Nothing was written. Write `--data {shlex.quote(path)}`."
        raise UsageError(error.message, code=error.code, hint=advice, facts=error.facts) from error


def change_messages(changes: Mapping[str, LoadedCounts], *, dry_run: bool = False) -> Iterator[str]:
    """Yield what the load did with the rows of each type, and which of them may be duplicates."""
    for alias, counts in changes.items():
        name = alias.rpartition(":")[2]
        yield f"{name}: {describe_rows(counts, dry_run=dry_run)}"
        if counts.deleted and not counts.inserted:
            deletes = "would delete" if dry_run else "deleted"
            yield f"the data has no row of {name}, so the overwrite {deletes} all rows of this type"
        if counts.inserted_without_key:
            rows = format_count(counts.inserted_without_key, "row")
            adds = "would add" if dry_run else "added"
            yield (
                f"{name} has no key, so the merge {adds} {rows} to the existing ones, and adds them again each time: "
                "declare a @key, or give each row an id"
            )


def index_messages(address: tuple[str, ...], branch: str, result: LoadResult) -> Iterator[str]:
    """Yield what was built, and the command that builds the rest."""
    if result.unindexed:
        names = ", ".join(alias.partition(":")[2] for alias in result.unindexed)
        branch_flag = "" if branch == "main" else f" --branch {shlex.quote(branch)}"
        yield (
            f"the indexes of {names} do not cover the new rows yet: run "
            f"`omnigraph optimize {shlex.join(address)}{branch_flag}`, or load with --with-indexes next time"
        )
    if result.indexes is not None:
        yield f"built {format_count(len(result.indexes.built), 'index', 'indexes')}"
        yield from (
            f"not built: {row.table_key} {row.property}, because {row.reason}" for row in result.indexes.pending
        )
