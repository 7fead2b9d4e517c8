"""Check a graph after a crash at any step. A violation is a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.manifest.snapshot import MAIN
from omnigraph.graph.recovery.run import recover_on_open
from omnigraph.storage.location import Location
from tests.graph.crash.observe import BranchState, GraphState, find_leftovers, observe, read_tree
from tests.graph.writers import apply, create, run, triple

AGAIN = triple(["again"])


@dataclass(frozen=True, slots=True)
class Expected:
    """The states that are allowed after the crash; the graph must have exactly one of them."""

    states: tuple[GraphState, ...]
    environment: WriteEnvironment
    heads_ahead: bool = False
    redo: Callable[[Location], object] | None = None
    redone: GraphState | None = None


def violations(location: Location, expected: Expected) -> list[str]:
    """Recover, recover again and write; compare the graph after each step, and return all differences."""
    environment = expected.environment
    recover_all(location, environment)
    state = observe(location, environment)
    problems = [] if state in expected.states else [f"got {state}, expected one of {expected.states}"]
    problems += find_leftovers(location, environment, heads=not expected.heads_ahead)
    tree = read_tree(location)
    recover_all(location, environment)
    changed = {path for path, _ in set(read_tree(location).items()) ^ set(tree.items())}
    problems += [f"recovering again changed {path}" for path in sorted(changed)]
    if expected.redo is not None:
        expected.redo(location)
        state = observe(location, environment)
        problems += [] if state == expected.redone else [f"done again: {state}, expected {expected.redone}"]
    return problems + _write_again(location, environment, state)


def recover_all(location: Location, environment: WriteEnvironment) -> None:
    """Recover every branch, as a read-write open does."""
    for branch in observe(location, environment):
        recover_on_open(location, branch, environment)


def _write_again(location: Location, environment: WriteEnvironment, state: GraphState) -> list[str]:
    if not state:
        create(location)
        state = observe(location, environment)
    expected: GraphState = {}
    for branch, was in state.items():
        run(location, AGAIN, branch=branch, environment=environment)
        expected[branch] = BranchState(apply(was.contents, AGAIN), (*was.operations, "load by tester"))
    now = observe(location, environment)
    problems = [] if now == expected else [f"after writing again: got {now}, expected {expected}"]
    problems += [] if MAIN in now else ["main was deleted"]
    return problems + find_leftovers(location, environment)
