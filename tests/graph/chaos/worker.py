"""The process of the Python writer, the external tool and the inspection: `python -m tests.graph.chaos.worker URI`.

In: a request as a line of JSON. Out: an answer as a line of JSON. The process opens the graph once. Faults of the disk
need the library of `tests/file_faults.py` in `LD_PRELOAD`.
"""

from __future__ import annotations

import sys
from typing import Any

import lance
import msgspec
import pyarrow as pa

import omnigraph as og
from omnigraph.base.errors import OmnigraphError
from omnigraph.graph.manifest.snapshot import MAIN, read_snapshot
from omnigraph.graph.recovery.run import recover_every_branch, recover_on_open
from omnigraph.maintenance.doctor.findings import Health
from omnigraph.storage.location import Location, parse_location
from tests.file_faults import arm
from tests.graph.chaos.oracle import GraphContents, Inspection
from tests.graph.concurrency.checks import linear_history, pending, read_drifted_tables

ITEMS = "query q() { match { $i: Item } return { $i.slug as slug, $i.value as value } }"
TAGS = "query q() { match { $t: Tag } return { $t.slug as slug } }"
EDGES = "query q() { match { $i: Item  $i tagged $t } return { $i.slug as item, $t.slug as tag } }"


class WorkerRequest(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", omit_defaults=True):
    """A request to the process."""


class Mutate(WorkerRequest, frozen=True, kw_only=True, tag="mutate"):
    """Run a mutation; `write` and `sync` number the call of the disk that fails during it."""

    text: str
    branch: str = MAIN
    write: int = 0
    sync: int = 0
    is_permanent: bool = False


class Read(WorkerRequest, frozen=True, kw_only=True, tag="read"):
    """Return the value of an item."""

    slug: str


class WriteExternally(WorkerRequest, frozen=True, kw_only=True, tag="external"):
    """Append an item with plain Lance, or compact its table if the slug is empty."""

    slug: str


class Inspect(WorkerRequest, frozen=True, kw_only=True, tag="inspect"):
    """Recover, check everything and return the contents; `unverified`: what repair does with external changes."""

    unverified: str


class WorkerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a request."""

    applied: str = "yes"
    commit: str | None = None
    error: str = ""
    value: int | None = None
    inspection: Inspection | None = None


def main() -> None:
    """Serve requests until stdin ends."""
    uri = sys.argv[1]
    decoder = msgspec.json.Decoder(Mutate | Read | WriteExternally | Inspect)
    for line in sys.stdin:
        try:
            answer = _serve(uri, decoder.decode(line))
        except OmnigraphError as error:
            applied = "no" if error.applied is None else error.applied.value
            answer = WorkerAnswer(applied=applied, error=f"{error.code}: {error.message}")
        except AssertionError as violation:
            answer = WorkerAnswer(applied="unknown", error=f"violation: {violation}")
        except OSError as error:  # plain Lance
            answer = WorkerAnswer(applied="unknown", error=f"external: {error}")
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
        sys.stdout.flush()


def _serve(uri: str, request: WorkerRequest) -> WorkerAnswer:
    match request:
        case Mutate():
            graph = og.open(uri, actor="chaos", branch=request.branch)
            if request.write or request.sync:
                arm(uri, write=request.write, sync=request.sync, is_permanent=request.is_permanent)
            try:
                result = graph.mutate(request.text)
            finally:
                if request.write or request.sync:
                    arm("/nonexistent")
            return WorkerAnswer(commit=None if result.commit is None else result.commit.id)
        case Read():
            text = f'query q() {{ match {{ $i: Item {{ slug: "{request.slug}" }} }} return {{ $i.value as value }} }}'
            rows = og.open(uri, read_only=True).query(text).to_pylist()
            return WorkerAnswer(value=rows[0]["value"] if rows else None)
        case WriteExternally():
            _write_externally(uri, request.slug)
            return WorkerAnswer()
        case Inspect():
            return WorkerAnswer(inspection=_inspect(uri, request.unverified))
    raise AssertionError(request)


def _write_externally(uri: str, slug: str) -> None:
    location = parse_location(uri)
    table = read_snapshot(location).tables["node:Item"]
    path = location.child(table.path).lance_uri
    dataset = lance.dataset(path, storage_options=location.storage_options)
    if not slug:
        dataset.optimize.compact_files()
        return
    values: dict[str, Any] = {"id": slug, "slug": slug, "writer": "external", "value": 1}
    rows = pa.Table.from_pylist([values], schema=dataset.schema)
    lance.write_dataset(rows, path, mode="append", storage_options=location.storage_options)


def _inspect(uri: str, unverified: Any) -> Inspection:
    location, problems = parse_location(uri), []
    recover_on_open(location, MAIN)
    recover_every_branch(location)
    graph = og.open(uri, actor="chaos")
    if left := pending(location):
        problems.append(f"intents are left after recovery: {left}")
    graph.repair(unverified=unverified, dry_run=False)
    # An append of plain Lance whose response was lost can be committed twice: repair refuses to publish a duplicate.
    graph.repair(unverified="discard", dry_run=False)
    if drifted := read_drifted_tables(location):
        problems.append(f"tables are drifted after repair: {[_describe(location, alias) for alias in drifted]}")
        raise AssertionError(problems)
    probe = 'insert Item { slug: "probe", writer: "probe", value: 1 } insert Tag { slug: "probe" }'
    graph.mutate(f'query p() {{ {probe} insert Tagged {{ from: "probe", to: "probe" }} }}')
    graph.mutate('query p() { delete Item where slug = "probe" delete Tag where slug = "probe" }')
    problems += [str(finding) for finding in graph.doctor(deep=True) if finding.health is Health.PROBLEM]
    commits = [str(commit.id) for commit in linear_history(location)]
    names = [branch.record.name for branch in graph.list_branches()]
    branches = {name: _read(og.open(uri, read_only=True, branch=name)) for name in names if name != MAIN}
    return Inspection(contents=_read(graph), branches=branches, commits=commits, problems=problems)


def _describe(location: Location, alias: str) -> str:
    """Return the published version of a table, and what created the later ones."""
    table = read_snapshot(location).tables[alias]
    dataset = lance.dataset(location.child(table.path).lance_uri, storage_options=location.storage_options)
    later = [entry["version"] for entry in dataset.versions() if entry["version"] > table.pin.version]
    return f"{alias} {table.pin.version}: {[(number, dataset.read_transaction(number)) for number in later]}"


def _read(graph: og.Graph) -> GraphContents:
    pairs = ((row["item"], row["tag"]) for row in graph.query(EDGES).to_pylist())
    rows = graph.query(ITEMS).to_pylist()
    items = {row["slug"]: row["value"] for row in rows}
    # A duplicate of an item would be hidden by the dictionary.
    duplicates = {} if len(items) == len(rows) else {"duplicate items": len(rows) - len(items)}
    return GraphContents(
        items=items | duplicates, tags=[row["slug"] for row in graph.query(TAGS).to_pylist()], edges=list(pairs)
    )


if __name__ == "__main__":
    main()
