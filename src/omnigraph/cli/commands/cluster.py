"""`omnigraph cluster`: declare graphs, schemas, queries, policies and providers in files, and deploy them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.display import format_count
from omnigraph.base.errors import UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.options import Actor, Cluster
from omnigraph.cli.output import printable
from omnigraph.cli.results import TextOutput
from omnigraph.cli.target import choose_actor

if TYPE_CHECKING:
    from omnigraph.cluster.project import Cluster as ClusterProject
    from omnigraph.wire.cluster import ClusterStatusOutput, PlannedChangeOutput, ResourceStatus

ConfigDirectory = Annotated[str, typer.Option("--config", metavar="DIR", help="The directory of cluster.yaml.")]


@command(
    "omnigraph cluster validate", "omnigraph cluster validate --config deploy/ --json", capability=Capability.CONTROL
)
def validate(*, config: ConfigDirectory = ".", output: TextOutput) -> None:
    """Check all files of a cluster: cluster.yaml, schemas, queries and policies.

    Reports every problem in one run, with file and line. Reads nothing else and writes nothing.
    """
    document = _open(config).validate()
    lines = [f"{item.digest[:12]}  {item.address}" for item in document.resources]
    notices = [f"{config}: valid, {format_count(len(lines), 'resource')}"]
    output.show(lambda: document, text="\n".join(lines), notices=notices)


@command("omnigraph cluster plan", "omnigraph cluster plan --config deploy/ --json", capability=Capability.CONTROL)
def plan(*, config: ConfigDirectory = ".", output: TextOutput) -> None:
    """Show what apply would change.

    Compares the files with the ledger, the stored resources and the live graphs. Writes nothing. The exit code is 3 if
    a change is blocked, for example because the deletion of a graph needs an approval, or if a graph cannot be read.
    """
    document = _open(config).plan()
    lines = [line for change in document.changes for line in _change_lines(change)]
    blocked = sum(change.disposition != "applied" for change in document.changes)
    notices = [f"{item.path}: {item.message}" for item in document.diagnostics]
    notices += _approval_notices(document.changes)
    summary = f"{format_count(len(document.changes), 'change')}, {blocked} blocked"
    output.show(lambda: document, text="\n".join(lines), notices=[*notices, summary if lines else "nothing to change"])
    if blocked or any(item.code == "graph_observation_error" for item in document.diagnostics):
        raise typer.Exit(ExitCode.REFUSED)


@command(
    "omnigraph cluster apply", "omnigraph cluster apply --config deploy/ --as ada --json", capability=Capability.CONTROL
)
def apply(context: typer.Context, *, config: ConfigDirectory = ".", actor: Actor = None, output: TextOutput) -> None:
    """Deploy the files: create graphs, change schemas, store queries and policies, delete approved graphs.

    Only this command changes what is deployed. An interrupted apply is completed by the next one. The exit code is 0 if
    everything is deployed, 1 if a step failed, and 3 if a change is blocked or another apply was first.
    """
    document = _open(config).apply(actor=choose_actor(context, actor))
    lines = [line for change in document.changes for line in _change_lines(change)]
    notices = [f"error: {item.path}: {item.message}" for item in document.diagnostics]
    failed = {item.path for item in document.diagnostics}
    notices += [
        f"{address}: {status.message}"
        for address, status in document.resource_statuses.items()
        if status.message is not None and address not in failed
    ]
    notices += _approval_notices(document.changes)
    if lines:
        counts = f"{document.applied_count} applied, {document.blocked_count} not applied"
        notices.append(f"revision {document.state_revision}: {counts}")
    else:
        state = "is up to date" if document.converged else "is not what the files declare: nothing was changed"
        notices.append(f"revision {document.state_revision} {state}")
    output.show(lambda: document, text="\n".join(lines), notices=notices)
    if not document.ok:
        raise typer.Exit(ExitCode.ERROR)
    if not document.converged:
        raise typer.Exit(ExitCode.REFUSED)


@command(
    "omnigraph cluster approve graph.knowledge",
    "omnigraph cluster approve graph.knowledge --as ada",
    capability=Capability.CONTROL,
)
def approve(
    context: typer.Context,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The graph, such as graph.knowledge.")],
    *,
    config: ConfigDirectory = ".",
    actor: Actor = None,
    output: TextOutput,
) -> None:
    """Allow the next apply to delete a graph that the files no longer declare.

    The approval is for exactly these files and exactly this graph: an edit in between, or another graph with the same
    id, voids it.
    """
    document = _open(config).approve(address, actor=choose_actor(context, actor))
    notice = (
        f"'{document.approved_by}' approved the deletion of {document.resource}; `omnigraph cluster apply` deletes it"
    )
    output.show(lambda: document, notices=[notice])


@command(
    "omnigraph cluster status",
    "omnigraph cluster status --cluster s3://bucket/clusters/brain --json",
    capability=Capability.CONTROL,
)
def status(*, config: ConfigDirectory = ".", cluster: Cluster = None, output: TextOutput) -> None:
    """Show what is deployed, and where the live graphs differ from it.

    Needs only the ledger, so it also works with the root of a cluster.
    """
    if cluster is not None and config != ".":
        raise UsageError("`--config` and `--cluster` cannot be used together", code="usage", hint="Pass one of them.")
    document = _open(cluster or config).status()
    output.show(lambda: document, text="\n".join(_status_lines(document.resource_statuses)), notices=_notices(document))


@command(
    "omnigraph cluster import", "omnigraph cluster import --config deploy/ --as ada", capability=Capability.CONTROL
)
def import_graphs(
    context: typer.Context, *, config: ConfigDirectory = ".", actor: Actor = None, output: TextOutput
) -> None:
    """Create the ledger of a cluster whose graphs exist already.

    Records the declared graphs that exist. `cluster apply` then changes what differs.
    """
    document = _open(config).import_graphs(actor=choose_actor(context, actor))
    output.show(lambda: document, text="\n".join(_status_lines(document.resource_statuses)), notices=_notices(document))


def _open(address: str) -> ClusterProject:
    from omnigraph.cluster.project import Cluster as ClusterProject

    return ClusterProject(address)


def _change_lines(change: PlannedChangeOutput) -> Iterator[str]:
    reason = f" ({change.reason})" if change.reason else ""
    state = "" if change.disposition == "applied" else f" {change.disposition}"
    yield f"{change.operation:<6}  {change.resource}{state}{reason}"
    if change.migration is not None:
        for number, step in enumerate(change.migration.steps, start=1):
            yield f"        {number}. {printable(step['text'])}"
        for refused in change.migration.unsupported:
            yield f"        - {refused['code']} {printable(refused['text'])}: {refused['hint']}"


def _approval_notices(changes: Iterable[PlannedChangeOutput]) -> Iterator[str]:
    for change in changes:
        if change.reason == "approval_required" and change.resource.startswith("graph."):
            yield f"`omnigraph cluster approve {change.resource}` allows its deletion"


def _status_lines(statuses: Mapping[str, ResourceStatus]) -> Iterable[str]:
    for address, item in statuses.items():
        conditions = f" ({', '.join(item.conditions)})" if item.conditions else ""
        yield f"{item.status:<8}  {address}{conditions}"


def _notices(document: ClusterStatusOutput) -> list[str]:
    messages = {address: item.message for address, item in document.resource_statuses.items() if item.message}
    messages |= {item.path: item.message for item in document.diagnostics}
    return [*(f"{address}: {message}" for address, message in messages.items()), f"revision {document.state_revision}"]
