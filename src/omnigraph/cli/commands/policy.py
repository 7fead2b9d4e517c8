"""`omnigraph policy validate`, `test` and `explain`: check a policy file, and ask it about requests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.display import format_count
from omnigraph.base.errors import NotFoundError, UsageError
from omnigraph.cli.command import Capability, command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.results import RowsOutput, TextOutput

if TYPE_CHECKING:
    from omnigraph.policy.cedar import CompiledPolicy
    from omnigraph.policy.files import CaseResult

PolicyFiles = Annotated[
    list[Path] | None, typer.Option("--file", metavar="FILE", help="The policy, a YAML file. Repeatable.")
]
GraphId = Annotated[str | None, typer.Option("--graph", metavar="ID", help="The graph to which the policy applies.")]
DeployedIn = Annotated[
    str | None, typer.Option("--cluster", metavar="DIR|URI", help="Use the applied policy of a graph of this cluster.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyArguments:
    """A policy: a file, or the applied one of a graph of a cluster."""

    files: PolicyFiles = None
    cluster: DeployedIn = None
    graph: GraphId = None

    def read(self) -> CompiledPolicy:
        """Return the policy; raise if it is invalid, or if not exactly one is named."""
        if bool(self.files) == (self.cluster is not None):
            raise UsageError(
                "expected one policy: a file, or the applied policy of a cluster",
                code="usage",
                hint="Pass `--file FILE`, or `--cluster DIR --graph ID`.",
            )
        if self.files:
            from omnigraph.policy.files import read_policy

            return read_policy(self.files, self.graph or "default")
        assert self.cluster is not None
        from omnigraph.cluster.addressing import find_graph
        from omnigraph.cluster.serving import read_policy_of

        graph = find_graph(self.cluster, self.graph)
        policy = read_policy_of(graph.store, graph.ledger, graph.id)
        if policy is None:
            raise NotFoundError(
                f"no policy applies to the graph '{graph.id}'",
                code="policy_not_applied",
                hint="Declare one in `cluster.yaml`, then run `omnigraph cluster apply`.",
                facts={"graph": graph.id},
            )
        return policy


@command(
    "omnigraph policy validate --file team.policy.yaml",
    "omnigraph policy validate --file team.policy.yaml --json",
    capability=Capability.CONTROL,
)
def validate(source: PolicyArguments, *, output: TextOutput) -> None:
    """Check a policy file and the Cedar files that it names.

    Reports every problem in one run, with file and line. Several files are one policy.
    """
    from omnigraph.wire.policy import validate_output

    bundle = source.read().bundle
    counts = ", ".join(
        [
            format_count(len(bundle.actors), "actor"),
            format_count(len(bundle.groups), "group"),
            format_count(len(bundle.rules), "rule"),
            format_count(len(bundle.cedar), "Cedar file"),
        ]
    )
    kind = "" if bundle.kind is None else f"{bundle.kind} "
    output.show(lambda: validate_output(bundle), text=f"{bundle.source}: valid {kind}policy with {counts}")


@command("omnigraph policy test --file team.policy.yaml --tests team.tests.yaml", capability=Capability.CONTROL)
def run_tests(
    source: PolicyArguments,
    *,
    tests: Annotated[Path, typer.Option("--tests", metavar="FILE", help="The test cases, a YAML file.")],
    output: RowsOutput,
) -> None:
    """Compare the decisions of a policy with expected ones.

    A case has an id, an actor, an action, and optionally a branch, a target_branch and a query; `expect` is allow or
    deny. Fails if a decision differs, and lists all of them.
    """
    from omnigraph.policy.files import read_cases, run_cases
    from omnigraph.wire.policy import test_output

    results = run_cases(source.read(), read_cases(tests))
    titles = {name: name for name in ("case", "expected", "decision", "result", "rule")}
    output.show(lambda: test_output(results), titles, [_case_row(result) for result in results])
    failures = sum(not result.is_expected for result in results)
    output.notify(f"{format_count(len(results), 'case')}, {failures} failed")
    if failures:
        raise typer.Exit(ExitCode.ERROR)


@command(
    "omnigraph policy explain --file team.policy.yaml --actor act-bo --action change --branch main",
    "omnigraph policy explain --cluster deploy/ --graph books --actor act-bo --action change --branch main",
    "omnigraph policy explain --file team.policy.yaml --actor act-ada --action branch_merge --branch review "
    "--target-branch main --json",
    capability=Capability.CONTROL,
)
def explain(
    source: PolicyArguments,
    *,
    actor: Annotated[str, typer.Option("--actor", metavar="ACTOR", help="Who asks.")],
    action: Annotated[str, typer.Option("--action", metavar="ACTION", help="What the actor asks for, such as change.")],
    branch: Annotated[str | None, typer.Option("--branch", metavar="BRANCH", help="The branch it concerns.")] = None,
    target_branch: Annotated[
        str | None,
        typer.Option("--target-branch", metavar="BRANCH", help="The branch that is created, deleted or merged into."),
    ] = None,
    query: Annotated[str | None, typer.Option("--query", metavar="NAME", help="The stored query.")] = None,
    output: TextOutput,
) -> None:
    """Show whether a policy allows a request, and which rule decided it.

    Succeeds also if the request is denied.
    """
    from omnigraph.base.authorization import Authority
    from omnigraph.policy.decide import decide
    from omnigraph.policy.files import parse_action
    from omnigraph.wire.policy import explain_output

    authority = Authority(action=parse_action(action), branch=branch, target=target_branch, query=query)
    policy = source.read()
    decision = decide(policy, actor, authority)
    rule = f"rule: {decision.rule}" if decision.rule else "rule: none allows it"
    output.show(
        lambda: explain_output(policy.bundle, policy.resource_id, actor, authority, decision),
        text=f"{decision.message}\n{rule}",
    )


def _case_row(result: CaseResult) -> dict[str, str]:
    return {
        "case": result.case.id,
        "expected": "allow" if result.case.expects_allow else "deny",
        "decision": "allow" if result.decision.is_allowed else "deny",
        "result": "passed" if result.is_expected else "failed",
        "rule": result.decision.rule or "",
    }
