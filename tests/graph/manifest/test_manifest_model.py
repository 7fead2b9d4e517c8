"""Any sequence of publishes against a model: every version, every commit and every branch is readable."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.base.ids import BranchId, CommitId, Incarnation, SchemaHash, TypeId
from omnigraph.graph.manifest.compaction import compact_manifest
from omnigraph.graph.manifest.lineage import make_lineage
from omnigraph.graph.manifest.publish import ManifestChange, publish
from omnigraph.graph.manifest.records import Pin, SchemaRecord, TableRecord, TombstoneRecord
from omnigraph.graph.manifest.snapshot import read_commit_snapshot, read_snapshot
from omnigraph.storage.location import Location, parse_location
from tests.graph.publishing import make_graph, moved, new_draft, newest, target_of

Published = dict[str, TableRecord]

_OWNER = BranchId("X")
_ANY_SCHEMA = SchemaRecord("", "{}", SchemaHash(""))


@dataclass(slots=True)
class Model:
    """What the manifest should contain: the current tables, and what every version and every commit published."""

    tables: Published
    schema: str
    versions: dict[int, tuple[Published, str]] = field(default_factory=dict)
    commits: dict[CommitId, tuple[Published, str]] = field(default_factory=dict)
    line: list[CommitId] = field(default_factory=list)


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, int]]:
    kinds = st.sampled_from(["move", "move", "move", "add", "drop", "schema", "rename", "nothing", "compact"])
    return draw(st.lists(st.tuples(kinds, st.integers(0, 5)), min_size=1, max_size=14))


@settings(max_examples=12)
@given(steps())
def test_every_earlier_version_is_readable(sequence: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        location = parse_location(str(Path(folder, "graph.omni")))
        first = make_graph(location)
        model = Model(dict(first.tables), first.schema.hash)
        _record_state(model, location, first.head)
        for number, (kind, which) in enumerate(sequence):
            _run_step(location, model, kind, which, number)
        _compare(location, model)


def _run_step(location: Location, model: Model, kind: str, which: int, number: int) -> None:
    if kind == "compact":
        compact_manifest(newest(location))
        _record_state(model, location, None)
        return
    snapshot = read_snapshot(location)
    change = _change(model, kind, which, number)
    if change.schema is not None:
        change = replace(change, schema=replace(snapshot.schema, hash=SchemaHash(model.schema)))
    published = publish(target_of(snapshot), change)
    _record_state(model, location, None if published is None else published.id)


def _change(model: Model, kind: str, which: int, number: int) -> ManifestChange:
    """Return the change of one step and apply it to the model."""
    aliases = sorted(model.tables)
    chosen = model.tables[aliases[which % len(aliases)]] if aliases else None
    if kind == "add" or chosen is None:
        added = _new_table(number)
        model.tables[added.alias] = added
        return ManifestChange(commit=new_draft(), tables=(added,))
    match kind:
        case "drop":
            del model.tables[chosen.alias]
            stone = TombstoneRecord(chosen.id, chosen.alias, chosen.pin.version)
            return ManifestChange(commit=new_draft("schema_apply"), tombstones=(stone,))
        case "rename":
            del model.tables[chosen.alias]
            renamed = replace(chosen, alias=f"node:Renamed{number}")
            model.tables[renamed.alias] = renamed
            return ManifestChange(commit=new_draft("schema_apply"), tables=(renamed,))
        case "schema":
            model.schema = f"hash-{number}"
            return ManifestChange(commit=new_draft("schema_apply"), schema=_ANY_SCHEMA)
        case "nothing":
            return ManifestChange()
        case _:
            model.tables[chosen.alias] = moved(chosen)
            return ManifestChange(commit=new_draft(), tables=(model.tables[chosen.alias],))


def _new_table(number: int) -> TableRecord:
    type_id, incarnation = TypeId(f"{100 + number:016x}"), Incarnation(f"{number:016x}")
    path = f"nodes/{type_id}-{incarnation}"
    return TableRecord(
        type_id=type_id,
        incarnation=incarnation,
        alias=f"node:New{number}",
        path=path,
        pin=Pin(None, 1),
        owner=_OWNER,
        row_count=0,
    )


def _record_state(model: Model, location: Location, commit: CommitId | None) -> None:
    now = (dict(model.tables), model.schema)
    model.versions[newest(location).version] = now
    if commit is not None:
        model.commits[commit] = now
        model.line.append(commit)


def _compare(location: Location, model: Model) -> None:
    for version, (tables, schema) in model.versions.items():
        old = read_snapshot(location, version=version)
        assert (dict(old.tables), old.schema.hash) == (tables, schema)
    for commit, (tables, schema) in model.commits.items():
        old, record = read_commit_snapshot(location, commit)
        assert (dict(old.tables), old.schema.hash, record.schema_hash) == (tables, schema, schema)
    snapshot = read_snapshot(location)
    history = [commit.id for commit in make_lineage(snapshot.head, snapshot.manifest.read_commits()).history()]
    assert history == model.line[::-1]
