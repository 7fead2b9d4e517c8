"""Prints the reference of the Python surface as Markdown, from signatures and docstrings: docs/user/python.md.

python -m omnigraph.api.reference > docs/user/python.md

What is public is listed in `SECTIONS` and `ERRORS`; a test fails when a signature there names one of our types that is
neither described nor opaque. Nothing is run.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any, Final

from omnigraph.api import history, loading, merging, mutating, querying, results
from omnigraph.api.branching import BranchRecord, BranchStanding
from omnigraph.api.exporting import ExportOutcome
from omnigraph.api.graph import Graph, OpenOptions, init, open  # noqa: A004  # users write omnigraph.open
from omnigraph.base import errors
from omnigraph.base.progress import Progress
from omnigraph.engine.embedding import EmbeddingProvider
from omnigraph.engine.mutate import MutationRejectedError
from omnigraph.engine.mutation_stage import EntityCounts
from omnigraph.engine.options import QueryLimits
from omnigraph.graph import check, commit, lease, pending, publish, records, requirements, schema_plan
from omnigraph.graph.diff import ChangeKind, SchemaDiffError
from omnigraph.graph.feed import ChangeFeedGapError
from omnigraph.graph.merge.conflicts import ConflictKind, EntityName, EntityStates, Side
from omnigraph.graph.snapshot import Snapshot
from omnigraph.maintenance import cleanup, cleanup_options, health, index_status, optimize, repair
from omnigraph.maintenance.drift import Classification
from omnigraph.maintenance.index_outcome import IndexOutcome, IndexRow
from omnigraph.maintenance.index_plan import IndexStatus
from omnigraph.maintenance.optimize_stats import PendingIndex, SkipReason, TableOptimizeStats
from omnigraph.maintenance.repair_outcome import RepairAction, RepairOptions, TableRepairStats
from omnigraph.maintenance.schema_apply import SchemaApplied, SchemaRejectedError
from omnigraph.pipeline.data_source import OmnigraphDataSource
from omnigraph.pipeline.export import Exported
from omnigraph.pipeline.load import Loaded, LoadRejectedError
from omnigraph.pipeline.session import session
from omnigraph.pipeline.source_errors import DataSourceError
from omnigraph.pipeline.source_write import TableMovedError
from omnigraph.pipeline.task_errors import TaskError
from omnigraph.schema.indexable import IndexKind
from omnigraph.storage.commit import DisplacedCommitError
from omnigraph.storage.failures import CommitRaceError, DatasetExistsError

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
        Loaded,
        mutating.MutationResult,
        EntityCounts,
        ExportOutcome,
        Exported,
        schema_plan.SchemaPlan,
        schema_plan.PlannedStep,
        SchemaApplied,
        Progress,
    ),
    "Branches and history": (
        BranchStanding,
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
        optimize.OptimizeOptions,
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
        health.Finding,
        health.Check,
        health.Health,
        index_status.IndexCoverage,
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
    schema_plan.SchemaRefusedError,
    SchemaDiffError,
    requirements.PreconditionFailedError,
    errors.ConflictError,
    merging.MergeConflictError,
    requirements.ReadSetConflictError,
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
    errors.MachineError,
    TaskError,
    errors.FormatError,
    errors.InvariantError,
    DataSourceError,
)
OPAQUE: Final = frozenset(
    {
        "BranchId",
        "BranchPlace",
        "Catalog",
        "Clock",
        "CommitId",
        "Cost",
        "Coverage",
        "EngineOptions",
        "ExportFormat",
        "GraphPlace",
        "Incarnation",
        "Intent",
        "Location",
        "Manifest",
        "ManifestState",
        "OperationId",
        "QueryOptions",
        "Report",
        "RewriteBounds",
        "RunOptions",
        "RunTasks",
        "SchemaHash",
        "SparkSettings",
        "Step",
        "Stream",
        "TableId",
        "TargetKind",
        "TypeId",
        "Unsupported",
        "World",
    }
)
"""Types that a program passes on, prints or calls, without taking them apart."""

_INSIDE: Final = frozenset({"checked", "plan", "bind", "policy", "warnings"})
_LINE_LENGTH_MAX: Final = 100
_HEAD: Final = """\
# Python

Generated from the code: change a signature or a docstring, then run
`python -m omnigraph.api.reference > docs/user/python.md`.

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
_ERRORS_HEAD: Final = """
## Errors

Every error that is raised on purpose is an `OmnigraphError`. It has `kind`, which decides the exit code of a command
([kinds](errors.md#kinds-and-exit-codes)), `code`, which is stable and explained in [errors](errors.md), `message`,
`hint`, `facts` for programs and, when a write failed, `applied`: `no`, `yes` or `unknown`. `to_json()` gives all of it,
with the hint in the flags of commands (`flag_hint`). `str(error)` lists every mistake, `message` has only the first.
Retry a `conflict`; after `unknown`, look whether the commit is there.

Those that list many things carry them: `MergeConflictError` has `conflicts`, `SchemaTextError` and `QueryTextError`
have `problems`, and `LoadRejectedError`, `MutationRejectedError` and `SchemaRejectedError` have `report`, with the
`first` mistakes and the `total`. `facts` has them as plain data, also for `SchemaRefusedError` (`unsupported`) and
`ParameterError` (`parameters`).

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
    yield _ERRORS_HEAD
    yield "| error | is a | kind | raised when |\n|---|---|---|---|\n"
    for error in ERRORS:
        kind = getattr(error, "kind", None)
        text = " ".join((error.__doc__ or "").split("\n\n", maxsplit=1)[0].split())
        base = error.__bases__[0].__name__
        yield f"| `{_home(error)}.{error.__name__}` | `{base}` | {f'`{kind.value}`' if kind else ''} | {text} |\n"


def _describe_function(function: Any) -> Iterator[str]:
    yield f"\n### {_home(function)}.{function.__name__}\n\n{_code(signature_text(function))}\n{_paragraphs(function)}\n"


def _describe_type(kind: type[Any]) -> Iterator[str]:
    yield f"\n### {kind.__name__}\n\n`{_home(kind)}.{kind.__name__}`. {_paragraphs(kind)}\n"
    if issubclass(kind, Enum):
        yield "\n" + ", ".join(f"`{member.value}`" for member in kind) + "\n"
        return
    if is_dataclass(kind):
        yield "\n| field | type | unless given |\n|---|---|---|\n"
        for found in fields(kind):
            if not found.name.startswith("_"):
                yield f"| `{found.name}` | {_cell(str(found.type))} | {_cell(_default(found))} |\n"
    for name, member in public_members(kind):
        if isinstance(member, property):
            told = _paragraphs(member)
            yield f"\n- `{name}`: `{_returned(member.fget)}`" + (f". {told}" if told else "") + "\n"
        else:
            yield f"\n#### {kind.__name__}.{name}\n\n{_code(signature_text(member))}\n{_paragraphs(member)}\n"


def public_members(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """The properties and then the documented methods of a class and of the classes of ours that it is made of."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("omnigraph.")]
    named = {name: member for base in own for name, member in vars(base).items() if not name.startswith("_")}
    yield from ((name, member) for name, member in named.items() if isinstance(member, property))
    for name, member in named.items():
        is_ours = name in _INSIDE or name.startswith("refuse_")
        if inspect.isfunction(member) and member.__doc__ and not is_ours:
            yield name, member


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


def _code(text: str) -> str:
    return f"```\n{text}\n```\n"


def _cell(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""


if __name__ == "__main__":
    print_reference()
