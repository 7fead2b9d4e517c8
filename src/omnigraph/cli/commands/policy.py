"""`omnigraph policy validate`, `test` and `explain`: check a policy file, and ask it about requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.display import format_count
from omnigraph.cli.command import Capability, command
from omnigraph.cli.errors import ExitCode
from omnigraph.cli.results import RowsOutput, TextOutput

if TYPE_CHECKING:
    from omnigraph.policy.files import CaseResult

PolicyFile = Annotated[Path, typer.Option("--file", metavar="FILE", help="The policy, a YAML file.")]
GraphId = Annotated[str, typer.Option("--graph", metavar="ID", help="The graph to which the policy applies.")]


@command(
    "omnigraph policy validate --file team.policy.yaml",
    "omnigraph policy validate --file team.policy.yaml --json",
    capability=Capability.CONTROL,
)
def validate(*, file: PolicyFile, graph: GraphId = "default", output: TextOutput) -> None:
    """Check a policy file and the Cedar files that it names.

    Reports every problem in one run, with file and line.
    """
    from omnigraph.policy.files import read_policy
    from omnigraph.wire.policy import validate_output

    bundle = read_policy(file, graph).bundle
    counts = ", ".join(
        [
            format_count(len(bundle.actors), "actor"),
            format_count(len(bundle.groups), "group"),
            format_count(len(bundle.rules), "rule"),
            format_count(len(bundle.cedar), "Cedar file"),
        ]
    )
    output.show(lambda: validate_output(bundle), text=f"{file}: valid {bundle.kind} policy with {counts}")


@command("omnigraph policy test --file team.policy.yaml --tests team.tests.yaml", capability=Capability.CONTROL)
def run_tests(
    *,
    file: PolicyFile,
    tests: Annotated[Path, typer.Option("--tests", metavar="FILE", help="The test cases, a YAML file.")],
    graph: GraphId = "default",
    output: RowsOutput,
) -> None:
    """Compare the decisions of a policy with expected ones.

    A case has an id, an actor, an action, and optionally a branch, a target_branch and a query; `expect` is allow or
    deny. Fails if a decision differs, and lists all of them.
    """
    from omnigraph.policy.files import read_cases, read_policy, run_cases
    from omnigraph.wire.policy import test_output

    results = run_cases(read_policy(file, graph), read_cases(tests))
    titles = {name: name for name in ("case", "expected", "decision", "result", "rule")}
    output.show(lambda: test_output(results), titles, [_case_row(result) for result in results])
    failures = sum(not result.is_expected for result in results)
    output.notify(f"{format_count(len(results), 'case')}, {failures} failed")
    if failures:
        raise typer.Exit(ExitCode.ERROR)


@command(
    "omnigraph policy explain --file team.policy.yaml --actor act-bo --action change --branch main",
    "omnigraph policy explain --file team.policy.yaml --actor act-ada --action branch_merge --branch review "
    "--target-branch main --json",
    capability=Capability.CONTROL,
)
def explain(
    *,
    file: PolicyFile,
    actor: Annotated[str, typer.Option("--actor", metavar="ACTOR", help="Who asks.")],
    action: Annotated[str, typer.Option("--action", metavar="ACTION", help="What the actor asks for, such as change.")],
    branch: Annotated[str | None, typer.Option("--branch", metavar="BRANCH", help="The branch it concerns.")] = None,
    target_branch: Annotated[
        str | None,
        typer.Option("--target-branch", metavar="BRANCH", help="The branch that is created, deleted or merged into."),
    ] = None,
    query: Annotated[str | None, typer.Option("--query", metavar="NAME", help="The stored query.")] = None,
    graph: GraphId = "default",
    output: TextOutput,
) -> None:
    """Show whether a policy allows a request, and which rule decided it.

    Succeeds also if the request is denied.
    """
    from omnigraph.base.authorization import Authority
    from omnigraph.policy.decide import decide
    from omnigraph.policy.files import parse_action, read_policy
    from omnigraph.wire.policy import explain_output

    authority = Authority(action=parse_action(action), branch=branch, target=target_branch, query=query)
    policy = read_policy(file, graph)
    decision = decide(policy, actor, authority)
    rule = f"rule: {decision.rule}" if decision.rule else "rule: none allows it"
    output.show(
        lambda: explain_output(policy.bundle, graph, actor, authority, decision), text=f"{decision.message}\n{rule}"
    )


def _case_row(result: CaseResult) -> dict[str, str]:
    return {
        "case": result.case.id,
        "expected": "allow" if result.case.expects_allow else "deny",
        "decision": "allow" if result.decision.is_allowed else "deny",
        "result": "passed" if result.is_expected else "failed",
        "rule": result.decision.rule or "",
    }
