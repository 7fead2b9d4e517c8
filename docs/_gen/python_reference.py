"""Prints the reference of the Python surface as Markdown, from signatures and docstrings: docs/user/python.md.

python -m docs._gen.python_reference > docs/user/python.md

What is shown is listed in `api/surface.py`. The sentence of a field, or of a member of an enum, is the string that
stands right below it in the source. Nothing is run.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from itertools import pairwise
from typing import Any, Final

from omnigraph.api import history, results
from omnigraph.api import load as loading
from omnigraph.api import merge as merging
from omnigraph.api import mutate as mutating
from omnigraph.api import query as querying
from omnigraph.api.export import ExportOutcome
from omnigraph.api.graph import Graph, OpenOptions, init, open
from omnigraph.base import errors
from omnigraph.base.progress import Progress
from omnigraph.embedding.provider import EmbeddingProvider
from omnigraph.engine.mutation.run import MutationRejectedError
from omnigraph.engine.mutation.stage import EntityCounts
from omnigraph.engine.options import QueryLimits
from omnigraph.graph import schema_plan
from omnigraph.graph.branches import BranchStatus
from omnigraph.graph.coordination import intent as pending
from omnigraph.graph.coordination import lease
from omnigraph.graph.diff import ChangeKind, SchemaDiffError
from omnigraph.graph.feed import ChangeFeedGapError
from omnigraph.graph.manifest import publish, records, requirements
from omnigraph.graph.manifest.records import BranchRecord
from omnigraph.graph.manifest.snapshot import GraphReplacedError, Snapshot
from omnigraph.graph.merge.conflicts import ConflictKind, EntityName, EntityStates, Side
from omnigraph.graph.write import check, commit
from omnigraph.maintenance import index_status, repair
from omnigraph.maintenance.cleanup import options as cleanup_options
from omnigraph.maintenance.cleanup import retention
from omnigraph.maintenance.cleanup import run as cleanup
from omnigraph.maintenance.doctor import findings as health
from omnigraph.maintenance.drift import Classification
from omnigraph.maintenance.optimize import run as optimize
from omnigraph.maintenance.optimize.index_plan import IndexStatus
from omnigraph.maintenance.optimize.options import (
    IndexOutcome,
    IndexRow,
    OptimizeOptions,
    PendingIndex,
    SkipReason,
    TableOptimizeStats,
)
from omnigraph.maintenance.repair import RepairAction, RepairOptions, TableRepairStats
from omnigraph.maintenance.schema_apply import SchemaApplied, SchemaRejectedError
from omnigraph.pipeline.datasource.options import DataSourceError
from omnigraph.pipeline.datasource.source import OmnigraphDataSource
from omnigraph.pipeline.datasource.write import TableMovedError
from omnigraph.pipeline.export.target import TargetKind
from omnigraph.pipeline.export.tasks import ExportFormat
from omnigraph.pipeline.load.run import LoadRejectedError
from omnigraph.pipeline.spark.session import session
from omnigraph.pipeline.spark.task_errors import TaskError
from omnigraph.schema.evolution.steps import Cost, Unsupported
from omnigraph.schema.property_types import IndexKind
from omnigraph.storage.errors import CommitRaceError, DatasetExistsError
from omnigraph.storage.lance.commit import DisplacedCommitError
from omnigraph.storage.lance.durability import IncompleteFileError
from omnigraph.storage.lance.indexes import Degraded, Indexed
from omnigraph.storage.sync import SyncError

SECTIONS: Final[Mapping[str, tuple[Any, ...]]] = {
    "Opening": (init, open, OpenOptions),
    "The graph": (Graph,),
    "Reading": (
        results.Result,
        results.ResultSource,
        querying.PreparedQuery,
        EmbeddingProvider,
        QueryLimits,
        Snapshot,
        records.TableRecord,
        records.Pin,
        records.SchemaRecord,
    ),
    "Writing": (
        loading.LoadOutcome,
        mutating.MutationResult,
        EntityCounts,
        ExportOutcome,
        TargetKind,
        ExportFormat,
        schema_plan.SchemaPlan,
        schema_plan.PlannedStep,
        Cost,
        Unsupported,
        SchemaApplied,
        Progress,
    ),
    "Branches and history": (
        BranchStatus,
        BranchRecord,
        records.BranchParent,
        records.CommitRecord,
        records.TableMove,
        records.StreamBatch,
        history.EntityChange,
        ChangeKind,
        history.ChangeFeed,
        history.CommitChanges,
        history.SchemaStep,
        merging.MergeOutcome,
        merging.MergeResult,
        merging.TableCounts,
        merging.Conflict,
        ConflictKind,
        EntityName,
        EntityStates,
        Side,
    ),
    "Maintenance": (
        optimize.optimize_all_tables,
        OptimizeOptions,
        TableOptimizeStats,
        SkipReason,
        PendingIndex,
        IndexOutcome,
        IndexRow,
        IndexStatus,
        IndexKind,
        repair.repair_all_tables,
        RepairOptions,
        TableRepairStats,
        Classification,
        RepairAction,
        cleanup.cleanup_all_tables,
        cleanup_options.CleanupPolicyOptions,
        cleanup_options.TableCleanupStats,
        cleanup_options.KeptVersions,
        retention.KeepReason,
        health.Finding,
        health.Check,
        health.Health,
        index_status.IndexCoverage,
        Indexed,
        Degraded,
        pending.PendingIntent,
        pending.PendingState,
        records.RecoveryRecord,
    ),
    "Spark": (session, OmnigraphDataSource),
}
ERRORS: Final[tuple[type[Exception], ...]] = (
    errors.OmnigraphError,
    errors.UsageError,
    errors.ParameterError,
    errors.ContentError,
    errors.TextError,
    errors.SchemaTextError,
    errors.QueryTextError,
    errors.RunError,
    LoadRejectedError,
    MutationRejectedError,
    SchemaRejectedError,
    errors.NotFoundError,
    errors.RefusedError,
    check.DriftError,
    schema_plan.UnsupportedSchemaChangeError,
    SchemaDiffError,
    requirements.PreconditionFailedError,
    errors.ConflictError,
    merging.MergeConflictError,
    requirements.ReadSetConflictError,
    GraphReplacedError,
    lease.LeaseBusyError,
    lease.LeaseLostError,
    check.StagingTooOldError,
    commit.UnsettledTableError,
    publish.PublishContentionError,
    publish.PublishLostError,
    CommitRaceError,
    DisplacedCommitError,
    DatasetExistsError,
    TableMovedError,
    commit.RecoveryRequiredError,
    ChangeFeedGapError,
    errors.StorageError,
    publish.PublishUnknownError,
    IncompleteFileError,
    SyncError,
    errors.MachineError,
    TaskError,
    errors.FormatError,
    errors.InvariantError,
    DataSourceError,
)
MADE_BY_PROGRAMS: Final = frozenset(
    {
        OpenOptions,
        EmbeddingProvider,
        QueryLimits,
        OptimizeOptions,
        RepairOptions,
        cleanup_options.CleanupPolicyOptions,
    }
)
"""Whose defaults matter. The others are made here and only read by programs."""

INTERNAL: Final[Mapping[str, tuple[str, ...]]] = {
    "Graph": ("location", "refuse_if_read_only"),
    "Result": ("stream",),
    "PreparedQuery": ("source_name", "hops_ceiling", "checked", "plan", "bind"),
    "QueryLimits": ("engine_options",),
    "Snapshot": ("root", "manifest", "state", "identities"),
    "TableRecord": ("type_id", "incarnation"),
    "SchemaRecord": ("refuse_altered",),
    "LoadOutcome": ("loaded",),
    "ExportOutcome": ("exported",),
    "SchemaPlan": ("catalog", "counted", "null_counts", "refuse_unsupported"),
    "PlannedStep": ("step",),
    "CommitRecord": ("manifest_hint", "pins", "extra"),
    "OptimizeOptions": ("blobs_compact", "world", "bounds", "validate"),
    "RepairOptions": ("refuse_contradiction",),
    "TableRepairStats": ("flag_error",),
    "CleanupPolicyOptions": ("policy", "warnings"),
    "OmnigraphDataSource": ("schema", "reader", "streamReader", "writer", "streamWriter"),
}
"""What is public for our own rooms only. Whatever a program needs of it has another way: a property, or `to_json`."""

OTHER_NAMES: Final[Mapping[str, str]] = {
    "BranchId": "A string. A branch that is made again under the same name has another one.",
    "BranchPlace": "A `Graph`.",
    "CommitId": "A string of 26 letters and digits.",
    "Coverage": "`Indexed` or `Degraded`.",
    "EvolutionCode": "Has `code`, such as `OG-DS-101`, `meaning`, and `advice`: what to do instead.",
    "Fact": "A value as in JSON.",
    "GraphPlace": "A `Graph`.",
    "Intent": "What a write said before it began, among it `op_id`, `kind`, `actor`, `branch` and `created_us`.",
    "Json": "A value as in JSON.",
    "OperationId": "A string: the name of one write, in its commit and in the record of its recovery.",
    "QueryOptions": "`omnigraph.api.querying.QueryOptions(spark_master=…, limits=QueryLimits(…), report=…)`.",
    "Report": "A function that takes a `Progress`.",
    "RunOptions": "`omnigraph.engine.run.RunOptions(QueryLimits(…).engine_options(), embed=EmbeddingProvider(…))`.",
    "RunTasks": "A function that takes a function and a list of tasks, and gives the results in their order.",
    "SchemaHash": "A string: the SHA-256 of the compiled schema.",
    "TableId": "A string. It stays when the type gets another name.",
    "WriteEnvironment": "The clock and the leases of a write; for tests.",
}
"""Names in signatures that need no more than a sentence."""

_LINE_LENGTH_MAX: Final = 100
_HEAD: Final = """\
# Python

Generated from the code: change a signature or a docstring, then run
`python -m docs._gen.python_reference > docs/user/python.md`.

`import omnigraph as og` is the way in; it is typed (`py.typed`) and imports Lance and Spark only when they are needed.
Everything starts with `og.init` or `og.open`, which give a `Graph`. Values that come back are frozen; they may gain
fields, so take them apart by name. `og.__version__` is the release.

```python
import omnigraph as og

graph = og.init("people.omni", "node Person { slug: String @key  age: I32? }")
graph.mutate('query add() { insert Person { slug: "ada", age: 36 } }', actor="ada")
rows = graph.query("query q() { match { $p: Person } return { $p.slug, $p.age } }").rows()
assert rows == [{"p.slug": "ada", "p.age": 36}]
try:
    graph.query("query q() { match { $p: Persn } return { $p.slug } }")
except og.OmnigraphError as error:
    assert (error.kind.value, error.code) == ("bad_request", "T101")
```
"""
_DEFAULTS_HEAD: Final = "\n| name | type | unless given | |\n|---|---|---|---|\n"
_OTHER_NAMES_HEAD: Final = """
## Other names in signatures

| name | |
|---|---|
"""
_ERRORS_HEAD: Final = """
## Errors

Every error that is raised on purpose is an `OmnigraphError`. It has `kind`, which decides the exit code of a command
([kinds](errors.md#kinds-and-exit-codes)), `code`, which is stable and explained in [errors](errors.md), `message`,
`hint`, `facts` for programs and, when a write failed, `applied`: `no`, `yes` or `unknown`. `str(error)`
lists every error and the hint; `message` has only the first error.
Retry a `conflict`; after `unknown`, look whether the commit is there.

Those that list many things carry them: `MergeConflictError` has `conflicts`, `SchemaTextError` and `QueryTextError`
have `problems`, and `LoadRejectedError`, `MutationRejectedError` and `SchemaRejectedError` have `report`, with the
`first` mistakes and the `total`. `facts` has them as plain data, also for `UnsupportedSchemaChangeError`
(`unsupported`) and `ParameterError` (`parameters`).

"""


def print_reference() -> None:
    """Write the whole reference to stdout."""
    sys.stdout.write("".join(_describe()))


def _describe() -> Iterator[str]:
    yield _HEAD
    for title, members in SECTIONS.items():
        yield f"\n## {title}\n"
        for member in members:
            yield from _describe_type(member) if inspect.isclass(member) else _describe_function(member)
    yield _OTHER_NAMES_HEAD
    yield from (f"| `{name}` | {sentence} |\n" for name, sentence in OTHER_NAMES.items())
    yield _ERRORS_HEAD
    yield "| error | is a | kind | raised when |\n|---|---|---|---|\n"
    for error in ERRORS:
        kind = getattr(error, "kind", None)
        text = _line((error.__doc__ or "").split("\n\n", maxsplit=1)[0])
        base = error.__bases__[0].__name__
        yield f"| `{_home(error)}.{error.__name__}` | `{base}` | {f'`{kind.value}`' if kind else ''} | {text} |\n"


def _describe_function(function: Any) -> Iterator[str]:
    yield f"\n### {_home(function)}.{function.__name__}\n\n{_code(signature_text(function))}\n{_paragraphs(function)}\n"


def _describe_type(kind: type[Any]) -> Iterator[str]:
    yield f"\n### {kind.__name__}\n\n`{_home(kind)}.{kind.__name__}`. {_paragraphs(kind)}\n"
    if issubclass(kind, Enum):
        yield from _describe_enum(kind)
        return
    yield from _describe_values(kind)
    methods = dict(shown_methods(kind))
    if not _are_values(methods):
        for name, method in methods.items():
            yield f"\n#### {kind.__name__}.{name}\n\n{_code(signature_text(method))}\n{_paragraphs(method)}\n"


def _describe_enum(kind: type[Enum]) -> Iterator[str]:
    told = sentences(kind)
    if not told:
        yield "\n" + ", ".join(f"`{member.value}`" for member in kind) + "\n"
        return
    yield "\n| value | |\n|---|---|\n"
    for member in kind:
        yield f"| `{member.value}` | {told[member.name]} |\n"


def _describe_values(kind: type[Any]) -> Iterator[str]:
    """Everything that has a value without arguments, as a row with its sentence."""
    rows = list(shown_values(kind))
    if not rows:
        return
    defaults = {found.name: _default(found) for found in fields(kind)} if kind in MADE_BY_PROGRAMS else None
    yield "\n| name | type | |\n|---|---|---|\n" if defaults is None else _DEFAULTS_HEAD
    for name, returned, sentence in rows:
        default = "" if defaults is None else f" {_cell(defaults.get(name, ''))} |"
        yield f"| `{name}` | {_cell(returned)} |{default} {_escaped(sentence)} |\n"


def shown_values(kind: type[Any]) -> Iterator[tuple[str, str, str]]:
    """Name, type and sentence of each field and property, and of methods when none of them has parameters."""
    hidden, told = INTERNAL.get(kind.__name__, ()), sentences(kind)
    if is_dataclass(kind):
        for found in fields(kind):
            if not found.name.startswith("_") and found.name not in hidden:
                yield found.name, str(found.type), told.get(found.name, "")
    for name, member in _public_members(kind):
        if isinstance(member, property):
            yield name, _returned(member.fget), _line(inspect.getdoc(member))
    methods = dict(shown_methods(kind))
    if _are_values(methods):
        for name, method in methods.items():
            yield f"{name}()", _returned(method), _line(inspect.getdoc(method))


def shown_methods(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """The public methods of a class."""
    return ((name, member) for name, member in _public_members(kind) if inspect.isfunction(member))


def sentences(kind: type[Any]) -> dict[str, str]:
    """What stands right below the fields or members of a class, by their names."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    told = {}
    for statement, below in pairwise(definition.body):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                told[name] = _line(text)
    return told


def _public_members(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """The members of a class and of the classes of ours that it is made of."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("omnigraph.")]
    named = {name: member for base in own for name, member in vars(base).items()}
    hidden = INTERNAL.get(kind.__name__, ())
    return ((name, found) for name, found in named.items() if not name.startswith("_") and name not in hidden)


def _are_values(methods: Mapping[str, Any]) -> bool:
    """Whether every method only needs `self`."""
    return all(len(inspect.signature(method).parameters) == 1 for method in methods.values())


def signature_text(function: Any) -> str:
    """`name(parameters) -> type` as it is written, one parameter a line when it is long."""
    found = inspect.signature(function)
    words: list[str] = []
    for parameter in found.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        default = "" if parameter.default is parameter.empty else f" = {_value(parameter.default)}"
        words.append(f"{parameter.name}: {parameter.annotation}{default}")
    returned = f" -> {found.return_annotation}"
    line = f"{function.__name__}({', '.join(words)}){returned}"
    if len(line) <= _LINE_LENGTH_MAX:
        return line
    return f"{function.__name__}(\n" + "".join(f"    {word},\n" for word in words) + f"){returned}"


def _returned(function: Any) -> str:
    return str(inspect.signature(function).return_annotation)


def _default(found: Field[Any]) -> str:
    if found.default is not MISSING:
        return _value(found.default)
    if found.default_factory is not MISSING:
        return _value(found.default_factory())
    return ""


def _value(default: object) -> str:
    if inspect.isfunction(default):
        return default.__name__
    text = repr(default)
    return f"{type(default).__name__}()" if " at 0x" in text else text


def _home(member: Any) -> str:
    """Where a program imports it from."""
    module = str(member.__module__)
    if member.__name__ in _maintenance():
        return "omnigraph.maintenance"
    if member in SECTIONS["Spark"]:
        return "omnigraph.spark"
    # The package is there whenever this is; importing it would point upwards, as it names everything.
    return "omnigraph" if member.__name__ in sys.modules["omnigraph"].__all__ else module


def _maintenance() -> list[str]:
    import omnigraph.maintenance

    return omnigraph.maintenance.__all__


def _paragraphs(member: Any) -> str:
    text = inspect.getdoc(member) or ""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


def _code(text: str) -> str:
    return f"```\n{text}\n```\n"


def _cell(text: str) -> str:
    return f"`{_escaped(text)}`" if text else ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print_reference()
