"""The writes of the crash matrix, one function per writer kind. Each runs in the process that is killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from omnigraph.api.graph import Graph
from omnigraph.base import failpoints
from omnigraph.engine.mutation.text import MutationOptions, run_mutation_text
from omnigraph.engine.prepare import QuerySource
from omnigraph.graph.branches import create_branch, delete_branch
from omnigraph.graph.coordination.environment import WriteEnvironment
from omnigraph.graph.coordination.lease import LeaseTerms
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.manifest.stamp import StorageFormat
from omnigraph.graph.merge.run import MergeRequest, merge_branch, revert_commit
from omnigraph.graph.recovery.run import recover_on_open
from omnigraph.maintenance.cleanup.options import CleanupPolicyOptions
from omnigraph.maintenance.cleanup.run import cleanup_all_tables
from omnigraph.maintenance.optimize.options import OptimizeOptions
from omnigraph.maintenance.optimize.rewrite import rewrite_group
from omnigraph.maintenance.optimize.run import ensure_indices, optimize_all_tables
from omnigraph.maintenance.repair import RepairAction, RepairOptions, repair_all_tables
from omnigraph.maintenance.schema_apply import SchemaRequest, apply_schema
from omnigraph.pipeline.load.change import LoadMode
from omnigraph.pipeline.load.inputs.files import find_inputs
from omnigraph.pipeline.load.inputs.ndjson import plan_json_pieces
from omnigraph.pipeline.load.run import LoadRequest, load
from omnigraph.pipeline.runner import CONCURRENCY_VARIABLE as CONCURRENCY
from omnigraph.storage.lance.commit import commit_schema_metadata
from omnigraph.storage.lance.dataset import Dataset
from omnigraph.storage.location import Location
from tests.graph.crash.observe import STEP_MARK
from tests.graph.writers import COMPANY, KNOWS, PERSON, Change, run, triple
from tests.maintenance.cleaning import Place, TomorrowClock
from tests.pipeline.in_place import BucketedSource, in_place

DEV: Final = "dev"
LOADED: Final = triple(["x", "y"])
MUTATED: Final = (Change(PERSON, upsert=(("a", 7), ("new", 8))), Change(COMPANY, insert=("new",)))
MUTATION: Final = """query change() {
  update Person set { age: 7 } where slug = "a"
  insert Person { slug: "new", age: 8 }
  insert Company { name: "new" }
}"""
FROM_FILES: Final = (Change(PERSON, upsert=(("x", 1), ("y", 2))),)
DELETED: Final = (Change(PERSON, delete=("a",)), Change(KNOWS, delete=("a",)))
DELETION: Final = 'query remove() { delete Person where slug = "a" }'
CLEANUP: Final = CleanupPolicyOptions(keep_versions=1, confirm=True)
COMPACTED: Final = (PERSON, COMPANY)
CONCURRENT: Final = (Change(PERSON, upsert=(("a", 7), ("c", 8))),)
EVOLVED: Final = """\
node Person { slug: String @key  age: I64?  note: String @default("d") }
node Company { name: String @key }
edge Knows: Person -> Person { since: I64?  label: String? }
node City { name: String @key }
"""


def migrate_step(manifest: Dataset) -> Dataset:
    return commit_schema_metadata(manifest, {STEP_MARK: "done"})


OLD_FORMAT: Final = WriteEnvironment(storage_format=StorageFormat(current=1, steps=(migrate_step,)))


def make_repair(**flags: Any) -> Callable[[Location], None]:
    """Return a function that repairs every table and requires that no table is refused."""

    def act(location: Location) -> None:
        rows = repair_all_tables(Graph(location), RepairOptions(confirm=True, **flags))
        assert RepairAction.REFUSED not in {row.action for row in rows}

    return act


def write_rows(location: Location) -> None:
    run(location, LOADED)


def renew(location: Location) -> None:
    """Write with a lease that is renewed before every step."""
    run(location, LOADED, environment=WriteEnvironment(terms=LeaseTerms(lease_seconds=0.0)))


def mutate(location: Location) -> None:
    run_mutation_text(location, QuerySource(MUTATION), None, MutationOptions(actor="tester"))


def delete_rows(location: Location) -> None:
    run_mutation_text(location, QuerySource(DELETION), None, MutationOptions(actor="tester"))


def optimize(location: Location) -> None:
    optimize_all_tables(Graph(location), OptimizeOptions(tables=frozenset(COMPACTED)), in_place)


def optimize_with_concurrent_write(location: Location) -> None:
    """Optimize while another writer updates rows between the rewrite and the lease."""

    def run_tasks(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        results = [function(task) for task in tasks]
        if function is rewrite_group:
            actions, failpoints._actions = failpoints._actions, {}
            run(location, CONCURRENT)
            failpoints._actions = actions
        return results

    optimize_all_tables(Graph(location), OptimizeOptions(tables=frozenset({PERSON})), run_tasks)


def build_indices(location: Location) -> None:
    ensure_indices(location, MAIN, lambda function, tasks: [function(task) for task in tasks])


def schema_apply(location: Location) -> None:
    apply_schema(location, MAIN, SchemaRequest(source=EVOLVED, actor="tester"), in_place)


def schema_apply_on_branch(location: Location) -> None:
    apply_schema(location, DEV, SchemaRequest(source=EVOLVED, actor="tester"), in_place)


def schema_apply_to_new_type(location: Location) -> None:
    """Add a column to the type that the branch created: its table is forked."""
    text = EVOLVED.replace("node City { name: String @key }", "node City { name: String @key  mayor: String? }")
    apply_schema(location, DEV, SchemaRequest(source=text, actor="tester"), in_place)


def drop_with_values(location: Location) -> None:
    text = EVOLVED.replace('note: String @default("d")', "").replace("since: I64?  label: String?", "since: I64?")
    apply_schema(location, MAIN, SchemaRequest(source=text, actor="tester", hard=True), in_place)


def fork(location: Location) -> None:
    run(location, LOADED, branch=DEV)


def load_files(location: Location, base: str | None = None) -> None:
    """Load files into a branch without own tables, with its keys in buckets as for a large load."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "people.jsonl"
        rows = (f'{{"type":"Person","data":{{"slug":"{slug}","age":{age}}}}}' for slug, age in FROM_FILES[0].upsert)
        path.write_text("\n".join(rows))
        source = BucketedSource(plan_json_pieces(find_inputs([str(path)])))
        load(
            location, LoadRequest(source=source, mode=LoadMode.APPEND, actor="tester", branch=DEV, base=base), in_place
        )


def load_to_new_branch(location: Location) -> None:
    load_files(location, base=MAIN)


def create_dev(location: Location) -> None:
    create_branch(location, DEV, "tester", read_snapshot(location))


def delete_dev(location: Location) -> None:
    delete_branch(location, DEV)


def merge_dev(location: Location) -> None:
    merge_branch(location, MergeRequest(source=DEV, actor="tester"))


def merge_into_branch(location: Location) -> None:
    """Merge main into the branch: one table gets rows, and the branch adopts a table that it never wrote."""
    merge_branch(location, MergeRequest(source=MAIN, actor="tester", target=DEV))


def revert_head(location: Location) -> None:
    revert_commit(location, MergeRequest(source=read_snapshot(location).head, actor="tester"))


def recover(location: Location) -> None:
    recover_on_open(location, MAIN)


def recover_dev(location: Location) -> None:
    recover_on_open(location, DEV)


def migrate(location: Location) -> None:
    run(location, LOADED, environment=OLD_FORMAT)


def cleanup(location: Location) -> None:
    """Clean up one table at a time, so that the order is always the same."""
    os.environ[CONCURRENCY] = "1"
    cleanup_all_tables(Place(location), CLEANUP, environment=WriteEnvironment(clock=TomorrowClock()))
